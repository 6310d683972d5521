//! Write audits: inserted, ended once, listed.

use crate::{
    Action, Audit, AuditEnd, AuditFilter, AuditStatus, NewAudit, audit_json::PendingAudit,
};
use consign_kernel::{Error, MessageId};
use sqlx::{Row, SqliteConnection};

use super::rows as logbook;
use crate::store::sqlite::{LogbookWork, sql};
use crate::uri::{mask_credentials, masked_json};
use consign_sqlite::extension::{Failure, Result, arguments, rows};

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

impl LogbookWork<'_, '_> {
    pub(super) async fn insert_audit(&mut self, audit: &NewAudit) -> Result<i64> {
        self.check_audit(audit).await?;
        self.add_audit(audit).await
    }

    /// Rejects an invalid audit, or a second pending one of the same request.
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

    /// Inserts an audit that was checked.
    pub(super) async fn add_audit(&mut self, audit: &NewAudit) -> Result<i64> {
        let id = sqlx::query_scalar(sql!("write_audit_add"))
            .bind(rows::micros(self.now))
            .bind(&audit.actor_user_id)
            .bind(&audit.target_space)
            .bind(audit.action.as_str())
            .bind(audit.reason.as_deref().map(mask_credentials))
            .bind(&audit.payload_sha)
            .bind(masked_json(&audit.evidence_refs_json))
            .bind(&audit.correlation_id)
            .bind(audit.status.as_str())
            .fetch_one(&mut *self.connection)
            .await?;
        Ok(id)
    }

    /// Ends a pending audit; that of a deferred memory with its outbox id.
    pub(super) async fn finalize_audit(
        &mut self,
        correlation_id: &str,
        end: &AuditEnd,
        outbox_id: Option<MessageId>,
    ) -> Result<bool> {
        check_end(correlation_id, end)?;
        let Some((audit_id, mut audit)) = self.pending_audit(correlation_id).await? else {
            return Ok(false);
        };
        audit.end(end, outbox_id);
        let ended = sqlx::query(sql!("write_audit_end"))
            .bind(audit_id)
            .bind(end.status.as_str())
            .bind(audit.action.as_str())
            .bind(audit.reason.as_deref().map(mask_credentials))
            .bind(masked_json(&audit.document))
            .bind(rows::micros(self.now))
            .execute(&mut *self.connection)
            .await?;
        Ok(ended.rows_affected() == 1)
    }

    async fn pending_audit(&mut self, correlation_id: &str) -> Result<Option<(i64, PendingAudit)>> {
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
        let audit = PendingAudit {
            action: logbook::action(row.try_get("action")?)?,
            reason: row.try_get("reason")?,
            document: logbook::object(row, "evidence_refs_json")?,
        };
        Ok(Some((row.try_get("audit_id")?, audit)))
    }
}

/// Rejects an audit that PostgreSQL's constraints would reject.
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
        let why = "a pending audit needs one: it could not be ended without";
        return Err(Error::invalid("correlation_id", why));
    }
    Ok(())
}

pub(super) fn pending_already() -> Error {
    Error::invalid("correlation_id", "has a pending audit already")
}

/// Rejects an invalid end.
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
