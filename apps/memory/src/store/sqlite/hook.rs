//! Audits outcomes of messages in the transaction that records them.
//!
//! In Rust and not in triggers, because a failed audit must not fail the outcome, and a trigger's
//! failure fails its statement.

use crate::{Action, AuditStatus, Correlation, audit_json::Operation};
use consign_kernel::{AttemptOutcome, MessageId, Token, codes};
use serde_json::{Value, json};
use sqlx::Row;

use super::outbox_event::{OutboxEvent, facts};
use crate::store::sqlite::{LogbookWork, sql};
use consign_sqlite::extension::{
    DeadEntry, Failure, NewAttempt, Result,
    rows::{self, LeaseRow},
};

impl LogbookWork<'_, '_> {
    /// Audits deliveries and retries; dead messages have their own audits.
    pub(in crate::store::sqlite) async fn audit_attempts(
        &mut self,
        lease: &LeaseRow,
        attempts: &[NewAttempt],
    ) -> Result<()> {
        let events = attempts
            .iter()
            .filter_map(|attempt| attempt_event(lease, attempt));
        self.audit_all(events.collect()).await
    }

    /// Audits newly dead memories: message, attempt, code and detail.
    pub(in crate::store::sqlite) async fn audit_dead(
        &mut self,
        lease: &LeaseRow,
        dead: &[DeadEntry],
    ) -> Result<()> {
        let events = dead.iter().map(|(id, attempt_no, code, detail)| OutboxEvent {
            id: *id,
            attempt_no: *attempt_no,
            correlation: Correlation::of_fence(lease.fence.0),
            action: Action::Reject,
            reason: "outbox_flush_dead",
            status: AuditStatus::Failed,
            memory_id: None,
            backend: None,
            next_attempt_at: None,
            extra: json!({"worker_id": lease.owner, "last_error": detail.as_ref().unwrap_or(code)}),
        });
        self.audit_all(events.collect()).await
    }

    /// Audits late results of this token.
    pub(in crate::store::sqlite) async fn audit_late_results(
        &mut self,
        ids: &[MessageId],
        token: Token,
    ) -> Result<()> {
        let found = sqlx::query(sql!("memory_late"))
            .bind(rows::id_array(ids))
            .bind(token.0)
            .fetch_all(&mut *self.connection)
            .await?;
        let mut events = Vec::with_capacity(found.len());
        for row in found {
            let outcome: String = row.try_get("outcome")?;
            let code: Option<String> = row.try_get("code")?;
            let detail: Option<String> = row.try_get("detail")?;
            let owner: String = row.try_get("owner")?;
            let intended = match (outcome.as_str(), code.as_deref()) {
                ("delivered", Some("dedup_hit")) => "dedup_hit",
                ("delivered", _) => "success",
                ("dead", _) => "dead",
                _ => "retry",
            };
            let last_error = detail.or(code).filter(|_| outcome != "delivered");
            events.push(OutboxEvent {
                id: MessageId(row.try_get("message_id")?),
                attempt_no: rows::count(row.try_get("attempt_no")?)?,
                correlation: Correlation::of_fence(row.try_get("fence")?),
                action: Action::Redirect,
                reason: "outbox_flush_conflict",
                status: AuditStatus::Redirected,
                memory_id: row.try_get("memory_id")?,
                backend: None,
                next_attempt_at: None,
                extra: json!({
                    "worker_id": owner,
                    "last_error": last_error,
                    "intended_action": intended,
                    "observed_status": row.try_get::<String, _>("status")?,
                    "observed_locked_by": row.try_get::<Option<String>, _>("locked_by")?,
                }),
            });
        }
        self.audit_all(events).await
    }

    /// Writes the audits, or none of them: the outcomes are recorded in any case, and `reconcile`
    /// adds missing audits.
    async fn audit_all(&mut self, events: Vec<OutboxEvent>) -> Result<()> {
        if events.is_empty() {
            return Ok(());
        }
        self.run("SAVEPOINT consign_hook").await?;
        if let Err(failure) = self.audit_each(&events).await {
            self.run("ROLLBACK TO consign_hook").await?;
            let ids: Vec<i64> = events.iter().map(|event| event.id.0).collect();
            tracing::warn!(
                ?ids,
                error = ?failure,
                "writing audits of memories failed; the outcomes are recorded, and `consign \
                 reconcile` writes the audits"
            );
        }
        self.run("RELEASE consign_hook").await
    }

    async fn audit_each(&mut self, events: &[OutboxEvent]) -> Result<()> {
        let facts = facts(self.connection, events).await?;
        if facts.len() != events.len() {
            return Err(Failure::corrupt("a memory's message is missing"));
        }
        let now = self.now;
        for (event, facts) in events.iter().zip(&facts) {
            let audit = event.audit(facts, Operation::OutboxFlush, now);
            self.add_audit(&audit).await?;
        }
        Ok(())
    }
}

/// The audit of a delivery or retry.
fn attempt_event(lease: &LeaseRow, attempt: &NewAttempt) -> Option<OutboxEvent> {
    let code = attempt.code.as_deref();
    let is_delivered = attempt.outcome == AttemptOutcome::Delivered;
    let result = attempt.result.clone().unwrap_or_default();
    let (action, reason, status) = match (is_delivered, attempt.next_due_at, code) {
        (true, _, Some("dedup_hit")) => (
            Action::Allow,
            "outbox_flush_dedup_hit",
            AuditStatus::Success,
        ),
        (true, ..) => (Action::Allow, "outbox_flush_success", AuditStatus::Success),
        (false, None, _) | (false, _, Some(codes::LEASE_EXPIRED)) => return None,
        (false, Some(_), code) => {
            let reason = match code {
                Some("db_timeout") => "outbox_flush_db_timeout",
                Some("db_error") => "outbox_flush_db_error",
                _ => "outbox_flush_retry",
            };
            (Action::Redirect, reason, AuditStatus::Redirected)
        }
    };
    let error = attempt.detail.as_deref().or(code).filter(|_| !is_delivered);
    let original = result
        .get("original_outbox_id")
        .filter(|_| code == Some("dedup_hit"));
    let text = |name: &str| result.get(name).and_then(Value::as_str).map(str::to_owned);
    Some(OutboxEvent {
        id: attempt.entry.id,
        attempt_no: attempt.entry.attempts + 1,
        correlation: Correlation::of_fence(lease.fence.0),
        action,
        reason,
        status,
        memory_id: text("memory_id"),
        backend: text("backend"),
        next_attempt_at: attempt.next_due_at,
        extra: json!({
            "worker_id": lease.owner, "last_error": error, "original_outbox_id": original,
            "stored_again": result.get("stored_again"),
        }),
    })
}
