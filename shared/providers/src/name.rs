//! How our reference looks at a provider. A namespace keeps two installations that share an account, or two tables one
//! after the other, from taking each other's renders for their own: their references may be equal.

use glassline_protocol::provider::Reference;
use sha2::{Digest, Sha256};

/// The forms of one reference.
pub(crate) struct Name {
    text: String,
    digest: [u8; 32],
}

impl Name {
    /// The name of a reference within a namespace; an empty namespace is none.
    pub(crate) fn new(namespace: &str, reference: &Reference) -> Self {
        let text =
            if namespace.is_empty() { reference.to_string() } else { format!("{namespace}/{reference}") };
        let digest =
            Sha256::new().chain_update(b"glassline-reference-1\n").chain_update(&text).finalize().into();
        Self { text, digest }
    }

    /// `namespace/parent/member/attempt`: visible ASCII, at most 286 bytes.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// 64 lower-case hex digits.
    pub(crate) fn hash(&self) -> String {
        hex::encode(self.digest)
    }

    /// A UUID of version 8, made of the hash (<https://www.rfc-editor.org/rfc/rfc9562#name-uuid-version-8>).
    pub(crate) fn uuid(&self) -> String {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.digest[..16]);
        bytes[6] = (bytes[6] & 0x0f) | 0x80;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        let hex = hex::encode(bytes);
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_protocol::ids::{Id, JobKey};

    #[test]
    fn names_differ_by_namespace_and_attempt_and_keep_their_form() {
        let job = JobKey::shot(Id::new("p1").unwrap(), Id::new("s1").unwrap());
        let of = |namespace: &str, attempt| Name::new(namespace, &Reference { job: job.clone(), attempt });
        assert_eq!(of("", 1).text(), "POST#p1/SHOT#s1/1");
        assert_eq!(of("prod", 2).text(), "prod/POST#p1/SHOT#s1/2");
        assert_ne!(of("prod", 1).uuid(), of("test", 1).uuid());
        assert_ne!(of("", 1).hash(), of("", 2).hash());
        let uuid = of("", 1).uuid();
        assert_eq!((uuid.len(), &uuid[14..15]), (36, "8"));
        assert!("89ab".contains(&uuid[19..20]), "{uuid}");
        assert_eq!(of("", 1).hash().len(), 64);
    }
}
