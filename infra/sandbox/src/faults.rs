//! Faults on demand: rules that pick references, and the counts of what was really done to them.

use crate::config::ConfigError;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashSet};

/// What can go wrong on demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// POST: the connection closes before the render is accepted.
    DropRequest,
    /// POST: 500, not accepted.
    ErrorBefore,
    /// POST: 429 with `Retry-After` (`value` seconds, 1 unless told), not accepted.
    RejectThrottled,
    /// POST: 400 `content_moderated`, not accepted.
    RejectModeration,
    /// POST: 402 `payment_required`, not accepted.
    RejectPayment,
    /// POST: 401 `unauthorized`, not accepted.
    RejectUnauthorized,
    /// POST: 400 `invalid_request`, not accepted.
    RejectInvalid,
    /// POST: accepted, then the answer waits for `value` milliseconds (1,000 unless told).
    SlowAnswerMs,
    /// POST: accepted, then the connection closes without an answer.
    DropAnswer,
    /// POST: accepted, answered with 502.
    ErrorAfter,
    /// The render never ends unless it is cancelled.
    NeverFinish,
    /// The render ends failed, for a passing reason.
    FailRender,
    /// The render ends failed, refused by moderation.
    FailModeration,
    /// A status answer has a word that is documented nowhere.
    UnknownStatusWord,
    /// A request to cancel is answered kindly and ignored.
    CancelIgnored,
    /// The output's second half is missing, under a `Content-Length` that agrees with the rest.
    TruncatedOutput,
    /// The output is a web page, with 200.
    HtmlOutput,
    /// The output has no bytes, with 200.
    EmptyOutput,
    /// The output is gone: 410.
    OutputGone,
    /// A callback is sent twice.
    DuplicateCallbacks,
}

/// The faults of a POST that keep it from being accepted, in the order in which they are tried.
pub(crate) const BEFORE_ACCEPT: &[FaultKind] = &[
    FaultKind::DropRequest,
    FaultKind::ErrorBefore,
    FaultKind::RejectUnauthorized,
    FaultKind::RejectPayment,
    FaultKind::RejectThrottled,
    FaultKind::RejectInvalid,
    FaultKind::RejectModeration,
];
/// How a render ends.
pub(crate) const ENDINGS: &[FaultKind] =
    &[FaultKind::NeverFinish, FaultKind::FailRender, FaultKind::FailModeration];
/// The faults of a POST that was accepted.
pub(crate) const AFTER_ACCEPT: &[FaultKind] = &[FaultKind::DropAnswer, FaultKind::ErrorAfter];
/// The faults of a download.
pub(crate) const OUTPUTS: &[FaultKind] =
    &[FaultKind::OutputGone, FaultKind::HtmlOutput, FaultKind::EmptyOutput, FaultKind::TruncatedOutput];

impl FaultKind {
    /// What a POST or a status answer does is done once per reference unless the rule says otherwise, so that asking
    /// again gets through; what a render or its output *is* stays so.
    const fn once_by_default(self) -> bool {
        match self {
            Self::DropRequest
            | Self::ErrorBefore
            | Self::RejectThrottled
            | Self::RejectModeration
            | Self::RejectPayment
            | Self::RejectUnauthorized
            | Self::RejectInvalid
            | Self::SlowAnswerMs
            | Self::DropAnswer
            | Self::ErrorAfter
            | Self::UnknownStatusWord
            | Self::DuplicateCallbacks => true,
            Self::NeverFinish
            | Self::FailRender
            | Self::FailModeration
            | Self::CancelIgnored
            | Self::TruncatedOutput
            | Self::HtmlOutput
            | Self::EmptyOutput
            | Self::OutputGone => false,
        }
    }
}

/// One fault and when it is done: exactly one of `percent`, `references` and `next` is given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultRule {
    /// What to do.
    pub fault: FaultKind,
    /// To this share of all references, 0 to 100. Which ones depends on `seed` and the reference alone, so the order
    /// of the calls doesn't matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<f64>,
    /// Picks other references for the same percentage.
    #[serde(default)]
    pub seed: u64,
    /// To these references.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub references: Option<Vec<String>>,
    /// To the next so many calls (POSTs, renders, downloads …, whatever the fault is about); counts down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u32>,
    /// Only for this account; absent: for every account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// At most once per reference. Absent: true for what a POST, a status answer or a callback does, false for what a
    /// render or its output is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub once_per_reference: Option<bool>,
    /// Seconds or milliseconds, for the faults that have a size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<u64>,
}

