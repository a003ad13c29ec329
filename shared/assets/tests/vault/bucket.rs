//! S3 as a store, on a real engine behind real HTTP: one object whatever races, repeats and gets lost.

use crate::fixtures::png;
use crate::site::{Page, Site, barred, lane, local, refused, save, save_as, shot, stored};
use crate::store::large;
use glassline_assets::{AllowedHost, AssetVault, Limits, S3Keys, StoreConfig, VaultConfig};
use glassline_protocol::provider::Media;
use glassline_protocol::vault::{Asset, Saved};
use glassline_s3::{Asked, KEY_ID, SECRET, Server};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tempfile::TempDir;

const BUCKET: &str = "assets";

struct Setup {
    site: Site,
    server: Server,
    vault: AssetVault,
    folder: TempDir,
}

fn config(server: &Server, port: u16, secret: &str) -> VaultConfig {
    VaultConfig {
        store: StoreConfig::S3 {
            bucket: BUCKET.into(),
            region: "us-east-1".into(),
            endpoint: Some(server.endpoint().into()),
            keys: Some(S3Keys { id: KEY_ID.into(), secret: secret.into() }),
        },
        lanes: [(lane(), vec![local(port)])].into(),
        limits: Limits::default(),
        temp_dir: None,
    }
}

async fn setup(body: Vec<u8>) -> Setup {
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path(), BUCKET).await.unwrap();
    let site = Site::start(vec![("/out", Page::ok(body))]).await;
    let vault = AssetVault::new(config(&server, site.port, SECRET)).unwrap();
    Setup { site, server, vault, folder }
}

impl Setup {
    async fn save(&self) -> Asset {
        stored(save(&self.vault, &self.site.url("/out"), Media::Image).await)
    }
    /// The bytes that the engine keeps for an asset.
    fn bytes(&self, asset: &Asset) -> Vec<u8> {
        std::fs::read(self.folder.path().join(BUCKET).join(&asset.location)).unwrap()
    }
    /// The statuses of the conditional writes.
    fn conditional(&self) -> Vec<u16> {
        self.server.asked().into_iter().filter(|asked| asked.if_absent).map(|asked| asked.status).collect()
    }
    fn count(&self, test: impl Fn(&Asked) -> bool) -> usize {
        self.server.asked().iter().filter(|asked| test(asked)).count()
    }
}

#[tokio::test]
async fn an_output_is_one_conditional_request() {
    let setup = setup(png()).await;
    let asset = setup.save().await;
    assert_eq!(setup.bytes(&asset), png());
    let asked = setup.server.asked();
    let [put] = asked.as_slice() else { panic!("one request stores it: {asked:?}") };
    assert_eq!((put.method.as_str(), put.if_absent, put.status), ("PUT", true, 200));
    assert_eq!(put.path, format!("/{BUCKET}/{}", asset.location));
    // Again: it is there, and read to see that it is this one.
    assert_eq!(setup.save().await, asset);
    assert_eq!(setup.conditional(), [200, 412]);
    assert!(setup.vault.verify(&asset).await.unwrap());
    assert_eq!(setup.vault.path_of(&asset), None);
}

#[tokio::test]
async fn ids_that_mean_something_elsewhere_stay_what_they_are() {
    let setup = setup(png()).await;
    for (post, member) in [("..", "."), ("a", "a"), ("...", "a-b")] {
        let saved = save_as(&setup.vault, &setup.site.url("/out"), Media::Image, &shot(post, member)).await;
        let asset = stored(saved);
        assert_eq!(setup.bytes(&asset), png());
        assert!(setup.vault.verify(&asset).await.unwrap());
    }
}

#[tokio::test]
async fn a_large_output_goes_in_parts_and_is_created_by_the_last_request() {
    let setup = setup(large()).await;
    let asset = setup.save().await;
    assert_eq!(setup.bytes(&asset), large());
    assert_eq!(setup.count(|asked| asked.method == "PUT" && asked.query.contains("partNumber")), 4);
    assert_eq!(setup.count(|asked| asked.method == "POST" && asked.if_absent), 1);
    assert_eq!(setup.save().await, asset);
    assert_eq!(setup.conditional(), [200, 412]);
    // What was sent for nothing is given up.
    assert_eq!(setup.count(|asked| asked.method == "DELETE" && asked.status == 204), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn racing_saves_make_one_object() {
    for body in [png(), large()] {
        let setup = setup(body.clone()).await;
        let saves = (0..4).map(|_| setup.save());
        let assets = futures_util::future::join_all(saves).await;
        assert!(assets.windows(2).all(|pair| pair[0] == pair[1]));
        assert_eq!(setup.bytes(&assets[0]), body);
        let mut statuses = setup.conditional();
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 412, 412, 412], "exactly one write makes the object");
        assert!(setup.vault.verify(&assets[0]).await.unwrap());
    }
}

