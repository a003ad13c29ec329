//! Identifiers in the shapes AWS gives them.
#![allow(
    clippy::disallowed_methods,
    reason = "request ids and time stamps of the host are not the protocol's"
)]

use std::time::{SystemTime, UNIX_EPOCH};

/// The longest trace header that is passed on.
const MAX_TRACE_BYTES: usize = 512;

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if getrandom::fill(&mut bytes).is_err() {
        // No randomness is no reason to refuse an invocation: these ids only need to differ.
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_le_bytes();
        bytes.iter_mut().zip(nanos).for_each(|(byte, nano)| *byte = nano);
    }
    bytes
}

/// 32 hexadecimal digits.
pub(super) fn hex_id() -> String {
    hex::encode(random::<16>())
}

/// A version 4 UUID, as request ids are.
pub(crate) fn uuid() -> String {
    let mut bytes = random::<16>();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let digits = hex::encode(bytes);
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

/// The caller's trace header, or a fresh one when there is none or it can't be an HTTP header: it may come from a
/// message, so from anybody
/// (<https://docs.aws.amazon.com/xray/latest/devguide/xray-concepts.html#xray-concepts-tracingheader>).
pub(super) fn trace_or_new(given: Option<String>) -> String {
    given
        .filter(|trace| {
            (1..=MAX_TRACE_BYTES).contains(&trace.len())
                && trace.bytes().all(|byte| (b' '..=b'~').contains(&byte))
        })
        .unwrap_or_else(|| {
            let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            let (root, parent) = (hex::encode(random::<12>()), hex::encode(random::<8>()));
            format!("Root=1-{seconds:08x}-{root};Parent={parent};Sampled=0")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_their_shapes_and_differ() {
        let (one, two) = (uuid(), uuid());
        assert_ne!(one, two);
        assert_eq!(one.len(), 36);
        assert_eq!(&one[14..15], "4");
        assert!(matches!(&one[19..20], "8" | "9" | "a" | "b"));
        assert_eq!(hex_id().len(), 32);
    }

    #[test]
    fn only_a_trace_that_can_be_a_header_is_passed_on() {
        let good = "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1";
        assert_eq!(trace_or_new(Some(good.to_owned())), good);
        for bad in ["", "a\r\nb: c", "é", &"x".repeat(513)] {
            assert!(trace_or_new(Some(bad.to_owned())).starts_with("Root=1-"), "{bad}");
        }
    }
}
