//! Steps that more than one function makes.

mod follow;
mod orphan;
mod parent;
mod reopen;
mod send;

pub use follow::{Followed, end_of, follow_ended, hold};
pub use orphan::give_up_task;
pub use parent::{close_if_ended, parent_step};
pub use reopen::{CantReopen, reopen};
pub use send::{send_all, send_one, wake};
