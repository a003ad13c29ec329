//! The vault port: fetching a provider's output, judging it by its content and storing it for good.

use crate::ids::{Attempt, JobKey, LaneName};
use crate::provider::{ErrorClass, Media, Output};
use serde::{Deserialize, Serialize};
use std::future::Future;

/// A stored output, as the outcome row records it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Asset {
    /// Where it lies: a path relative to the store's root, `parent/member/attempt-sha256.ext`.
    pub location: String,
    /// SHA-256 of its bytes, 64 lower-case hex digits.
    pub sha256: String,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Its type by content, such as `image/png`.
    pub content_type: String,
    /// Width in pixels, when known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width_px: Option<u32>,
    /// Height in pixels, when known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height_px: Option<u32>,
    /// Play time of a video in milliseconds, when known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The number of frames, when known: 1 for a picture that doesn't move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<u64>,
}

/// The answer to a request to fetch and store an output.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Saved {
    /// It is stored, complete and valid, under a key that depends only on the job, the attempt and the bytes. Storing
    /// the same bytes again gives the same answer.
    Stored(Asset),
    /// The output can't be used, whatever we do: it ends the attempt.
    Refused {
        /// Why, for the outcome.
        class: ErrorClass,
        /// One sentence for a person, without the address.
        reason: String,
    },
    /// Our own policy doesn't let us fetch it (a host that isn't allowed, an inside address). It is paid for, and
    /// rendering it again would end the same: a person decides.
    Barred {
        /// One sentence for a person, without the address.
        reason: String,
    },
    /// The address no longer works: ask the provider for a fresh one, and if there is none, the output is gone.
    Expired,
    /// Not possible now (network, storage): try again later.
    Unavailable,
}

/// Fetches, validates and stores outputs.
pub trait Vault {
    /// Downloads the output within limits, decides its type by its bytes, decodes it whole, hashes it and stores it
    /// unless it is there already.
    fn save(
        &self,
        lane: &LaneName,
        job: &JobKey,
        attempt: Attempt,
        output: &Output,
        expected: Media,
    ) -> impl Future<Output = Saved> + Send;

    /// Gives up an output that this caller stored, after another was recorded for its attempt. Where the store needs
    /// nothing of the kind, and when it fails, nothing happens: the audit tells of what is left.
    fn discard(&self, asset: &Asset) -> impl Future<Output = ()> + Send {
        let _ = asset;
        std::future::ready(())
    }
}

impl<T: Vault + Send + Sync> Vault for std::sync::Arc<T> {
    async fn save(
        &self,
        lane: &LaneName,
        job: &JobKey,
        attempt: Attempt,
        output: &Output,
        expected: Media,
    ) -> Saved {
        (**self).save(lane, job, attempt, output, expected).await
    }
    async fn discard(&self, asset: &Asset) {
        (**self).discard(asset).await;
    }
}
