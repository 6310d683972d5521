//! Rows and what they mean: times, parallel arrays, leases.

use std::{collections::BTreeSet, str::FromStr};

use consign_kernel::{
    Attempt, AttemptOutcome, AuditEntry, Fence, MessageId, Payload, Queue, QueueName, QueuePolicy,
    Token, stored_result,
};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::error::{Failure, Result};

pub use consign_kernel::plan::{Entry, later};

pub(crate) fn entry(id: i64, tries: i64, attempts: i64) -> Result<Entry> {
    Ok(Entry {
        id: MessageId(id),
        tries: count(tries)?,
        attempts: count(attempts)?,
    })
}

/// Entries as the three arrays of a row.
pub(crate) struct Arrays {
    pub(crate) ids: String,
    pub(crate) tries: String,
    pub(crate) attempts: String,
}

impl Arrays {
    pub(crate) fn of(entries: &[Entry]) -> Self {
        Self {
            ids: array(entries.iter().map(|entry| entry.id.0)),
            tries: array(entries.iter().map(|entry| entry.tries.into())),
            attempts: array(entries.iter().map(|entry| entry.attempts.into())),
        }
    }
}

/// The entries of three arrays; `what` names the row they are in.
pub(crate) fn entries(
    what: &dyn Fn() -> String,
    ids: &str,
    tries: &str,
    attempts: &str,
) -> Result<Vec<Entry>> {
    let (ids, tries, attempts) = (
        numbers(what, ids)?,
        numbers(what, tries)?,
        numbers(what, attempts)?,
    );
    if ids.len() != tries.len() || ids.len() != attempts.len() {
        let what = what();
        return Err(Failure::corrupt(format!(
            "{what} has arrays of unequal length"
        )));
    }
    let parallel = ids.into_iter().zip(tries).zip(attempts);
    parallel
        .map(|((id, tries), attempts)| entry(id, tries, attempts))
        .collect()
}

/// A JSON array of numbers.
pub fn array(numbers: impl Iterator<Item = i64>) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(2 + 8 * numbers.size_hint().0);
    text.push('[');
    for number in numbers {
        if text.len() > 1 {
            text.push(',');
        }
        write!(text, "{number}").expect("invariant: a String takes everything");
    }
    text.push(']');
    text
}

/// The ids of messages as a JSON array.
pub fn id_array<'a>(ids: impl IntoIterator<Item = &'a MessageId>) -> String {
    array(ids.into_iter().map(|id| id.0))
}

pub fn numbers(what: &dyn Fn() -> String, text: &str) -> Result<Vec<i64>> {
    serde_json::from_str(text).map_err(|error| Failure::corrupt(format!("{}: {error}", what())))
}

/// Rows for a statement that unnests them with `json_each`.
pub fn json(rows: &impl serde::Serialize) -> String {
    serde_json::to_string(rows).expect("invariant: rows serialise")
}

pub fn count(number: i64) -> Result<u32> {
    u32::try_from(number).map_err(|_| Failure::corrupt(format!("{number} is not a count")))
}

pub fn micros(at: Timestamp) -> i64 {
    at.as_microsecond()
}

pub fn timestamp(micros: i64) -> Result<Timestamp> {
    Timestamp::from_microsecond(micros)
        .map_err(|_| Failure::corrupt(format!("{micros} is not a time in microseconds")))
}

pub fn queue_name(name: &str) -> Result<QueueName> {
    QueueName::from_str(name).map_err(|error| Failure::corrupt(error.to_string()))
}

pub(crate) fn policy(queue: &str, text: &str) -> Result<QueuePolicy> {
    serde_json::from_str(text)
        .map_err(|error| Failure::corrupt(format!("the policy of queue {queue} is {error}")))
}

pub fn document<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text)
        .map_err(|error| Failure::corrupt(format!("a stored document is {error}")))
}

