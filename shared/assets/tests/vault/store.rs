//! Storage: the same answer for the same bytes, whole objects only, whatever happens.

use crate::fixtures::{png, rgb};
use crate::site::{Page, Site, lane, local, save, save_as, shot, stored, vault};
use glassline_assets::{AssetVault, Limits, Location, StoreConfig, VaultConfig};
use glassline_protocol::ids::{Id, JobKey, MemberKey, ParentKey};
use glassline_protocol::provider::{Media, Output};
use glassline_protocol::vault::{Asset, Saved, Vault};
use proptest::prelude::*;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

async fn setup(body: Vec<u8>) -> (Site, AssetVault, TempDir) {
    let folder = TempDir::new().unwrap();
    let site = Site::start(vec![("/out", Page::ok(body))]).await;
    let vault = vault(folder.path(), vec![local(site.port)], Limits::default());
    (site, vault, folder)
}

/// A valid picture with many bytes after its end, so that storing it takes a while.
pub(crate) fn large() -> Vec<u8> {
    let mut bytes = png();
    bytes.extend((0..24u32 << 18).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()));
    bytes
}

/// The objects in a store, without writes in progress.
fn objects(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() && !entry.ends_with(".partial") {
            found.extend(objects(&entry));
        } else if entry.is_file() {
            found.push(entry);
        }
    }
    found
}

/// Checks that every object holds the bytes that its name tells; returns their number.
fn all_whole(root: &Path) -> usize {
    let found = objects(root);
    for path in &found {
        let text = path.strip_prefix(root).unwrap().to_str().unwrap();
        let location = Location::parse(text).unwrap_or_else(|| panic!("{text} is no location"));
        let hash = hex::encode(Sha256::digest(std::fs::read(path).unwrap()));
        assert_eq!(hash, location.sha256, "{text} is torn");
    }
    found.len()
}