impl FaultRule {
    const fn bare(fault: FaultKind) -> Self {
        Self {
            fault,
            percent: None,
            seed: 0,
            references: None,
            next: None,
            account: None,
            once_per_reference: None,
            value: None,
        }
    }

    /// This fault for a share of all references.
    #[must_use]
    pub fn percent(fault: FaultKind, percent: f64, seed: u64) -> Self {
        Self { percent: Some(percent), seed, ..Self::bare(fault) }
    }

    /// This fault for these references.
    #[must_use]
    pub fn references<T: Into<String>>(fault: FaultKind, references: impl IntoIterator<Item = T>) -> Self {
        Self { references: Some(references.into_iter().map(Into::into).collect()), ..Self::bare(fault) }
    }

    /// This fault for the next `count` calls.
    #[must_use]
    pub fn next(fault: FaultKind, count: u32) -> Self {
        Self { next: Some(count), ..Self::bare(fault) }
    }

    /// The same rule for one account only.
    #[must_use]
    pub fn for_account(mut self, account: impl Into<String>) -> Self {
        self.account = Some(account.into());
        self
    }

    /// The same rule, at most once per reference or every time.
    #[must_use]
    pub const fn once_per_reference(mut self, once: bool) -> Self {
        self.once_per_reference = Some(once);
        self
    }

    /// The same rule with a size (seconds or milliseconds, see the fault).
    #[must_use]
    pub const fn value(mut self, value: u64) -> Self {
        self.value = Some(value);
        self
    }

    fn picks(&self, reference: &str) -> bool {
        if let Some(percent) = self.percent {
            return f64::from(draw(self.seed, self.fault, reference)) < percent * 100.0;
        }
        if let Some(references) = &self.references {
            return references.iter().any(|listed| listed == reference);
        }
        self.next.is_some_and(|left| left > 0)
    }
}

/// A number from 0 to 9,999 that depends on nothing but its arguments.
fn draw(seed: u64, fault: FaultKind, reference: &str) -> u32 {
    let digest = Sha256::digest(format!("{seed}/{fault:?}/{reference}").as_bytes());
    let bytes = [digest[0], digest[1], digest[2], digest[3]];
    u32::from_be_bytes(bytes) % 10_000
}

/// Checks a list of rules.
///
/// # Errors
/// [`ConfigError::Fault`] names the first rule that can't be used.
pub fn check_rules(rules: &[FaultRule]) -> Result<(), ConfigError> {
    for (index, rule) in rules.iter().enumerate() {
        let bad = |rule| Err(ConfigError::Fault { position: index + 1, rule });
        let ways = [rule.percent.is_some(), rule.references.is_some(), rule.next.is_some()];
        if ways.iter().filter(|given| **given).count() != 1 {
            return bad("give exactly one of `percent`, `references` and `next`");
        }
        if rule.percent.is_some_and(|percent| !(0.0..=100.0).contains(&percent)) {
            return bad("`percent` must be from 0 to 100");
        }
        if rule.value.is_some_and(|value| value > 600_000) {
            return bad("`value` must be at most 600000");
        }
    }
    if rules.len() > 1_000 {
        return Err(ConfigError::Fault { position: 1_001, rule: "at most 1000 rules are kept" });
    }
    Ok(())
}

/// The rules in force and what they have done so far.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct FaultsView {
    /// The rules; `next` shows what is left.
    pub rules: Vec<FaultRule>,
    /// How often each fault was really done since the start, whatever the rules were then.
    pub fired: BTreeMap<FaultKind, u64>,
}

/// The rules, with what they remember.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    rules: Vec<FaultRule>,
    done: Vec<HashSet<(String, String)>>,
    fired: BTreeMap<FaultKind, u64>,
}

impl Faults {
    /// Replaces the rules; the counts stay.
    pub(crate) fn set(&mut self, rules: Vec<FaultRule>) {
        self.done = vec![HashSet::new(); rules.len()];
        self.rules = rules;
    }

