//! Google Drive as a store, against a stand-in for its documented API.

use crate::drive_site::{CLIENT_SECRET, Drive, REFRESH_TOKEN, ROOT, Wrongs};
use crate::fixtures::png;
use crate::site::{Page, Site, lane, local, save, save_as, shot, stored};
use crate::store::large;
use glassline_assets::{AssetVault, DriveAccount, Hidden, Limits, StoreConfig, VaultConfig};
use glassline_protocol::provider::Media;
use glassline_protocol::vault::{Asset, Saved, Vault};

struct Setup {
    site: Site,
    drive: Drive,
    vault: AssetVault,
}

fn config(drive: &Drive, port: u16, refresh_token: &str) -> VaultConfig {
    VaultConfig {
        store: StoreConfig::Drive {
            folder: ROOT.into(),
            shared_drive: None,
            account: DriveAccount {
                client_id: "client".into(),
                client_secret: Hidden::new(CLIENT_SECRET),
                refresh_token: Hidden::new(refresh_token),
            },
            endpoint: Some(drive.url.clone()),
            token_endpoint: Some(format!("{}/token", drive.url)),
        },
        lanes: [(lane(), vec![local(port)])].into(),
        limits: Limits::default(),
        temp_dir: None,
    }
}

async fn setup(body: Vec<u8>) -> Setup {
    let drive = Drive::start().await;
    let site = Site::start(vec![("/out", Page::ok(body))]).await;
    let vault = AssetVault::new(config(&drive, site.port, REFRESH_TOKEN)).unwrap();
    Setup { site, drive, vault }
}

impl Setup {
    async fn save(&self) -> Asset {
        stored(save(&self.vault, &self.site.url("/out"), Media::Image).await)
    }
}

#[tokio::test]
async fn an_output_is_a_file_in_the_folder_of_its_post() {
    let setup = setup(png()).await;
    let asset = setup.save().await;
    let saved = save_as(&setup.vault, &setup.site.url("/out"), Media::Image, &shot("p1", "s2")).await;
    let second = stored(saved);
    let objects = setup.drive.objects();
    let [file, other] = objects.as_slice() else { panic!("{objects:?}") };
    assert_eq!((file.bytes.as_slice(), file.mime.as_str()), (png().as_slice(), "image/png"));
    assert_eq!(file.name, format!("SHOT s1 1-{}.png", asset.sha256));
    let folders = setup.drive.folders();
    let [folder] = folders.as_slice() else { panic!("one folder for the post: {folders:?}") };
    assert_eq!((folder.name.as_str(), folder.parent.as_str()), ("POST/p1", ROOT));
    assert!(file.parent == folder.id && other.parent == folder.id);
    assert!(setup.vault.verify(&asset).await.unwrap() && setup.vault.verify(&second).await.unwrap());
    // Again: it is there, and nothing is sent.
    assert_eq!(setup.save().await, asset);
    assert_eq!(setup.drive.objects().len(), 2);
    assert_eq!(setup.drive.tokens(), 1, "one token serves all calls");
    // Another process finds the same folder.
    let vault = AssetVault::new(config(&setup.drive, setup.site.port, REFRESH_TOKEN)).unwrap();
    stored(save_as(&vault, &setup.site.url("/out"), Media::Image, &shot("p1", "s3")).await);
    assert_eq!(setup.drive.folders().len(), 1);
    let listed = setup.vault.list().await.unwrap();
    let mut paths: Vec<_> = listed.iter().map(|entry| entry.path.as_str()).collect();
    paths.sort_unstable();
    assert_eq!(paths[0], asset.location);
    assert_eq!(listed.len(), 3);
    assert!(listed.iter().all(|entry| entry.modified_ms.is_some() && entry.sha256.is_some()));
}

#[tokio::test]
async fn the_longest_location_fits_the_properties() {
    let setup = setup(png()).await;
    let job = shot(&"p".repeat(64), &"s".repeat(64));
    let asset = stored(save_as(&setup.vault, &setup.site.url("/out"), Media::Image, &job).await);
    assert_eq!(setup.vault.list().await.unwrap()[0].path, asset.location);
}

#[tokio::test]
async fn of_racing_saves_one_file_stays() {
    let setup = setup(png()).await;
    // Neither sees the other's file before both are there: both send theirs.
    setup.drive.wrong(|wrongs| wrongs.hidden_until = 2);
    let (first, second) = tokio::join!(setup.save(), setup.save());
    assert_eq!(first, second);
    assert_eq!(setup.drive.asked("POST /upload"), 2, "both stored one");
    assert_eq!(setup.drive.asked("DELETE"), 1, "the younger is deleted by whoever sent it");
    let objects = setup.drive.objects();
    assert_eq!(objects.len(), 1);
    setup.drive.wrong(|wrongs| wrongs.hidden_until = 0);
    assert!(setup.vault.verify(&first).await.unwrap());
    assert_eq!(setup.save().await, first);
    assert_eq!(setup.drive.objects()[0].id, objects[0].id);
}

#[tokio::test]
async fn what_lost_to_another_outcome_is_deleted() {
    let setup = setup(png()).await;
    let asset = setup.save().await;
    let kept = stored(save_as(&setup.vault, &setup.site.url("/out"), Media::Image, &shot("p1", "s2")).await);
    setup.vault.discard(&asset).await;
    assert!(!setup.vault.verify(&asset).await.unwrap());
    assert!(setup.vault.verify(&kept).await.unwrap());
    assert_eq!(setup.drive.objects().len(), 1);
}

