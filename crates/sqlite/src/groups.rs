//! Order within groups, by turns: only the message whose turn it is may be ready.

use std::collections::HashMap;

use consign_kernel::{MessageId, OnDead, QueueName, QueuePolicy, RUN_MESSAGES_MAX};
use jiff::Timestamp;

use crate::{
    error::Result,
    job::Work,
    rows::{self, Arrays, Entry},
    sql,
};

/// A message of an ordered group that wants to be tried.
pub(crate) struct Want<'m> {
    pub(crate) queue: &'m QueueName,
    pub(crate) group: &'m str,
    pub(crate) entry: Entry,
    /// Not to be tried before, however early its turn comes.
    pub(crate) due_at: Timestamp,
}

/// A run to be written.
pub(crate) struct NewRun<'m> {
    pub(crate) queue: &'m QueueName,
    pub(crate) due_at: Timestamp,
    pub(crate) entries: &'m [Entry],
    pub(crate) apart: bool,
}

impl Work<'_> {
    /// Takes the turn of each message's group if it is free, or lets the message wait. Answers, in
    /// order, which have their turn.
    pub(crate) async fn take_turns(&mut self, wants: &[Want<'_>]) -> Result<Vec<bool>> {
        if wants.is_empty() {
            return Ok(Vec::new());
        }
        let groups: Vec<_> = wants.iter().map(|want| (want.queue, want.group)).collect();
        let taken: Vec<(i64, i64)> = sqlx::query_as(sql!("turn_list"))
            .bind(rows::json(&groups))
            .fetch_all(&mut *self.connection)
            .await?;
        let mut turns: HashMap<(&QueueName, &str), i64> = HashMap::new();
        for (index, holder) in taken {
            turns.insert(groups[index as usize], holder);
        }
        let (mut given, mut waiting, mut answers) = (Vec::new(), Vec::new(), Vec::new());
        for want in wants {
            let Entry {
                id,
                tries,
                attempts,
            } = want.entry;
            let holder = *turns.entry((want.queue, want.group)).or_insert_with(|| {
                given.push((want.queue, want.group, id));
                id.0
            });
            if holder != id.0 {
                let due_at = rows::micros(want.due_at);
                waiting.push((want.queue, want.group, id, due_at, tries, attempts));
            }
            answers.push(holder == id.0);
        }
        self.insert_all(sql!("turn_append"), &given).await?;
        self.insert_all(sql!("waiting_append"), &waiting).await?;
        Ok(answers)
    }

    /// Passes turns on after messages of a queue were delivered or died, where the queue lets it.
    pub(crate) async fn pass_turns(
        &mut self,
        queue: &QueueName,
        policy: &QueuePolicy,
        finished: &[(MessageId, bool)],
    ) -> Result<()> {
        if !policy.ordered {
            return Ok(());
        }
        let moving = |(id, died): &(MessageId, bool)| {
            (!died || policy.on_dead == OnDead::Continue).then_some(*id)
        };
        let ids: Vec<MessageId> = finished.iter().filter_map(moving).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let groups: Vec<(i64, String)> = sqlx::query_as(sql!("message_groups"))
            .bind(rows::id_array(&ids))
            .fetch_all(&mut *self.connection)
            .await?;
        let passing: Vec<(&str, i64)> = groups.iter().map(|(id, g)| (g.as_str(), *id)).collect();
        let next: Vec<NextColumns> = sqlx::query_as(sql!("turn_next"))
            .bind(queue.as_str())
            .bind(rows::json(&passing))
            .fetch_all(&mut *self.connection)
            .await?;
        self.promote(queue, policy, next).await
    }

    /// Gives each group's turn to who comes next, or frees it.
    async fn promote(
        &mut self,
        queue: &QueueName,
        policy: &QueuePolicy,
        next: Vec<NextColumns>,
    ) -> Result<()> {
        let (mut passed, mut ended) = (Vec::new(), Vec::new());
        let mut ready: Vec<(Timestamp, [Entry; 1])> = Vec::new();
        for (group, id, due_at, tries, attempts, held) in next {
            // Whoever is held keeps its place: the turn waits there for a person.
            if let Some(held) = held {
                passed.push((group, held));
                continue;
            }
            match (id, due_at, tries, attempts) {
                (Some(id), Some(due_at), Some(tries), Some(attempts)) => {
                    let due_at = rows::timestamp(due_at)?.max(self.now);
                    ready.push((due_at, [Entry::new(id, tries, attempts)?]));
                    passed.push((group, id));
                }
                _ => ended.push(group),
            }
        }
        if !passed.is_empty() {
            self.wake(queue, policy);
            sqlx::query(sql!("waiting_take"))
                .bind(rows::array(passed.iter().map(|(_, id)| *id)))
                .execute(&mut *self.connection)
                .await?;
            sqlx::query(sql!("turn_pass"))
                .bind(queue.as_str())
                .bind(rows::json(&passed))
                .execute(&mut *self.connection)
                .await?;
        }
        if !ended.is_empty() {
            sqlx::query(sql!("turn_end"))
                .bind(queue.as_str())
                .bind(rows::json(&ended))
                .execute(&mut *self.connection)
                .await?;
        }
        let runs: Vec<NewRun<'_>> = ready
            .iter()
            .map(|(due_at, entries)| NewRun {
                queue,
                due_at: *due_at,
                entries,
                apart: false,
            })
            .collect();
        self.make_ready(&runs).await
    }

    /// Remembers that the queue has something to claim, if its rules say that this is told.
    pub(crate) fn wake(&mut self, queue: &QueueName, policy: &QueuePolicy) {
        if policy.notify {
            self.woken.insert(queue.clone());
        }
    }

    /// Writes ready runs of bounded length, in order.
    pub(crate) async fn make_ready(&mut self, runs: &[NewRun<'_>]) -> Result<()> {
        let bounded: Vec<(&NewRun<'_>, &[Entry])> = runs
            .iter()
            .flat_map(|run| run.entries.chunks(RUN_MESSAGES_MAX).map(move |e| (run, e)))
            .collect();
        if let [(run, entries)] = bounded[..] {
            let arrays = Arrays::of(entries);
            sqlx::query(sql!("ready_append_one"))
                .bind(run.queue.as_str())
                .bind(rows::micros(run.due_at))
                .bind(run.apart)
                .bind(arrays.ids)
                .bind(arrays.tries)
                .bind(arrays.attempts)
                .execute(&mut *self.connection)
                .await?;
            return Ok(());
        }
        let row = |(run, entries): &(&NewRun<'_>, &[Entry])| {
            let ids: Vec<_> = entries.iter().map(|entry| entry.id).collect();
            let tries: Vec<_> = entries.iter().map(|entry| entry.tries).collect();
            let attempts: Vec<_> = entries.iter().map(|entry| entry.attempts).collect();
            let due_at = rows::micros(run.due_at);
            rows::json(&(run.queue, due_at, u8::from(run.apart), ids, tries, attempts))
        };
        // A thousand runs of two hundred at once are some megabytes; more would only cost memory.
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

/// A group, who comes next in it if anybody waits, and who is held before that one.
type NextColumns = (
    String,
    Option<i64>,
    Option<i64>,
    Option<i64>,
    Option<i64>,
    Option<i64>,
);
