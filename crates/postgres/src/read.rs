//! What is recorded about a message, and what is leased.

use async_trait::async_trait;
use consign_kernel::{
    Attempt, AttemptOutcome, AuditEntry, DeadLetter, Explanation, Fence, LastAttempt, LateResult,
    LeaseView, MessageId, Read, Result, State,
};
use sqlx::postgres::PgRow;

use crate::{PostgresStore, erase::erasure, rows};

#[async_trait]
impl Read for PostgresStore {
    async fn explain(&self, id: MessageId) -> Result<Option<Explanation>> {
        let statement = sqlx::query(include_str!("../sql/explain.sql")).bind(id.0);
        let rows = self.read("explain", statement).await?;
        rows.first().map(explanation).transpose()
    }

    async fn history(&self, id: MessageId) -> Result<Vec<Attempt>> {
        let statement = sqlx::query(include_str!("../sql/history.sql")).bind(id.0);
        self.read("read history", statement)
            .await?
            .iter()
            .map(attempt)
            .collect()
    }

    async fn late(&self, id: MessageId) -> Result<Vec<LateResult>> {
        let statement = sqlx::query(include_str!("../sql/late.sql")).bind(id.0);
        self.read("read late results", statement)
            .await?
            .iter()
            .map(late)
            .collect()
    }

    async fn leases(&self, limit: u32) -> Result<Vec<LeaseView>> {
        let statement = sqlx::query(include_str!("../sql/leases.sql")).bind(i64::from(limit));
        self.read("list leases", statement)
            .await?
            .iter()
            .map(lease_view)
            .collect()
    }

