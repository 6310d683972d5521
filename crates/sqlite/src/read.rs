//! What is recorded about a message, and what is leased.

use std::collections::{BTreeSet, HashMap};

use async_trait::async_trait;
use consign_kernel::{
    Attempt, AttemptOutcome, AuditEntry, DeadLetter, Explanation, Fence, LastAttempt, LateResult,
    LeaseView, Message, MessageId, QueueName, Read, State, StateKind, Token,
};
use jiff::Timestamp;
use sqlx::SqliteConnection;
use uuid::Uuid;

use crate::{
    SqliteStore,
    erase::erasure,
    error::{Failure, Result},
    job::Work,
    late, queues,
    rows::{self, AttemptColumns, AuditColumns, Entry},
    sql,
    store::snapshot,
};

/// A message and where it is.
#[derive(Debug)]
pub struct MessageState {
    /// Its queue.
    pub queue: QueueName,
    /// Its group.
    pub group: Option<String>,
    /// Its state.
    pub state: StateKind,
}

/// A ready batch that holds a message of a query.
pub(crate) struct FoundBatch {
    pub(crate) batch: i64,
    pub(crate) due_at: Timestamp,
    pub(crate) entries: Vec<Entry>,
}

#[async_trait]
impl Read for SqliteStore {
    async fn explain(&self, id: MessageId) -> consign_kernel::Result<Option<Explanation>> {
        let now = self.now();
        snapshot!(self, "explain", |tx| explain(&mut tx, now, id))
    }

    async fn history(&self, id: MessageId) -> consign_kernel::Result<Vec<Attempt>> {
        snapshot!(self, "read the history", |tx| history(&mut tx, id))
    }

    async fn late(&self, id: MessageId) -> consign_kernel::Result<Vec<LateResult>> {
        snapshot!(self, "read late results", |tx| late::late(&mut tx, id))
    }

    async fn leases(&self, limit: u32) -> consign_kernel::Result<Vec<LeaseView>> {
        snapshot!(self, "list the leases", |tx| leases(&mut tx, limit))
    }

    async fn audit(
        &self,
        id: Option<MessageId>,
        before: Option<i64>,
        limit: u32,
    ) -> consign_kernel::Result<Vec<AuditEntry>> {
        snapshot!(self, "read the audit", |tx| audit(
            &mut tx, id, before, limit
        ))
    }
}

impl Work<'_> {
    /// Where these messages are; those that do not exist are left out.
    pub async fn states(
        &mut self,
        ids: &BTreeSet<MessageId>,
    ) -> Result<HashMap<MessageId, MessageState>> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let found: Vec<(i64, String, Option<String>, String)> = sqlx::query_as(sql!("state_of"))
            .bind(rows::id_array(ids))
            .fetch_all(&mut *self.connection)
            .await?;
        let row = |(id, queue, group, state): (i64, String, _, String)| {
            let (queue, state) = (rows::queue_name(&queue)?, state_kind(&state)?);
            Ok((
                MessageId(id),
                MessageState {
                    queue,
                    group,
                    state,
                },
            ))
        };
        found.into_iter().map(row).collect()
    }

    pub(crate) async fn batches_holding(
        &mut self,
        ids: &BTreeSet<MessageId>,
    ) -> Result<Vec<FoundBatch>> {
        batches_holding(self.connection, ids).await
    }
}

async fn batches_holding(
    connection: &mut SqliteConnection,
    ids: &BTreeSet<MessageId>,
) -> Result<Vec<FoundBatch>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let needle = match ids.first() {
        Some(only) if ids.len() == 1 => only.to_string(),
        _ => String::new(),
    };
    let found: Vec<(i64, i64, String, String, String)> = sqlx::query_as(sql!("ready_holding"))
        .bind(rows::id_array(ids))
        .bind(needle)
        .fetch_all(connection)
        .await?;
    let batch = |(batch, due_at, ids, tries, attempts): (i64, i64, String, String, String)| {
        let what = || format!("ready batch {batch}");
        Ok(FoundBatch {
            batch,
            due_at: rows::timestamp(due_at)?,
            entries: rows::entries(&what, &ids, &tries, &attempts)?,
        })
    };
    found.into_iter().map(batch).collect()
}

