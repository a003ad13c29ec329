//! A stand-in for Google Drive's API, version 3, as documented: files and folders with properties, searches in pages,
//! resumable uploads, tokens. Its books are its own, so that tests ask it and not our code what is there.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;

pub(crate) const ROOT: &str = "root-folder";
pub(crate) const REFRESH_TOKEN: &str = "1//refresh-token";
pub(crate) const CLIENT_SECRET: &str = "client-secret";
const FOLDER: &str = "application/vnd.google-apps.folder";
/// Uploads are cut to multiples of this, but for the last part.
const GRAIN: u64 = 256 << 10;

/// A file or folder.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) parent: String,
    pub(crate) mime: String,
    pub(crate) properties: BTreeMap<String, String>,
    pub(crate) bytes: Vec<u8>,
    created: String,
}

struct Upload {
    metadata: Value,
    size: u64,
    bytes: Vec<u8>,
}

/// What the stand-in does wrong.
#[derive(Default)]
pub(crate) struct Wrongs {
    /// Statuses for the next calls that begin with a method and a path.
    pub(crate) answers: Vec<(&'static str, &'static str, u16, &'static str)>,
    /// The next parts of uploads are taken, and answered 503.
    pub(crate) lost_parts: u32,
    /// The next parts of uploads are taken only to half, and answered 503.
    pub(crate) halved_parts: u32,
    /// Uploads forget themselves at their next part.
    pub(crate) forgotten: u32,
    /// Files aren't found by searches until there are so many.
    pub(crate) hidden_until: usize,
    /// It keeps no hashes.
    pub(crate) no_hashes: bool,
}

#[derive(Default)]
struct Books {
    files: Vec<Stored>,
    uploads: BTreeMap<String, Upload>,
    tokens: u32,
    next: u32,
    asked: Vec<String>,
    wrongs: Wrongs,
}

/// A running stand-in.
#[derive(Clone)]
pub(crate) struct Drive {
    pub(crate) url: String,
    books: Arc<Mutex<Books>>,
}

impl Drive {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let drive = Self { url, books: Arc::default() };
        let app = Router::new().fallback(answer).with_state(drive.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        drive
    }
    pub(crate) fn wrong(&self, change: impl FnOnce(&mut Wrongs)) {
        change(&mut self.books.lock().unwrap().wrongs);
    }
    /// The objects, without folders, oldest first.
    pub(crate) fn objects(&self) -> Vec<Stored> {
        self.books.lock().unwrap().files.iter().filter(|file| file.mime != FOLDER).cloned().collect()
    }
    pub(crate) fn folders(&self) -> Vec<Stored> {
        self.books.lock().unwrap().files.iter().filter(|file| file.mime == FOLDER).cloned().collect()
    }
    pub(crate) fn change(&self, id: &str, change: impl FnOnce(&mut Stored)) {
        change(self.books.lock().unwrap().files.iter_mut().find(|file| file.id == id).unwrap());
    }
    pub(crate) fn remove(&self, id: &str) {
        self.books.lock().unwrap().files.retain(|file| file.id != id);
    }
    /// The tokens that were given so far; the last one is valid.
    pub(crate) fn tokens(&self) -> u32 {
        self.books.lock().unwrap().tokens
    }
    /// Makes the valid token invalid.
    pub(crate) fn revoke(&self) {
        self.books.lock().unwrap().tokens += 1;
    }
    /// How many calls began with this method and path.
    pub(crate) fn asked(&self, start: &str) -> usize {
        self.books.lock().unwrap().asked.iter().filter(|asked| asked.starts_with(start)).count()
    }
}

fn respond(status: u16, body: &Value) -> Response {
    Response::builder().status(status).body(Body::from(body.to_string())).unwrap()
}

fn error(status: u16, reason: &str) -> Response {
    respond(status, &json!({"error": {"code": status, "errors": [{"reason": reason}]}}))
}

fn shown(file: &Stored, wrongs: &Wrongs) -> Value {
    let mut shown = json!({"id": file.id, "createdTime": file.created, "appProperties": file.properties});
    if file.mime != FOLDER {
        shown["size"] = file.bytes.len().to_string().into();
        if !wrongs.no_hashes {
            shown["sha256Checksum"] = hex::encode(Sha256::digest(&file.bytes)).into();
        }
    }
    shown
}

impl Books {
    fn id(&mut self, kind: &str) -> String {
        self.next += 1;
        format!("{kind}-{:04}", self.next)
    }

