//! What people ask for: each request names the attempt it means, and a request about another one changes nothing.

use crate::ids::{Attempt, JobKey};
use crate::note::Did;
use crate::ports::{JobView, Store};
use crate::row::JobRow;
use crate::settle::Fault;

/// What a request came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// It is so, now or by an equal request before; the job as it is now.
    Done(Did, Box<JobRow>),
    /// The job isn't, or is no longer, what the request meant. Nothing changed by it; why, and the job as it is.
    Refused(String, Box<JobRow>),
    /// There is no such job.
    Missing,
}

impl Asked {
    pub(super) fn done(did: Did, job: JobRow) -> Self {
        Self::Done(did, Box::new(job))
    }

    pub(super) fn refused(why: impl Into<String>, job: JobRow) -> Self {
        Self::Refused(why.into(), Box::new(job))
    }

    /// A write was refused: somebody was faster.
    pub(super) fn moved_on(found: Option<JobRow>) -> Self {
        match found {
            Some(job) => {
                let why = format!("it moved on meanwhile and is {} at attempt {}", job.status, job.attempt);
                Self::refused(why, job)
            }
            None => Self::Missing,
        }
    }
}

/// The job, if it is at the attempt that is meant.
pub(super) async fn meant<S: Store>(
    store: &S,
    job: &JobKey,
    attempt: Attempt,
) -> Result<Result<JobView, Asked>, Fault> {
    let Some(view) = store.job(job).await? else { return Ok(Err(Asked::Missing)) };
    if view.job.attempt == attempt {
        return Ok(Ok(view));
    }
    let why = format!(
        "attempt {attempt} of {job} was meant, and it is {} at attempt {}",
        view.job.status, view.job.attempt
    );
    Ok(Err(Asked::refused(why, view.job)))
}
