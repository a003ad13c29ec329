//! Steps that more than one function makes.

mod follow;
mod orphan;
mod send;

pub use follow::{Followed, end_of, follow_ended, hold, parent_step};
pub use orphan::give_up_task;
pub use send::{send_all, send_one, wake};
