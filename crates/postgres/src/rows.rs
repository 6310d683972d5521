//! From rows to the kernel's types, and back.

use std::time::Duration;

use consign_kernel::{
    AttemptOutcome, Error, Message, MessageId, Move, MoveResult, Queue, QueueName, QueuePolicy,
    Result, StateKind, Token, stored_result,
};
use jiff::Timestamp;
use serde_json::{Value, value::RawValue};
use sqlx::{
    Row,
    postgres::{PgRow, types::PgInterval},
    types::Json,
};

/// A column; a missing or mistyped one is a schema no version of this program made.
pub fn column<'r, T>(row: &'r PgRow, name: &'static str) -> Result<T>
where
    T: sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
{
    row.try_get(name)
        .map_err(|error| corrupt(format!("column {name}: {error}")))
}

pub fn corrupt(what: impl Into<String>) -> Error {
    Error::Corrupt { what: what.into() }
}

/// The row of a statement that answers with one.
pub fn only(rows: &[PgRow]) -> Result<&PgRow> {
    rows.first()
        .ok_or_else(|| corrupt("a function answered without a row"))
}

/// A column that holds one of the words of a type.
pub fn word<T: serde::de::DeserializeOwned>(row: &PgRow, name: &'static str) -> Result<T> {
    let word: String = column(row, name)?;
    serde_json::from_value(word.clone().into()).map_err(|_| corrupt(format!("{name} {word:?}")))
}

pub fn time(row: &PgRow, name: &'static str) -> Result<Timestamp> {
    column::<jiff_sqlx::Timestamp>(row, name).map(jiff_sqlx::Timestamp::to_jiff)
}

pub fn optional_time(row: &PgRow, name: &'static str) -> Result<Option<Timestamp>> {
    Ok(column::<Option<jiff_sqlx::Timestamp>>(row, name)?.map(jiff_sqlx::Timestamp::to_jiff))
}

/// The token of what was recorded; nil where its lease lives and the login may only read.
pub fn ended_token(row: &PgRow) -> Result<Token> {
    let token: Option<uuid::Uuid> = column(row, "token")?;
    Ok(Token(token.unwrap_or_default()))
}

pub fn count(row: &PgRow, name: &'static str) -> Result<u64> {
    let value: i64 = column(row, name)?;
    u64::try_from(value).map_err(|_| corrupt(format!("{name} is {value}")))
}

pub fn number(row: &PgRow, name: &'static str) -> Result<u32> {
    let value: i32 = column(row, name)?;
    u32::try_from(value).map_err(|_| corrupt(format!("{name} is {value}")))
}

pub fn queue_name(row: &PgRow, name: &'static str) -> Result<QueueName> {
    column::<String>(row, name)?.parse()
}

pub fn optional_queue_name(row: &PgRow, name: &'static str) -> Result<Option<QueueName>> {
    let queue: Option<String> = column(row, name)?;
    queue.as_deref().map(str::parse).transpose()
}

pub fn state(row: &PgRow) -> Result<StateKind> {
    column::<&str>(row, "state")?.parse()
}

/// What a sink answered. SQL may have written a deeper document than serde reads.
pub fn result(row: &PgRow) -> Result<Option<Value>> {
    let result: Option<Json<Box<RawValue>>> = column(row, "result")?;
    Ok(result.map(|Json(result)| stored_result(result.get())))
}

pub fn outcome(row: &PgRow) -> Result<AttemptOutcome> {
    let word: &str = column(row, "outcome")?;
    AttemptOutcome::from_word(word).ok_or_else(|| corrupt(format!("outcome {word:?}")))
}

pub fn queue(row: &PgRow) -> Result<Queue> {
    let Json(policy): Json<QueuePolicy> = column(row, "policy")?;
    Ok(Queue {
        name: queue_name(row, "name")?,
        policy,
        paused_at: optional_time(row, "paused_at")?,
    })
}

/// A message; the caller may already have its queue's name.
pub fn message(row: &PgRow, queue: QueueName) -> Result<Message> {
    let Json(payload) = column(row, "payload")?;
    let Json(headers) = column(row, "headers")?;
    Ok(Message {
        id: MessageId(column(row, "id")?),
        queue,
        key: column(row, "key")?,
        group: column(row, "group")?,
        payload,
        headers,
        created_at: time(row, "created_at")?,
        expires_at: optional_time(row, "expires_at")?,
    })
}

pub fn ids(ids: &[MessageId]) -> Vec<i64> {
    ids.iter().map(|id| id.0).collect()
}

pub fn message_ids(ids: Vec<i64>) -> Vec<MessageId> {
    ids.into_iter().map(MessageId).collect()
}

pub fn moved(row: &PgRow) -> Result<MoveResult> {
    let answer = match column::<&str>(row, "answer")? {
        "moved" => Move::Moved { state: state(row)? },
        "not_dead" => Move::NotDead { state: state(row)? },
        "not_held" => Move::NotHeld { state: state(row)? },
        "not_holdable" => Move::NotHoldable { state: state(row)? },
        "not_discardable" => Move::NotDiscardable { state: state(row)? },
        "not_cancellable" => Move::NotCancellable { state: state(row)? },
        "app_queue" => Move::AppQueue,
        "erased" => Move::Erased,
        "no_such_message" => Move::NoSuchMessage,
        other => return Err(corrupt(format!("answer {other:?}"))),
    };
    Ok(MoveResult {
        id: MessageId(column(row, "id")?),
        answer,
    })
}

/// A duration as an interval of microseconds, which no calendar can stretch.
pub fn interval(duration: Duration) -> PgInterval {
    let microseconds = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
    PgInterval {
        months: 0,
        days: 0,
        microseconds,
    }
}
