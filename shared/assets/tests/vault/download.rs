//! Answers of the other side, whole and broken, over real HTTP.

use crate::fixtures::{bomb, data, png, png_claiming, samples, without_box};
use crate::site::{Page, Site, Step, barred, head, lane, local, refused, save, scripted, stored, vault};
use glassline_assets::{Access, AssetVault, Limits, StoreConfig, VaultConfig};
use glassline_protocol::provider::Media;
use glassline_protocol::vault::Saved;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::time::Duration;
use tempfile::TempDir;

/// A site with these pages, and a vault that may ask it.
async fn setup(pages: Vec<(&'static str, Page)>, limits: Limits) -> (Site, AssetVault, TempDir) {
    let folder = TempDir::new().unwrap();
    let site = Site::start(pages).await;
    let vault = vault(folder.path(), vec![local(site.port)], limits);
    (site, vault, folder)
}

/// A vault for a scripted server.
fn scripted_vault(port: u16, limits: Limits) -> (AssetVault, TempDir) {
    let folder = TempDir::new().unwrap();
    let vault = vault(folder.path(), vec![local(port)], limits);
    (vault, folder)
}

/// The files in a store, without writes in progress.
fn objects(folder: &TempDir) -> usize {
    fn count(path: &std::path::Path) -> usize {
        std::fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .fold(0, |sum, path| sum + if path.is_dir() { count(&path) } else { 1 })
    }
    count(folder.path())
}

#[tokio::test]
async fn every_kind_is_stored_with_its_facts() {
    for sample in samples() {
        let (site, vault, folder) =
            setup(vec![("/out", Page::ok(sample.bytes.clone()))], Limits::default()).await;
        let asset = stored(save(&vault, &site.url("/out?sig=secret"), sample.kind.media()).await);
        let sha256 = hex::encode(Sha256::digest(&sample.bytes));
        let expected = format!("POST/p1/SHOT/s1/1-{sha256}.{}", sample.kind.extension());
        assert_eq!(asset.location, expected, "{}", sample.name);
        assert_eq!((asset.sha256.as_str(), asset.size_bytes), (sha256.as_str(), sample.bytes.len() as u64));
        assert_eq!(asset.content_type, sample.kind.content_type());
        assert_eq!((asset.width_px, asset.height_px), (Some(sample.size.0), Some(sample.size.1)));
        assert_eq!(asset.duration_ms, sample.duration_ms);
        assert_eq!(std::fs::read(vault.path_of(&asset).unwrap()).unwrap(), sample.bytes);
        assert!(vault.verify(&asset).await.unwrap());
        assert_eq!(objects(&folder), 1);
    }
}

#[tokio::test]
async fn what_is_no_output_is_refused_with_a_reason() {
    let clip = data!("clip.mp4");
    let cases = [
        ("/html", b"<html><body>Sign in</body></html>".to_vec(), Media::Image, "HTML"),
        ("/json", b"{\"status\":\"pending\"}".to_vec(), Media::Image, "JSON"),
        ("/empty", Vec::new(), Media::Image, "empty"),
        ("/text", b"busy".to_vec(), Media::Video, "text"),
        ("/bytes", vec![7; 500], Media::Video, "unknown"),
        ("/film", clip.clone(), Media::Image, "a film, but a picture"),
        ("/picture", png(), Media::Video, "a picture, but a film"),
        ("/no-index", without_box(&clip, "moov"), Media::Video, "no index"),
        ("/sound", data!("sound.m4a"), Media::Video, "no video track"),
        ("/claims", png_claiming(50_000, 50_000), Media::Image, "too large to decode"),
        ("/cut", png()[..png().len() - 12].to_vec(), Media::Image, "ends before"),
        ("/cut-film", clip[..clip.len() / 2].to_vec(), Media::Video, "ends before"),
    ];
    let pages = cases.iter().map(|(path, body, ..)| (*path, Page::ok(body.clone()))).collect();
    let (site, vault, folder) = setup(pages, Limits::default()).await;
    for (path, _, media, expected) in cases {
        let reason = refused(save(&vault, &site.url(path), media).await);
        assert!(reason.contains(expected), "{path}: {reason}");
        assert!(!reason.contains("127.0.0.1"), "{path}: {reason}");
    }
    assert_eq!(objects(&folder), 0);
}

#[tokio::test]
async fn a_bomb_is_refused_within_the_memory_limit() {
    let limits = Limits { decode_max_bytes: 4 << 20, ..Limits::default() };
    let (site, vault, _folder) = setup(vec![("/bomb", Page::ok(bomb()))], limits).await;
    assert!(refused(save(&vault, &site.url("/bomb"), Media::Image).await).contains("memory"));
}

#[tokio::test]
async fn a_status_says_what_to_do() {
    let signed_out = "<Error><Code>ExpiredToken</Code><Message>signed at …</Message></Error>";
    let pages = vec![
        ("/403", Page::status(403, "no")),
        ("/410", Page::status(410, "gone")),
        ("/400x", Page::status(400, signed_out)),
        ("/400", Page::status(400, "bad")),
        ("/401", Page::status(401, "who")),
        ("/402", Page::status(402, "pay")),
        ("/451", Page::status(451, "law")),
        ("/206", Page::status(206, "part")),
        ("/204", Page::status(204, "")),
        ("/304", Page::status(304, "")),
        ("/302", Page::status(302, "no location")),
        ("/408", Page::status(408, "late")),
        ("/429", Page::status(429, "slow down")),
        ("/500", Page::status(500, "oops")),
        ("/503", Page::status(503, "busy")),
    ];
    let (site, vault, folder) = setup(pages, Limits::default()).await;
    for path in ["/403", "/404", "/410", "/400x"] {
        assert_eq!(save(&vault, &site.url(path), Media::Image).await, Saved::Expired, "{path}");
    }
    for path in ["/400", "/401", "/402", "/451", "/206", "/204", "/304"] {
        refused(save(&vault, &site.url(path), Media::Image).await);
    }
    // Where a redirect leads is our own policy's to follow or not: that never costs the attempt.
    assert!(barred(save(&vault, &site.url("/302"), Media::Image).await).contains("nowhere"));
    for path in ["/408", "/429", "/500", "/503"] {
        assert_eq!(save(&vault, &site.url(path), Media::Image).await, Saved::Unavailable, "{path}");
    }
    assert_eq!(objects(&folder), 0);
}

#[tokio::test]
async fn redirects_are_followed_within_their_limit_and_tell_nothing() {
    let pages = vec![
        ("/1", Page::redirect(302, "/2").with("set-cookie", "id=7; Path=/")),
        ("/2", Page::redirect(307, "3")),
        ("/3", Page::redirect(301, "/end")),
        ("/end", Page::ok(png())),
        ("/loop", Page::redirect(302, "/loop")),
        ("/a", Page::redirect(302, "/b")),
        ("/b", Page::redirect(302, "/a")),
    ];
    let limits = Limits { redirects: 3, ..Limits::default() };
    let (site, vault, _folder) = setup(pages, limits).await;
    stored(save(&vault, &site.url("/1?sig=secret"), Media::Image).await);
    let asked = site.asked();
    assert_eq!(
        asked.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(),
        ["/1?sig=secret", "/2", "/3", "/end"]
    );
    for (_, headers) in asked {
        for name in ["referer", "cookie", "authorization", "range"] {
            assert!(!headers.contains_key(name), "{name}");
        }
    }
    for path in ["/loop", "/a"] {
        assert!(barred(save(&vault, &site.url(path), Media::Image).await).contains("too often"));
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_is_fetched_again_later() {
    let whole = png();
    let length = format!("content-length: {}\r\n", whole.len());
    let half = whole[..whole.len() / 2].to_vec();
    let chunk = |bytes: &[u8]| [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
    let scripts = [
        vec![],
        vec![Step::Send(b"HTTP/1.1 200".to_vec())],
        vec![Step::Send(b"nonsense\r\n\r\n".to_vec())],
        vec![Step::Send(head(&length))],
        vec![Step::Send(head(&length)), Step::Send(half.clone())],
        vec![Step::Send(head(&length)), Step::Send(whole[..whole.len() - 1].to_vec())],
        vec![Step::Send(head("transfer-encoding: chunked\r\n")), Step::Send(chunk(&half))],
        vec![Step::Send(head("transfer-encoding: chunked\r\n")), Step::Send(chunk(&whole))],
    ];
    for (number, script) in scripts.into_iter().enumerate() {
        let (port, _) = scripted(script).await;
        let (vault, folder) = scripted_vault(port, Limits::default());
        let saved = save(&vault, &format!("http://127.0.0.1:{port}/x"), Media::Image).await;
        assert_eq!(saved, Saved::Unavailable, "script {number}");
        assert_eq!(objects(&folder), 0);
    }
}

#[tokio::test]
async fn a_body_without_a_length_is_judged_by_its_content() {
    let whole = png();
    let old =
        |bytes: &[u8]| vec![Step::Send(b"HTTP/1.0 200 OK\r\n\r\n".to_vec()), Step::Send(bytes.to_vec())];
    let (port, _) = scripted(old(&whole)).await;
    let (vault, _folder) = scripted_vault(port, Limits::default());
    stored(save(&vault, &format!("http://127.0.0.1:{port}/x"), Media::Image).await);
    for cut in [whole.len() / 3, whole.len() / 2, whole.len() - 20, whole.len() - 1] {
        let (port, _) = scripted(old(&whole[..cut])).await;
        let (vault, _folder) = scripted_vault(port, Limits::default());
        let reason = refused(save(&vault, &format!("http://127.0.0.1:{port}/x"), Media::Image).await);
        assert!(reason.contains("ends before"), "{cut}: {reason}");
    }
}

#[tokio::test]
async fn nothing_larger_than_the_limit_is_read() {
    let limits = Limits { image_max_bytes: 100_000, ..Limits::default() };
    let claim = head("content-length: 100001\r\n");
    let (port, sent) = scripted(vec![Step::Send(claim), Step::Forever(vec![0; 1000], Duration::ZERO)]).await;
    let (vault, _folder) = scripted_vault(port, limits.clone());
    let url = format!("http://127.0.0.1:{port}/x");
    assert!(refused(save(&vault, &url, Media::Image).await).contains("larger than 100000 bytes"));
    drop(sent);

    let endless = [b"3e8\r\n".as_slice(), &[0x89; 1000], b"\r\n"].concat();
    let script =
        vec![Step::Send(head("transfer-encoding: chunked\r\n")), Step::Forever(endless, Duration::ZERO)];
    let (port, sent) = scripted(script).await;
    let (vault, folder) = scripted_vault(port, limits);
    let url = format!("http://127.0.0.1:{port}/x");
    assert!(refused(save(&vault, &url, Media::Image).await).contains("larger than 100000 bytes"));
    // What the sockets hold in between is some megabytes; the server would have gone on for ever.
    assert!(*sent.lock().unwrap() < 64 << 20);
    assert_eq!(objects(&folder), 0);
}

#[tokio::test]
async fn a_film_may_be_larger_than_a_picture() {
    let limits = Limits { image_max_bytes: 1000, ..Limits::default() };
    let pages = vec![("/film", Page::ok(data!("clip.mp4"))), ("/picture", Page::ok(data!("moving.gif")))];
    let (site, vault, _folder) = setup(pages, limits).await;
    stored(save(&vault, &site.url("/film"), Media::Video).await);
    refused(save(&vault, &site.url("/picture"), Media::Image).await);
}

#[tokio::test]
async fn a_silent_or_dripping_server_does_not_hold_us() {
    let length = head("content-length: 100000\r\n");
    let stall = Limits { stall_ms: 200, connect_ms: 200, ..Limits::default() };
    let deadline = Limits { deadline_ms: 700, ..Limits::default() };
    let drip = Step::Forever(vec![0x89], Duration::from_millis(20));
    let cases = [
        (vec![Step::Hang], stall.clone()),
        (vec![Step::Send(length.clone()), Step::Hang], stall.clone()),
        (vec![Step::Send(length.clone()), Step::Send(png()), Step::Hang], stall),
        (vec![Step::Send(length), drip.clone()], deadline.clone()),
        (vec![drip], deadline),
    ];
    for (number, (script, limits)) in cases.into_iter().enumerate() {
        let (port, _) = scripted(script).await;
        let (vault, _folder) = scripted_vault(port, limits);
        let saved = save(&vault, &format!("http://127.0.0.1:{port}/x"), Media::Image).await;
        assert_eq!(saved, Saved::Unavailable, "case {number}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_or_a_lane_that_is_not_configured_is_for_later() {
    let (port, _) = scripted(vec![]).await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let dead = listener.local_addr().unwrap().port();
    drop(listener);
    let (vault, _folder) = scripted_vault(dead, Limits::default());
    assert_eq!(save(&vault, &format!("http://127.0.0.1:{dead}/x"), Media::Image).await, Saved::Unavailable);
    let folder = TempDir::new().unwrap();
    let config = VaultConfig {
        store: StoreConfig::Fs { root: folder.path().to_owned() },
        lanes: BTreeMap::new(),
        limits: Limits::default(),
        temp_dir: None,
    };
    let vault = AssetVault::new(config).unwrap();
    assert_eq!(save(&vault, &format!("http://127.0.0.1:{port}/x"), Media::Image).await, Saved::Unavailable);
}

#[tokio::test]
async fn a_full_download_folder_is_for_later() {
    let site = Site::start(vec![("/out", Page::ok(png()))]).await;
    let (folder, temp) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let config = VaultConfig {
        store: StoreConfig::Fs { root: folder.path().to_owned() },
        lanes: BTreeMap::from([(lane(), vec![local(site.port)])]),
        limits: Limits::default(),
        temp_dir: Some(temp.path().to_owned()),
    };
    let vault = AssetVault::new(config).unwrap();
    stored(save(&vault, &site.url("/out"), Media::Image).await);
    assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 0, "a download leaves no file");
    // Gone while we run: the nearest thing to a full disk that needs no mount.
    drop(temp);
    assert_eq!(save(&vault, &site.url("/out"), Media::Image).await, Saved::Unavailable);
}

/// An output on the provider's own API is fetched with the account's key, and the key goes nowhere else.
#[tokio::test]
async fn headers_of_the_account_go_to_the_api_alone() {
    let bytes = data!("interlaced.png");
    let elsewhere = Site::start(vec![("/api/out", Page::ok(bytes.clone()))]).await;
    let site = Site::start(vec![
        ("/api/out", Page::ok(bytes.clone())),
        ("/apiary/out", Page::ok(bytes.clone())),
        ("/api/moved", Page::redirect(307, &elsewhere.url("/api/out"))),
        ("/other", Page::ok(bytes)),
    ])
    .await;
    let folder = TempDir::new().unwrap();
    let mut headers = reqwest::header::HeaderMap::new();
    headers.insert("authorization", "Bearer the-key".parse().unwrap());
    let access = Access { base: reqwest::Url::parse(&site.url("/api/")).unwrap(), headers };
    assert!(!format!("{access:?}").contains("the-key"));
    let config = VaultConfig {
        store: StoreConfig::Fs { root: folder.path().to_owned() },
        lanes: BTreeMap::from([(lane(), vec![local(site.port), local(elsewhere.port)])]),
        limits: Limits::default(),
        temp_dir: None,
    };
    let vault = AssetVault::with_access(config, |_| Some(access.clone())).unwrap();
    for (path, with_key) in
        [("/api/out", true), ("/apiary/out", false), ("/other", false), ("/api/moved", true)]
    {
        stored(save(&vault, &site.url(path), Media::Image).await);
        let (asked, headers) = site.asked().pop().unwrap();
        assert_eq!((asked.as_str(), headers.contains_key("authorization")), (path, with_key));
    }
    let (_, headers) = elsewhere.asked().pop().unwrap();
    assert!(!headers.contains_key("authorization"), "a redirect doesn't take the key along");
}
