//! Sent and dead memories without the audit of that.

use consign_kernel::MessageId;
use consign_memory::{Action, AuditStatus, Finding, Issue, ReconcileOptions};
use serde_json::{Value, json};
use sqlx::{Row, SqliteConnection, sqlite::SqliteRow};

use super::{Found, new_correlation_id, nothing};
use crate::{
    error::{Failure, Result},
    job::Work,
    memory::{
        rows as logbook,
        told::{RECONCILE, Told, facts, iso},
    },
    rows, sql,
};

/// Memories without the audit of their outcome, oldest first.
pub(super) async fn missing(
    connection: &mut SqliteConnection,
    is_dead: bool,
    batch: u32,
) -> Result<Vec<MessageId>> {
    let ids: Vec<i64> = sqlx::query_scalar(sql!("reconcile_missing"))
        .bind(is_dead)
        .bind(batch)
        .fetch_all(connection)
        .await?;
    Ok(ids.into_iter().map(MessageId).collect())
}

impl Work<'_> {
    /// Writes the audits that should have been written with the outcome.
    pub(super) async fn reconcile_outcomes(
        &mut self,
        issue: Issue,
        seen: &[MessageId],
        options: &ReconcileOptions,
    ) -> Result<Vec<Found>> {
        if seen.is_empty() {
            return Ok(Vec::new());
        }
        let is_dead = issue == Issue::DeadMissingAudit;
        let missing = sqlx::query(sql!("reconcile_outcomes"))
            .bind(is_dead)
            .bind(rows::id_array(seen))
            .fetch_all(&mut *self.connection)
            .await?;
        let mut found = Vec::with_capacity(missing.len());
        for row in missing {
            let mut finding = Finding {
                outbox_id: Some(MessageId(row.try_get("id")?)),
                ..nothing(issue)
            };
            if options.is_repairing {
                let told = self.tell_late(&row, is_dead)?;
                finding.audit_id = Some(self.audit_late(&told).await?);
                finding.fixed = true;
            }
            found.push((logbook::time(&row, "finished_at")?, finding));
        }
        Ok(found)
    }

    /// What the audit of an outcome says that is written after the fact.
    fn tell_late(&self, row: &SqliteRow, is_dead: bool) -> Result<Told> {
        let code: Option<String> = row.try_get("code")?;
        let detail: Option<String> = row.try_get("detail")?;
        let result: Option<String> = row.try_get("result")?;
        let result: Value = result
            .as_deref()
            .map(rows::document)
            .transpose()?
            .unwrap_or_default();
        let is_hit = !is_dead && code.as_deref() == Some("dedup_hit");
        let (action, reason, status) = match (is_dead, is_hit) {
            (true, _) => (Action::Reject, "outbox_flush_dead", AuditStatus::Failed),
            (false, true) => (
                Action::Allow,
                "outbox_flush_dedup_hit",
                AuditStatus::Success,
            ),
            (false, false) => (Action::Allow, "outbox_flush_success", AuditStatus::Success),
        };
        let owner: String = row.try_get("owner")?;
        let text = |name: &str| result.get(name).and_then(Value::as_str).map(str::to_owned);
        Ok(Told {
            id: MessageId(row.try_get("id")?),
            attempt_no: rows::count(row.try_get("attempt_no")?)?,
            correlation_id: new_correlation_id(),
            action,
            reason,
            status,
            memory_id: text("memory_id"),
            backend: text("backend"),
            next_attempt_at: None,
            extra: json!({
                "worker_id": owner,
                "last_error": detail.or(code).filter(|_| is_dead),
                "original_outbox_id": result.get("original_outbox_id").filter(|_| is_hit),
                "stored_again": result.get("stored_again"),
                "reconciled": true,
                "reconcile_time": iso(self.now),
            }),
        })
    }

    /// Writes an audit of the reconciler's.
    pub(super) async fn audit_late(&mut self, told: &Told) -> Result<i64> {
        let facts = facts(self.connection, std::slice::from_ref(told)).await?;
        let Some(facts) = facts.first() else {
            return Err(Failure::corrupt(format!("memory {} is not there", told.id)));
        };
        let audit = told.audit(facts, RECONCILE, self.now);
        self.add_audit(&audit).await
    }
}
