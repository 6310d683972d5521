//! Sent and dead memories without an audit of it.

use crate::{
    Action, AuditStatus, Correlation, Finding, Issue, ReconcileOptions,
    audit_json::{Operation, micros_text},
};
use consign_kernel::MessageId;
use serde_json::{Value, json};
use sqlx::{Row, SqliteConnection, sqlite::SqliteRow};

use super::{AgedFinding, nothing};
use crate::store::sqlite::{
    LogbookWork, sql,
    {
        outbox_event::{OutboxEvent, facts},
        rows as logbook,
    },
};
use consign_sqlite::extension::{Failure, Result, rows};

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

impl LogbookWork<'_, '_> {
    /// Writes the audits that are missing for outcomes.
    pub(super) async fn reconcile_outcomes(
        &mut self,
        issue: Issue,
        seen: &[MessageId],
        options: &ReconcileOptions,
    ) -> Result<Vec<AgedFinding>> {
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
                let event = self.late_event(&row, is_dead)?;
                finding.audit_id = Some(self.audit_late(&event).await?);
                finding.fixed = true;
            }
            found.push((logbook::time(&row, "finished_at")?, finding));
        }
        Ok(found)
    }

    /// The audit of an outcome that is written later.
    fn late_event(&self, row: &SqliteRow, is_dead: bool) -> Result<OutboxEvent> {
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
        Ok(OutboxEvent {
            id: MessageId(row.try_get("id")?),
            attempt_no: rows::count(row.try_get("attempt_no")?)?,
            correlation: Correlation::new(),
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
                "reconcile_time": micros_text(self.now),
            }),
        })
    }

    /// Writes an audit of the reconciler.
    pub(super) async fn audit_late(&mut self, event: &OutboxEvent) -> Result<i64> {
        let facts = facts(self.connection, std::slice::from_ref(event)).await?;
        let Some(facts) = facts.first() else {
            return Err(Failure::corrupt(format!(
                "memory {} does not exist",
                event.id
            )));
        };
        let audit = event.audit(facts, Operation::OutboxReconcile, self.now);
        self.add_audit(&audit).await
    }
}
