//! Enqueueing, in the caller's transaction or in one of its own.

use std::{collections::HashMap, time::Duration};

use consign_kernel::{Enqueued, Error, LaneName, LanePolicy, MessageId, NewMessage, Result};
use sqlx::{PgConnection, postgres::PgRow, types::Json};

use crate::{PostgresStore, error::store_error, rows, store::Statement};

/// Enqueues all messages or none inside the caller's own transaction.
///
/// Nothing is visible to workers before that transaction commits. After an error the transaction
/// is aborted, as after any failed statement.
pub async fn enqueue_in(
    connection: &mut PgConnection,
    messages: &[NewMessage],
) -> Result<Vec<Enqueued>> {
    let mut answers: Vec<Option<Enqueued>> = vec![None; messages.len()];
    for batch in batches(messages)? {
        let fetched = batch
            .statement()
            .persistent(false)
            .fetch_all(&mut *connection)
            .await;
        let rows =
            fetched.map_err(|error| batch.located(store_error("enqueue", error), &answers))?;
        batch.file(&rows, &mut answers)?;
    }
    complete(answers)
}

impl PostgresStore {
    pub(crate) async fn enqueue_impl(&self, messages: &[NewMessage]) -> Result<Vec<Enqueued>> {
        let batches = batches(messages)?;
        // One batch is one statement and needs no transaction around it.
        if let [batch] = batches.as_slice() {
            let mut answers = vec![None; messages.len()];
            let fetched = self.fetch("enqueue", batch.statement()).await;
            let rows = fetched.map_err(|error| batch.located(error, &answers))?;
            batch.file(&rows, &mut answers)?;
            return complete(answers);
        }
        let mut tx = self
            .pool()
            .begin()
            .await
            .map_err(|e| store_error("enqueue", e))?;
        let answers = match enqueue_in(&mut tx, messages).await {
            Ok(answers) => answers,
            Err(error) => {
                drop(tx);
                return Err(self.with_suggestion(error).await);
            }
        };
        tx.commit()
            .await
            .map_err(|error| store_error("enqueue", error))?;
        Ok(answers)
    }
}

/// Messages of one lane and one delay: what one call of `enqueue_many` takes.
struct Batch<'m> {
    lane: &'m LaneName,
    delay: Duration,
    messages: Vec<(usize, &'m NewMessage)>,
}

/// Checks the messages and sorts them into batches, in order of first appearance.
fn batches(messages: &[NewMessage]) -> Result<Vec<Batch<'_>>> {
    // The lane's own payload limit is known to the database only, which checks it.
    let no_limit = LanePolicy {
        payload_max_bytes: usize::MAX,
        ..LanePolicy::default()
    };
    let mut batches: Vec<Batch<'_>> = Vec::new();
    let mut position: HashMap<(&LaneName, Duration), usize> = HashMap::new();
    for (index, message) in messages.iter().enumerate() {
        message.validate(index, &no_limit)?;
        let at = *position
            .entry((&message.lane, message.delay))
            .or_insert_with(|| {
                let batch = Batch {
                    lane: &message.lane,
                    delay: message.delay,
                    messages: Vec::new(),
                };
                batches.push(batch);
                batches.len() - 1
            });
        batches[at].messages.push((index, message));
    }
    Ok(batches)
}

impl<'m> Batch<'m> {
    fn statement(&self) -> Statement<'m> {
        fn unless_empty<T>(values: Vec<Option<T>>) -> Option<Vec<Option<T>>> {
            values.iter().any(Option::is_some).then_some(values)
        }
        let messages = || self.messages.iter().map(|(_, message)| *message);
        let headers = |message: &'m NewMessage| {
            (!message.headers.is_empty()).then_some(Json(&message.headers))
        };
        sqlx::query("SELECT id, duplicate, state FROM consign.enqueue_many($1, $2, $3, $4, $5, $6)")
            .bind(self.lane.as_str())
            .bind(messages().map(|m| Json(&m.payload)).collect::<Vec<_>>())
            .bind(unless_empty(messages().map(|m| m.key.as_deref()).collect()))
            .bind(unless_empty(
                messages().map(|m| m.group.as_deref()).collect(),
            ))
            .bind(unless_empty(messages().map(headers).collect()))
            .bind(rows::interval(self.delay))
    }

    /// Puts the answers where their messages stood in the call.
    fn file(&self, rows: &[PgRow], answers: &mut [Option<Enqueued>]) -> Result<()> {
        if rows.len() != self.messages.len() {
            return Err(rows::corrupt(
                "enqueue_many answered another number of messages",
            ));
        }
        for ((index, _), row) in self.messages.iter().zip(rows) {
            answers[*index] = Some(Enqueued {
                id: MessageId(rows::column(row, "id")?),
                duplicate: rows::column(row, "duplicate")?,
                state: rows::state(row)?,
            });
        }
        Ok(())
    }

    /// An error with the batch's positions turned into the call's.
    fn located(&self, error: Error, answers: &[Option<Enqueued>]) -> Error {
        match error {
            Error::PayloadTooLarge {
                index,
                bytes,
                bytes_max,
                ..
            } => Error::PayloadTooLarge {
                index: self.messages.get(index).map_or(index, |(index, _)| *index),
                lane: self.lane.clone(),
                bytes,
                bytes_max,
            },
            // The message that holds the key was made by this call, and is gone with it.
            Error::KeyConflict {
                lane,
                key,
                id: Some(id),
            } if answers
                .iter()
                .flatten()
                .any(|made| made.id == id && !made.duplicate) =>
            {
                Error::KeyConflict {
                    lane,
                    key,
                    id: None,
                }
            }
            error => error,
        }
    }
}

fn complete(answers: Vec<Option<Enqueued>>) -> Result<Vec<Enqueued>> {
    let answers: Option<Vec<Enqueued>> = answers.into_iter().collect();
    answers.ok_or_else(|| rows::corrupt("enqueue left a message without an answer"))
}
