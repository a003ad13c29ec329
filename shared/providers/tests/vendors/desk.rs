//! What every stand-in for a vendor has: books of its own, faults on demand, and files that expire.

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::net::TcpListener;
use tower::ServiceExt;

/// What happens to the next submit.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The connection closes before anything is accepted.
    CutBefore,
    /// It is accepted, and the connection closes without an answer.
    CutAfter,
    /// This answer, and nothing is accepted.
    Instead(Refusal),
    /// It is accepted, and this is the answer.
    After(Refusal),
}

/// An answer other than the good one.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Value,
}

pub(crate) fn refusal(status: u16, body: Value) -> Refusal {
    Refusal { status, headers: Vec::new(), body }
}

impl Refusal {
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = json(self.status, &self.body);
        for (name, value) in self.headers {
            response.headers_mut().insert(name, value.parse().unwrap());
        }
        response
    }
}

pub(crate) fn json(status: u16, body: &Value) -> Response {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response.headers_mut().insert("content-type", "application/json".parse().unwrap());
    response
}

/// How a render stands, whatever the vendor calls it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Phase {
    Queued,
    Running,
    /// A status that nobody documented.
    Odd,
    Succeeded,
    Cancelled,
    /// The vendor's own fields, put over those of a running render.
    Told(Value),
}

/// What a submit carries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    pub(crate) prompt: String,
    /// The vendor's idempotency key or client-chosen id.
    pub(crate) key: Option<String>,
    pub(crate) webhook: Option<String>,
    /// The rest, for the vendor's own use.
    pub(crate) body: Value,
}

#[derive(Clone, Debug)]
pub(crate) struct Render {
    pub(crate) id: String,
    pub(crate) order: Order,
    pub(crate) phase: Phase,
    /// The number of addresses that were given out; only the last one works.
    pub(crate) addresses: u32,
    /// Its output is no longer kept.
    pub(crate) gone: bool,
    pub(crate) deleted: bool,
}

#[derive(Default)]
pub(crate) struct Inner {
    renders: Vec<Render>,
    faults: VecDeque<Fault>,
    posts: Vec<String>,
    queries: u32,
}

/// A vendor's books.
#[derive(Default)]
pub(crate) struct Desk {
    pub(crate) inner: Mutex<Inner>,
    pub(crate) url: Mutex<String>,
    /// Keys are honoured: the same key returns the first render.
    pub(crate) idempotent: bool,
}

/// Marks a response in whose place the connection is closed.
#[derive(Clone)]
struct Cut;

pub(crate) fn cut() -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    response.extensions_mut().insert(Cut);
    response
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    pub(crate) fn url(&self) -> String {
        self.url.lock().unwrap().clone()
    }

    /// Takes a submit, unless a fault is due; `say` is the vendor's good answer.
    pub(crate) fn post(&self, order: Order, say: impl FnOnce(&Render) -> Response) -> Response {
        let mut inner = self.lock();
        inner.posts.push(order.prompt.clone());
        let fault = inner.faults.pop_front();
        match &fault {
            Some(Fault::CutBefore) => return cut(),
            Some(Fault::Instead(refusal)) => return refusal.clone().into_response(),
            Some(Fault::CutAfter | Fault::After(_)) | None => {}
        }
        let known = inner
            .renders
            .iter()
            .position(|render| self.idempotent && order.key.is_some() && render.order.key == order.key);
        let at = known.unwrap_or_else(|| {
            let id = self.fresh_id(inner.renders.len());
            let phase = Phase::Queued;
            inner.renders.push(Render { id, order, phase, addresses: 0, gone: false, deleted: false });
            inner.renders.len() - 1
        });
        match fault {
            Some(Fault::CutAfter) => cut(),
            Some(Fault::After(refusal)) => refusal.into_response(),
            Some(Fault::CutBefore | Fault::Instead(_)) | None => say(&inner.renders[at]),
        }
    }

    fn fresh_id(&self, number: usize) -> String {
        format!("t{:011}", number + 1)
    }

    pub(crate) fn fault(&self, fault: Fault) {
        self.lock().faults.push_back(fault);
    }

    pub(crate) fn clear_faults(&self) {
        self.lock().faults.clear();
    }

    pub(crate) fn renders(&self) -> Vec<Render> {
        self.lock().renders.clone()
    }

    pub(crate) fn get(&self, id: &str) -> Option<Render> {
        self.lock().queries += 1;
        self.lock().renders.iter().find(|render| render.id == id && !render.deleted).cloned()
    }

    pub(crate) fn change(&self, id: &str, change: impl FnOnce(&mut Render)) -> bool {
        let mut inner = self.lock();
        match inner.renders.iter_mut().find(|render| render.id == id && !render.deleted) {
            Some(render) => {
                change(render);
                true
            }
            None => false,
        }
    }

    pub(crate) fn set(&self, id: &str, phase: Phase) {
        assert!(self.change(id, |render| render.phase = phase), "no render {id}");
    }

    /// How many renders were accepted for a prompt, and how many POSTs came for it.
    pub(crate) fn accepted(&self, prompt: &str) -> usize {
        self.lock().renders.iter().filter(|render| render.order.prompt == prompt).count()
    }

    pub(crate) fn posts(&self, prompt: &str) -> usize {
        self.lock().posts.iter().filter(|posted| *posted == prompt).count()
    }

    /// A fresh address of a render's output; the ones before it stop working.
    pub(crate) fn address(&self, id: &str) -> Option<String> {
        let url = self.url();
        let mut inner = self.lock();
        let render = inner.renders.iter_mut().find(|render| render.id == id)?;
        if render.gone {
            return None;
        }
        render.addresses += 1;
        Some(format!("{url}/files/{id}/{}?signature=0123", render.addresses))
    }

    /// Serves a file.
    pub(crate) fn file(&self, id: &str, number: u32) -> Response {
        match self.lock().renders.iter().find(|render| render.id == id) {
            Some(render) if render.addresses == number && !render.gone => {
                Response::new(Body::from(&b"\x89PNG\r\n\x1a\nbytes"[..]))
            }
            Some(_) => StatusCode::FORBIDDEN.into_response(),
            None => StatusCode::NOT_FOUND.into_response(),
        }
    }
}

/// Serves a router on loopback; a response that is marked closes its connection instead.
pub(crate) async fn serve(desk: &Arc<Desk>, router: Router) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    *desk.url.lock().unwrap() = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let router = router.clone();
            let service =
                hyper::service::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                    let router = router.clone();
                    async move {
                        let response = router.oneshot(request.map(Body::new)).await.unwrap();
                        match response.extensions().get::<Cut>() {
                            Some(_) => Err(io::Error::other("cut")),
                            None => Ok(response),
                        }
                    }
                });
            tokio::spawn(async move {
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
}

/// Whether a request carries this header.
pub(crate) fn has(headers: &HeaderMap, name: &str, value: &str) -> bool {
    headers.get(name).and_then(|value| value.to_str().ok()) == Some(value)
}

/// A text of a header.
pub(crate) fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}
