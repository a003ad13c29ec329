//! Receipt handles and message ids.
#![allow(clippy::disallowed_methods, reason = "receipts are the queue service's own")]

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use md5::{Digest, Md5};

use crate::error::SqsError;

/// What a receipt handle says: which receive of which message of which queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Receipt {
    /// The row of the queue.
    pub queue_id: i64,
    /// The row of the message.
    pub message: i64,
    /// Drawn anew at every receive; only the latest is valid.
    pub nonce: i64,
}

const CHECK_BYTES: usize = 4;

impl Receipt {
    /// The handle's text. The check bytes only tell handles from other text; they are no secret.
    pub(crate) fn to_handle(self) -> String {
        let mut bytes = Vec::with_capacity(3 * 8 + CHECK_BYTES);
        for part in [self.queue_id, self.message, self.nonce] {
            bytes.extend_from_slice(&part.to_be_bytes());
        }
        let check = check(&bytes);
        bytes.extend_from_slice(&check);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads a handle.
    ///
    /// # Errors
    /// `ReceiptHandleIsInvalid` for anything but a handle made here.
    pub(crate) fn from_handle(handle: &str) -> Result<Self, SqsError> {
        let bytes = URL_SAFE_NO_PAD.decode(handle).map_err(|_| SqsError::ReceiptHandleIsInvalid)?;
        let (body, given) =
            bytes.split_last_chunk::<CHECK_BYTES>().ok_or(SqsError::ReceiptHandleIsInvalid)?;
        let (parts, []) = body.as_chunks::<8>() else { return Err(SqsError::ReceiptHandleIsInvalid) };
        match parts {
            [queue_id, message, nonce] if check(body) == *given => Ok(Self {
                queue_id: i64::from_be_bytes(*queue_id),
                message: i64::from_be_bytes(*message),
                nonce: i64::from_be_bytes(*nonce),
            }),
            _ => Err(SqsError::ReceiptHandleIsInvalid),
        }
    }
}

fn check(bytes: &[u8]) -> [u8; CHECK_BYTES] {
    let digest = Md5::digest(bytes);
    let mut check = [0; CHECK_BYTES];
    check.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
    check
}

fn random<const N: usize>() -> Result<[u8; N], SqsError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| SqsError::Storage { detail: format!("no randomness: {error}") })?;
    Ok(bytes)
}

/// A nonce for a receive.
pub(crate) fn nonce() -> Result<i64, SqsError> {
    Ok(i64::from_be_bytes(random()?))
}

/// A random UUID (version 4), as `MessageId` and as request id.
pub(crate) fn uuid() -> Result<String, SqsError> {
    let mut bytes: [u8; 16] = random()?;
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let hex = hex::encode(bytes);
    Ok(format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_come_back_and_nothing_else_passes() {
        let receipt = Receipt { queue_id: 1, message: i64::MAX, nonce: -7 };
        let handle = receipt.to_handle();
        assert_eq!(Receipt::from_handle(&handle), Ok(receipt));
        let mut changed = handle.clone().into_bytes();
        changed[5] = if changed[5] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        for bad in ["", "A", "not a handle", &handle[1..], &format!("{handle}AAAA"), &changed, "é", "%00"] {
            assert_eq!(Receipt::from_handle(bad), Err(SqsError::ReceiptHandleIsInvalid), "{bad}");
        }
    }

    #[test]
    fn ids_are_uuids_of_version_4() {
        let id = uuid().unwrap();
        assert_eq!(id.len(), 36);
        assert_eq!((&id[14..15], &id[8..9], &id[23..24]), ("4", "-", "-"));
        assert_ne!(id, uuid().unwrap());
    }
}
