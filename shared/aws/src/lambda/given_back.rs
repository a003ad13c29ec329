//! Giving a message back: it becomes visible again after a time that fits how often it was tried, instead of after its
//! queue's whole visibility timeout.

use std::future::Future;

/// A message to give back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenBack {
    /// Its queue's address, as SQS writes it.
    pub queue_url: String,
    /// The handle of the receive under way.
    pub receipt: String,
    /// How often it was received, this receive included.
    pub receives: u32,
}

/// An address from a queue's ARN, `arn:partition:sqs:region:account:name`. Its host only has to be well formed: the client
/// sends to its own endpoint, and SQS finds the queue by the path.
fn queue_url(arn: &str) -> Option<String> {
    let mut parts = arn.split(':');
    let (Some("arn"), Some(partition), Some("sqs")) = (parts.next(), parts.next(), parts.next()) else {
        return None;
    };
    let (Some(region), Some(account), Some(name), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    let plain = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    if ![partition, region, account, name].into_iter().all(plain) {
        return None;
    }
    let domain = if partition == "aws-cn" { "amazonaws.com.cn" } else { "amazonaws.com" };
    Some(format!("https://sqs.{region}.{domain}/{account}/{name}"))
}

impl GivenBack {
    /// From what a record says; `None` when it doesn't say all of it.
    pub(super) fn new(arn: &str, receipt: String, receives: Option<u32>) -> Option<Self> {
        if receipt.is_empty() {
            return None;
        }
        Some(Self { queue_url: queue_url(arn)?, receipt, receives: receives? })
    }
}

/// Gives messages back. Best effort: what can't be given back comes again when its visibility ends.
pub trait GiveBack {
    /// Gives these back.
    fn give_back(&self, messages: Vec<GivenBack>) -> impl Future<Output = ()> + Send;
}

/// Leaves every message to its visibility timeout.
impl GiveBack for () {
    async fn give_back(&self, _: Vec<GivenBack>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arn_names_the_queue() {
        let url = queue_url("arn:aws:sqs:eu-central-1:123456789012:app-render").unwrap();
        assert_eq!(url, "https://sqs.eu-central-1.amazonaws.com/123456789012/app-render");
        let url = queue_url("arn:aws-cn:sqs:cn-north-1:123456789012:q").unwrap();
        assert_eq!(url, "https://sqs.cn-north-1.amazonaws.com.cn/123456789012/q");
        for bad in ["", "arn:aws:sns:r:1:q", "arn:aws:sqs:r:1", "arn:aws:sqs:r:1:q:x", "arn:aws:sqs:r/..:1:q"]
        {
            assert_eq!(queue_url(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_record_that_does_not_say_all_is_left_to_its_visibility() {
        let arn = "arn:aws:sqs:us-east-1:000000000000:render";
        assert!(GivenBack::new(arn, "handle".into(), Some(2)).is_some());
        assert_eq!(GivenBack::new(arn, "handle".into(), None), None);
        assert_eq!(GivenBack::new(arn, String::new(), Some(2)), None);
        assert_eq!(GivenBack::new("render", "handle".into(), Some(2)), None);
    }
}
