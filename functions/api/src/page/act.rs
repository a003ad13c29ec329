//! What people change.

use super::respond::{Saying, Trouble, Visit, refused, see};
use super::session::from_our_page;
use super::sign_in::foreign;
use super::view::{job_path, parent_path};
use crate::{Api, Ports, keys};
use axum::extract::rejection::FormRejection;
use axum::extract::{Form, Path, State};
use axum::response::Response;
use glassline_protocol::ids::{Attempt, JobKey, LaneName, TaskId};
use glassline_protocol::note::Did;
use glassline_protocol::provider::Reference;
use glassline_protocol::row::Status;
use glassline_protocol::settle::{self, Fault, Settled};
use glassline_protocol::steps::{self, Asked, Resolution, Review};
use glassline_protocol::transition::LaneTransition;
use serde::Deserialize;

/// What forms send.
#[derive(Deserialize)]
pub(super) struct Fields {
    csrf: String,
    attempt: Option<Attempt>,
    back: Option<String>,
    way: Option<String>,
    task: Option<String>,
    verdict: Option<String>,
    note: Option<String>,
}

/// The fields of a form that a page of ours sent in this very session.
fn ours<P: Ports>(api: &Api<P>, visit: &Visit, form: Result<Form<Fields>, FormRejection>) -> Option<Fields> {
    let Ok(Form(fields)) = form else { return None };
    (from_our_page(&visit.headers) && visit.session.allows(&api.config().entry, &fields.csrf))
        .then_some(fields)
}

fn back_to(path: &str, saying: Saying) -> Response {
    see(&format!("{path}?said={}", saying.word()))
}

/// `/lanes/{lane}/pause` and `/lanes/{lane}/resume`
pub(super) async fn lane<P: Ports>(
    State(api): State<Api<P>>,
    visit: Visit,
    Path((lane, action)): Path<(String, String)>,
    form: Result<Form<Fields>, FormRejection>,
) -> Response {
    if ours(&api, &visit, form).is_none() {
        return foreign();
    }
    let Ok(lane) = LaneName::new(lane) else { return back_to("/lanes", Saying::Unfit) };
    let (transition, saying) = match action.as_str() {
        "pause" => {
            (LaneTransition::PauseByHand { reason: "paused on the registry page".into() }, Saying::Paused)
        }
        "resume" => (LaneTransition::Resume, Saying::Resumed),
        _ => return back_to("/lanes", Saying::Unfit),
    };
    let repeats = api.config().settings.write_repeats;
    let saying = match settle::lane(api.ports(), repeats, &lane, &transition).await {
        Ok(Settled::Mine(_)) => saying,
        Ok(Settled::Refused(_)) => Saying::Moved,
        Err(Fault::RetryAfter { .. } | Fault::Poison(_)) => Saying::Later,
    };
    if saying == Saying::Resumed {
        // What waited starts now, not at the next full tick; a lost wake costs only that.
        steps::wake_lane(api.ports(), &lane).await;
    }
    back_to("/lanes", saying)
}

fn back(job: &JobKey, word: Option<&str>) -> String {
    match word {
        Some("held") => "/held".into(),
        Some("parent") => parent_path(&job.parent),
        Some(_) | None => job_path(job),
    }
}

/// What a form asks of a job; `None` when something is missing in it, or can't be used.
enum Wish {
    Resolve(Resolution),
    Review(Review),
    Cancel,
    Requeue,
}

impl Wish {
    fn of(action: &str, fields: &Fields) -> Option<Self> {
        let note =
            || fields.note.as_deref().map(str::trim).filter(|note| !note.is_empty()).map(str::to_owned);
        Some(match action {
            "resolve" => Self::Resolve(match fields.way.as_deref()? {
                "lost" => Resolution::Lost,
                "task" => Resolution::Task(TaskId::new(fields.task.as_deref()?.trim()).ok()?),
                "give-up" => Resolution::GiveUp,
                _ => return None,
            }),
            "review" => Self::Review(match fields.verdict.as_deref()? {
                "approve" => Review::Approve,
                "reject" => Review::Reject(note()?),
                _ => return None,
            }),
            "cancel" => Self::Cancel,
            "requeue" => Self::Requeue,
            _ => return None,
        })
    }
}

/// What was done, in the page's words.
fn saying(wish: &Wish, did: Did) -> Saying {
    match did {
        Did::Cancelled if matches!(wish, Wish::Resolve(_)) => Saying::GivenUp,
        Did::Cancelled => Saying::Cancelled,
        Did::CancelRequested => Saying::Stopping,
        Did::Requeued if matches!(wish, Wish::Resolve(_)) => Saying::Retried,
        Did::Requeued => Saying::Requeued,
        Did::Finishing => Saying::Finishing,
        Did::Checking => Saying::Recorded,
        Did::Approved => Saying::Approved,
        Did::RejectedAndRequeued => Saying::Rejected,
        Did::Rejected => Saying::RejectedOnly,
    }
}

/// `/jobs/{parent}/{member}/{action}`
pub(super) async fn job<P: Ports>(
    State(api): State<Api<P>>,
    visit: Visit,
    Path((parent, member, action)): Path<(String, String, String)>,
    form: Result<Form<Fields>, FormRejection>,
) -> Response {
    let Some(fields) = ours(&api, &visit, form) else { return foreign() };
    let Ok(job) = keys::job(&parent, &member) else { return back_to("/", Saying::Unfit) };
    let path = back(&job, fields.back.as_deref());
    let (Some(wish), Some(attempt)) = (Wish::of(&action, &fields), fields.attempt) else {
        return back_to(&path, Saying::Unfit);
    };
    let (ports, settings) = (api.ports(), &api.config().settings);
    let asked = match &wish {
        Wish::Resolve(resolution) => steps::resolve(ports, settings, &job, attempt, resolution).await,
        Wish::Review(review) => {
            let judged = Reference { job: job.clone(), attempt };
            steps::review(ports, settings, &judged, review.clone()).await
        }
        Wish::Cancel => steps::cancel(ports, settings, &job, attempt).await,
        Wish::Requeue => steps::requeue(ports, settings, &job, attempt, None).await,
    };
    match asked {
        Ok(Asked::Done(did, row)) => {
            if row.status == Status::Ready {
                steps::wake_lane(ports, &row.lane).await;
            }
            back_to(&path, saying(&wish, did))
        }
        Ok(Asked::Refused(why, _)) => refused(&visit, &format!("{job}: {why}."), &path),
        Ok(Asked::Missing) => Trouble::Missing(format!("job {job}")).answer(&visit),
        Err(Fault::RetryAfter { .. } | Fault::Poison(_)) => back_to(&path, Saying::Later),
    }
}
