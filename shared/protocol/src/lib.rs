//! Glassline's rules: rows, transitions, admission, messages and the ports, free of AWS, HTTP, clock and randomness.

pub mod admission;
pub mod body;
pub mod bulk;
pub mod explain;
pub mod ids;
pub mod intake;
pub mod ledger;
pub mod message;
pub mod note;
pub mod ports;
pub mod provider;
pub mod rank;
pub mod registry;
pub mod row;
pub mod rule;
pub mod settings;
pub mod settle;
pub mod sign;
pub mod steps;
pub mod transition;
pub mod vault;
