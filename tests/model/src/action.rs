//! What can happen next.

use crate::env::Answer;

/// What becomes of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
pub enum How {
    /// It is done and answered.
    Answered(Answer),
    /// It never arrives, and the caller can't tell.
    LostRequest,
    /// It is done, and the caller can't tell.
    LostReply,
    /// The caller gives it up, and it arrives later.
    Late,
    /// It is done, and the caller dies before it learns that.
    CrashAfter,
}

/// What happens next. Invocations, messages and tasks are meant by their place in the state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Action {
    /// A message is delivered.
    Deliver(u8),
    /// A message is delivered, and will be delivered again.
    DeliverCopy(u8),
    /// An invocation's call (by number) is made; a random number, if it draws one afterwards.
    Call(u8, u8, How, u8),
    /// A message is delivered, and its receiver dies before its first call.
    CrashBefore(u8),
    /// A request arrives that its caller gave up.
    Land(u8),
    /// A full tick begins.
    Tick,
    /// The clock moves to the next thing that is due.
    Clock,
    /// A render ends well.
    Complete(u8),
    /// A render fails.
    FailTask(u8),
    /// A render is cancelled by somebody else.
    CancelTask(u8),
    /// A callback for a task arrives.
    Callback(u8),
    /// A person asks to cancel a job.
    Cancel(u8),
    /// A person asks for another attempt of a job.
    Requeue(u8),
    /// A person's verdict on a succeeded job.
    Review(u8, bool),
    /// An outside dispatcher's claim is accepted.
    Accept(u8),
    /// An outside dispatcher's claim is given back unless it was accepted.
    ReleaseOutside(u8),
    /// A frame is claimed and starts.
    FrameStarts(u8),
    /// A frame ends.
    FrameEnds(u8, FrameEnd),
    /// A person reopens an episode.
    Reopen(u8),
}

/// How a frame ends, where its rendering isn't modelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum FrameEnd {
    /// It succeeded.
    Succeeded,
    /// It failed for good.
    Failed,
    /// It was cancelled as asked.
    Cancelled,
}
