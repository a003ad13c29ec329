//! Which fault meets which request: by rule, by percentage, by seed.

use super::answers::Operation;
use crate::draw;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// The request never arrives: it isn't forwarded, the connection closes.
    LoseRequest,
    /// The request arrives and is done, its answer is lost: the connection closes.
    LoseReply,
    /// Another transaction is at the same item: `TransactionConflictException` for `PutItem`, `UpdateItem` and
    /// `DeleteItem`, `TransactionCanceledException` with the reason `TransactionConflict` for one of the items of
    /// `TransactWriteItems` and `TransactGetItems`. Not forwarded. Other operations never meet it.
    Conflict,
    /// `ProvisionedThroughputExceededException`, DynamoDB only. Not forwarded.
    ThroughputExceeded,
    /// DynamoDB's `ThrottlingException` or SQS's `RequestThrottled`. Not forwarded.
    Throttling,
    /// The request waits before it is forwarded, or before another fault meets it.
    Delay {
        /// For how long.
        delay_ms: u64,
    },
}

/// One kind of fault and when it happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultRule {
    /// What happens.
    pub kind: FaultKind,
    /// To how many of the requests that the rule is about, 0 to 100; more counts as 100.
    pub percent: u8,
    /// Only to requests with this `X-Amz-Target`: an operation (`PutItem`) or the whole header.
    pub target: Option<String>,
    /// At most so many times; with 100 percent, to the next so many requests.
    pub limit: Option<u64>,
}

impl FaultRule {
    /// Any request, without a limit.
    pub fn new(kind: FaultKind, percent: u8) -> Self {
        Self { kind, percent, target: None, limit: None }
    }

    /// The same rule for one operation only.
    #[must_use]
    pub fn on(mut self, target: impl Into<String>) -> Self {
        self.target = Some(target.into());
        self
    }

    /// The same rule, at most so many times.
    #[must_use]
    pub fn at_most(mut self, limit: u64) -> Self {
        self.limit = Some(limit);
        self
    }
}

/// The faults of a proxy. The default has none.
///
/// Every rule draws from a stream of its own: for the same requests in the same order the same faults come, and a rule
/// more at the end doesn't change the others. The first rule that hits decides; delays add up before it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProxyFaults {
    /// Where the streams start.
    pub seed: u64,
    /// The rules, in order.
    pub rules: Vec<FaultRule>,
}

/// What is to happen to one request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) delay_ms: u64,
    pub(super) fault: Option<FaultKind>,
    /// A random number for whatever the fault has to choose.
    pub(super) choice: u64,
}

/// The rules and how far their streams are.
#[derive(Debug, Default)]
pub(super) struct Faults {
    settings: ProxyFaults,
    /// Per rule: the requests it was about, and how often it hit.
    drawn: Vec<(u64, u64)>,
}

impl Faults {
    pub(super) fn new(settings: ProxyFaults) -> Self {
        let drawn = vec![(0, 0); settings.rules.len()];
        Self { settings, drawn }
    }

    /// Decides on the next request.
    pub(super) fn plan(&mut self, operation: &Operation) -> Plan {
        let mut plan = Plan::default();
        let seed = self.settings.seed;
        for (index, (rule, (about, hits))) in self.settings.rules.iter().zip(&mut self.drawn).enumerate() {
            if !is_about(rule, operation) {
                continue;
            }
            let drawn = draw::number(seed, index as u64, *about);
            *about += 1;
            if !draw::is_among(drawn, rule.percent) || rule.limit.is_some_and(|limit| *hits >= limit) {
                continue;
            }
            let delay_ms = match rule.kind {
                FaultKind::Delay { delay_ms } => Some(delay_ms),
                FaultKind::LoseRequest
                | FaultKind::LoseReply
                | FaultKind::Conflict
                | FaultKind::ThroughputExceeded
                | FaultKind::Throttling => None,
            };
            match delay_ms {
                Some(delay_ms) => plan.delay_ms = plan.delay_ms.saturating_add(delay_ms),
                // A later rule is still drawn, so that its stream doesn't depend on this one, but doesn't count.
                None if plan.fault.is_some() => continue,
                None => (plan.fault, plan.choice) = (Some(rule.kind), draw::mixed(drawn)),
            }
            *hits += 1;
        }
        plan
    }
}

