//! Write audits.

use consign_kernel::Result;
use consign_memory::{Action, Audit, AuditEnd, AuditFilter, AuditStatus, NewAudit};
use jiff_sqlx::ToSqlx as _;
use sqlx::{postgres::PgRow, types::Json};

use super::at_most;
use crate::{PostgresStore, rows};

impl PostgresStore {
    pub(super) async fn insert_audit_impl(&self, audit: &NewAudit) -> Result<i64> {
        let sql =
            "SELECT governance.insert_write_audit($1, $2, $3, $4, $5, $6, $7, $8) AS audit_id";
        let statement = sqlx::query(sql)
            .bind(&audit.actor_user_id)
            .bind(&audit.target_space)
            .bind(audit.action.as_str())
            .bind(&audit.reason)
            .bind(&audit.payload_sha)
            .bind(Json(&audit.evidence_refs_json))
            .bind(&audit.correlation_id)
            .bind(audit.status.as_str());
        let rows = self.fetch("write an audit", statement).await?;
        rows::column(rows::only(&rows)?, "audit_id")
    }

    pub(super) async fn finalize_audit_impl(
        &self,
        correlation_id: &str,
        end: &AuditEnd,
    ) -> Result<bool> {
        let sql = "SELECT governance.update_write_audit($1, $2, $3, $4, $5) AS count";
        let statement = sqlx::query(sql)
            .bind(correlation_id)
            .bind(end.status.as_str())
            .bind(end.action.map(Action::as_str))
            .bind(&end.reason)
            .bind(Json(&end.patch));
        let rows = self.fetch("end an audit", statement).await?;
        Ok(rows::count(rows::only(&rows)?, "count")? > 0)
    }

    pub(super) async fn audits_impl(&self, filter: &AuditFilter, limit: u32) -> Result<Vec<Audit>> {
        let sql = "SELECT * FROM governance.query_write_audit($1, $2, $3, $4, $5, $6, $7, $8, $9)";
        let statement = sqlx::query(sql)
            .bind(filter.since.map(|since| since.to_sqlx()))
            .bind(at_most(limit))
            .bind(&filter.actor_user_id)
            .bind(filter.action.map(Action::as_str))
            .bind(&filter.target_space)
            .bind(&filter.reason_prefix)
            .bind(&filter.correlation_id)
            .bind(filter.status.map(AuditStatus::as_str))
            .bind(filter.outbox_id);
        let rows = self.fetch("read audits", statement).await?;
        rows.iter().map(audit).collect()
    }
}

fn audit(row: &PgRow) -> Result<Audit> {
    let Json(evidence_refs_json) = rows::column(row, "evidence_refs_json")?;
    Ok(Audit {
        audit_id: rows::column(row, "audit_id")?,
        created_at: rows::time(row, "created_at")?,
        updated_at: rows::optional_time(row, "updated_at")?,
        actor_user_id: rows::column(row, "actor_user_id")?,
        target_space: rows::column(row, "target_space")?,
        action: rows::word(row, "action")?,
        reason: rows::column(row, "reason")?,
        payload_sha: rows::column(row, "payload_sha")?,
        evidence_refs_json,
        correlation_id: rows::column(row, "correlation_id")?,
        status: rows::word(row, "status")?,
    })
}
