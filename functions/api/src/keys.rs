//! Keys in addresses. A key of the table has `#` between its parts, which an address can't carry; there it is `:`, which
//! no id contains: `/v1/jobs/POST:morning/SHOT:s1`, `/v1/jobs/EPISODE:main:000013/FRAME:2`. The table's own text is
//! understood too where it is percent-encoded (`POST%23morning`). Answers have both forms: `key`, and a `path` to follow.

use crate::problem::{Code, Problem};
use glassline_protocol::ids::{JobKey, MemberKey, ParentKey};

/// The schema of a parent in an address.
pub const PARENT: &str = "^(POST:[A-Za-z0-9._-]{1,64}|EPISODE:[A-Za-z0-9._-]{1,64}:[0-9]{6,10})$";
/// The schema of a member in an address.
pub const MEMBER: &str = "^(SHOT:[A-Za-z0-9._-]{1,64}|FRAME:[1-9][0-9]{0,2})$";

/// A key as it stands in an address.
#[must_use]
pub fn in_address(key: &impl std::fmt::Display) -> String {
    key.to_string().replace('#', ":")
}

/// Where a job is found.
#[must_use]
pub fn job_path(job: &JobKey) -> String {
    format!("/v1/jobs/{}", in_address(job))
}

fn bad(what: &'static str) -> impl Fn(glassline_protocol::ids::BadName) -> Problem {
    move |error| {
        let form = "write it as POST:id/SHOT:id or EPISODE:series:000001/FRAME:1";
        Problem::new(Code::BadParameter, format!("The {what} in the address can't be used: {error}; {form}."))
    }
}

/// Reads a parent from an address.
///
/// # Errors
/// A [`Problem`] for the caller.
pub fn parent(text: &str) -> Result<ParentKey, Problem> {
    text.replace(':', "#").parse().map_err(bad("parent"))
}

/// Reads a job's key from its two parts of an address.
///
/// # Errors
/// A [`Problem`] for the caller.
pub fn job(parent: &str, member: &str) -> Result<JobKey, Problem> {
    let member: MemberKey = member.replace(':', "#").parse().map_err(bad("member"))?;
    format!("{}/{member}", self::parent(parent)?).parse().map_err(bad("key"))
}
