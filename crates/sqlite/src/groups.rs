//! Order within groups: only the head of a group may be ready.

use std::collections::HashMap;

use consign_kernel::{
    BATCH_MESSAGES_MAX, MessageId, QueueName, QueuePolicy,
    plan::{Promotion, group_moves_on, next_head},
};
use jiff::Timestamp;

use crate::{
    error::Result,
    job::Work,
    rows::{self, Arrays, Entry},
    sql,
};

/// A message of an ordered group that may be tried.
pub(crate) struct GroupMessage<'m> {
    pub(crate) queue: &'m QueueName,
    pub(crate) group: &'m str,
    pub(crate) entry: Entry,
    /// Not to be tried before, however early it becomes the head.
    pub(crate) due_at: Timestamp,
}

/// A batch to be written.
pub(crate) struct NewBatch<'m> {
    pub(crate) queue: &'m QueueName,
    pub(crate) due_at: Timestamp,
    pub(crate) entries: &'m [Entry],
    pub(crate) isolated: bool,
}

impl Work<'_> {
    /// Makes each message the head of its group if there is none, or lets it wait. Returns, in
    /// order, which are heads.
    pub(crate) async fn become_heads(&mut self, wants: &[GroupMessage<'_>]) -> Result<Vec<bool>> {
        if wants.is_empty() {
            return Ok(Vec::new());
        }
        let groups: Vec<_> = wants.iter().map(|want| (want.queue, want.group)).collect();
        let taken: Vec<(i64, i64)> = sqlx::query_as(sql!("group_head_list"))
            .bind(rows::json(&groups))
            .fetch_all(&mut *self.connection)
            .await?;
        let mut heads: HashMap<(&QueueName, &str), i64> = HashMap::new();
        for (index, holder) in taken {
            heads.insert(groups[index as usize], holder);
        }
        let (mut given, mut waiting, mut answers) = (Vec::new(), Vec::new(), Vec::new());
        for want in wants {
            let Entry {
                id,
                tries,
                attempts,
            } = want.entry;
            let holder = *heads.entry((want.queue, want.group)).or_insert_with(|| {
                given.push((want.queue, want.group, id));
                id.0
            });
            if holder != id.0 {
                let due_at = rows::micros(want.due_at);
                waiting.push((want.queue, want.group, id, due_at, tries, attempts));
            }
            answers.push(holder == id.0);
        }
        self.insert_all(sql!("group_head_append"), &given).await?;
        self.insert_all(sql!("waiting_append"), &waiting).await?;
        Ok(answers)
    }

    /// Promotes the next messages after heads were delivered or died, where the queue's policy allows it.
    pub(crate) async fn promote_after(
        &mut self,
        queue: &QueueName,
        policy: &QueuePolicy,
        finished: &[(MessageId, bool)],
    ) -> Result<()> {
        let moving = finished
            .iter()
            .filter(|(_, died)| group_moves_on(policy, *died));
        let ids: Vec<MessageId> = moving.map(|(id, _)| *id).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let groups: Vec<(i64, String)> = sqlx::query_as(sql!("message_groups"))
            .bind(rows::id_array(&ids))
            .fetch_all(&mut *self.connection)
            .await?;
        let passing: Vec<(&str, i64)> = groups.iter().map(|(id, g)| (g.as_str(), *id)).collect();
        let next: Vec<NextColumns> = sqlx::query_as(sql!("group_head_next"))
            .bind(queue.as_str())
            .bind(rows::json(&passing))
            .fetch_all(&mut *self.connection)
            .await?;
        self.promote(queue, policy, next).await
    }

    /// Promotes the next message of each group, or removes the head where none waits.
    async fn promote(
        &mut self,
        queue: &QueueName,
        policy: &QueuePolicy,
        next: Vec<NextColumns>,
    ) -> Result<()> {
        let (mut passed, mut ended) = (Vec::new(), Vec::new());
        let mut ready: Vec<(Timestamp, [Entry; 1])> = Vec::new();
        for (group, id, due_at, tries, attempts, held) in next {
            let waiting = match (id, due_at, tries, attempts) {
                (Some(id), Some(due_at), Some(tries), Some(attempts)) => {
                    Some((rows::entry(id, tries, attempts)?, rows::timestamp(due_at)?))
                }
                _ => None,
            };
            match next_head(self.now, waiting, held.map(MessageId)) {
                Promotion::Ready { entry, due_at } => {
                    ready.push((due_at, [entry]));
                    passed.push((group, entry.id.0));
                }
                Promotion::Held(id) => passed.push((group, id.0)),
                Promotion::Ended => ended.push(group),
            }
        }
        if !passed.is_empty() {
            self.wake(queue, policy);
            sqlx::query(sql!("waiting_take"))
                .bind(rows::array(passed.iter().map(|(_, id)| *id)))
                .execute(&mut *self.connection)
                .await?;
            sqlx::query(sql!("group_head_promote"))
                .bind(queue.as_str())
                .bind(rows::json(&passed))
                .execute(&mut *self.connection)
                .await?;
        }
        if !ended.is_empty() {
            sqlx::query(sql!("group_head_end"))
                .bind(queue.as_str())
                .bind(rows::json(&ended))
                .execute(&mut *self.connection)
                .await?;
        }
        let batches: Vec<NewBatch<'_>> = ready
            .iter()
            .map(|(due_at, entries)| NewBatch {
                queue,
                due_at: *due_at,
                entries,
                isolated: false,
            })
            .collect();
        self.make_ready(&batches).await
    }

    /// Marks the queue to be notified after the commit, if its policy has `notify`.
    pub(crate) fn wake(&mut self, queue: &QueueName, policy: &QueuePolicy) {
        if policy.notify {
            self.woken.insert(queue.clone());
        }
    }

    /// Writes ready batches of bounded length, in order.
    pub(crate) async fn make_ready(&mut self, batches: &[NewBatch<'_>]) -> Result<()> {
        let bounded: Vec<(&NewBatch<'_>, &[Entry])> = batches
            .iter()
            .flat_map(|batch| {
                batch
                    .entries
                    .chunks(BATCH_MESSAGES_MAX)
                    .map(move |e| (batch, e))
            })
            .collect();
        if let [(batch, entries)] = bounded[..] {
            let arrays = Arrays::of(entries);
            sqlx::query(sql!("ready_append_one"))
                .bind(batch.queue.as_str())
                .bind(rows::micros(batch.due_at))
                .bind(batch.isolated)
                .bind(arrays.ids)
                .bind(arrays.tries)
                .bind(arrays.attempts)
                .execute(&mut *self.connection)
                .await?;
            return Ok(());
        }
        let row = |(batch, entries): &(&NewBatch<'_>, &[Entry])| {
            let ids: Vec<_> = entries.iter().map(|entry| entry.id).collect();
            let tries: Vec<_> = entries.iter().map(|entry| entry.tries).collect();
            let attempts: Vec<_> = entries.iter().map(|entry| entry.attempts).collect();
            let due_at = rows::micros(batch.due_at);
            rows::json(&(
                batch.queue,
                due_at,
                u8::from(batch.isolated),
                ids,
                tries,
                attempts,
            ))
        };
        // A thousand batches of two hundred at once are some megabytes; more would only cost memory.
        for some in bounded.chunks(1_000) {
            let rows: Vec<String> = some.iter().map(row).collect();
            sqlx::query(sql!("ready_append"))
                .bind(format!("[{}]", rows.join(",")))
                .execute(&mut *self.connection)
                .await?;
        }
        Ok(())
    }

    /// Runs a statement that inserts every row of a JSON array.
    pub async fn insert_all<T: serde::Serialize>(
        &mut self,
        statement: &'static str,
        rows: &[T],
    ) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        sqlx::query(statement)
            .bind(rows::json(&rows))
            .execute(&mut *self.connection)
            .await?;
        Ok(())
    }
}

/// A group, its next waiting message, and the held one before that.
type NextColumns = (
    String,
    Option<i64>,
    Option<i64>,
    Option<i64>,
    Option<i64>,
    Option<i64>,
);