#[tokio::test]
async fn a_conflict_is_tried_again() {
    for body in [png(), large()] {
        let setup = setup(body.clone()).await;
        setup.server.faults().conflicts.store(2, Ordering::SeqCst);
        let asset = setup.save().await;
        assert_eq!(setup.bytes(&asset), body);
        assert_eq!(setup.conditional(), [409, 409, 200]);
    }
}

#[tokio::test]
async fn a_conflict_that_stays_is_for_later() {
    let setup = setup(png()).await;
    setup.server.faults().conflicts.store(u32::MAX, Ordering::SeqCst);
    assert_eq!(save(&setup.vault, &setup.site.url("/out"), Media::Image).await, Saved::Unavailable);
    setup.server.faults().conflicts.store(0, Ordering::SeqCst);
    setup.save().await;
}

#[tokio::test]
async fn a_lost_answer_is_settled_by_looking() {
    let small = setup(png()).await;
    small.server.faults().lost.store(1, Ordering::SeqCst);
    let asset = small.save().await;
    assert_eq!(small.bytes(&asset), png());
    assert_eq!(small.conditional(), [200, 412], "the repeat finds our own object");

    // The answer to each request of an upload in turn: begin, four parts, complete.
    for nth in 0..6 {
        let parts = setup(large()).await;
        parts.server.lose_after(nth);
        let asset = parts.save().await;
        assert_eq!(parts.bytes(&asset), large(), "request {nth}");
        assert!(parts.vault.verify(&asset).await.unwrap());
    }
}

#[tokio::test]
async fn a_service_that_is_busy_is_asked_again() {
    let setup = setup(large()).await;
    setup.server.faults().slow_down.store(3, Ordering::SeqCst);
    let asset = setup.save().await;
    assert_eq!(setup.bytes(&asset), large());
}

#[tokio::test]
async fn another_object_in_its_place_is_replaced() {
    for body in [png(), large()] {
        let setup = setup(body.clone()).await;
        let asset = setup.save().await;
        let path = setup.folder.path().join(BUCKET).join(&asset.location);
        let mut flipped = body.clone();
        flipped[body.len() / 2] ^= 1;
        for wrong in [Vec::new(), flipped, b"other".to_vec()] {
            std::fs::write(&path, &wrong).unwrap();
            assert!(!setup.vault.verify(&asset).await.unwrap());
            assert_eq!(setup.save().await, asset);
            assert_eq!(setup.bytes(&asset), body);
        }
    }
}

#[tokio::test]
async fn keys_that_do_not_fit_cost_no_attempt() {
    let setup = setup(png()).await;
    let vault = AssetVault::new(config(&setup.server, setup.site.port, "another")).unwrap();
    assert_eq!(save(&vault, &setup.site.url("/out"), Media::Image).await, Saved::Unavailable);
    assert!(setup.count(|asked| asked.status == 403) >= 1 && setup.count(|asked| asked.status == 200) == 0);
}

#[tokio::test]
async fn a_signed_address_reads_one_object_and_says_nothing_in_logs() {
    let setup = setup(png()).await;
    let asset = setup.save().await;
    let address = setup.vault.sign_read(&asset, Duration::from_secs(60)).await.unwrap().unwrap();
    assert_eq!(format!("{address:?}"), "SignedUrl(…)");
    let get = |url: String| async move {
        let answer = reqwest::Client::builder().no_proxy().build().unwrap().get(url).send().await.unwrap();
        let kind = answer.headers().get("content-type").map(|value| value.to_str().unwrap().to_owned());
        (answer.status().as_u16(), kind, answer.bytes().await.unwrap().to_vec())
    };
    let (status, kind, bytes) = get(address.expose().into()).await;
    assert_eq!((status, kind.as_deref(), bytes), (200, Some("image/png"), png()));
    assert!(address.expose().contains("X-Amz-Expires=60&"), "it ends");
    let other = address.expose().replace("/1-", "/2-");
    assert_eq!(get(other).await.0, 403, "it is for this object only");
    let outside = Asset { location: "../x".into(), ..asset };
    assert_eq!(setup.vault.sign_read(&outside, Duration::from_secs(60)).await.unwrap(), None);
}