#[tokio::test]
async fn storing_twice_gives_the_same_answer() {
    let (site, vault, folder) = setup(png()).await;
    let first = stored(save(&vault, &site.url("/out"), Media::Image).await);
    let path = vault.path_of(&first).unwrap();
    let written = std::fs::metadata(&path).unwrap().modified().unwrap();
    let second = stored(save(&vault, &site.url("/out"), Media::Image).await);
    assert_eq!(first, second);
    assert_eq!(std::fs::metadata(&path).unwrap().modified().unwrap(), written, "it is not written again");
    assert_eq!(all_whole(folder.path()), 1);
    assert_eq!(std::fs::read_dir(folder.path().join(".partial")).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_saves_of_the_same_bytes_agree() {
    let (site, vault, folder) = setup(large()).await;
    let url = site.url("/out");
    let saves = (0..4).map(|_| {
        let (vault, url) = (vault.clone(), url.clone());
        tokio::spawn(async move { stored(save(&vault, &url, Media::Image).await) })
    });
    let mut assets = Vec::new();
    for save in saves.collect::<Vec<_>>() {
        assets.push(save.await.unwrap());
    }
    assert!(assets.windows(2).all(|pair| pair[0] == pair[1]));
    assert!(vault.verify(&assets[0]).await.unwrap());
    assert_eq!(all_whole(folder.path()), 1);
}

#[tokio::test]
async fn a_torn_or_different_object_is_replaced() {
    let (site, vault, folder) = setup(png()).await;
    let asset = stored(save(&vault, &site.url("/out"), Media::Image).await);
    let path = vault.path_of(&asset).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for wrong in [Vec::new(), whole[..whole.len() / 2].to_vec(), flipped, b"other".to_vec()] {
        std::fs::write(&path, &wrong).unwrap();
        assert!(!vault.verify(&asset).await.unwrap());
        assert_eq!(stored(save(&vault, &site.url("/out"), Media::Image).await), asset);
        assert_eq!(std::fs::read(&path).unwrap(), whole);
        assert!(vault.verify(&asset).await.unwrap());
    }
    assert_eq!(all_whole(folder.path()), 1);
}

#[tokio::test]
async fn verify_tells_a_missing_object_and_an_asset_that_is_not_ours() {
    let (site, vault, folder) = setup(png()).await;
    let asset = stored(save(&vault, &site.url("/out"), Media::Image).await);
    let outside = folder.path().parent().unwrap().join("outside.png");
    for location in ["../outside.png", "/etc/passwd", "", "POST/p1/SHOT/s1/../s1/x", "POST/../SHOT/s/1-x.png"]
    {
        let other = Asset { location: location.into(), ..asset.clone() };
        assert!(!vault.verify(&other).await.unwrap(), "{location}");
        assert_eq!(vault.path_of(&other), None, "{location}");
    }
    assert!(!outside.exists());
    assert!(!vault.verify(&Asset { size_bytes: asset.size_bytes + 1, ..asset.clone() }).await.unwrap());
    assert!(!vault.verify(&Asset { sha256: "0".repeat(64), ..asset.clone() }).await.unwrap());
    std::fs::remove_file(vault.path_of(&asset).unwrap()).unwrap();
    assert!(!vault.verify(&asset).await.unwrap());
}

#[tokio::test]
async fn each_job_and_attempt_has_its_own_place() {
    let (site, vault, folder) = setup(png()).await;
    let id = |text: &str| Id::new(text).unwrap();
    let frame = |number| JobKey {
        parent: ParentKey::Episode { series: id(".."), number: 13 },
        member: MemberKey::Frame(number),
    };
    let jobs = [shot("..", ".."), shot(".", "."), shot("...", "a-b"), shot("p1", "s1"), frame(1), frame(2)];
    let mut locations = Vec::new();
    for job in &jobs {
        let asset = stored(save_as(&vault, &site.url("/out"), Media::Image, job).await);
        assert!(vault.path_of(&asset).unwrap().starts_with(folder.path().canonicalize().unwrap()));
        assert!(vault.verify(&asset).await.unwrap());
        locations.push(asset.location);
    }
    let output = Output { url: site.url("/out"), expires_ms: None };
    let again = stored(Box::pin(vault.save(&lane(), &jobs[3], 2, &output, Media::Image)).await);
    locations.push(again.location);
    assert!(locations[0].starts_with("POST/%2E%2E/SHOT/%2E%2E/1-"), "{}", locations[0]);
    assert!(locations[4].starts_with("EPISODE/%2E%2E/000013/FRAME/1/1-"), "{}", locations[4]);
    assert!(locations[6].starts_with("POST/p1/SHOT/s1/2-"), "{}", locations[6]);
    locations.sort();
    locations.dedup();
    assert_eq!(locations.len(), jobs.len() + 1);
    assert_eq!(all_whole(folder.path()), jobs.len() + 1);
}

#[tokio::test]
async fn a_store_that_fails_is_for_later() {
    let (site, vault, folder) = setup(png()).await;
    // A file where a folder should be: nothing can be written below it.
    let block = folder.path().join("POST");
    std::fs::write(&block, "").unwrap();
    assert_eq!(save(&vault, &site.url("/out"), Media::Image).await, Saved::Unavailable);
    std::fs::remove_file(&block).unwrap();
    let asset = stored(save(&vault, &site.url("/out"), Media::Image).await);
    // A folder where the object should be: it can't be replaced.
    let path = vault.path_of(&asset).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert_eq!(save(&vault, &site.url("/out"), Media::Image).await, Saved::Unavailable);
    std::fs::remove_dir(&path).unwrap();
    assert_eq!(stored(save(&vault, &site.url("/out"), Media::Image).await), asset);
}

#[tokio::test]
async fn the_memory_store_keeps_the_same_promises() {
    let site = Site::start(vec![("/out", Page::ok(png()))]).await;
    let config = VaultConfig {
        store: StoreConfig::Memory {},
        lanes: [(lane(), vec![local(site.port)])].into(),
        limits: Limits::default(),
        temp_dir: None,
    };
    let vault = AssetVault::new(config).unwrap();
    let first = stored(save(&vault, &site.url("/out"), Media::Image).await);
    assert_eq!(stored(save(&vault, &site.url("/out"), Media::Image).await), first);
    assert!(vault.verify(&first).await.unwrap());
    assert_eq!(vault.path_of(&first), None);
    let other = Asset { location: first.location.replace("/1-", "/2-"), ..first };
    assert!(!vault.verify(&other).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_save_given_up_halfway_leaves_nothing_torn() {
    let (site, vault, folder) = setup(large()).await;
    let url = site.url("/out");
    for wait_ms in (0..240).step_by(8) {
        let (vault, url) = (vault.clone(), url.clone());
        let job = shot("p1", &format!("s{wait_ms}"));
        let task = tokio::spawn(async move { save_as(&vault, &url, Media::Image, &job).await });
        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
        task.abort();
        let _ = task.await;
        all_whole(folder.path());
    }
    stored(save(&vault, &url, Media::Image).await);
    assert!(all_whole(folder.path()) >= 1);
}

/// Saves one large output after the other into `GLASSLINE_TEST_ROOT`; run by the test below, which kills it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by `a_killed_process_leaves_nothing_torn`"]
async fn child_saves_until_killed() {
    let root = PathBuf::from(std::env::var_os("GLASSLINE_TEST_ROOT").unwrap());
    let round = std::env::var("GLASSLINE_TEST_ROUND").unwrap();
    let site = Site::start(vec![("/out", Page::ok(large()))]).await;
    let vault = vault(&root, vec![local(site.port)], Limits::default());
    for number in 0..10_000 {
        let job = shot(&format!("round{round}"), &format!("s{number}"));
        stored(save_as(&vault, &site.url("/out"), Media::Image, &job).await);
    }
}

#[tokio::test]
async fn a_killed_process_leaves_nothing_torn() {
    let (site, vault, folder) = setup(png()).await;
    for round in 0..6u64 {
        let post = folder.path().join("POST").join(format!("round{round}"));
        let mut child = tokio::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "store::child_saves_until_killed", "--ignored"]);
        child.env("GLASSLINE_TEST_ROOT", folder.path()).env("GLASSLINE_TEST_ROUND", round.to_string());
        let mut child = child.stdout(std::process::Stdio::null()).kill_on_drop(true).spawn().unwrap();
        while !post.exists() {
            assert!(child.try_wait().unwrap().is_none(), "the child must go on until it is killed");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(Duration::from_millis(37 * round)).await;
        // The last one lives until something is stored, however slow the disk is today.
        while round == 5 && all_whole(folder.path()) == 0 {
            assert!(child.try_wait().unwrap().is_none(), "the child must go on until it is killed");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        child.kill().await.unwrap();
        all_whole(folder.path());
    }
    assert!(all_whole(folder.path()) >= 1);
    // Whoever comes next is not disturbed by what was left.
    stored(save(&vault, &site.url("/out"), Media::Image).await);
}

#[tokio::test]
async fn old_writes_in_progress_are_swept_and_young_ones_left() {
    let (site, first, folder) = setup(png()).await;
    let (old, young) = (folder.path().join(".partial/old"), folder.path().join(".partial/young"));
    std::fs::write(&old, "old").unwrap();
    std::fs::write(&young, "young").unwrap();
    let two_days_ago = SystemTime::now() - Duration::from_secs(48 * 60 * 60);
    std::fs::File::options().write(true).open(&old).unwrap().set_modified(two_days_ago).unwrap();
    let asset = stored(save(&first, &site.url("/out"), Media::Image).await);
    let second = vault(folder.path(), vec![local(site.port)], Limits::default());
    assert!(!old.exists() && young.exists());
    assert!(second.verify(&asset).await.unwrap());
}

#[tokio::test]
async fn a_real_picture_of_some_megabytes_is_stored() {
    let mut bytes = std::io::Cursor::new(Vec::new());
    rgb(1600, 1200).write_to(&mut bytes, image::ImageFormat::Png).unwrap();
    let (site, vault, folder) = setup(bytes.into_inner()).await;
    let asset = stored(save(&vault, &site.url("/out"), Media::Image).await);
    assert_eq!((asset.width_px, asset.height_px), (Some(1600), Some(1200)));
    assert!(asset.size_bytes > 1 << 20 && all_whole(folder.path()) == 1);
}

fn any_id() -> impl Strategy<Value = Id> {
    let dots = prop_oneof![Just("."), Just(".."), Just("..."), Just("-"), Just("2E")].prop_map(str::to_owned);
    prop_oneof![dots, "[A-Za-z0-9._-]{1,64}"].prop_map(|text| Id::new(text).unwrap())
}

fn any_job() -> impl Strategy<Value = JobKey> {
    let frame = (any_id(), 1u32.., 1u8..).prop_map(|(series, number, frame)| JobKey {
        parent: ParentKey::Episode { series, number },
        member: MemberKey::Frame(frame),
    });
    prop_oneof![(any_id(), any_id()).prop_map(|(post, shot)| JobKey::shot(post, shot)), frame]
}

proptest! {
    #[test]
    fn a_location_reads_back_and_stays_inside(job in any_job(), attempt: u32, hash: [u8; 32]) {
        let location = Location { job, attempt, sha256: hex::encode(hash), extension: "png".into() };
        let text = location.to_string();
        prop_assert_eq!(Location::parse(&text), Some(location));
        prop_assert!(text.split('/').all(|part| !part.is_empty() && part != "." && part != ".."));
    }

    #[test]
    fn no_text_parses_to_another_location(text in "(POST|EPISODE)/[.%2Ea#/]{0,8}/(SHOT|FRAME)/[.%2Ea/0]{0,5}/[0-9+]{0,3}-[0a]{64}\\.[a-z.]{0,4}") {
        if let Some(location) = Location::parse(&text) {
            prop_assert_eq!(location.to_string(), text);
        }
    }
}