/// Why a message is where it is.
pub async fn explain(
    connection: &mut SqliteConnection,
    now: Timestamp,
    id: MessageId,
) -> Result<Option<Explanation>> {
    let Some(message) = message(connection, id).await? else {
        return Ok(None);
    };
    let Some(queue) = queues::queue(connection, &message.queue).await? else {
        let name = &message.queue;
        return Err(Failure::corrupt(format!(
            "message {id} is in unknown queue {name}"
        )));
    };
    let last_attempt = last_attempt(connection, id).await?;
    let delivered = |last: &&LastAttempt| last.outcome == AttemptOutcome::Delivered;
    let state = match last_attempt.as_ref().filter(delivered) {
        Some(last) => State::Delivered {
            at: last.finished_at,
        },
        None => unfinished(connection, id).await?,
    };
    Ok(Some(Explanation {
        message,
        state,
        queue,
        attempts: last_attempt.as_ref().map_or(0, |last| last.attempt_no),
        last_attempt,
        erased: erasure(connection, id).await?,
        now,
    }))
}

async fn last_attempt(
    connection: &mut SqliteConnection,
    id: MessageId,
) -> Result<Option<LastAttempt>> {
    type Columns = (i64, String, String, i64, Option<String>, Option<String>);
    let last: Option<Columns> = sqlx::query_as(sql!("attempt_last"))
        .bind(id.0)
        .fetch_optional(connection)
        .await?;
    let attempt = |(attempt_no, outcome, owner, finished_at, code, detail): Columns| {
        Ok(LastAttempt {
            attempt_no: rows::count(attempt_no)?,
            outcome: rows::attempt_outcome(&outcome)?,
            owner,
            finished_at: rows::timestamp(finished_at)?,
            code,
            detail,
        })
    };
    last.map(attempt).transpose()
}

/// Where a message is that was not delivered.
async fn unfinished(connection: &mut SqliteConnection, id: MessageId) -> Result<State> {
    let dead: Option<(i64, String, Option<String>)> = sqlx::query_as(sql!("dead_get"))
        .bind(id.0)
        .fetch_optional(&mut *connection)
        .await?;
    if let Some((at, code, detail)) = dead {
        let at = rows::timestamp(at)?;
        return Ok(State::Dead { at, code, detail });
    }
    let discarded: Option<(i64, String, String)> = sqlx::query_as(sql!("discarded_get"))
        .bind(id.0)
        .fetch_optional(&mut *connection)
        .await?;
    if let Some((at, actor, reason)) = discarded {
        let at = rows::timestamp(at)?;
        return Ok(State::Discarded { at, actor, reason });
    }
    let held: Option<(i64, String)> = sqlx::query_as(sql!("held_get"))
        .bind(id.0)
        .fetch_optional(&mut *connection)
        .await?;
    if let Some((at, reason)) = held {
        let at = rows::timestamp(at)?;
        return Ok(State::Held { at, reason });
    }
    let waiting: Option<Option<i64>> = sqlx::query_scalar(sql!("waiting_behind"))
        .bind(id.0)
        .fetch_optional(&mut *connection)
        .await?;
    if let Some(behind) = waiting {
        let behind = behind.map(MessageId);
        return Ok(State::Waiting { behind });
    }
    let leases = leases(connection, u32::MAX).await?;
    if let Some(lease) = leases.into_iter().find(|lease| lease.ids.contains(&id)) {
        return Ok(State::Leased {
            begun: lease.begun.contains(&id),
            owner: lease.owner,
            fence: lease.fence,
            expires_at: lease.expires_at,
        });
    }
    let batches = batches_holding(connection, &BTreeSet::from([id])).await?;
    match batches.first() {
        Some(FoundBatch { due_at, .. }) => Ok(State::Ready { due_at: *due_at }),
        None => Err(Failure::corrupt(format!("message {id} has no state"))),
    }
}

