//! What a handled message came to: stable codes for logs, metrics and tests.

use crate::row::word_enum;

word_enum! {
    /// What became of one message. Every one of these acknowledges it.
    Note {
        /// The provider accepted the render, and its task is recorded.
        Submitted = "submitted",
        /// The submit's answer was lost: the lease will bring a resume.
        SubmitUnknown = "submit_unknown",
        /// The provider refused before starting.
        Rejected = "rejected",
        /// Too little of the lease was left to submit safely.
        TooLate = "too_late",
        /// A message about an attempt that already went on: a duplicate.
        Replay = "replay",
        /// A message about an attempt that isn't the job's any more.
        Stale = "stale",
        /// A message about a job that doesn't exist.
        Missing = "missing",
        /// The job was cancelled.
        Cancelled = "cancelled",
        /// A task was given up: cancelled at the provider and kept as an orphan.
        Orphaned = "orphaned",
        /// The attempt's outcome was followed.
        Followed = "followed",
        /// The task runs on; the next look is arranged.
        Running = "running",
        /// Another invocation has the lease, or the poll chain is another's: nothing to do.
        NotLeader = "not_leader",
        /// The task completed; the finisher has it.
        Completed = "completed",
        /// The lost submit was resolved: its task is recorded.
        Resolved = "resolved",
        /// The lost submit can't be resolved yet; the next try is arranged.
        Unresolved = "unresolved",
        /// The job is held.
        Held = "held",
        /// The job succeeded.
        Succeeded = "succeeded",
        /// The job had ended at this attempt already.
        Ended = "ended",
        /// The claim was given back.
        Released = "released",
        /// A resume check was sent.
        Resuming = "resuming",
    }
}

word_enum! {
    /// What was done about a request.
    Did {
        /// The job is cancelled.
        Cancelled = "cancelled",
        /// Whoever has the job is asked to stop.
        CancelRequested = "cancel_requested",
        /// The job is ready for another attempt.
        Requeued = "requeued",
        /// The attempt's output turned out to be stored: it is finished instead.
        Finishing = "finishing",
        /// The task is recorded, and the provider is asked for it.
        Checking = "checking",
        /// The asset is approved.
        Approved = "approved",
        /// The asset is rejected, and the job is ready for another attempt.
        RejectedAndRequeued = "rejected_and_requeued",
        /// The asset is rejected, and its job can't have another attempt now.
        Rejected = "rejected",
    }
}
