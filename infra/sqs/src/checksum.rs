//! The digests of SQS.

use std::collections::BTreeMap;

use md5::{Digest, Md5};
use sha2::Sha256;

use crate::types::{AttributeValue, MessageAttribute};

/// MD5 in lower-case hex, as `MD5OfMessageBody`.
pub(crate) fn md5_hex(bytes: &[u8]) -> String {
    hex::encode(Md5::digest(bytes))
}

/// SHA-256 in lower-case hex: the deduplication id of a FIFO message that is deduplicated by its content.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// `MD5OfMessageAttributes`: over each attribute in the order of their names, its name, type and value, each after its
/// length (4 bytes, big-endian), and 1 or 2 for text or bytes before the value
/// (<https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-message-metadata.html>).
pub(crate) fn md5_of_attributes(attributes: &BTreeMap<String, MessageAttribute>) -> Option<String> {
    if attributes.is_empty() {
        return None;
    }
    let mut digest = Md5::new();
    for (name, attribute) in attributes {
        part(&mut digest, name.as_bytes());
        part(&mut digest, attribute.data_type.as_bytes());
        match &attribute.value {
            AttributeValue::Text(text) => {
                digest.update([1]);
                part(&mut digest, text.as_bytes());
            }
            AttributeValue::Binary(bytes) => {
                digest.update([2]);
                part(&mut digest, bytes);
            }
        }
    }
    Some(hex::encode(digest.finalize()))
}

fn part(digest: &mut Md5, bytes: &[u8]) {
    // Nothing longer than a message (1 MiB) gets here, so the length always fits.
    digest.update(u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
    digest.update(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(pairs: &[(&str, &str)]) -> BTreeMap<String, MessageAttribute> {
        pairs
            .iter()
            .map(|(name, value)| {
                let value = AttributeValue::Text((*value).to_owned());
                ((*name).to_owned(), MessageAttribute { data_type: "String".to_owned(), value })
            })
            .collect()
    }

    /// Digests that AWS answered, as recorded in LocalStack's `tests/aws/services/sqs/test_sqs.snapshot.json`.
    #[test]
    fn digests_are_those_of_aws() {
        assert_eq!(md5_hex(b"msg"), "6e2baaf3b97dbeef01c0043275f9a0e7");
        assert_eq!(md5_of_attributes(&text(&[("Foo", "Bar")])).unwrap(), "ae7155c6026991b6d54b11589678bf9c");
        assert_eq!(
            md5_of_attributes(&text(&[("Hello", "There")])).unwrap(),
            "a311262e065454b75da111d535b8dacd"
        );
        let three = text(&[("Help.Me", "Me"), ("Hello", "There"), ("General", "Kenobi")]);
        assert_eq!(md5_of_attributes(&three).unwrap(), "4c360f3fdafd970e05fae2f149d997f5");
        let bytes = b"traceparent\x1e00-774062d6c37081a5a0b9b5b88e30627c-2d2482211f6489da-01".to_vec();
        let binary =
            MessageAttribute { data_type: "Binary".to_owned(), value: AttributeValue::Binary(bytes) };
        let binary = BTreeMap::from([("attr1".to_owned(), binary)]);
        assert_eq!(md5_of_attributes(&binary).unwrap(), "8cbe4db156db8a94db8b801b7addb984");
        assert_eq!(md5_of_attributes(&BTreeMap::new()), None);
    }
}
