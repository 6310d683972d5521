//! Whatever moves a memory writes its audit, in the transaction that records the outcome.
//!
//! Here and not in triggers, because an audit that cannot be written must not take the outcome with
//! it, and a trigger's failure is its statement's.

use consign_kernel::{AttemptOutcome, MessageId, Token, codes};
use consign_memory::{Action, AuditStatus};
use serde_json::{Value, json};
use sqlx::Row;

use super::told::{Told, WORKER, facts};
use crate::{
    error::{Failure, Result},
    job::Work,
    rows::{self, LeaseRow},
    settle::NewAttempt,
    sql,
};

impl Work<'_> {
    /// Audits attempts that delivered or will be repeated; the dead are seen as such.
    pub(crate) async fn follow_attempts(
        &mut self,
        lease: &LeaseRow,
        attempts: &[NewAttempt],
    ) -> Result<()> {
        let told = attempts.iter().filter_map(|attempt| tell(lease, attempt));
        self.audit_all(told.collect()).await
    }

    /// Audits memories that are dead from here on: message, attempt, code and detail.
    pub(crate) async fn follow_dead(
        &mut self,
        lease: &LeaseRow,
        dead: &[(MessageId, u32, String, Option<String>)],
    ) -> Result<()> {
        let told = dead.iter().map(|(id, attempt_no, code, detail)| Told {
            id: *id,
            attempt_no: *attempt_no,
            correlation_id: correlation_id(lease.fence.0),
            action: Action::Reject,
            reason: "outbox_flush_dead",
            status: AuditStatus::Failed,
            memory_id: None,
            backend: None,
            next_attempt_at: None,
            extra: json!({"worker_id": lease.owner, "last_error": detail.as_ref().unwrap_or(code)}),
        });
        self.audit_all(told.collect()).await
    }

    /// Audits results of this token that came too late.
    pub(crate) async fn follow_late(&mut self, ids: &[MessageId], token: Token) -> Result<()> {
        let found = sqlx::query(sql!("memory_late"))
            .bind(rows::id_array(ids))
            .bind(token.0)
            .fetch_all(&mut *self.connection)
            .await?;
        let mut told = Vec::with_capacity(found.len());
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
            told.push(Told {
                id: MessageId(row.try_get("message_id")?),
                attempt_no: rows::count(row.try_get("attempt_no")?)?,
                correlation_id: correlation_id(row.try_get("fence")?),
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
        self.audit_all(told).await
    }

    /// Writes audits of the worker's, or none of them: then the outcomes stand all the same, and
    /// `reconcile` makes up for it.
    async fn audit_all(&mut self, told: Vec<Told>) -> Result<()> {
        if told.is_empty() {
            return Ok(());
        }
        self.run("SAVEPOINT consign_follow").await?;
        if let Err(failure) = self.audit_each(&told).await {
            self.run("ROLLBACK TO consign_follow").await?;
            let ids: Vec<i64> = told.iter().map(|told| told.id.0).collect();
            tracing::warn!(
                ?ids,
                error = ?failure,
                "audits of memories could not be written; the outcomes stand, and `consign \
                 reconcile` writes the audits"
            );
        }
        self.run("RELEASE consign_follow").await
    }

    async fn audit_each(&mut self, told: &[Told]) -> Result<()> {
        let facts = facts(self.connection, told).await?;
        if facts.len() != told.len() {
            return Err(Failure::corrupt("a memory's message is missing"));
        }
        let now = self.now;
        for (told, facts) in told.iter().zip(&facts) {
            self.add_audit(&told.audit(facts, WORKER, now)).await?;
        }
        Ok(())
    }

    pub(crate) async fn run(&mut self, statement: &'static str) -> Result<()> {
        sqlx::query(statement)
            .execute(&mut *self.connection)
            .await?;
        Ok(())
    }
}

/// The audit of an attempt that delivered or will be repeated.
fn tell(lease: &LeaseRow, attempt: &NewAttempt) -> Option<Told> {
    let code = attempt.code.as_deref();
    let is_delivered = attempt.outcome == AttemptOutcome::Delivered;
    let result: Value = attempt.result.as_deref().map_or(Value::Null, said);
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
    Some(Told {
        id: attempt.entry.id,
        attempt_no: attempt.entry.attempts + 1,
        correlation_id: correlation_id(lease.fence.0),
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

fn said(result: &str) -> Value {
    serde_json::from_str(result).unwrap_or_default()
}

/// The correlation of a lease: all of a batch share it.
fn correlation_id(fence: i64) -> String {
    format!("corr-{fence:016x}")
}
