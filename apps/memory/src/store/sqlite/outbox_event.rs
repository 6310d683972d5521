//! The facts of an audit about a row of the outbox. PostgreSQL collects the same ones in
//! `logbook.audit_attempt` and `logbook.audit_late`.

use crate::{
    Action, AuditStatus, Correlation, NewAudit,
    audit_json::{AuditFacts, Operation, OutboxFacts, micros_text},
    correlation::attempt_id,
};
use consign_kernel::MessageId;
use jiff::Timestamp;
use serde_json::Value;
use sqlx::{Row, SqliteConnection, sqlite::SqliteRow};

use crate::store::sqlite::sql;
use consign_sqlite::extension::{Result, rows};

/// An outcome in the outbox, to be audited.
#[derive(Clone, Debug)]
pub(super) struct OutboxEvent {
    pub(super) id: MessageId,
    pub(super) attempt_no: u32,
    pub(super) correlation: Correlation,
    pub(super) action: Action,
    pub(super) reason: &'static str,
    pub(super) status: AuditStatus,
    pub(super) memory_id: Option<String>,
    /// The backend that stored it; absent: the one the message names.
    pub(super) backend: Option<String>,
    pub(super) next_attempt_at: Option<Timestamp>,
    /// Goes into `extra`; nulls are left out.
    pub(super) extra: Value,
}

/// What the message and its attempts state about a memory.
pub(super) struct Facts {
    target_space: String,
    payload_sha: String,
    /// `None`: its text was erased.
    payload_len: Option<i64>,
    actor_user_id: Option<String>,
    backend: Option<String>,
    failures: i64,
}

/// The facts of these events' memories, in order.
pub(super) async fn facts(
    connection: &mut SqliteConnection,
    events: &[OutboxEvent],
) -> Result<Vec<Facts>> {
    let keys: Vec<(MessageId, u32)> = events.iter().map(|t| (t.id, t.attempt_no)).collect();
    let found = sqlx::query(sql!("memory_facts"))
        .bind(rows::json(&keys))
        .fetch_all(connection)
        .await?;
    let facts = |row: &SqliteRow| {
        Ok(Facts {
            target_space: row.try_get("target_space")?,
            payload_sha: row.try_get("payload_sha")?,
            payload_len: row.try_get("payload_len")?,
            actor_user_id: row.try_get("actor_user_id")?,
            backend: row.try_get("backend")?,
            failures: row.try_get("failures")?,
        })
    };
    found.iter().map(facts).collect()
}

impl OutboxEvent {
    /// The audit of it.
    pub(super) fn audit(&self, facts: &Facts, operation: Operation, now: Timestamp) -> NewAudit {
        let space = &facts.target_space;
        let owner = space
            .strip_prefix("private:")
            .filter(|owner| !owner.is_empty());
        let owner = || owner.map(str::to_owned);
        let mut audit = AuditFacts {
            actor_user_id: facts.actor_user_id.clone().or_else(owner),
            final_space: Some(space.clone()),
            action: self.action,
            reason: self.reason.to_owned(),
            payload_sha: Some(facts.payload_sha.clone()),
            payload_len: facts.payload_len.and_then(|len| usize::try_from(len).ok()),
            event_ts: micros_text(now),
            memory_id: self.memory_id.clone(),
            backend: self.backend.clone().or_else(|| facts.backend.clone()),
            outbox: Some(OutboxFacts {
                outbox_id: self.id,
                // The failed attempts, this one included; the view counts those that were repeated.
                retry_count: facts.failures + i64::from(self.action == Action::Reject),
                next_attempt_at: self.next_attempt_at,
            }),
            ..AuditFacts::new(operation, &self.correlation, space.as_str())
        };
        if let Value::Object(extra) = &self.extra {
            let stated = extra.iter().filter(|(_, value)| !value.is_null());
            audit.extra = stated.map(|(k, v)| (k.clone(), v.clone())).collect();
        }
        audit.note("correlation_id", self.correlation.as_str());
        audit.note("attempt_id", attempt_id(self.id, self.attempt_no));
        audit.audit(self.status)
    }
}
