//! The document and the routes say the same.

use crate::support::Site;
use serde_json::Value;
use std::collections::BTreeSet;

/// A path of this template that names nothing.
pub(crate) fn example(template: &str) -> String {
    template
        .replace("{parent}", "POST:nothing")
        .replace("{member}", "SHOT:s1")
        .replace("{number}", "1")
        .replace("{id}", "nothing")
        .replace("{series}", "nothing")
        .replace("{lane}", "nothing")
        .replace("{provider}", "nothing")
        .replace("{name}", "nothing")
}

/// Every documented method and path.
pub(crate) fn operations(document: &Value) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        all.extend(item.as_object().unwrap().keys().map(|method| (method.to_uppercase(), path.clone())));
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_documented_is_served() {
    let site = Site::new().await;
    for (method, path) in operations(&site.document) {
        let reply = site.call(&method, &example(&path)).send().await;
        let code = reply.body["code"].as_str().unwrap_or_default();
        assert!(!["no_such_route", "bad_method"].contains(&code), "{method} {path}: {reply:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_method_that_is_not_documented_is_not_served() {
    let site = Site::new().await;
    let served: BTreeSet<(String, String)> = operations(&site.document).into_iter().collect();
    let paths: BTreeSet<&String> = served.iter().map(|(_, path)| path).collect();
    for path in paths {
        for method in ["GET", "PUT", "POST", "DELETE", "PATCH"] {
            if !served.contains(&(method.to_owned(), path.clone())) {
                let reply = site.call(method, &example(path)).send().await;
                reply.is(405, "bad_method");
                assert!(!reply.headers["allow"].is_empty(), "{method} {path}: {reply:?}");
            }
        }
    }
    site.get("/v1/nothing").send().await.is(404, "no_such_route");
    site.get("/nothing").bare().send().await.is(404, "no_such_route");
}

/// Every `$ref` of the document leads somewhere, and every operation has a name of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_document_is_whole() {
    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(object) => {
                found.extend(object.get("$ref").and_then(Value::as_str));
                object.values().for_each(|value| references(value, found));
            }
            Value::Array(array) => array.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let site = Site::new().await;
    assert_eq!(site.document["openapi"], "3.1.0");
    let mut found = Vec::new();
    references(&site.document, &mut found);
    assert!(!found.is_empty());
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(site.document.pointer(pointer).is_some(), "{reference}");
    }
    let mut names = BTreeSet::new();
    for (method, path) in operations(&site.document) {
        let operation = &site.document["paths"][&path][method.to_lowercase()];
        assert!(names.insert(operation["operationId"].as_str().unwrap().to_owned()), "{operation}");
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let named: BTreeSet<&str> = parameters
            .filter(|parameter| parameter["in"] == "path")
            .map(|parameter| parameter["name"].as_str().unwrap())
            .collect();
        let wanted = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        assert_eq!(named, wanted.collect(), "{method} {path}");
    }
}