    async fn audit(
        &self,
        id: Option<MessageId>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<AuditEntry>> {
        let statement = match id {
            Some(_) => include_str!("../sql/audit_of_message.sql"),
            None => include_str!("../sql/audit.sql"),
        };
        let mut statement = sqlx::query(statement)
            .bind(before.unwrap_or(i64::MAX))
            .bind(i64::from(limit));
        if let Some(id) = id {
            statement = statement.bind(id.0);
        }
        self.read("read audit", statement)
            .await?
            .iter()
            .map(audit_entry)
            .collect()
    }
}

fn explanation(row: &PgRow) -> Result<Explanation> {
    let message = rows::message(row, rows::queue_name(row, "queue")?)?;
    let last_attempt = last_attempt(row)?;
    Ok(Explanation {
        state: state(row, message.id, last_attempt.as_ref())?,
        queue: rows::queue(row)?,
        attempts: last_attempt.as_ref().map_or(0, |last| last.attempt_no),
        last_attempt,
        erased: erasure(row)?,
        now: rows::time(row, "now")?,
        message,
    })
}

fn last_attempt(row: &PgRow) -> Result<Option<LastAttempt>> {
    if rows::column::<Option<i32>>(row, "attempt_no")?.is_none() {
        return Ok(None);
    }
    Ok(Some(LastAttempt {
        attempt_no: rows::number(row, "attempt_no")?,
        outcome: rows::outcome(row)?,
        owner: rows::column(row, "attempt_owner")?,
        finished_at: rows::time(row, "finished_at")?,
        code: rows::column(row, "attempt_code")?,
        detail: rows::column(row, "attempt_detail")?,
    }))
}

/// The state of a message, from the row of each table about it.
fn state(row: &PgRow, id: MessageId, last: Option<&LastAttempt>) -> Result<State> {
    if let Some(due_at) = rows::optional_time(row, "due_at")? {
        return Ok(State::Ready { due_at });
    }
    if let Some(owner) = rows::column::<Option<String>>(row, "owner")? {
        return Ok(State::Leased {
            owner,
            fence: Fence(rows::column(row, "fence")?),
            expires_at: rows::time(row, "lease_ends_at")?,
            begun: rows::column(row, "begun")?,
        });
    }
    if let Some(at) = rows::optional_time(row, "held_at")? {
        return Ok(State::Held {
            at,
            reason: rows::column(row, "reason")?,
        });
    }
    if let Some(at) = rows::optional_time(row, "dead_at")? {
        let (code, detail) = (rows::column(row, "code")?, rows::column(row, "detail")?);
        return Ok(State::Dead { at, code, detail });
    }
    if let Some(at) = rows::optional_time(row, "discarded_at")? {
        return Ok(State::Discarded {
            at,
            actor: rows::column(row, "discarded_by")?,
            reason: rows::column(row, "discarded_reason")?,
        });
    }
    if rows::column(row, "waiting")? {
        let behind: Option<i64> = rows::column(row, "behind")?;
        return Ok(State::Waiting {
            behind: behind.map(MessageId),
        });
    }
    if let Some(last) = last.filter(|last| last.outcome == AttemptOutcome::Delivered) {
        return Ok(State::Delivered {
            at: last.finished_at,
        });
    }
    Err(rows::corrupt(format!("message {id} has no state")))
}

pub(crate) fn attempt(row: &PgRow) -> Result<Attempt> {
    Ok(Attempt {
        message_id: MessageId(rows::column(row, "message_id")?),
        attempt_no: rows::number(row, "attempt_no")?,
        outcome: rows::outcome(row)?,
        owner: rows::column(row, "owner")?,
        fence: Fence(rows::column(row, "fence")?),
        token: rows::ended_token(row)?,
        claimed_at: rows::time(row, "claimed_at")?,
        finished_at: rows::time(row, "finished_at")?,
        code: rows::column(row, "code")?,
        detail: rows::column(row, "detail")?,
        result: rows::result(row)?,
        next_due_at: rows::optional_time(row, "next_due_at")?,
    })
}

pub(crate) fn dead_letter(row: &PgRow) -> Result<DeadLetter> {
    Ok(DeadLetter {
        message_id: MessageId(rows::column(row, "message_id")?),
        queue: rows::queue_name(row, "queue")?,
        at: rows::time(row, "at")?,
        attempt_no: rows::number(row, "attempt_no")?,
        code: rows::column(row, "code")?,
        detail: rows::column(row, "detail")?,
    })
}

fn lease_view(row: &PgRow) -> Result<LeaseView> {
    Ok(LeaseView {
        fence: Fence(rows::column(row, "fence")?),
        token_prefix: rows::column(row, "token_prefix")?,
        queue: rows::queue_name(row, "queue")?,
        owner: rows::column(row, "owner")?,
        ids: rows::message_ids(rows::column(row, "ids")?),
        begun: rows::message_ids(rows::column(row, "begun")?),
        claimed_at: rows::time(row, "claimed_at")?,
        expires_at: rows::time(row, "expires_at")?,
    })
}

pub(crate) fn audit_entry(row: &PgRow) -> Result<AuditEntry> {
    let message_id: Option<i64> = rows::column(row, "message_id")?;
    Ok(AuditEntry {
        id: rows::column(row, "id")?,
        at: rows::time(row, "at")?,
        actor: rows::column(row, "actor")?,
        action: rows::column(row, "action")?,
        queue: rows::optional_queue_name(row, "queue")?,
        message_id: message_id.map(MessageId),
        reason: rows::column(row, "reason")?,
    })
}

/// A late result from its row.
pub fn late(row: &PgRow) -> Result<LateResult> {
    let outcome = rows::outcome(row)?;
    Ok(LateResult {
        message_id: MessageId(rows::column(row, "message_id")?),
        token: rows::ended_token(row)?,
        fence: Fence(rows::column(row, "fence")?),
        owner: rows::column(row, "owner")?,
        outcome: outcome.reported().ok_or_else(|| {
            rows::corrupt(format!(
                "outcome {} of a late result is not one that workers report",
                outcome.as_str()
            ))
        })?,
        code: rows::column(row, "code")?,
        detail: rows::column(row, "detail")?,
        result: rows::result(row)?,
        at: rows::time(row, "at")?,
    })
}
