//! Refusals and failures: RFC 9457 `application/problem+json` with a stable `code` each
//! (<https://www.rfc-editor.org/rfc/rfc9457>).

use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::response::{IntoResponse, Response};
use glassline_protocol::intake::SubmitError;
use glassline_protocol::ports::Unread;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

/// Declares the codes: the word, the status, and a title that is the same for all of a code.
macro_rules! codes {
    ($($(#[$doc:meta])* $code:ident = $word:literal, $status:ident, $title:literal;)*) => {
        /// What went wrong, as a program reads it. Codes are never renamed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Code { $($(#[$doc])* $code),* }
        impl Code {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$code),*];
            /// The word in the answer.
            #[must_use]
            pub fn word(self) -> &'static str { match self { $(Self::$code => $word),* } }
            /// The status that goes with it.
            #[must_use]
            pub fn status(self) -> StatusCode { match self { $(Self::$code => StatusCode::$status),* } }
            /// What people read first.
            #[must_use]
            pub fn title(self) -> &'static str { match self { $(Self::$code => $title),* } }
        }
    };
}

codes! {
    /// No secret, or none in force.
    Unauthorized = "unauthorized", UNAUTHORIZED, "The shared secret is needed";
    /// Nothing is served at this address.
    NoSuchRoute = "no_such_route", NOT_FOUND, "There is nothing at this address";
    /// The address doesn't take this method.
    BadMethod = "bad_method", METHOD_NOT_ALLOWED, "This method isn't taken here";
    /// A part of the address can't be used.
    BadParameter = "bad_parameter", BAD_REQUEST, "A parameter can't be used";
    /// The body can't be read as what is expected.
    BadBody = "bad_body", BAD_REQUEST, "The body can't be used";
    /// The body is of a type that isn't taken.
    BadType = "bad_type", UNSUPPORTED_MEDIA_TYPE, "This content type isn't taken here";
    /// The body is too long.
    TooLarge = "too_large", PAYLOAD_TOO_LARGE, "The body is too long";
    /// What is named isn't there.
    NotFound = "not_found", NOT_FOUND, "It isn't there";
    /// What is sent is well formed and can't be taken.
    Unacceptable = "unacceptable", UNPROCESSABLE_ENTITY, "It can't be taken";
    /// The same id exists with other contents.
    Conflict = "conflict", CONFLICT, "It exists with other contents";
    /// The job isn't, or is no longer, what the request means.
    Moved = "moved", CONFLICT, "The job isn't what was meant";
    /// A callback that isn't signed as it should be.
    BadSignature = "bad_signature", UNAUTHORIZED, "The signature isn't right";
    /// The row is no longer as the request says.
    Changed = "changed", PRECONDITION_FAILED, "It has changed since it was read";
    /// Not possible now.
    Unavailable = "unavailable", SERVICE_UNAVAILABLE, "Not possible now; try again";
    /// A row can't be understood.
    BadRow = "bad_row", INTERNAL_SERVER_ERROR, "A row of the table can't be understood";
}

/// A refusal or a failure.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// What went wrong.
    pub code: Code,
    /// One sentence or two for people: what is wrong with this very request, and what to do.
    pub detail: String,
    /// Further members of the answer.
    pub more: Map<String, Value>,
}

/// A refusal or a failure, RFC 9457. `code` says which; further members depend on it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub struct ProblemBody {
    /// `urn:glassline:problem:` and the code.
    #[serde(rename = "type")]
    kind: String,
    /// What went wrong, the same for all of a code.
    title: &'static str,
    /// The status of the answer.
    #[schemars(range(min = 400, max = 599))]
    status: u16,
    /// What went wrong, for programs.
    #[schemars(schema_with = "crate::words::code")]
    code: &'static str,
    /// What is wrong with this very request.
    detail: String,
    #[serde(flatten)]
    more: Map<String, Value>,
}

impl Problem {
    /// A problem with a sentence.
    #[must_use]
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), more: Map::new() }
    }

    /// The same with one more member.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.to_owned(), value.into());
        self
    }

    /// What isn't there, such as `lane prism`.
    #[must_use]
    pub fn missing(what: impl std::fmt::Display) -> Self {
        Self::new(Code::NotFound, format!("There is no {what}."))
    }

    /// The table or a queue gave no answer.
    #[must_use]
    pub fn unavailable() -> Self {
        Self::new(Code::Unavailable, "The store doesn't answer; send the same again.")
    }

    /// The answer's body.
    #[must_use]
    pub fn body(self) -> ProblemBody {
        let Self { code, detail, more } = self;
        ProblemBody {
            kind: format!("urn:glassline:problem:{}", code.word()),
            title: code.title(),
            status: code.status().as_u16(),
            code: code.word(),
            detail,
            more,
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let code = self.code;
        let body = serde_json::to_vec(&self.body()).unwrap_or_default();
        let mut response = (code.status(), body).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        match code {
            Code::Unauthorized => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            Code::Unavailable => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            Code::NoSuchRoute
            | Code::BadMethod
            | Code::BadParameter
            | Code::BadBody
            | Code::BadType
            | Code::TooLarge
            | Code::NotFound
            | Code::Unacceptable
            | Code::Conflict
            | Code::Changed
            | Code::Moved
            | Code::BadSignature
            | Code::BadRow => {}
        }
        response
    }
}

impl From<Unread> for Problem {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::Unavailable => Self::unavailable(),
            Unread::Bad(row) => Self::new(Code::BadRow, row.to_string()),
        }
    }
}

impl From<SubmitError> for Problem {
    fn from(error: SubmitError) -> Self {
        let code = match error {
            SubmitError::Conflict(_) | SubmitError::StoryConflict(_) => Code::Conflict,
            SubmitError::NoLane { .. } | SubmitError::BadSeries { .. } | SubmitError::BadStory { .. } => {
                Code::Unacceptable
            }
            SubmitError::Unavailable(_) => Code::Unavailable,
            SubmitError::Unread(unread) => return unread.into(),
        };
        Self::new(code, error.to_string())
    }
}
