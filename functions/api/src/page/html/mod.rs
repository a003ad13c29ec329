//! The pages as HTML. Every text is escaped by the template; there is no inline style or script, which the content
//! security policy wouldn't run.

mod forms;
mod held;
mod job;
mod lanes;
mod layout;
mod parent;
mod registry;
mod sign_in;
mod tile;

#[cfg(test)]
mod tests;

pub use held::held;
pub use job::job;
pub use lanes::lanes;
pub use layout::{Chrome, Place, Said, page};
pub use parent::{episode, post, series};
pub use registry::registry;
pub use sign_in::{problem, refused, sign_in};
