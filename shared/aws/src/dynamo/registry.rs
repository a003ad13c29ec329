//! What people look at.

use super::item::{Item, from_item, key_item, key_of};
use super::read::Query;
use super::{DynamoStore, QUEUE_INDEX};
use aws_sdk_dynamodb::types::AttributeValue;
use glassline_protocol::ids::{JobKey, LaneName, ParentKey};
use glassline_protocol::ports::Read;
use glassline_protocol::registry::{Line, Mark, Page, ParentView, Registry};
use glassline_protocol::row::RowKey as _;

impl DynamoStore {
    /// A page of the index, as `read` understands its keys. A key that can't be read is skipped.
    async fn page<T>(
        &self,
        partition: String,
        after: Option<&Mark>,
        limit: usize,
        backward: bool,
        read: impl Fn(&Item) -> Option<T>,
    ) -> Read<Page<T>> {
        let start = after.map(|mark| {
            let mut key = key_item(&mark.primary);
            key.insert("queue_pk".into(), AttributeValue::S(partition.clone()));
            key.insert("queue_sk".into(), AttributeValue::S(mark.queue_sk.clone()));
            key
        });
        // One more than asked for tells whether there is a next page.
        let query = Query {
            limit: Some(limit.saturating_add(1)),
            backward,
            start,
            ..Query::of(Some(QUEUE_INDEX), "queue_pk = :pk", vec![(":pk", partition)])
        };
        let mut items = self.query(query).await?;
        let more = items.len() > limit;
        items.truncate(limit);
        let mark = |item: &Item| {
            Some(Mark { queue_sk: item.get("queue_sk")?.as_s().ok()?.clone(), primary: key_of(item).ok()? })
        };
        let next = items.last().filter(|_| more).and_then(mark);
        Ok(Page { items: items.iter().filter_map(read).collect(), next })
    }
}

/// Rows of one parent, by what their keys say that they are.
fn view_of(items: &[Item]) -> Read<ParentView> {
    let mut view = ParentView::default();
    for item in items {
        let key = key_of(item)?;
        if key.sk == "HEAD" {
            if key.pk.starts_with("POST#") {
                view.head = Some(from_item(item)?);
            } else {
                view.episode = Some(from_item(item)?);
            }
        } else if key.sk.contains("#OUTCOME#") {
            view.outcomes.push(from_item(item)?);
        } else if key.sk.contains("#ORPHAN#") {
            view.orphans.push(from_item(item)?);
        } else if !key.sk.ends_with("#SPEC") {
            view.jobs.push(from_item(item)?);
        }
    }
    Ok(view)
}

impl Registry for DynamoStore {
    async fn parent(&self, parent: &ParentKey) -> Read<Option<ParentView>> {
        let values = vec![(":pk", parent.to_string())];
        let query = Query::of(None, "pk = :pk", values);
        let items = self.query(query).await?;
        Ok((!items.is_empty()).then_some(view_of(&items)?))
    }

    async fn history(&self, job: &JobKey) -> Read<Option<ParentView>> {
        let key = job.primary();
        // Orphans sort before outcomes, and both lie right after their job.
        let values =
            vec![(":pk", key.pk), (":first", key.sk.clone()), (":last", format!("{}#OUTCOME#~", key.sk))];
        let condition = "pk = :pk AND sk BETWEEN :first AND :last";
        let items = self.query(Query::of(None, condition, values)).await?;
        let mut view = view_of(&items)?;
        // Members that begin like this one may lie between.
        view.jobs.retain(|row| row.key == *job);
        view.outcomes.retain(|row| row.key.job == *job);
        view.orphans.retain(|row| row.key.job == *job);
        Ok((!view.jobs.is_empty()).then_some(view))
    }

    async fn posts(&self, month: &str, after: Option<&Mark>, limit: usize) -> Read<Page<ParentKey>> {
        let read = |item: &Item| key_of(item).ok()?.pk.parse().ok();
        self.page(format!("POSTS#{month}"), after, limit, true, read).await
    }

    async fn held_jobs(&self, lane: &LaneName, after: Option<&Mark>, limit: usize) -> Read<Page<JobKey>> {
        let read = |item: &Item| JobKey::parse(&key_of(item).ok()?).ok();
        self.page(Line::Held(lane.clone()).to_string(), after, limit, false, read).await
    }

    async fn count(&self, line: &Line, limit: usize) -> Read<usize> {
        let values = vec![(":pk", line.to_string())];
        let condition = "queue_pk = :pk";
        let query = Query { limit: Some(limit), ..Query::of(Some(QUEUE_INDEX), condition, values) };
        Ok(self.query(query).await?.len())
    }
}
