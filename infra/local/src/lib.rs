//! The embedded stack: table, queues, functions as processes, event source mappings and schedule in one process.
//!
//! [`stack::Stack`] puts it together; [`stores::Stores`] is the part that keeps data, and can be opened alone.

mod draw;
pub mod lambda;
pub mod lanes;
pub mod logs;
pub mod mapping;
pub mod proxy;
pub mod schedule;
pub mod stack;
pub mod stores;
pub mod url;