    fn create(&mut self, metadata: &Value, bytes: Vec<u8>) -> Option<Stored> {
        let parent = metadata["parents"][0].as_str()?.to_owned();
        if parent != ROOT && !self.files.iter().any(|file| file.id == parent) {
            return None;
        }
        let properties: BTreeMap<String, String> =
            serde_json::from_value(metadata["appProperties"].clone()).unwrap_or_default();
        assert!(properties.len() <= 30, "30 private properties at most");
        for (key, value) in &properties {
            assert!(key.len() + value.len() <= 124, "a property has at most 124 bytes: {key}={value}");
        }
        let id = self.id("file");
        let file = Stored {
            created: format!("2026-11-30T10:00:{:02}.{:03}Z", self.next / 1000, self.next % 1000),
            id,
            name: metadata["name"].as_str()?.to_owned(),
            parent,
            mime: metadata["mimeType"].as_str()?.to_owned(),
            properties,
            bytes,
        };
        self.files.push(file.clone());
        Some(file)
    }

    /// Understands the queries that we make, and no others.
    fn search(&self, query: &BTreeMap<String, String>) -> Response {
        let q = &query["q"];
        let rest = q.strip_prefix("appProperties has { key='").unwrap();
        let (key, rest) = rest.split_once("' and value='").unwrap();
        let (value, rest) = rest.split_once("' } and trashed = false").unwrap();
        let mime = rest.strip_prefix(" and mimeType = '").map(|rest| rest.strip_suffix('\'').unwrap());
        assert!(mime.is_some() || rest.is_empty(), "an unknown query: {q}");
        let objects = self.files.iter().filter(|file| file.mime != FOLDER).count();
        let hidden = |file: &Stored| file.mime != FOLDER && objects < self.wrongs.hidden_until;
        let found: Vec<&Stored> = self
            .files
            .iter()
            .filter(|file| file.properties.get(key).is_some_and(|found| found == value))
            .filter(|file| mime.is_none_or(|mime| file.mime == mime) && !hidden(file))
            .collect();
        // Pages of one, newest first: whoever relies on one page or on an order is found out.
        let at: usize = query.get("pageToken").map_or(0, |token| token.parse().unwrap());
        let page: Vec<Value> =
            found.iter().rev().skip(at).take(1).map(|file| shown(file, &self.wrongs)).collect();
        let mut body = json!({"files": page, "incompleteSearch": false});
        if at + 1 < found.len() {
            body["nextPageToken"] = (at + 1).to_string().into();
        }
        respond(200, &body)
    }

    fn begin(&mut self, url: &str, metadata: Value, size: u64) -> Response {
        let parent = metadata["parents"][0].as_str().unwrap_or_default();
        if parent != ROOT && !self.files.iter().any(|file| file.id == parent) {
            return error(404, "notFound");
        }
        let id = self.id("upload");
        self.uploads.insert(id.clone(), Upload { metadata, size, bytes: Vec::new() });
        let place = format!("{url}/upload/drive/v3/files?uploadType=resumable&upload_id={id}");
        Response::builder().status(200).header("location", place).body(Body::empty()).unwrap()
    }

    fn part(&mut self, id: &str, range: &str, bytes: &[u8]) -> Response {
        if self.wrongs.forgotten > 0 {
            self.wrongs.forgotten -= 1;
            self.uploads.remove(id);
        }
        let Some(upload) = self.uploads.get_mut(id) else { return error(404, "notFound") };
        let (at, size) = range.strip_prefix("bytes ").unwrap().split_once('/').unwrap();
        assert_eq!(size.parse::<u64>().unwrap(), upload.size);
        let mut lost = false;
        if at != "*" {
            let (first, last) = at.split_once('-').unwrap();
            let (first, last) = (first.parse::<u64>().unwrap(), last.parse::<u64>().unwrap());
            assert_eq!(last - first + 1, bytes.len() as u64);
            assert!((last + 1).is_multiple_of(GRAIN) || last + 1 == upload.size, "a part ends at a multiple");
            assert_eq!(first, upload.bytes.len() as u64, "it goes on where it is");
            let halved = self.wrongs.halved_parts > 0 && bytes.len() as u64 > 2 * GRAIN;
            let taken =
                if halved { bytes.len() / 2 / (GRAIN as usize) * (GRAIN as usize) } else { bytes.len() };
            upload.bytes.extend_from_slice(&bytes[..taken]);
            self.wrongs.halved_parts -= u32::from(halved);
            lost = halved || self.wrongs.lost_parts > 0;
            if !halved && self.wrongs.lost_parts > 0 {
                self.wrongs.lost_parts -= 1;
            }
        }
        if upload.bytes.len() as u64 == upload.size {
            // An upload that is complete goes on answering so.
            let (metadata, bytes) = (upload.metadata.clone(), upload.bytes.clone());
            let done = metadata.get("done").and_then(Value::as_str).map(str::to_owned);
            let file = match done {
                Some(id) => self.files.iter().find(|file| file.id == id).cloned(),
                None => self.create(&metadata, bytes),
            };
            let Some(file) = file else { return error(404, "notFound") };
            if let Some(upload) = self.uploads.get_mut(id) {
                upload.metadata["done"] = file.id.clone().into();
            }
            return if lost { error(503, "backendError") } else { respond(200, &shown(&file, &self.wrongs)) };
        }
        if lost {
            return error(503, "backendError");
        }
        let mut answer = Response::builder().status(308);
        if !upload.bytes.is_empty() {
            answer = answer.header("range", format!("bytes=0-{}", upload.bytes.len() - 1));
        }
        answer.body(Body::empty()).unwrap()
    }

