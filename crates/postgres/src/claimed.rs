//! What a claim hands over: one row of arrays, turned into messages.

use consign_kernel::{
    ClaimedMessage, Message, MessageId, Outcome, Payload, QueueName, Report, Result, codes,
};
use serde_json::{Map, Value, value::RawValue};
use sqlx::postgres::PgRow;

use crate::rows;

/// The messages of a claim.
pub(crate) struct Contents {
    pub(crate) messages: Vec<ClaimedMessage>,
    /// Reports on those whose documents cannot be read here.
    pub(crate) unreadable: Vec<Report>,
}

/// The parallel columns of a claim. Unused columns are absent.
struct Columns {
    ids: Vec<i64>,
    keys: Option<Vec<Option<String>>>,
    groups: Option<Vec<Option<String>>>,
    created_at: Vec<jiff_sqlx::Timestamp>,
    expiries: Option<Vec<Option<jiff_sqlx::Timestamp>>>,
    attempts: Vec<i32>,
    tries: Vec<i32>,
    in_doubt: Option<Vec<bool>>,
}

pub(crate) fn contents(row: &PgRow, queue: &QueueName) -> Result<Contents> {
    let mut columns = Columns {
        ids: rows::column(row, "ids")?,
        keys: rows::column(row, "keys")?,
        groups: rows::column(row, "groups")?,
        created_at: rows::column(row, "created_at")?,
        expiries: rows::column(row, "expiries")?,
        attempts: rows::column(row, "attempts")?,
        tries: rows::column(row, "tries")?,
        in_doubt: rows::column(row, "in_doubt")?,
    };
    let payloads = bracketed(rows::column(row, "payloads")?);
    let headers = rows::column::<Option<String>>(row, "headers")?.map(bracketed);
    let mut contents = Contents {
        messages: Vec::with_capacity(columns.ids.len()),
        unreadable: Vec::new(),
    };
    let payloads = documents(&payloads)?;
    let headers = headers.as_deref().map(documents).transpose()?;
    for (index, payload) in payloads.iter().enumerate() {
        let header = headers.as_ref().and_then(|headers| headers.get(index));
        match parsed(payload, header.copied()) {
            Ok(parts) => contents
                .messages
                .push(columns.message(index, queue, parts)?),
            Err(error) => contents.unreadable.push(Report {
                code: Some(codes::UNREADABLE.to_owned()),
                detail: Some(error),
                ..Report::new(MessageId(columns.id(index)?), Outcome::Dead)
            }),
        }
    }
    Ok(contents)
}

fn bracketed(list: String) -> String {
    format!("[{list}]")
}

/// The documents of a list, not yet looked into.
fn documents(list: &str) -> Result<Vec<&RawValue>> {
    serde_json::from_str(list).map_err(|error| rows::corrupt(format!("claimed documents: {error}")))
}

fn parsed(
    payload: &RawValue,
    headers: Option<&RawValue>,
) -> std::result::Result<(Payload, Map<String, Value>), String> {
    let payload = Payload::parse(payload.get()).map_err(|error| error.to_string())?;
    let headers = headers.map(|headers| serde_json::from_str(headers.get()));
    let headers = headers.transpose().map_err(|error| error.to_string())?;
    Ok((payload, headers.unwrap_or_default()))
}

impl Columns {
    fn id(&self, index: usize) -> Result<i64> {
        self.ids.get(index).copied().ok_or_else(short)
    }

    fn message(
        &mut self,
        index: usize,
        queue: &QueueName,
        (payload, headers): (Payload, Map<String, Value>),
    ) -> Result<ClaimedMessage> {
        let text = |column: &mut Option<Vec<Option<String>>>| {
            column
                .as_mut()
                .and_then(|texts| texts.get_mut(index))
                .and_then(Option::take)
        };
        let number = |column: &[i32]| {
            let number = column.get(index).copied().ok_or_else(short)?;
            u32::try_from(number).map_err(|_| rows::corrupt(format!("a count is {number}")))
        };
        let message = Message {
            id: MessageId(self.id(index)?),
            queue: queue.clone(),
            key: text(&mut self.keys),
            group: text(&mut self.groups),
            payload,
            headers,
            created_at: self
                .created_at
                .get(index)
                .copied()
                .ok_or_else(short)?
                .to_jiff(),
            expires_at: self
                .expiries
                .as_ref()
                .and_then(|expiries| expiries.get(index).copied().flatten())
                .map(jiff_sqlx::Timestamp::to_jiff),
        };
        Ok(ClaimedMessage {
            message,
            attempt_no: number(&self.attempts)? + 1,
            tries: number(&self.tries)?,
            in_doubt: self
                .in_doubt
                .as_ref()
                .and_then(|doubt| doubt.get(index).copied())
                .unwrap_or(false),
        })
    }
}

fn short() -> consign_kernel::Error {
    rows::corrupt("a claim's columns differ in length")
}
