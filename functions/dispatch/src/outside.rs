//! Claims for an outside dispatcher: the lane's own limits, slots and order, as in a tick, and no handoff is sent.

use crate::claim::fill;
use crate::handoff::{read_specs, unsent_claim};
use crate::tick::{choose, inspect};
use crate::{Ports, Ticked};
use glassline_protocol::ids::{LaneName, Ms};
use glassline_protocol::message::{Message, OutsideClaim};
use glassline_protocol::ports::Envelope;
use glassline_protocol::row::{JobRow, LaneRow, SpecRow};
use glassline_protocol::settings::Settings;
use glassline_protocol::settle::Fault;
use glassline_protocol::steps::{params_of, send_all};

/// Most claims of one request.
pub const MAX_CLAIMS: usize = 100;
/// Rounds of one request; more than one only when another dispatcher was faster.
const MAX_ROUNDS: usize = 3;

/// What asking for claims came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claims {
    /// These, perhaps none.
    Made(Vec<OutsideClaim>),
    /// The lane is served by our own dispatch.
    NotOutside(Box<LaneRow>),
    /// There is no such lane.
    Missing,
}

/// Claims up to `count` ready jobs of a lane whose dispatcher is outside. Whoever gets them hands them over or gives them
/// back before their leases end; then they come back by themselves.
///
/// # Errors
/// [`Fault`] when the lane can't be read or written now. Claims that were made by then come back by their leases.
pub async fn claim_outside<P: Ports>(
    ports: &P,
    settings: &Settings,
    lane_name: &LaneName,
    count: usize,
    until_ms: Ms,
) -> Result<Claims, Fault> {
    let Some(mut lane) = ports.lane(lane_name).await? else { return Ok(Claims::Missing) };
    if !lane.outside {
        return Ok(Claims::NotOutside(Box::new(lane)));
    }
    let count = count.min(MAX_CLAIMS);
    let mut free = inspect(ports, settings, &lane, &mut Ticked::default()).await?;
    let (mut claims, mut ready) = (Vec::new(), None);
    for _ in 0..MAX_ROUNDS {
        let wanted = free.len().min(count.saturating_sub(claims.len()));
        if wanted == 0 || ports.now_ms() >= until_ms {
            break;
        }
        // After the first round, what fails must not lose the claims that are made.
        let chosen = choose(ports, settings, &mut lane, wanted, &mut ready).await;
        let (allowed, candidates) = match chosen {
            Ok(chosen) => chosen,
            Err(fault) if claims.is_empty() => return Err(fault),
            Err(_) => break,
        };
        if allowed == 0 || candidates.is_empty() {
            break;
        }
        let slots = free.drain(..allowed.min(free.len())).collect();
        let filled = fill(ports, settings, &lane, slots, candidates).await;
        free.extend(filled.left);
        let mut claimed = filled.claimed;
        claimed.sort_by(|a, b| a.rank.cmp(&b.rank).then_with(|| a.key.cmp(&b.key)));
        claims.extend(with_specs(ports, settings, claimed).await);
    }
    Ok(Claims::Made(claims))
}

/// The claims as the dispatcher gets them. One whose spec can't be read goes back.
async fn with_specs<P: Ports>(ports: &P, settings: &Settings, claimed: Vec<JobRow>) -> Vec<OutsideClaim> {
    let specs = read_specs(ports, settings, &claimed).await;
    let (mut claims, mut back) = (Vec::new(), Vec::new());
    for job in claimed {
        match specs.get(&job.key).and_then(|spec| claim(&job, spec)) {
            Some(claim) => claims.push(claim),
            None => back.extend(unsent_claim(&job.lane, &job)),
        }
    }
    let back =
        back.into_iter().map(|rollback| Envelope { message: Message::Rollback(rollback), delay_ms: 0 });
    send_all(ports, back.collect()).await;
    claims
}

fn claim(job: &JobRow, spec: &SpecRow) -> Option<OutsideClaim> {
    Some(OutsideClaim {
        parent: job.key.parent.clone(),
        member: job.key.member.clone(),
        attempt: job.attempt,
        token: job.token.clone()?,
        lane: Some(job.lane.clone()),
        slot: job.slot,
        lease_ms: job.lease_ms,
        prompt: Some(spec.prompt.clone()),
        params: Some(params_of(spec).ok()?),
        media: Some(spec.media),
    })
}
