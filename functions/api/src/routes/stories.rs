//! Stories: taken.

use super::Served;
use crate::extract::Raw;
use crate::intake::{self, NewStory, Receipt, Taken};
use crate::openapi::Operation;
use crate::problem::Problem;
use crate::{Api, Ports};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use glassline_protocol::intake::{
    Story, SubmitError, parse_stories, story_differences, submit_story, wake_series,
};
use glassline_protocol::row::LaneRow;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// What is served.
#[must_use]
pub fn routes<P: Ports>() -> Vec<Served<P>> {
    let summary = "Takes stories: one, an array, or one a line. The same story again changes nothing.";
    vec![
        Served::post(
            "/v1/stories",
            submit::<P>,
            intake::operation::<NewStory>(Operation::new("submitStories", "stories", summary)),
        )
        .taking(intake::MAX_BYTES),
    ]
}

async fn submit<P: Ports>(
    State(api): State<Api<P>>,
    headers: HeaderMap,
    Raw(body): Raw,
) -> Result<Response, Problem> {
    let (text, is_one) = intake::text(&headers, &body)?;
    let stories = parse_stories(text).map_err(|bad| intake::unreadable(&bad))?;
    intake::bounded(stories.len())?;
    let lanes = api.ports().lanes().await?;
    let woken = Mutex::new(BTreeSet::new());
    let answer = intake::take(stories, is_one, |story| {
        let (api, lanes, woken) = (&api, &lanes, &woken);
        async move {
            let receipt = submit_one(api, lanes, &story).await?;
            if receipt.result == Taken::Created {
                woken.lock().unwrap_or_else(PoisonError::into_inner).insert(story.series.clone());
            }
            Ok(receipt)
        }
    });
    let answer = answer.await;
    // Each series of new stories once, whatever became of their neighbours.
    for series in woken.into_inner().unwrap_or_else(PoisonError::into_inner) {
        wake_series(api.ports(), &series).await;
    }
    answer
}

async fn submit_one<P: Ports>(api: &Api<P>, lanes: &[LaneRow], story: &Story) -> Result<Receipt, Problem> {
    match submit_story(api.ports(), story, lanes).await {
        Ok(submitted) => Ok(intake::receipt(story.story_key().to_string(), submitted)),
        Err(error @ SubmitError::StoryConflict(_)) => {
            Err(intake::conflict(error.into(), story_differences(api.ports(), story).await?))
        }
        Err(error) => Err(error.into()),
    }
}
