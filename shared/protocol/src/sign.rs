//! Signatures of handoffs: a message on the render queue is acted on only if somebody who knows the secret wrote it.
//!
//! Entry and ownership are separate: a right signature lets a message in, and the token on the row decides
//! whether it may change anything.

use crate::ids::{Receipt, Token};
use crate::message::Handoff;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq as _};

/// A shared secret. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Shortest secret that is taken, in bytes.
pub const MIN_SECRET_BYTES: usize = 16;

impl Secret {
    /// Wraps a secret; `None` when it is shorter than [`MIN_SECRET_BYTES`].
    #[must_use]
    pub fn new(bytes: impl Into<Vec<u8>>) -> Option<Self> {
        let bytes = bytes.into();
        (bytes.len() >= MIN_SECRET_BYTES).then_some(Self(bytes))
    }
}

/// The receipt of a handoff under this token: always the same one, so that a repeat of the handoff gets what the first
/// one got, and nobody can tell the token from it.
#[must_use]
pub fn receipt_of(token: &Token) -> Receipt {
    let hash = Sha256::new().chain_update(b"glassline-receipt-1\n").chain_update(token.as_str()).finalize();
    let mut text = hex::encode(hash);
    text.truncate(32);
    Receipt::of_hash(text)
}

/// The secrets in force: the first signs, each verifies, so that one can be replaced without a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secrets {
    /// Signs and verifies.
    pub current: Secret,
    /// Still verifies during a rotation.
    pub previous: Option<Secret>,
}

fn mac_of(secret: &Secret, handoff: &Handoff) -> Option<Hmac<Sha256>> {
    // HMAC takes keys of any length, so this is always `Some`; a `None` would refuse, never accept.
    let mut mac = Hmac::<Sha256>::new_from_slice(&secret.0).ok()?;
    let params = if handoff.params.is_null() { String::new() } else { handoff.params.to_string() };
    let parts = [
        "glassline-handoff-1".to_owned(),
        handoff.job().to_string(),
        handoff.lane.to_string(),
        handoff.attempt.to_string(),
        handoff.token.as_str().to_owned(),
        handoff.slot.to_string(),
        handoff.media.to_string(),
        hex::encode(Sha256::digest(handoff.prompt.as_bytes())),
        hex::encode(Sha256::digest(params.as_bytes())),
    ];
    update(&mut mac, parts.iter().map(String::as_str));
    Some(mac)
}

fn tag_of(secret: &Secret, purpose: &'static str, parts: &[&str]) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(&secret.0).ok()?;
    update(&mut mac, std::iter::once(purpose).chain(parts.iter().copied()));
    Some(mac)
}

fn update<'a>(mac: &mut Hmac<Sha256>, parts: impl Iterator<Item = &'a str>) {
    for part in parts {
        // Length first, so that no two lists of parts have the same bytes.
        mac.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        mac.update(part.as_bytes());
    }
}

impl Secrets {
    /// Signs a handoff.
    #[must_use]
    pub fn sign(&self, mut handoff: Handoff) -> Handoff {
        handoff.mac = mac_of(&self.current, &handoff)
            .map(|mac| hex::encode(mac.finalize().into_bytes()))
            .unwrap_or_default();
        handoff
    }

    /// Signs texts for a purpose, hex. What is signed for one purpose verifies for no other.
    #[must_use]
    pub fn tag(&self, purpose: &'static str, parts: &[&str]) -> String {
        tag_of(&self.current, purpose, parts)
            .map(|mac| hex::encode(mac.finalize().into_bytes()))
            .unwrap_or_default()
    }

    /// Whether [`Secrets::tag`] signed these texts for this purpose, with a secret in force. Constant time in the tag.
    #[must_use]
    pub fn tagged(&self, purpose: &'static str, parts: &[&str], tag: &str) -> bool {
        let Ok(given) = hex::decode(tag) else { return false };
        let fits = |secret: &Secret| {
            tag_of(secret, purpose, parts).is_some_and(|mac| mac.verify_slice(&given).is_ok())
        };
        let current = fits(&self.current);
        let previous = self.previous.as_ref().is_some_and(fits);
        current | previous
    }

    /// Whether a handoff was signed with a secret in force. Constant time in the signature.
    #[must_use]
    pub fn verify(&self, handoff: &Handoff) -> bool {
        let Ok(given) = hex::decode(&handoff.mac) else { return false };
        let fits =
            |secret: &Secret| mac_of(secret, handoff).is_some_and(|mac| mac.verify_slice(&given).is_ok());
        let current = fits(&self.current);
        let previous = self.previous.as_ref().is_some_and(fits);
        current | previous
    }
    /// Whether what somebody presents is a secret in force. Digests of one length are compared, whole and each of them, so
    /// that the time says nothing of how much was right; it only grows with the length of what is presented.
    #[must_use]
    pub fn admit(&self, presented: &[u8]) -> bool {
        let digest = Sha256::digest(presented);
        let is = |secret: &Secret| Sha256::digest(&secret.0).ct_eq(&digest);
        let previous = self.previous.as_ref().map_or(Choice::from(0), is);
        (is(&self.current) | previous).into()
    }
}