#[test]
fn a_bucket_is_configured_as_the_template_does() {
    let text = r#"{"store": {"kind": "s3", "bucket": "a-bucket", "region": "eu-central-1"}, "lanes": {}}"#;
    let config: VaultConfig = serde_json::from_str(text).unwrap();
    assert!(AssetVault::new(config.clone()).is_ok());
    let store = |bucket: &str, endpoint: Option<&str>| StoreConfig::S3 {
        bucket: bucket.into(),
        region: "eu-central-1".into(),
        endpoint: endpoint.map(Into::into),
        keys: Some(S3Keys { id: "id".into(), secret: "the secret".into() }),
    };
    let opens = |store| AssetVault::new(VaultConfig { store, ..config.clone() }).is_ok();
    assert!(opens(store("with.dots", None)) && opens(store("a-bucket", Some("http://127.0.0.1:9/"))));
    for (bucket, endpoint) in
        [("", None), ("a/b", None), ("UP", None), ("good", Some("nowhere")), ("good", Some("file:///etc"))]
    {
        assert!(!opens(store(bucket, endpoint)), "{bucket} {endpoint:?}");
    }
    let with_keys = store("good", None);
    assert!(!format!("{with_keys:?}").contains("the secret"));
    assert!(!serde_json::to_string(&with_keys).unwrap().contains("secret"));
    assert!(
        serde_json::from_str::<StoreConfig>(&text.replace("\"a-bucket\"", "\"a\", \"keys\": {}")).is_err()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn however_large_an_output_is_few_parts_are_under_way() {
    // 64 MiB: 8 parts. What is held in memory is what is under way, one that waits and one that is filled.
    let mut body = png();
    body.resize(64 << 20, 7);
    let setup = setup(body).await;
    setup.save().await;
    assert_eq!(setup.count(|asked| asked.query.contains("partNumber")), 8);
    assert!(setup.server.most_sending() <= 3, "{} at once", setup.server.most_sending());
}

/// A vault that reads what a provider put into the bucket.
fn reading(setup: &Setup, place: &str) -> AssetVault {
    let entry = AllowedHost { host: place.into(), port: None, allow_http: false, allow_private: false };
    let mut config = config(&setup.server, setup.site.port, SECRET);
    config.lanes = [(lane(), vec![entry])].into();
    AssetVault::new(config).unwrap()
}

#[tokio::test]
async fn an_output_in_our_own_bucket_is_read_there_and_judged_like_any_other() {
    let setup = setup(png()).await;
    let put = |key: &str, bytes: &[u8]| {
        let path = setup.folder.path().join(BUCKET).join(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    };
    put("bedrock/1/output.png", &png());
    put("bedrock/2/output.png", b"{\"message\": \"failed\"}");
    put("bedrock/3/output.png", &large());
    put("private/x.png", &png());
    let vault = reading(&setup, "s3://assets/bedrock/");
    let save = async |address: &str| save(&vault, address, Media::Image).await;
    let asset = stored(save("s3://assets/bedrock/1/output.png").await);
    assert_eq!(setup.bytes(&asset), png());
    assert_eq!(setup.bytes(&stored(save("s3://assets/bedrock/3/output.png").await)), large());
    assert!(refused(save("s3://assets/bedrock/2/output.png").await).contains("JSON"));
    assert_eq!(save("s3://assets/bedrock/4/output.png").await, Saved::Expired);
    for outside in [
        "s3://assets/private/x.png",
        "s3://assets/bedrock/../private/x.png",
        "s3://assets/bedrock/..%2fprivate/x.png",
        "s3://assets/bedrock//private/x.png",
        "s3://assets/bedrock/./1/output.png",
        "s3://assets/bedrock/",
        "s3://assets/bedrock",
        "s3://assets/bedrock/1/output.png?versionId=1",
        "s3://other/bedrock/1/output.png",
        "s3://user@assets/bedrock/1/output.png",
        "s3://",
        "S3://assets/bedrock/1/output.png",
    ] {
        barred(save(outside).await);
    }
    let objects = setup.vault.list().await.unwrap();
    assert_eq!(objects.len(), 6, "two stored, and what was there");
}

#[test]
fn a_place_in_a_bucket_is_written_in_one_way() {
    let store =
        StoreConfig::S3 { bucket: BUCKET.into(), region: "us-east-1".into(), endpoint: None, keys: None };
    let opens = |store: &StoreConfig, place: &str| {
        let entry = AllowedHost { host: place.into(), port: None, allow_http: false, allow_private: false };
        let lanes = [(lane(), vec![entry])].into();
        AssetVault::new(VaultConfig {
            store: store.clone(),
            lanes,
            limits: Limits::default(),
            temp_dir: None,
        })
        .is_ok()
    };
    assert!(opens(&store, "s3://assets/bedrock/") && opens(&store, "s3://assets/"));
    for bad in
        ["s3://assets", "s3://assets/x", "s3://assets/../", "s3:///x/", "s3://A/x/", "s3://assets/x/?/"]
    {
        assert!(!opens(&store, bad), "{bad}");
    }
    assert!(!opens(&StoreConfig::Memory {}, "s3://assets/bedrock/"), "only where the store is a bucket");
}
