//! Enqueueing, in the caller's transaction or in one of its own: one statement either way.

use std::time::Duration;

use async_trait::async_trait;
use consign_kernel::{Due, MessageId, NewMessage, Produce, QueuePolicy, Receipt, Result};
use jiff::Timestamp;
use jiff_sqlx::ToSqlx;
use serde_json::{Map, Value};
use sqlx::{
    PgConnection,
    postgres::{PgRow, types::PgInterval},
    types::Json,
};

use crate::{PostgresStore, error::store_error, rows, store::Statement};

/// Larger payloads are checked against their queues' limits before they are sent: by the time the
/// database rejects one, it has read it.
const LOOK_UP_BYTES: usize = 64 * 1024;

/// Enqueues all messages or none inside the caller's own transaction.
///
/// Nothing is visible to workers before that transaction commits. After an error the transaction
/// is aborted, as after any failed statement.
pub async fn enqueue_in(
    connection: &mut PgConnection,
    messages: &[NewMessage],
) -> Result<Vec<Receipt>> {
    let Some(statement) = statement(messages)? else {
        return Ok(Vec::new());
    };
    if let Some(limits) = limits(messages) {
        let rows = limits.persistent(false).fetch_all(&mut *connection).await;
        check_sizes(
            &rows.map_err(|error| store_error("enqueue", error))?,
            messages,
        )?;
    }
    let rows = statement.persistent(false).fetch_all(connection).await;
    answers(
        &rows.map_err(|error| store_error("enqueue", error))?,
        messages,
    )
}

#[async_trait]
impl Produce for PostgresStore {
    async fn enqueue(&self, messages: &[NewMessage]) -> Result<Vec<Receipt>> {
        let Some(statement) = statement(messages)? else {
            return Ok(Vec::new());
        };
        if let Some(limits) = limits(messages) {
            check_sizes(&self.fetch("enqueue", limits).await?, messages)?;
        }
        let enqueued = answers(&self.fetch("enqueue", statement).await?, messages)?;
        for message in messages {
            self.wakes.notify(&message.queue, message.due == Due::NOW);
        }
        Ok(enqueued)
    }
}

/// Reads the limits of the queues that large payloads are for; none where all are small.
fn limits(messages: &[NewMessage]) -> Option<Statement<'_>> {
    let is_large = |message: &&NewMessage| message.payload.as_str().len() > LOOK_UP_BYTES;
    let large = messages.iter().filter(is_large);
    let mut queues: Vec<&str> = large.map(|message| message.queue.as_str()).collect();
    queues.sort_unstable();
    queues.dedup();
    let sql = "SELECT queue, bytes_max FROM consign.payload_limits($1)";
    (!queues.is_empty()).then(|| sqlx::query(sql).bind(queues))
}

fn check_sizes(limits: &[PgRow], messages: &[NewMessage]) -> Result<()> {
    for row in limits {
        let queue: &str = rows::column(row, "queue")?;
        let bytes_max = rows::count(row, "bytes_max")?;
        let policy = QueuePolicy {
            payload_max_bytes: usize::try_from(bytes_max).unwrap_or(usize::MAX),
            ..QueuePolicy::default()
        };
        for (index, message) in messages.iter().enumerate() {
            if message.queue.as_str() == queue {
                message.validate(index, &policy)?;
            }
        }
    }
    Ok(())
}

/// The statement for a call; none for no messages.
fn statement(messages: &[NewMessage]) -> Result<Option<Statement<'_>>> {
    // The database checks the queue's own payload limit.
    let no_limit = QueuePolicy {
        payload_max_bytes: usize::MAX,
        ..QueuePolicy::default()
    };
    for (index, message) in messages.iter().enumerate() {
        message.validate(index, &no_limit)?;
    }
    let Some(first) = messages.first() else {
        return Ok(None);
    };
    let uniform = messages
        .iter()
        .all(|m| (&m.queue, m.due, m.expires_at) == (&first.queue, first.due, first.expires_at));
    Ok(Some(if uniform {
        let sql =
            "SELECT id, duplicate, state FROM consign.enqueue_many($1, $2, $3, $4, $5, $6, $7, $8)";
        let statement = sqlx::query(sql).bind(first.queue.as_str());
        let (delay, at) = due(first);
        bind_contents(statement, messages)
            .bind(delay)
            .bind(at)
            .bind(expiry(first))
    } else {
        let sql = "SELECT id, duplicate, state FROM consign.enqueue_mixed($1, $2, $3, $4, $5, $6, $7, $8)";
        let queues: Vec<&str> = messages.iter().map(|m| m.queue.as_str()).collect();
        let (delays, ats): (Vec<_>, Vec<_>) = messages.iter().map(due).unzip();
        bind_contents(sqlx::query(sql).bind(queues), messages)
            .bind(delays)
            .bind(unless_empty(ats))
            .bind(unless_empty(messages.iter().map(expiry).collect()))
    }))
}

fn unless_empty<T>(values: Vec<Option<T>>) -> Option<Vec<Option<T>>> {
    values.iter().any(Option::is_some).then_some(values)
}

/// The delay of a message, or the time when it is due.
fn due(message: &NewMessage) -> (PgInterval, Option<jiff_sqlx::Timestamp>) {
    match message.due {
        Due::In(delay) => (rows::interval(delay), None),
        // Before what PostgreSQL can keep is as long past as any other time.
        Due::At(at) => {
            let at = at.max(Timestamp::UNIX_EPOCH);
            (rows::interval(Duration::ZERO), Some(at.to_sqlx()))
        }
    }
}

/// From when on a message is not sent any more.
fn expiry(message: &NewMessage) -> Option<jiff_sqlx::Timestamp> {
    // Before what PostgreSQL can keep is as long past as any other time.
    let at = message.expiry()?.max(Timestamp::UNIX_EPOCH);
    Some(at.to_sqlx())
}

/// Payloads, keys, groups and headers; unused columns are NULL.
fn bind_contents<'m>(statement: Statement<'m>, messages: &'m [NewMessage]) -> Statement<'m> {
    fn headers(message: &NewMessage) -> Option<Json<&Map<String, Value>>> {
        (!message.headers.is_empty()).then_some(Json(&message.headers))
    }
    statement
        .bind(
            messages
                .iter()
                .map(|m| Json(&m.payload))
                .collect::<Vec<_>>(),
        )
        .bind(unless_empty(
            messages.iter().map(|m| m.key.as_deref()).collect(),
        ))
        .bind(unless_empty(
            messages.iter().map(|m| m.group.as_deref()).collect(),
        ))
        .bind(unless_empty(messages.iter().map(headers).collect()))
}

fn answers(rows: &[PgRow], messages: &[NewMessage]) -> Result<Vec<Receipt>> {
    if rows.len() != messages.len() {
        return Err(rows::corrupt("enqueue answered another number of messages"));
    }
    let answer = |row| {
        Ok(Receipt {
            id: MessageId(rows::column(row, "id")?),
            duplicate: rows::column(row, "duplicate")?,
            state: rows::state(row)?,
        })
    };
    rows.iter().map(answer).collect()
}
