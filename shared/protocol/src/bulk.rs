//! What people ask for many jobs of a lane at once: page by page, each job by its own step and with its own answer.

use crate::ids::{Attempt, JobKey, LaneName};
use crate::ports::{JobFilter, JobScan, Local, Queues, ScanCursor, Store};
use crate::provider::ErrorClass;
use crate::row::Status;
use crate::settings::Settings;
use crate::settle::Fault;
use crate::steps::{Asked, Resolution, cancel, requeue, resolve, wake_lane};
use futures_util::stream::{self, StreamExt as _};

/// Most jobs of one request.
pub const MAX_BULK: usize = 100;
/// Jobs that are worked on at once.
const CONCURRENCY: usize = 8;

/// What is asked for each of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bulk {
    /// Cancel whatever hasn't ended.
    Cancel,
    /// Another attempt of what has failed for good.
    Requeue,
    /// A decision on what is held.
    Resolve(Resolution),
}

impl Bulk {
    /// The statuses of the jobs that are meant.
    #[must_use]
    pub fn statuses(&self) -> Vec<Status> {
        match self {
            Self::Cancel => vec![Status::Ready, Status::Claimed, Status::Rendering, Status::Held],
            Self::Requeue => vec![Status::Failed],
            Self::Resolve(_) => vec![Status::Held],
        }
    }
}

/// What a page of it came to.
#[derive(Debug)]
pub struct BulkDone {
    /// Each job with the attempt that was seen, and what it came to.
    pub results: Vec<(JobKey, Attempt, Result<Asked, Fault>)>,
    /// Where to go on; `None` at the end of the table. A page may be empty before that.
    pub cursor: Option<ScanCursor>,
}

/// Does a page of it: at most `limit` jobs of a lane, of an error class if one is given. Each is meant at the attempt at
/// which it was found, so a job that moves on meanwhile is left alone.
///
/// # Errors
/// [`Fault`] when the table can't be read now. What can't be done for one job is its own answer.
pub async fn bulk<P: Store + Queues + Local + JobScan + Sync>(
    ports: &P,
    settings: &Settings,
    lane: &LaneName,
    what: &Bulk,
    class: Option<ErrorClass>,
    cursor: Option<&ScanCursor>,
    limit: usize,
) -> Result<BulkDone, Fault> {
    let filter = JobFilter { lane: lane.clone(), statuses: what.statuses(), class };
    let page = ports.scan_jobs(&filter, cursor, limit.clamp(1, MAX_BULK)).await?;
    let one = |(key, attempt): (JobKey, Attempt)| async move {
        let asked = match what {
            Bulk::Cancel => cancel(ports, settings, &key, attempt).await,
            Bulk::Requeue => requeue(ports, settings, &key, attempt, None).await,
            Bulk::Resolve(resolution) => resolve(ports, settings, &key, attempt, resolution).await,
        };
        (key, attempt, asked)
    };
    let found = page.jobs.into_iter().map(|row| (row.key, row.attempt));
    let results: Vec<_> = stream::iter(found).map(one).buffered(CONCURRENCY).collect().await;
    if results.iter().any(|(_, _, asked)| matches!(asked, Ok(Asked::Done(..)))) {
        wake_lane(ports, lane).await;
    }
    Ok(BulkDone { results, cursor: page.cursor })
}
