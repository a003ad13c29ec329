//! Outputs: their signed addresses, and their bytes, good or spoilt on demand.

use crate::answer::Refusal;
use crate::books::{OutputKind, Render, RenderState};
use crate::config::AccountConfig;
use crate::faults::{self, FaultKind};
use crate::picture;
use crate::state::Shared;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use hmac::{Hmac, KeyInit, Mac};
use serde::Deserialize;
use sha2::Sha256;
use std::sync::Arc;

/// Two seconds of H.264, 320×240, made with ffmpeg from its own test sources (see `assets/README.md`).
static CLIP: &[u8] = include_bytes!("../assets/clip.mp4");
const PAGE: &str = "<!doctype html><html><head><title>502</title></head><body>Bad gateway</body></html>";

/// The query of an output's address.
#[derive(Deserialize)]
pub(crate) struct Signed {
    expires: u64,
    signature: String,
}

/// A signed address of a render's output and when it stops working, or nothing when the output isn't kept any more.
pub(crate) fn address(
    url: &str,
    account: &AccountConfig,
    render: &Render,
    now_ms: u64,
) -> Option<(String, u64)> {
    let gone_ms = render.finish_ms + account.output_lifetime_ms;
    if now_ms >= gone_ms {
        return None;
    }
    let expires_ms = account.address_lifetime_ms.map_or(gone_ms, |ms| gone_ms.min(now_ms + ms));
    let signature = hex::encode(signer(account, &render.id, expires_ms)?.finalize().into_bytes());
    let address = format!("{url}/v1/outputs/{}?expires={expires_ms}&signature={signature}", render.id);
    Some((address, expires_ms))
}

/// The key comes from the account's, so that addresses outlive a restart.
fn signer(account: &AccountConfig, id: &str, expires_ms: u64) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(account.api_key.as_bytes()).ok()?;
    mac.update(format!("output\n{id}\n{expires_ms}").as_bytes());
    Some(mac)
}

/// Answers a download.
pub(crate) async fn serve(shared: &Arc<Shared>, id: &str, signed: &Signed) -> Result<Response, Refusal> {
    let now_ms = shared.now_ms();
    let (render, fault) = {
        let mut inner = shared.lock();
        let render = inner.books.any(id).cloned().ok_or_else(Refusal::unknown_render)?;
        let account = shared.account_named(&render.account).ok_or_else(Refusal::unknown_render)?;
        let forbidden = |message| Refusal::new(StatusCode::FORBIDDEN, "bad_signature", message);
        let given = hex::decode(&signed.signature).unwrap_or_default();
        let mac = signer(&account, id, signed.expires).ok_or_else(Refusal::internal)?;
        mac.verify_slice(&given).map_err(|_| forbidden("the signature of this address is wrong"))?;
        if now_ms >= signed.expires {
            return Err(forbidden("this address has expired; ask for the render again"));
        }
        if render.state(now_ms) != RenderState::Succeeded {
            return Err(Refusal::unknown_render());
        }
        if now_ms >= render.finish_ms + account.output_lifetime_ms {
            return Err(gone());
        }
        let fault = inner.faults.fire(&account.name, &render.reference, faults::OUTPUTS);
        (render, fault.map(|(kind, _)| kind))
    };
    match fault {
        Some(FaultKind::OutputGone) => return Err(gone()),
        Some(FaultKind::HtmlOutput) => return Ok(file("text/html; charset=utf-8", PAGE.into())),
        Some(_) | None => {}
    }
    let (kind, mut bytes) = bytes_of(render).await?;
    match fault {
        Some(FaultKind::EmptyOutput) => bytes.clear(),
        Some(FaultKind::TruncatedOutput) => bytes.truncate(bytes.len() / 2),
        Some(_) | None => {}
    }
    Ok(file(kind, bytes))
}

async fn bytes_of(render: Render) -> Result<(&'static str, Vec<u8>), Refusal> {
    match render.media {
        OutputKind::Video => Ok(("video/mp4", CLIP.to_vec())),
        OutputKind::Image => {
            let draw = move || picture::png(render.seed, render.width_px, render.height_px);
            match tokio::task::spawn_blocking(draw).await {
                Ok(Ok(bytes)) => Ok(("image/png", bytes)),
                Ok(Err(_)) | Err(_) => Err(Refusal::internal()),
            }
        }
    }
}

fn gone() -> Refusal {
    Refusal::new(StatusCode::GONE, "output_gone", "this output is no longer kept")
}

fn file(kind: &'static str, bytes: Vec<u8>) -> Response {
    ([(CONTENT_TYPE, HeaderValue::from_static(kind))], bytes).into_response()
}