type MessageColumns = (
    i64,
    String,
    Option<String>,
    Option<String>,
    i64,
    Option<i64>,
    String,
    String,
);

/// A message by its id.
pub async fn message(connection: &mut SqliteConnection, id: MessageId) -> Result<Option<Message>> {
    let found: Option<MessageColumns> = sqlx::query_as(sql!("message_get"))
        .bind(id.0)
        .fetch_optional(connection)
        .await?;
    let message = |columns: MessageColumns| {
        let (id, queue, key, group, created_at, expires_at, headers, payload) = columns;
        Ok(Message {
            id: MessageId(id),
            queue: rows::queue_name(&queue)?,
            key,
            group,
            payload: rows::payload(&payload)?,
            headers: rows::document(&headers)?,
            created_at: rows::timestamp(created_at)?,
            expires_at: expires_at.map(rows::timestamp).transpose()?,
        })
    };
    found.map(message).transpose()
}

pub(crate) async fn history(
    connection: &mut SqliteConnection,
    id: MessageId,
) -> Result<Vec<Attempt>> {
    let found: Vec<AttemptColumns> = sqlx::query_as(sql!("attempt_history"))
        .bind(id.0)
        .fetch_all(connection)
        .await?;
    found.into_iter().map(rows::attempt).collect()
}

/// Message, queue, when, attempt, code, detail.
pub(crate) type LetterColumns = (i64, String, i64, i64, String, Option<String>);

pub(crate) fn letter(
    (id, queue, at, attempt_no, code, detail): LetterColumns,
) -> Result<DeadLetter> {
    Ok(DeadLetter {
        message_id: MessageId(id),
        queue: rows::queue_name(&queue)?,
        at: rows::timestamp(at)?,
        attempt_no: rows::count(attempt_no)?,
        code,
        detail,
    })
}

pub(crate) async fn leases(
    connection: &mut SqliteConnection,
    limit: u32,
) -> Result<Vec<LeaseView>> {
    type Columns = (i64, Uuid, String, String, i64, i64, String, String);
    let found: Vec<Columns> = sqlx::query_as(sql!("lease_list"))
        .bind(limit)
        .fetch_all(connection)
        .await?;
    let view = |(fence, token, queue, owner, claimed_at, expires_at, ids, begun): Columns| {
        let what = || format!("lease {fence}");
        let ids_of = |text: &str| -> Result<Vec<MessageId>> {
            Ok(rows::numbers(&what, text)?
                .into_iter()
                .map(MessageId)
                .collect())
        };
        Ok(LeaseView {
            fence: Fence(fence),
            token_prefix: Token(token).shown(),
            queue: rows::queue_name(&queue)?,
            owner,
            ids: ids_of(&ids)?,
            begun: ids_of(&begun)?,
            claimed_at: rows::timestamp(claimed_at)?,
            expires_at: rows::timestamp(expires_at)?,
        })
    };
    found.into_iter().map(view).collect()
}

pub(crate) async fn audit(
    connection: &mut SqliteConnection,
    id: Option<MessageId>,
    before: Option<i64>,
    limit: u32,
) -> Result<Vec<AuditEntry>> {
    let statement = match id {
        Some(_) => sql!("audit_of_message"),
        None => sql!("audit_list"),
    };
    let found: Vec<AuditColumns> = sqlx::query_as(statement)
        .bind(id.map(|id| id.0))
        .bind(before.unwrap_or(i64::MAX))
        .bind(limit)
        .fetch_all(connection)
        .await?;
    found.into_iter().map(rows::audit_entry).collect()
}

pub(crate) fn state_kind(word: &str) -> Result<StateKind> {
    word.parse()
        .map_err(|error| Failure::corrupt(format!("{error}")))
}