    fn token(&mut self, form: &BTreeMap<String, String>) -> Response {
        let right = form.get("grant_type").is_some_and(|grant| grant == "refresh_token")
            && form.get("client_id").is_some_and(|id| id == "client")
            && form.get("client_secret").is_some_and(|secret| secret == CLIENT_SECRET)
            && form.get("refresh_token").is_some_and(|token| token == REFRESH_TOKEN);
        if !right {
            return respond(400, &json!({"error": "invalid_grant"}));
        }
        self.tokens += 1;
        let token = format!("token-{}", self.tokens);
        respond(200, &json!({"access_token": token, "expires_in": 3599, "token_type": "Bearer"}))
    }
}

fn pairs(text: &str) -> BTreeMap<String, String> {
    let url = reqwest::Url::parse(&format!("x:?{text}")).unwrap();
    url.query_pairs().into_owned().collect()
}

async fn answer(State(drive): State<Drive>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, 64 << 20).await.unwrap();
    let header = |name: &str| {
        head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    };
    let (method, path) = (head.method.as_str(), head.uri.path());
    let query = pairs(head.uri.query().unwrap_or_default());
    let mut books = drive.books.lock().unwrap();
    books.asked.push(format!("{method} {path}"));
    let wrong = books
        .wrongs
        .answers
        .iter()
        .position(|(wrong_method, start, ..)| *wrong_method == method && path.starts_with(start));
    if let Some(at) = wrong {
        let (.., status, reason) = books.wrongs.answers.remove(at);
        return error(status, reason);
    }
    if (method, path) == ("POST", "/token") {
        return books.token(&pairs(std::str::from_utf8(&body).unwrap()));
    }
    if (method, path) == ("PUT", "/upload/drive/v3/files") {
        // The address of an upload is its own right.
        return books.part(&query["upload_id"], &header("content-range"), &body);
    }
    if header("authorization") != format!("Bearer token-{}", books.tokens) {
        return error(401, "authError");
    }
    let id = path.strip_prefix("/drive/v3/files/").unwrap_or_default().to_owned();
    match (method, path) {
        ("GET", "/drive/v3/files") => books.search(&query),
        ("POST", "/drive/v3/files") => {
            let metadata = serde_json::from_slice(&body).unwrap();
            match books.create(&metadata, Vec::new()) {
                Some(folder) => respond(200, &shown(&folder, &books.wrongs)),
                None => error(404, "notFound"),
            }
        }
        ("POST", "/upload/drive/v3/files") => {
            assert_eq!(query["uploadType"], "resumable");
            let size = header("x-upload-content-length").parse().unwrap();
            books.begin(&drive.url, serde_json::from_slice(&body).unwrap(), size)
        }
        ("GET", _) => match books.files.iter().find(|file| file.id == id) {
            Some(file) => Response::new(Body::from(file.bytes.clone())),
            None => error(404, "notFound"),
        },
        ("DELETE", _) => {
            let before = books.files.len();
            books.files.retain(|file| file.id != id);
            if books.files.len() < before {
                Response::builder().status(204).body(Body::empty()).unwrap()
            } else {
                error(404, "notFound")
            }
        }
        _ => error(400, "badRequest"),
    }
}