#[tokio::test]
async fn a_large_file_goes_in_parts_and_on_from_where_it_broke() {
    let whole = large();
    assert!(whole.len() > 24 << 20);
    for change in [
        (|wrongs: &mut Wrongs| wrongs.lost_parts = 1) as fn(&mut Wrongs),
        |wrongs: &mut Wrongs| wrongs.halved_parts = 2,
        |wrongs: &mut Wrongs| wrongs.forgotten = 1,
        |wrongs: &mut Wrongs| wrongs.answers = vec![("PUT", "/upload", 503, ""), ("PUT", "/upload", 500, "")],
        |wrongs: &mut Wrongs| wrongs.answers = vec![("PUT", "/upload", 429, ""), ("PUT", "/upload", 404, "")],
        |wrongs: &mut Wrongs| wrongs.no_hashes = true,
    ] {
        let setup = setup(whole.clone()).await;
        setup.drive.wrong(change);
        let asset = setup.save().await;
        let objects = setup.drive.objects();
        assert_eq!(objects.len(), 1);
        assert!(objects[0].bytes == whole, "it is whole");
        assert!(setup.vault.verify(&asset).await.unwrap());
    }
}

#[tokio::test]
async fn the_lost_answer_to_the_last_part_makes_no_second_file() {
    let setup = setup(png()).await;
    setup.drive.wrong(|wrongs| wrongs.lost_parts = 1);
    let asset = setup.save().await;
    assert_eq!((setup.drive.objects().len(), setup.drive.asked("POST /upload")), (1, 1));
    assert!(setup.vault.verify(&asset).await.unwrap());
}

#[tokio::test]
async fn a_busy_drive_is_asked_again_and_a_closed_one_is_for_later() {
    let busy = setup(png()).await;
    busy.drive.wrong(|wrongs| {
        wrongs.answers = vec![
            ("GET", "/drive", 500, ""),
            ("GET", "/drive", 429, ""),
            ("POST", "/drive", 403, "userRateLimitExceeded"),
            ("POST", "/upload", 403, "rateLimitExceeded"),
            ("POST", "/token", 503, ""),
        ];
    });
    busy.save().await;
    let closed = setup(png()).await;
    closed.drive.wrong(|wrongs| {
        wrongs.answers = vec![("POST", "/upload", 403, "storageQuotaExceeded")];
    });
    assert_eq!(save(&closed.vault, &closed.site.url("/out"), Media::Image).await, Saved::Unavailable);
    assert_eq!(closed.drive.asked("POST /upload"), 1, "a refusal isn't repeated");
    closed.save().await;
}

#[tokio::test]
async fn a_token_that_ended_is_renewed_and_a_wrong_one_is_for_later() {
    let setup = setup(png()).await;
    setup.save().await;
    setup.drive.revoke();
    stored(save_as(&setup.vault, &setup.site.url("/out"), Media::Image, &shot("p1", "s2")).await);
    assert_eq!(setup.drive.objects().len(), 2);
    let vault = AssetVault::new(config(&setup.drive, setup.site.port, "another")).unwrap();
    assert_eq!(save(&vault, &setup.site.url("/out"), Media::Image).await, Saved::Unavailable);
}

#[tokio::test]
async fn a_file_with_other_bytes_is_not_taken_for_the_output() {
    for no_hashes in [false, true] {
        let setup = setup(png()).await;
        setup.drive.wrong(|wrongs| wrongs.no_hashes = no_hashes);
        let asset = setup.save().await;
        let id = setup.drive.objects()[0].id.clone();
        setup.drive.change(&id, |file| *file.bytes.last_mut().unwrap() ^= 1);
        assert!(!setup.vault.verify(&asset).await.unwrap());
        assert_eq!(setup.save().await, asset);
        assert!(setup.vault.verify(&asset).await.unwrap());
    }
}

#[tokio::test]
async fn a_deleted_folder_is_made_again() {
    let setup = setup(png()).await;
    setup.save().await;
    setup.drive.remove(&setup.drive.folders()[0].id.clone());
    let url = setup.site.url("/out");
    // The first time it is known by an id that is no more.
    assert_eq!(save_as(&setup.vault, &url, Media::Image, &shot("p1", "s2")).await, Saved::Unavailable);
    stored(save_as(&setup.vault, &url, Media::Image, &shot("p1", "s2")).await);
    assert_eq!(setup.drive.folders().len(), 1);
}

#[test]
fn an_account_is_configured_without_ever_being_shown() {
    let text = r#"{"kind": "drive", "folder": "1AbC_d-E", "account": {"client_id": "c",
        "client_secret": "the secret", "refresh_token": "the token"}}"#;
    let store: StoreConfig = serde_json::from_str(text).unwrap();
    for shown in [format!("{store:?}"), serde_json::to_string(&store).unwrap()] {
        assert!(!shown.contains("the secret") && !shown.contains("the token"), "{shown}");
    }
    let open = |store| {
        AssetVault::new(VaultConfig { store, lanes: [].into(), limits: Limits::default(), temp_dir: None })
    };
    assert!(open(store).is_ok());
    for (good, bad) in [
        ("1AbC_d-E", "a' or name='b"),
        ("\"folder\"", "\"endpoint\": \"http://example.com\", \"folder\""),
        ("\"folder\"", "\"token_endpoint\": \"file:///x\", \"folder\""),
        ("1AbC_d-E", ""),
    ] {
        let store: StoreConfig = serde_json::from_str(&text.replace(good, bad)).unwrap();
        assert!(open(store).is_err(), "{bad}");
    }
}