/// Whether a rule is about a request: by its target, and because the fault exists there.
fn is_about(rule: &FaultRule, operation: &Operation) -> bool {
    let meant = rule.target.as_deref().is_none_or(|target| operation.is(target));
    meant
        && match rule.kind {
            FaultKind::LoseRequest | FaultKind::LoseReply | FaultKind::Delay { .. } => true,
            FaultKind::Conflict => operation.can_conflict(),
            FaultKind::ThroughputExceeded => operation.is_dynamodb(),
            FaultKind::Throttling => operation.is_dynamodb() || operation.is_sqs(),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put() -> Operation {
        Operation::new("DynamoDB_20120810.PutItem")
    }

    fn hits(faults: &mut Faults, operation: &Operation, requests: usize) -> Vec<usize> {
        (0..requests).filter(|_| faults.plan(operation).fault.is_some()).collect()
    }

    fn with(seed: u64, rules: &[FaultRule]) -> Faults {
        Faults::new(ProxyFaults { seed, rules: rules.to_vec() })
    }

    #[test]
    fn the_same_seed_gives_the_same_faults_at_about_the_rate_asked_for() {
        let rules = [FaultRule::new(FaultKind::LoseReply, 20)];
        let first = hits(&mut with(7, &rules), &put(), 1_000);
        assert_eq!(first, hits(&mut with(7, &rules), &put(), 1_000));
        assert_ne!(first, hits(&mut with(8, &rules), &put(), 1_000));
        assert!((150..250).contains(&first.len()), "{}", first.len());
        assert_eq!(hits(&mut with(7, &[FaultRule::new(FaultKind::LoseReply, 0)]), &put(), 1_000).len(), 0);
        assert_eq!(
            hits(&mut with(7, &[FaultRule::new(FaultKind::LoseReply, 255)]), &put(), 1_000).len(),
            1_000
        );
    }

    #[test]
    fn one_rule_does_not_change_when_another_hits() {
        let reply = FaultRule::new(FaultKind::LoseReply, 20);
        let request = FaultRule::new(FaultKind::LoseRequest, 20);
        let delay = FaultRule::new(FaultKind::Delay { delay_ms: 5 }, 20);
        let of = |rules: &[FaultRule], wanted: FaultKind| -> Vec<usize> {
            let mut faults = with(3, rules);
            (0..500).filter(|_| faults.plan(&put()).fault == Some(wanted)).collect()
        };
        let alone = of(std::slice::from_ref(&reply), FaultKind::LoseReply);
        assert_eq!(alone, of(&[reply.clone(), request.clone(), delay], FaultKind::LoseReply));
        let both = of(&[reply.clone(), request.clone()], FaultKind::LoseRequest);
        assert!(both.iter().all(|at| !alone.contains(at)), "one request met two faults");
        assert!(!both.is_empty());
    }

    #[test]
    fn a_rule_is_about_its_target_and_only_where_its_fault_exists() {
        let conflict = FaultRule::new(FaultKind::Conflict, 100);
        let cases = [
            (conflict.clone(), "DynamoDB_20120810.PutItem", true),
            (conflict.clone(), "DynamoDB_20120810.TransactWriteItems", true),
            (conflict.clone(), "DynamoDB_20120810.Query", false),
            (conflict.clone(), "AmazonSQS.SendMessage", false),
            (conflict.on("UpdateItem"), "DynamoDB_20120810.PutItem", false),
            (FaultRule::new(FaultKind::ThroughputExceeded, 100), "AmazonSQS.SendMessage", false),
            (FaultRule::new(FaultKind::Throttling, 100), "AmazonSQS.SendMessage", true),
            (
                FaultRule::new(FaultKind::LoseReply, 100).on("AmazonSQS.SendMessage"),
                "AmazonSQS.SendMessage",
                true,
            ),
            (
                FaultRule::new(FaultKind::LoseReply, 100).on("SendMessage"),
                "AmazonSQS.SendMessageBatch",
                false,
            ),
            (FaultRule::new(FaultKind::LoseReply, 100), "", true),
        ];
        for (rule, target, expected) in cases {
            let plan = with(1, std::slice::from_ref(&rule)).plan(&Operation::new(target));
            assert_eq!(plan.fault.is_some(), expected, "{rule:?} on {target:?}");
        }
    }

    #[test]
    fn a_limit_counts_hits_and_delays_add_up() {
        let rules = [
            FaultRule::new(FaultKind::Delay { delay_ms: 5 }, 100).at_most(1),
            FaultRule::new(FaultKind::Delay { delay_ms: 7 }, 100),
            FaultRule::new(FaultKind::LoseRequest, 100).at_most(2),
        ];
        let mut faults = with(1, &rules);
        let plans: Vec<(u64, bool)> =
            (0..3).map(|_| faults.plan(&put())).map(|plan| (plan.delay_ms, plan.fault.is_some())).collect();
        assert_eq!(plans, [(12, true), (7, true), (7, false)]);
    }
}
