//! The embedded stack: table, queues, functions as processes, event source mappings and schedule in one process.

mod draw;
pub mod lambda;
pub mod mapping;
pub mod proxy;
pub mod schedule;
