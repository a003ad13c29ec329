//! The X-Ray trace that a piece of work belongs to, carried from the record that caused it to what it sends.

use std::future::Future;

tokio::task_local! {
    static TRACE: Option<Trace>;
}

/// Name of SQS's system attribute for it.
pub const ATTRIBUTE: &str = "AWSTraceHeader";
/// The longest header that is read, in bytes.
const MAX_BYTES: usize = 512;

/// A trace header whose form was checked: SQS refuses a message with another.
///
/// Of the header only `Root`, `Parent` and `Sampled` are kept
/// (<https://docs.aws.amazon.com/xray/latest/devguide/xray-concepts.html#xray-concepts-tracingheader>). `Lineage`, by which
/// Lambda counts how often a chain of messages came back to a function, is left out: chains of polls are meant to come
/// back, and end with their lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    header: String,
    root: String,
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

fn is_root(text: &str) -> bool {
    let mut parts = text.split('-');
    let parts = (parts.next(), parts.next(), parts.next(), parts.next());
    matches!(parts, (Some("1"), Some(time), Some(id), None) if is_hex(time, 8) && is_hex(id, 24))
}

impl Trace {
    /// Reads a header; `None` when it names no trace or isn't one.
    #[must_use]
    pub fn parse(header: &str) -> Option<Self> {
        if header.len() > MAX_BYTES {
            return None;
        }
        let (mut root, mut parent, mut sampled) = (None, None, None);
        for part in header.split(';') {
            let (name, value) = part.trim().split_once('=')?;
            match name {
                "Root" if is_root(value) => root = Some(value),
                "Parent" if is_hex(value, 16) => parent = Some(value),
                "Sampled" if ["0", "1"].contains(&value) => sampled = Some(value),
                "Root" | "Parent" | "Sampled" => return None,
                // Lineage, Self and whatever is added.
                _ => {}
            }
        }
        let root = root?;
        let mut header = format!("Root={root}");
        for (name, value) in [("Parent", parent), ("Sampled", sampled)] {
            if let Some(value) = value {
                header.push_str(&format!(";{name}={value}"));
            }
        }
        Some(Self { header, root: root.to_owned() })
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> &str {
        &self.header
    }

    /// The trace's id, as X-Ray and the logs show it.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.root
    }
}

/// Runs work that belongs to a trace; without one, to the trace that it is called in.
pub async fn scope<F: Future>(trace: Option<Trace>, work: F) -> F::Output {
    let trace = trace.or_else(current);
    TRACE.scope(trace, work).await
}

/// The trace that the work under way belongs to.
#[must_use]
pub fn current() -> Option<Trace> {
    TRACE.try_with(Clone::clone).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "Root=1-5759e988-bd862e3fe1be46a994272793";

    #[test]
    fn a_header_is_kept_without_what_lambda_counts_by() {
        let text = format!("{ROOT};Parent=53995c3f42cd8ad8;Sampled=1;Lineage=1:e34f5ab3:0;Self=x");
        let trace = Trace::parse(&text).unwrap();
        assert_eq!(trace.header(), format!("{ROOT};Parent=53995c3f42cd8ad8;Sampled=1"));
        assert_eq!(trace.id(), "1-5759e988-bd862e3fe1be46a994272793");
        assert_eq!(Trace::parse(ROOT).unwrap().header(), ROOT);
    }

    #[test]
    fn what_sqs_would_refuse_is_no_header() {
        for bad in [
            "",
            "Root",
            "Root=1-5759e988-bd862e3fe1be46a99427279",
            "Root=2-5759e988-bd862e3fe1be46a994272793",
            "Root=1-5759E988-bd862e3fe1be46a994272793",
            "Parent=53995c3f42cd8ad8",
            "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=maybe",
            "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=\u{e9}",
        ] {
            assert_eq!(Trace::parse(bad), None, "{bad}");
        }
        assert_eq!(Trace::parse(&format!("{ROOT};Self={}", "x".repeat(600))), None);
    }

    #[tokio::test]
    async fn work_belongs_to_the_innermost_trace() {
        assert_eq!(current(), None);
        let outer = Trace::parse(ROOT);
        let inner = Trace::parse("Root=1-00000000-000000000000000000000000");
        scope(outer.clone(), async {
            assert_eq!(current(), outer);
            scope(inner.clone(), async { assert_eq!(current(), inner) }).await;
            scope(None, async { assert_eq!(current(), outer) }).await;
        })
        .await;
    }
}
