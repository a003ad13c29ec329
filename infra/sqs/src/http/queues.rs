//! The operations on queues.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use super::Server;
use super::wire::{Empty, queue, required};
use crate::config::{Attributes, QueueConfig};
use crate::error::SqsError;
use crate::limits;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct CreateQueue {
    queue_name: Option<String>,
    attributes: Option<Attributes>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct QueueUrl {
    queue_url: String,
}

/// Requests that name a queue and nothing else.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct OneQueue {
    queue_url: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct GetQueueUrl {
    queue_name: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct GetQueueAttributes {
    queue_url: Option<String>,
    attribute_names: Option<Vec<String>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct QueueAttributes {
    #[serde(skip_serializing_if = "Attributes::is_empty")]
    attributes: Attributes,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct SetQueueAttributes {
    queue_url: Option<String>,
    attributes: Option<Attributes>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ListQueues {
    queue_name_prefix: Option<String>,
    #[serde(flatten)]
    page: Page,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ListSources {
    queue_url: Option<String>,
    #[serde(flatten)]
    page: Page,
}

/// Which page of a listing.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Page {
    max_results: Option<i64>,
    next_token: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct QueueList {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    queue_urls: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_token: Option<String>,
}

/// As [`QueueList`]; in this answer SQS begins the first name with a small letter.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct SourceList {
    #[serde(rename = "queueUrls")]
    queue_urls: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_token: Option<String>,
}

impl Page {
    /// How many queues the page has, and the name before its first. Tokens are names, encoded.
    fn bounds(&self) -> Result<(usize, String), SqsError> {
        let most = limits::MAX_LISTED_QUEUES;
        let limit = match self.max_results {
            None => most,
            Some(max) => usize::try_from(max).ok().filter(|max| (1..=most).contains(max)).ok_or_else(|| {
                SqsError::parameter(format!(
                    "Value {max} for parameter MaxResults is invalid. Reason: MaxResults must be an integer between 1 \
                     and 1000."
                ))
            })?,
        };
        let after = match &self.next_token {
            None => String::new(),
            Some(token) => URL_SAFE_NO_PAD
                .decode(token)
                .ok()
                .and_then(|bytes| String::from_utf8(bytes).ok())
                .ok_or_else(|| SqsError::parameter("Invalid or expired next token."))?,
        };
        Ok((limit, after))
    }

    /// The token of the next page. Without `MaxResults` SQS gives one page and no token.
    fn next(&self, limit: usize, names: &mut Vec<String>) -> Option<String> {
        let more = names.len() > limit;
        names.truncate(limit);
        let last = names.last().filter(|_| more && self.max_results.is_some())?;
        Some(URL_SAFE_NO_PAD.encode(last))
    }
}

impl Server {
    pub(super) async fn create_queue(&self, request: CreateQueue) -> Result<QueueUrl, SqsError> {
        let name = required(request.queue_name, "QueueName")?;
        let attributes = request.attributes.unwrap_or_default();
        let config = QueueConfig::from_attributes(&attributes)?;
        let queue_url = self.url(&name);
        self.engine.run(move |store| store.create_queue(&name, &config, Some(&attributes))).await?;
        Ok(QueueUrl { queue_url })
    }

    pub(super) async fn get_queue_url(&self, request: GetQueueUrl) -> Result<QueueUrl, SqsError> {
        let name = required(request.queue_name, "QueueName")?;
        let queue_url = self.url(&name);
        self.engine.run(move |store| store.queue_exists(&name, "GetQueueUrl")).await?;
        Ok(QueueUrl { queue_url })
    }

    pub(super) async fn delete_queue(&self, request: OneQueue) -> Result<Empty, SqsError> {
        self.engine.delete_queue(&queue(request.queue_url)?).await?;
        Ok(Empty {})
    }

    pub(super) async fn purge_queue(&self, request: OneQueue) -> Result<Empty, SqsError> {
        self.engine.purge(&queue(request.queue_url)?).await?;
        Ok(Empty {})
    }

    pub(super) async fn get_queue_attributes(
        &self,
        request: GetQueueAttributes,
    ) -> Result<QueueAttributes, SqsError> {
        let name = queue(request.queue_url)?;
        let names = request.attribute_names.unwrap_or_default();
        if let Some(name) = names.iter().find(|name| *name != "All" && !QueueConfig::is_attribute(name)) {
            return Err(SqsError::InvalidAttributeName { name: name.clone() });
        }
        let mut attributes = self.engine.run(move |store| store.queue_attributes(&name)).await?;
        let all = names.iter().any(|name| name == "All");
        attributes.retain(|name, _| all || names.contains(name));
        Ok(QueueAttributes { attributes })
    }

    pub(super) async fn set_queue_attributes(&self, request: SetQueueAttributes) -> Result<Empty, SqsError> {
        let name = queue(request.queue_url)?;
        let attributes = required(request.attributes, "Attributes")?;
        self.engine.run(move |store| store.set_queue_attributes(&name, &attributes)).await?;
        Ok(Empty {})
    }

    pub(super) async fn list_queues(&self, request: ListQueues) -> Result<QueueList, SqsError> {
        let (limit, after) = request.page.bounds()?;
        let prefix = request.queue_name_prefix.unwrap_or_default();
        let mut names = self.engine.run(move |store| store.queue_names(&prefix, &after, limit + 1)).await?;
        let next_token = request.page.next(limit, &mut names);
        Ok(QueueList { queue_urls: names.iter().map(|name| self.url(name)).collect(), next_token })
    }

    pub(super) async fn list_dead_letter_sources(
        &self,
        request: ListSources,
    ) -> Result<SourceList, SqsError> {
        let (limit, after) = request.page.bounds()?;
        let name = queue(request.queue_url)?;
        let mut names = self.engine.run(move |store| store.dead_letter_sources(&name)).await?;
        names.retain(|name| *name > after);
        let next_token = request.page.next(limit, &mut names);
        Ok(SourceList { queue_urls: names.iter().map(|name| self.url(name)).collect(), next_token })
    }
}
