//! What a dispatcher outside of AWS does: claim, hand over, read back, give back.

use super::Served;
use super::ops::{from_fault, moved};
use crate::extract::{Json as Input, Params, Raw, Search, media_type};
use crate::openapi::Operation;
use crate::problem::{Code, Problem};
use crate::{Api, Ports, keys, words};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use glassline_dispatch::{Claims, MAX_CLAIMS, claim_outside};
use glassline_protocol::body;
use glassline_protocol::ids::{Attempt, JobKey, LaneName, MemberKey, Ms, ParentKey, Token};
use glassline_protocol::message::OutsideClaim;
use glassline_protocol::row::{JobRow, Status};
use glassline_protocol::steps::{Acceptance, GivenBack, HandedOver, acceptance, give_back, hand_over};
use glassline_protocol::transition::Ours;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// How long one request may begin new rounds of claims, in milliseconds.
const CLAIMING_MS: Ms = 10_000;

/// What is served.
#[must_use]
pub fn routes<P: Ports>() -> Vec<Served<P>> {
    vec![
        Served::post(
            "/v1/lanes/{lane}/claims",
            claim::<P>,
            Operation::new("claimJobs", "handoffs", "Claims ready jobs of a lane whose dispatcher is outside.")
                .text(
                    "As many as the lane's slots, rate, budget and pauses allow. Hand each over, or give it back, before \
                     its lease ends; then it comes back by itself.",
                )
                .path("lane", "Its name.", words::name())
                .json::<CountInput>()
                .answer::<ClaimList>(200, "The claims, perhaps none.")
                .problem(Code::NotFound)
                .problem(Code::Unacceptable),
        ),
        Served::post(
            "/v1/handoffs",
            hand::<P>,
            Operation::new("handOver", "handoffs", "Hands a claim over to be rendered.")
                .text(
                    "The body is a claim as it was given, or a string that holds one. The same again gets the same \
                     receipt and is rendered once. After a lost answer, read it back.",
                )
                .json::<Claim>()
                .answer::<Accepted>(202, "It is taken.")
                .problem(Code::NotFound)
                .problem(Code::Moved)
                .problem(Code::Unacceptable),
        ),
        Served::post(
            "/v1/handoffs/release",
            release::<P>,
            Operation::new("releaseClaim", "handoffs", "Gives a claim back that was not taken.")
                .json::<ReleaseInput>()
                .answer::<Released>(200, "The job is ready again, or cancelled if that was asked for.")
                .problem(Code::NotFound)
                .problem(Code::Moved),
        ),
        Served::get(
            "/v1/handoffs/{parent}/{member}",
            read_back::<P>,
            super::jobs::of_job(Operation::new("readBack", "handoffs", "Whether the handoff of a claim was taken."))
                .required_query("token", "The claim's token.", json!({ "type": "string", "pattern": "^[0-9a-f]{8,64}$" }))
                .answer::<ReadBack>(200, "What is so, from a consistent read."),
        ),
    ]
}

/// How many.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CountInput {
    /// Claims at most.
    #[schemars(range(min = 1, max = MAX_CLAIMS))]
    count: usize,
}

/// A claim: what is claimed, and what is to be rendered. Handing it over needs the first four; what else it says must be
/// what the job's spec says.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Claim {
    /// The post or episode: `POST#morning`.
    parent: String,
    /// The shot or frame: `SHOT#s1`.
    member: String,
    /// The attempt that was claimed.
    attempt: Attempt,
    /// The claim's token: whoever has it may hand the claim over.
    #[schemars(regex(pattern = "^[0-9a-f]{8,64}$"))]
    token: String,
    /// The job's lane.
    #[serde(skip_serializing_if = "Option::is_none")]
    lane: Option<String>,
    /// The slot that it fills.
    #[schemars(with = "u32")]
    #[serde(skip_serializing_if = "Option::is_none")]
    slot: Option<u32>,
    /// Until when it must be handed over, in epoch milliseconds.
    #[schemars(with = "u64")]
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_ms: Option<Ms>,
    /// What to draw.
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<String>,
    /// The provider's own parameters.
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<serde_json::Value>,
    /// `image` or `video`.
    #[serde(skip_serializing_if = "Option::is_none")]
    media: Option<String>,
}

impl From<OutsideClaim> for Claim {
    fn from(claim: OutsideClaim) -> Self {
        Self {
            parent: claim.parent.to_string(),
            member: claim.member.to_string(),
            attempt: claim.attempt,
            token: claim.token.as_str().to_owned(),
            lane: claim.lane.map(|lane| lane.to_string()),
            slot: claim.slot,
            lease_ms: claim.lease_ms,
            prompt: claim.prompt,
            params: claim.params,
            media: claim.media.map(|media| media.to_string()),
        }
    }
}

/// Claims.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ClaimList {
    /// Each under its own token.
    claims: Vec<Claim>,
}

async fn claim<P: Ports>(
    State(api): State<Api<P>>,
    Params((lane,)): Params<(LaneName,)>,
    Input(CountInput { count }): Input<CountInput>,
) -> Result<Json<ClaimList>, Problem> {
    if !(1..=MAX_CLAIMS).contains(&count) {
        return Err(Problem::new(Code::Unacceptable, format!("`count` is {count}; use 1 to {MAX_CLAIMS}.")));
    }
    let (ports, settings) = (api.ports(), &api.config().settings);
    let until_ms = ports.now_ms().saturating_add(CLAIMING_MS);
    match claim_outside(ports, settings, &lane, count, until_ms).await.map_err(from_fault)? {
        Claims::Made(claims) => Ok(Json(ClaimList { claims: claims.into_iter().map(Claim::from).collect() })),
        Claims::NotOutside(_) => Err(Problem::new(
            Code::Unacceptable,
            format!("The lane {lane} is served by our own dispatch; set `outside` of it to claim in it."),
        )),
        Claims::Missing => Err(Problem::missing(format!("lane {lane}"))),
    }
}

