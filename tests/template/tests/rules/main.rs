//! What `template.yaml` promises. A rule reads a template and says what breaks it; each is run on the template as it is, and
//! on copies of it with one fault each, which it must name.
//!
//! A new function needs its entry in `expected::FUNCTIONS`; everything else is derived from the template and the code.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod build;
mod environment;
mod expected;
mod faults;
mod permissions;
mod queues;
mod stores;
mod times;

use glassline_template::Template;

/// What a rule finds wrong, one sentence each.
type Findings = Vec<String>;

/// A rule and its name.
type Rule = (&'static str, fn(&Template) -> Findings);

const RULES: [Rule; 6] = [
    ("build", build::rule),
    ("environment", environment::rule),
    ("permissions", permissions::rule),
    ("queues", queues::rule),
    ("stores", stores::rule),
    ("times", times::rule),
];

#[test]
fn the_template_keeps_every_rule() {
    let template = Template::read();
    for (name, rule) in RULES {
        let found = rule(&template);
        assert!(found.is_empty(), "{name}: {found:#?}");
    }
}

/// A rule that finds nothing in a template with a fault is no rule.
#[test]
fn each_fault_is_found() {
    for (fault, sentence, change) in faults::FAULTS {
        let mut template = Template::read();
        let before = template.0.clone();
        change(&mut template.0);
        assert_ne!(template.0, before, "{fault}: nothing was changed");
        let found: Findings = RULES.iter().flat_map(|(_, rule)| rule(&template)).collect();
        assert!(
            found.iter().any(|found| found.contains(sentence)),
            "{fault}: {sentence:?} isn't in {found:#?}"
        );
    }
}
