//! Write audits: written, ended once, listed.

use consign_kernel::{Error, MessageId};
use consign_memory::{Action, Audit, AuditEnd, AuditFilter, AuditStatus, NewAudit};
use serde_json::{Map, Value, json};
use sqlx::{Row, SqliteConnection};

use super::rows as logbook;
use crate::{
    error::{Failure, Result},
    job::{Work, arguments},
    rows, sql,
};

pub(super) async fn audits(
    connection: &mut SqliteConnection,
    filter: &AuditFilter,
    limit: u32,
) -> Result<Vec<Audit>> {
    let statement = match (&filter.outbox_id, &filter.correlation_id) {
        (Some(_), _) => sql!("write_audit_list_outbox"),
        (None, Some(_)) => sql!("write_audit_list_correlation"),
        (None, None) => sql!("write_audit_list_any"),
    };
    let found = sqlx::query(statement)
        .bind(filter.since.map(rows::micros))
        .bind(&filter.actor_user_id)
        .bind(filter.action.map(Action::as_str))
        .bind(&filter.target_space)
        .bind(&filter.reason_prefix)
        .bind(&filter.correlation_id)
        .bind(filter.status.map(AuditStatus::as_str))
        .bind(filter.outbox_id)
        .bind(limit.min(logbook::ROWS_MAX))
        .bind(filter.until.map(rows::micros))
        .bind(filter.before)
        .bind(filter.after)
        .fetch_all(connection)
        .await?;
    found.iter().map(logbook::audit).collect()
}

impl Work<'_> {
    pub(super) async fn insert_audit(&mut self, audit: &NewAudit) -> Result<i64> {
        self.check_audit(audit).await?;
        self.add_audit(audit).await
    }

    /// Refuses an audit that could not be kept.
    pub(super) async fn check_audit(&mut self, audit: &NewAudit) -> Result<()> {
        check_shape(audit)?;
        if audit.status != AuditStatus::Pending {
            return Ok(());
        }
        let correlation_id = audit.correlation_id.as_deref().unwrap_or_default();
        match self.pending_audit(correlation_id).await? {
            Some(_) => Err(pending_already().into()),
            None => Ok(()),
        }
    }

    /// Writes an audit that was checked.
    pub(super) async fn add_audit(&mut self, audit: &NewAudit) -> Result<i64> {
        let id = sqlx::query_scalar(sql!("write_audit_add"))
            .bind(rows::micros(self.now))
            .bind(&audit.actor_user_id)
            .bind(&audit.target_space)
            .bind(audit.action.as_str())
            .bind(audit.reason.as_deref().map(rows::masked))
            .bind(&audit.payload_sha)
            .bind(rows::masked_json(&audit.evidence_refs_json))
            .bind(&audit.correlation_id)
            .bind(audit.status.as_str())
            .fetch_one(&mut *self.connection)
            .await?;
        Ok(id)
    }

    /// `outbox_id` is written into the end, if there is one.
    pub(super) async fn finalize_audit(
        &mut self,
        correlation_id: &str,
        end: &AuditEnd,
        outbox_id: Option<MessageId>,
    ) -> Result<bool> {
        check_end(correlation_id, end)?;
        let Some(pending) = self.pending_audit(correlation_id).await? else {
            return Ok(false);
        };
        let action = end.action.unwrap_or(pending.action);
        let mut reason = end.reason.clone().or(pending.reason);
        let mut evidence = pending.evidence;
        lay_over(&mut evidence, &end.patch);
        if let Some(id) = outbox_id {
            let full = format!("{}:outbox:{id}", reason.as_deref().unwrap_or_default());
            write_outbox_id(&mut evidence, id, action, &full);
            reason = Some(full);
        }
        let ended = sqlx::query(sql!("write_audit_end"))
            .bind(pending.audit_id)
            .bind(end.status.as_str())
            .bind(action.as_str())
            .bind(reason.as_deref().map(rows::masked))
            .bind(rows::masked_json(&evidence))
            .bind(rows::micros(self.now))
            .execute(&mut *self.connection)
            .await?;
        Ok(ended.rows_affected() == 1)
    }

    async fn pending_audit(&mut self, correlation_id: &str) -> Result<Option<Pending>> {
        let statements = [
            sql!("begin", "write_audit_pending"),
            sql!("write_audit_pending"),
        ];
        let answers = self
            .open_with(statements, arguments!(correlation_id)?)
            .await?;
        let Some(row) = answers.first().and_then(|rows| rows.first()) else {
            return Ok(None);
        };
        Ok(Some(Pending {
            audit_id: row.try_get("audit_id")?,
            action: logbook::action(row.try_get("action")?)?,
            reason: row.try_get("reason")?,
            evidence: logbook::object(row, "evidence_refs_json")?,
        }))
    }
}

/// An audit that has not ended.
struct Pending {
    audit_id: i64,
    action: Action,
    reason: Option<String>,
    evidence: Map<String, Value>,
}

/// Refuses an audit that no table would take.
pub(super) fn check_shape(audit: &NewAudit) -> consign_kernel::Result<()> {
    if audit.target_space.is_empty() {
        return Err(Error::invalid("target_space", "must not be empty"));
    }
    if !audit.evidence_refs_json.is_object() {
        return Err(Error::invalid("evidence_refs_json", "must be an object"));
    }
    let is_named = audit
        .correlation_id
        .as_ref()
        .is_some_and(|id| !id.is_empty());
    if audit.status == AuditStatus::Pending && !is_named {
        let why = "a pending audit needs one: nobody could end it";
        return Err(Error::invalid("correlation_id", why));
    }
    Ok(())
}

pub(super) fn pending_already() -> Error {
    Error::invalid("correlation_id", "has a pending audit already")
}

/// Refuses an end that is none.
pub(super) fn check_end(correlation_id: &str, end: &AuditEnd) -> Result<(), Failure> {
    if correlation_id.is_empty() {
        return Err(Error::invalid("correlation_id", "must not be empty").into());
    }
    if end.status == AuditStatus::Pending {
        return Err(Error::invalid("status", "an audit ends success, failed or redirected").into());
    }
    if !(end.patch.is_object() || end.patch.is_null()) {
        return Err(Error::invalid("patch", "must be an object").into());
    }
    Ok(())
}

/// Lays a patch over a document key by key; `extra` and `gateway_event` one level deeper.
pub(super) fn lay_over(document: &mut Map<String, Value>, patch: &Value) {
    let Value::Object(patch) = patch else {
        return;
    };
    for (key, value) in patch {
        match (key.as_str(), document.get_mut(key), value) {
            ("extra" | "gateway_event", Some(Value::Object(below)), Value::Object(above)) => {
                below.extend(above.clone());
            }
            _ => {
                document.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Writes the row a memory was put off to into its audit.
fn write_outbox_id(evidence: &mut Map<String, Value>, id: MessageId, action: Action, reason: &str) {
    evidence.insert("outbox_id".into(), json!(id));
    if let Some(Value::Object(event)) = evidence.get_mut("gateway_event") {
        event.insert("outbox_id".into(), json!(id));
        if let Some(Value::Object(decision)) = event.get_mut("decision") {
            decision.insert("action".into(), json!(action.as_str()));
            decision.insert("reason".into(), json!(reason));
        }
    }
}