/// A handoff that is taken.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Accepted {
    /// The same for each time that this handoff is sent.
    receipt: String,
    /// The job.
    key: String,
    /// Where it stands.
    #[schemars(schema_with = "words::status")]
    status: Status,
    /// Its attempt.
    attempt: Attempt,
}

async fn hand<P: Ports>(
    State(api): State<Api<P>>,
    headers: HeaderMap,
    Raw(bytes): Raw,
) -> Result<Response, Problem> {
    if media_type(&headers) != "application/json" {
        return Err(Problem::new(Code::BadType, "Send the body as application/json."));
    }
    let bad = |why: String| Problem::new(Code::BadBody, format!("The body can't be used: {why}."));
    let text = std::str::from_utf8(&bytes).map_err(|_| bad("it isn't UTF-8".into()))?;
    let claim: OutsideClaim =
        body::object(text).and_then(body::fields).map_err(|error| bad(error.to_string()))?;
    // Both halves may be well formed and not be a job's.
    let key: JobKey = claim.job().to_string().parse().map_err(|error| bad(format!("{error}")))?;
    let config = api.config();
    let handed = hand_over(api.ports(), &config.settings, &config.handoff, &claim);
    match handed.await.map_err(from_fault)? {
        HandedOver::Taken(receipt, row) => {
            let (receipt, key) = (receipt.to_string(), row.key.to_string());
            let accepted = Accepted { receipt, key, status: row.status, attempt: row.attempt };
            Ok((StatusCode::ACCEPTED, Json(accepted)).into_response())
        }
        HandedOver::Differs(field, _) => Err(Problem::new(
            Code::Unacceptable,
            format!(
                "Its `{field}` isn't that of the job {key}; hand over what was claimed, or leave the field out."
            ),
        )),
        HandedOver::NotClaimed(row) => {
            Err(moved("It isn't claimed under this token and attempt; drop this handoff.", &row))
        }
        HandedOver::Missing => Err(Problem::missing(format!("job {key}"))),
    }
}

/// The claim to give back.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseInput {
    /// The post or episode.
    #[schemars(with = "String")]
    parent: ParentKey,
    /// The shot or frame.
    #[schemars(with = "String")]
    member: MemberKey,
    /// The attempt that was claimed.
    attempt: Attempt,
    /// The claim's token.
    #[schemars(with = "String", regex(pattern = "^[0-9a-f]{8,64}$"))]
    token: Token,
}

/// A claim that was given back.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Released {
    /// The job.
    key: String,
    /// Where it stands: `ready`, or `cancelled` if that was asked for.
    #[schemars(schema_with = "words::status")]
    status: Status,
    /// Its attempt.
    attempt: Attempt,
}

impl From<Box<JobRow>> for Released {
    fn from(row: Box<JobRow>) -> Self {
        Self { key: row.key.to_string(), status: row.status, attempt: row.attempt }
    }
}

async fn release<P: Ports>(
    State(api): State<Api<P>>,
    Input(input): Input<ReleaseInput>,
) -> Result<Json<Released>, Problem> {
    let key = JobKey { parent: input.parent, member: input.member };
    let key: JobKey = key
        .to_string()
        .parse()
        .map_err(|error| Problem::new(Code::BadBody, format!("The body can't be used: {error}.")))?;
    let ours = Ours { attempt: input.attempt, token: input.token };
    match give_back(api.ports(), &api.config().settings, &key, &ours).await.map_err(from_fault)? {
        GivenBack::Released(row) | GivenBack::Cancelled(row) => Ok(Json(row.into())),
        GivenBack::Accepted(receipt, row) => {
            let why = "Its handoff was taken, so it isn't yours to give back any more.";
            Err(moved(why, &row).with("receipt", receipt.to_string()))
        }
        GivenBack::NotClaimed(row) => {
            Err(moved("It isn't claimed under this token and attempt any more.", &row))
        }
        GivenBack::Missing => Err(Problem::missing(format!("job {key}"))),
    }
}

/// The query of a readback.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenQuery {
    token: Token,
}

/// Whether a handoff was taken.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReadBack {
    /// `accepted`: it is ours to end, whatever becomes of it. `not_accepted`: hand it over again, or give it back.
    /// `superseded`: the claim is over.
    #[schemars(extend("enum" = ["accepted", "not_accepted", "superseded"]))]
    state: &'static str,
    /// The receipt, if it was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt: Option<String>,
    /// Where the job stands.
    #[schemars(schema_with = "words::status")]
    status: Status,
    /// Its attempt.
    attempt: Attempt,
}

async fn read_back<P: Ports>(
    State(api): State<Api<P>>,
    Params((parent, member)): Params<(String, String)>,
    Search(TokenQuery { token }): Search<TokenQuery>,
) -> Result<Json<ReadBack>, Problem> {
    let key = keys::job(&parent, &member)?;
    let view = api.ports().job(&key).await?.ok_or_else(|| Problem::missing(format!("job {key}")))?;
    let (state, receipt) = match acceptance(&view.job, &token) {
        Acceptance::Accepted(receipt) => ("accepted", Some(receipt.to_string())),
        Acceptance::NotAccepted => ("not_accepted", None),
        Acceptance::Superseded => ("superseded", None),
    };
    Ok(Json(ReadBack { state, receipt, status: view.job.status, attempt: view.job.attempt }))
}
