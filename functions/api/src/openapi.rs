//! The OpenAPI 3.1 document (<https://spec.openapis.org/oas/v3.1.1>): each route's [`Operation`], with the schemas of its
//! types as `schemars` derives them from the very types that are read and written.

use crate::problem::{Code, ProblemBody};
use axum::http::Method;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// A body as a media type and its schema.
struct Content {
    media: &'static str,
    schema: SchemaOf,
}

/// What an answer of a status means, and its body.
struct Answer {
    text: &'static str,
    content: Option<Content>,
    headers: Vec<(&'static str, &'static str)>,
}

/// What one method of one path takes and answers.
pub struct Operation {
    id: &'static str,
    tag: &'static str,
    summary: &'static str,
    text: Option<&'static str>,
    parameters: Vec<Value>,
    bodies: Vec<Content>,
    answers: BTreeMap<u16, Answer>,
    problems: BTreeMap<u16, BTreeSet<&'static str>>,
    open: bool,
}

impl Operation {
    /// An operation that asks for the shared secret. That it may be refused for want of it, that the store may not answer
    /// and that a row may not be understood is said of each.
    #[must_use]
    pub fn new(id: &'static str, tag: &'static str, summary: &'static str) -> Self {
        let operation = Self {
            id,
            tag,
            summary,
            text: None,
            parameters: Vec::new(),
            bodies: Vec::new(),
            answers: BTreeMap::new(),
            problems: BTreeMap::new(),
            open: false,
        };
        operation.problem(Code::Unauthorized).problem(Code::Unavailable).problem(Code::BadRow)
    }

    /// It needs no secret.
    #[must_use]
    pub fn open(mut self) -> Self {
        self.open = true;
        self.problems.clear();
        self
    }

    /// More than the summary says.
    #[must_use]
    pub fn text(mut self, text: &'static str) -> Self {
        self.text = Some(text);
        self
    }

    fn parameter(mut self, place: &str, name: &str, text: &str, required: bool, schema: Value) -> Self {
        self.parameters.push(
            json!({ "name": name, "in": place, "required": required, "description": text, "schema": schema }),
        );
        self
    }

    /// A part of the path; one that can't be read is refused.
    #[must_use]
    pub fn path(self, name: &str, text: &str, schema: Value) -> Self {
        self.parameter("path", name, text, true, schema).problem(Code::BadParameter)
    }

    /// A field of the query that may be left out; one that can't be read is refused.
    #[must_use]
    pub fn query(self, name: &str, text: &str, schema: Value) -> Self {
        self.parameter("query", name, text, false, schema).problem(Code::BadParameter)
    }

    /// A field of the query that must be there.
    #[must_use]
    pub fn required_query(self, name: &str, text: &str, schema: Value) -> Self {
        self.parameter("query", name, text, true, schema).problem(Code::BadParameter)
    }

    /// A header that may be left out.
    #[must_use]
    pub fn header(self, name: &str, text: &str, schema: Value) -> Self {
        self.parameter("header", name, text, false, schema)
    }

    /// A JSON body of a type.
    #[must_use]
    pub fn json<T: JsonSchema>(self) -> Self {
        self.body("application/json", schema_of::<T>)
    }

    /// A body of a media type, or one more that is taken instead.
    #[must_use]
    pub fn body(mut self, media: &'static str, schema: SchemaOf) -> Self {
        self.bodies.push(Content { media, schema });
        self.problem(Code::BadBody).problem(Code::BadType).problem(Code::TooLarge)
    }

    /// An answer with a JSON body of a type.
    #[must_use]
    pub fn answer<T: JsonSchema>(mut self, status: u16, text: &'static str) -> Self {
        let content = Some(Content { media: "application/json", schema: schema_of::<T> });
        self.answers.insert(status, Answer { text, content, headers: Vec::new() });
        self
    }

    /// An answer without a body.
    #[must_use]
    pub fn empty(mut self, status: u16, text: &'static str) -> Self {
        self.answers.insert(status, Answer { text, content: None, headers: Vec::new() });
        self
    }

    /// A header of an answer that was declared before.
    #[must_use]
    pub fn answer_header(mut self, status: u16, name: &'static str, text: &'static str) -> Self {
        if let Some(answer) = self.answers.get_mut(&status) {
            answer.headers.push((name, text));
        }
        self
    }

    /// A problem that it may answer with.
    #[must_use]
    pub fn problem(mut self, code: Code) -> Self {
        self.problems.entry(code.status().as_u16()).or_default().insert(code.word());
        self
    }

    fn describe(self, generator: &mut SchemaGenerator) -> Value {
        let mut content = |content: Content| {
            let schema = (content.schema)(generator).to_value();
            (content.media.to_owned(), json!({ "schema": schema }))
        };
        let mut answers = Map::new();
        for (status, answer) in self.answers {
            let mut described = json!({ "description": answer.text });
            if let Some(body) = answer.content {
                described["content"] = Value::Object([content(body)].into_iter().collect());
            }
            if !answer.headers.is_empty() {
                let headers = answer.headers.into_iter().map(|(name, text)| {
                    (name.to_owned(), json!({ "description": text, "schema": { "type": "string" } }))
                });
                described["headers"] = Value::Object(headers.collect());
            }
            answers.insert(status.to_string(), described);
        }
        for (status, codes) in self.problems {
            let codes: Vec<&str> = codes.into_iter().collect();
            let body =
                content(Content { media: "application/problem+json", schema: schema_of::<ProblemBody> });
            let content = Value::Object([body].into_iter().collect());
            let description = format!("`{}`", codes.join("`, `"));
            // One status may have an answer of its own and problems: then both bodies are possible.
            match answers.get_mut(&status.to_string()).and_then(Value::as_object_mut) {
                Some(answer) => {
                    if let (Some(Value::Object(had)), Value::Object(more)) =
                        (answer.get_mut("content"), content)
                    {
                        had.extend(more);
                    }
                }
                None => {
                    answers.insert(
                        status.to_string(),
                        json!({ "description": description, "content": content }),
                    );
                }
            }
        }
        let mut described = json!({
            "operationId": self.id, "tags": [self.tag], "summary": self.summary, "responses": answers,
        });
        if let Some(text) = self.text {
            described["description"] = text.into();
        }
        if !self.parameters.is_empty() {
            described["parameters"] = self.parameters.into();
        }
        if !self.bodies.is_empty() {
            let bodies: Map<String, Value> = self.bodies.into_iter().map(content).collect();
            described["requestBody"] = json!({ "required": true, "content": bodies });
        }
        if self.open {
            described["security"] = json!([]);
        }
        described
    }
}

/// The document of these operations.
#[must_use]
pub fn document(operations: Vec<(Method, &'static str, Operation)>) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut generator = settings.into_generator();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for (method, path, operation) in operations {
        let described = operation.describe(&mut generator);
        paths.entry(path).or_default().insert(method.as_str().to_ascii_lowercase(), described);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Glassline",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Intake of posts and stories, and the registry of what became of them. Times are epoch \
                            milliseconds, money is millionths of the account's currency unit. Keys of jobs stand in \
                            addresses with `:` for `#`: `/v1/jobs/POST:morning/SHOT:s1`.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "security": [{ "secret": [] }],
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "securitySchemes": { "secret": {
                "type": "http", "scheme": "bearer",
                "description": "The shared secret; during a rotation the one before it, too.",
            } },
        },
    })
}
