//! A client that holds every answer against the document.

use glassline_api::url::serve;
use glassline_api::{Api, Config, router};
use glassline_protocol::sign::{Secret, Secrets};
use glassline_tests::{Lane, Scan, World, WorldOptions};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(crate) const SECRET: &str = "the secret that is in force";
pub(crate) const PREVIOUS: &str = "the secret that was before it";

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Value,
}

impl Reply {
    /// Asserts a problem of this code.
    #[track_caller]
    pub(crate) fn is(&self, status: u16, code: &str) -> &Self {
        assert_eq!((self.status, &self.body["code"]), (status, &json!(code)), "{self:?}");
        assert_eq!(self.body["status"], status, "{self:?}");
        assert_eq!(self.body["type"], format!("urn:glassline:problem:{code}"), "{self:?}");
        self
    }

    /// Asserts a status, and gives the body.
    #[track_caller]
    pub(crate) fn body(&self, status: u16) -> &Value {
        assert_eq!(self.status, status, "{self:?}");
        &self.body
    }

    #[track_caller]
    pub(crate) fn detail(&self) -> &str {
        self.body["detail"].as_str().unwrap()
    }
}

/// A request.
pub(crate) struct Call<'a> {
    site: &'a Site,
    method: String,
    path: String,
    query: String,
    headers: BTreeMap<String, String>,
    body: Option<String>,
}

impl Call<'_> {
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Without the secret that calls have otherwise.
    pub(crate) fn bare(mut self) -> Self {
        self.headers.remove("authorization");
        self
    }

    pub(crate) fn text(mut self, media: &str, body: impl Into<String>) -> Self {
        self.body = Some(body.into());
        self.header("content-type", media)
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        let body = body.to_string();
        self.text("application/json", body)
    }

    pub(crate) async fn send(self) -> Reply {
        let event = json!({
            "version": "2.0", "rawPath": self.path, "rawQueryString": self.query, "headers": self.headers,
            "requestContext": { "http": { "method": self.method, "path": self.path }, "timeEpoch": 0 },
            "body": self.body, "isBase64Encoded": false,
        });
        let answer = serve(&self.site.router, event).await.unwrap();
        let headers: BTreeMap<String, String> = serde_json::from_value(answer["headers"].clone()).unwrap();
        let text = answer["body"].as_str().unwrap_or_default();
        let body = serde_json::from_str(text).unwrap_or_else(|_| json!(text));
        let status = u16::try_from(answer["statusCode"].as_u64().unwrap()).unwrap();
        let reply = Reply { status, headers, body };
        self.site.documented(&self.method, &self.path, &reply);
        reply
    }
}

/// The api in a world.
pub(crate) struct Site {
    pub(crate) world: World,
    router: axum::Router,
    pub(crate) document: Value,
}

/// Whether a path is one of this template.
fn fits(template: &str, path: &str) -> bool {
    let (parts, given): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
    parts.len() == given.len()
        && parts
            .iter()
            .zip(given)
            .all(|(part, given)| (part.starts_with('{') && !given.is_empty()) || *part == given)
}

impl Site {
    pub(crate) async fn of(world: World) -> Self {
        let secret = |text: &str| Secret::new(text).unwrap();
        let config = Config {
            settings: world.settings.clone(),
            entry: Secrets { current: secret(SECRET), previous: Some(secret(PREVIOUS)) },
            handoff: world.secrets.clone(),
        };
        let router = router(Api::new(world.ports.clone(), config));
        let mut site = Self { world, router, document: Value::Null };
        site.document = json!({ "paths": { "/openapi.json": { "get": { "responses": { "200": {
            "content": { "application/json": {} } } } } } } });
        site.document = site.get("/openapi.json").bare().send().await.body;
        site
    }

    /// With the lane `keyed`.
    pub(crate) async fn new() -> Self {
        Self::of(World::new(WorldOptions::one(Lane::keyed(2))).await).await
    }

    pub(crate) fn router(&self) -> &axum::Router {
        &self.router
    }

    pub(crate) fn call(&self, method: &str, target: &str) -> Call<'_> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Call {
            site: self,
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            headers: BTreeMap::from([("authorization".to_owned(), format!("Bearer {SECRET}"))]),
            body: None,
        }
    }

    pub(crate) fn get(&self, target: &str) -> Call<'_> {
        self.call("GET", target)
    }

    pub(crate) fn post(&self, target: &str) -> Call<'_> {
        self.call("POST", target)
    }

    pub(crate) fn put(&self, target: &str) -> Call<'_> {
        self.call("PUT", target)
    }

    /// The answer's status and type are in the document, for a path and method that are.
    fn documented(&self, method: &str, path: &str, reply: &Reply) {
        let paths = self.document["paths"].as_object().unwrap();
        // A path without parameters goes before one with them.
        let exact = paths.get(path);
        let found =
            exact.or_else(|| paths.iter().find(|(template, _)| fits(template, path)).map(|(_, item)| item));
        let method = method.to_ascii_lowercase();
        let Some(operation) = found.map(|item| &item[&method]).filter(|operation| operation.is_object())
        else {
            assert!([401, 404, 405].contains(&reply.status), "{method} {path} isn't documented: {reply:?}");
            return;
        };
        let answer = &operation["responses"][reply.status.to_string()];
        assert!(answer.is_object(), "{method} {path} answers {} undocumented: {reply:?}", reply.status);
        let media = reply.headers.get("content-type").map_or("", |media| media.split(';').next().unwrap());
        assert!(
            answer["content"][media].is_object(),
            "{method} {path}: {media} is undocumented for {reply:?}"
        );
    }

    /// Every row, and how many messages each queue has.
    pub(crate) async fn state(&self) -> (Scan, Vec<u64>) {
        let mut depths = Vec::new();
        for queue in self.world.engine.queues().await.unwrap() {
            depths.push(self.world.engine.depth(&queue).await.unwrap().visible);
        }
        (self.world.scan().await, depths)
    }
}