pub fn payload(text: &str) -> Result<Payload> {
    Payload::parse(text)
        .map_err(|error| Failure::corrupt(format!("a stored payload cannot be read: {error}")))
}

pub(crate) type QueueColumns = (String, String, Option<i64>);

pub(crate) fn queue((name, text, paused_at): QueueColumns) -> Result<Queue> {
    Ok(Queue {
        policy: policy(&name, &text)?,
        name: queue_name(&name)?,
        paused_at: paused_at.map(timestamp).transpose()?,
    })
}

/// A lease as stored, with the policy of its queue.
#[derive(Clone, Debug)]
pub struct LeaseRow {
    pub fence: Fence,
    pub token: Token,
    pub queue: QueueName,
    pub owner: String,
    pub claimed_at: Timestamp,
    pub expires_at: Timestamp,
    pub entries: Vec<Entry>,
    pub begun: BTreeSet<MessageId>,
    /// Whether the sink may have been called for its messages without a recorded start.
    pub presumed_begun: bool,
    pub policy: QueuePolicy,
}

pub type LeaseColumns = (
    i64,
    Uuid,
    String,
    String,
    i64,
    i64,
    String,
    String,
    String,
    String,
    bool,
    Option<String>,
);

impl LeaseRow {
    /// Reads a row of `lease` with the policy of its queue.
    pub fn new(columns: LeaseColumns) -> Result<Self> {
        let (
            fence,
            token,
            queue,
            owner,
            claimed_at,
            expires_at,
            ids,
            tries,
            attempts,
            begun,
            presumed_begun,
            rules,
        ) = columns;
        let what = || format!("lease {fence}");
        let Some(rules) = rules else {
            return Err(Failure::corrupt(format!(
                "lease {fence} is in unknown queue {queue}"
            )));
        };
        Ok(Self {
            fence: Fence(fence),
            token: Token(token),
            policy: policy(&queue, &rules)?,
            queue: queue_name(&queue)?,
            owner,
            claimed_at: timestamp(claimed_at)?,
            expires_at: timestamp(expires_at)?,
            entries: entries(&what, &ids, &tries, &attempts)?,
            begun: numbers(&what, &begun)?.into_iter().map(MessageId).collect(),
            presumed_begun,
        })
    }
}

pub(crate) type AttemptColumns = (
    i64,
    i64,
    String,
    String,
    i64,
    Uuid,
    i64,
    i64,
    Option<String>,
    Option<String>,
    Option<String>,
    Option<i64>,
);

pub(crate) fn attempt(columns: AttemptColumns) -> Result<Attempt> {
    let (id, no, outcome, owner, fence, token, claimed_at, finished_at, code, detail, result, due) =
        columns;
    Ok(Attempt {
        message_id: MessageId(id),
        attempt_no: count(no)?,
        outcome: attempt_outcome(&outcome)?,
        owner,
        fence: Fence(fence),
        token: Token(token),
        claimed_at: timestamp(claimed_at)?,
        finished_at: timestamp(finished_at)?,
        code,
        detail,
        result: result.as_deref().map(stored_result),
        next_due_at: due.map(timestamp).transpose()?,
    })
}

pub fn attempt_outcome(word: &str) -> Result<AttemptOutcome> {
    AttemptOutcome::from_word(word)
        .ok_or_else(|| Failure::corrupt(format!("{word:?} is not an outcome")))
}

pub(crate) type AuditColumns = (
    i64,
    i64,
    String,
    String,
    Option<String>,
    Option<i64>,
    String,
);

pub(crate) fn audit_entry(columns: AuditColumns) -> Result<AuditEntry> {
    let (id, at, actor, action, queue, message_id, reason) = columns;
    Ok(AuditEntry {
        id,
        at: timestamp(at)?,
        actor,
        action,
        queue: queue.as_deref().map(queue_name).transpose()?,
        message_id: message_id.map(MessageId),
        reason,
    })
}
