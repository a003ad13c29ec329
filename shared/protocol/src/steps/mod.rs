//! Steps that more than one function makes.

mod asked;
mod callback;
mod cancel;
mod follow;
mod orphan;
mod outside;
mod parent;
mod reopen;
mod requeue;
mod review;
mod send;

pub use asked::Asked;
pub use callback::called_back;
pub use cancel::cancel;
pub use follow::{Followed, end_of, follow_ended, hold};
pub use orphan::give_up_task;
pub use outside::{Acceptance, GivenBack, HandedOver, acceptance, give_back, hand_over, params_of};
pub use parent::{close_if_ended, parent_step};
pub use reopen::{CantReopen, reopen};
pub use requeue::{Resolution, requeue, resolve, wake_lane};
pub use review::{Review, review};
pub use send::{send_all, send_one, wake};