    /// Decides whether one of these faults is done now, and counts it. The first rule that picks the reference wins.
    pub(crate) fn fire(
        &mut self,
        account: &str,
        reference: &str,
        kinds: &[FaultKind],
    ) -> Option<(FaultKind, Option<u64>)> {
        let place = (account.to_owned(), reference.to_owned());
        for (rule, done) in self.rules.iter_mut().zip(&mut self.done) {
            let mine = rule.account.as_ref().is_none_or(|only| only == account);
            if !mine || !kinds.contains(&rule.fault) || !rule.picks(reference) {
                continue;
            }
            let once = rule.once_per_reference.unwrap_or(rule.fault.once_by_default());
            if once && !done.insert(place.clone()) {
                continue;
            }
            if let Some(left) = &mut rule.next {
                *left -= 1;
            }
            *self.fired.entry(rule.fault).or_default() += 1;
            return Some((rule.fault, rule.value));
        }
        None
    }

    /// What `GET /faults` shows.
    pub(crate) fn view(&self) -> FaultsView {
        FaultsView { rules: self.rules.clone(), fired: self.fired.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(rules: Vec<FaultRule>) -> Faults {
        let mut faults = Faults::default();
        faults.set(rules);
        faults
    }

    #[test]
    fn a_percentage_is_about_right_and_does_not_depend_on_the_order() {
        let rule = FaultRule::percent(FaultKind::NeverFinish, 20.0, 7);
        let names: Vec<String> = (0..2_000).map(|n| format!("POST#p{n}/SHOT#s1/1")).collect();
        let picked: Vec<bool> = names.iter().map(|name| rule.picks(name)).collect();
        let count = picked.iter().filter(|yes| **yes).count();
        assert!((300..500).contains(&count), "{count} of 2000 at 20 percent");
        let mut again = faults(vec![rule]);
        for (name, yes) in names.iter().zip(picked).rev() {
            assert_eq!(again.fire("a", name, ENDINGS).is_some(), yes);
        }
        assert_eq!(again.view().fired[&FaultKind::NeverFinish], count as u64);
        let none = FaultRule::percent(FaultKind::NeverFinish, 0.0, 7);
        let all = FaultRule::percent(FaultKind::NeverFinish, 100.0, 7);
        assert!(names.iter().all(|name| !none.picks(name) && all.picks(name)));
    }

    #[test]
    fn once_per_reference_and_next_count_down() {
        let mut once = faults(vec![FaultRule::percent(FaultKind::DropAnswer, 100.0, 1)]);
        assert!(once.fire("a", "r1", AFTER_ACCEPT).is_some());
        assert!(once.fire("a", "r1", AFTER_ACCEPT).is_none());
        assert!(once.fire("b", "r1", AFTER_ACCEPT).is_some(), "another account's reference is another one");
        let every = FaultRule::percent(FaultKind::DropAnswer, 100.0, 1).once_per_reference(false);
        let mut every = faults(vec![every.for_account("a")]);
        assert!(every.fire("a", "r1", AFTER_ACCEPT).is_some());
        assert!(every.fire("a", "r1", AFTER_ACCEPT).is_some());
        assert!(every.fire("b", "r1", AFTER_ACCEPT).is_none());
        let mut next = faults(vec![FaultRule::next(FaultKind::OutputGone, 2)]);
        assert!(next.fire("a", "r", BEFORE_ACCEPT).is_none());
        assert!(next.fire("a", "r", OUTPUTS).is_some());
        assert!(next.fire("a", "r", OUTPUTS).is_some());
        assert!(next.fire("a", "r", OUTPUTS).is_none());
        assert_eq!(next.view().rules[0].next, Some(0));
    }

    #[test]
    fn a_rule_has_one_way_to_pick() {
        let both = FaultRule { next: Some(1), ..FaultRule::percent(FaultKind::DropAnswer, 1.0, 1) };
        for bad in [
            both,
            FaultRule::bare(FaultKind::DropAnswer),
            FaultRule::percent(FaultKind::DropAnswer, 101.0, 1),
            FaultRule::percent(FaultKind::DropAnswer, f64::NAN, 1),
            FaultRule::next(FaultKind::SlowAnswerMs, 1).value(600_001),
        ] {
            assert!(
                check_rules(&[FaultRule::next(FaultKind::DropAnswer, 1), bad.clone()]).is_err(),
                "{bad:?}"
            );
        }
        let text = r#"{"fault":"drop_answer","percent":5,"typo":1}"#;
        assert!(serde_json::from_str::<FaultRule>(text).is_err());
    }
}
