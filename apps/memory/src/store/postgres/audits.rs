//! Write audits.

use crate::{
    Action, Audit, AuditEnd, AuditFilter, AuditStatus, KeepResult, KnownMemory, NewAudit,
    NewMemory, OpenResult, Opening, Settings,
};
use consign_kernel::{MessageId, Result};
use jiff_sqlx::ToSqlx as _;
use serde::Serialize;
use serde_json::{Map, Value, json};
use sqlx::{postgres::PgRow, types::Json};

use super::at_most;
use consign_postgres::{PostgresStore, extension::rows};

/// Settings at the time of a decision.
#[derive(Serialize)]
struct SettingsSnapshot<'a> {
    project_key: &'a str,
    team_write_enabled: bool,
    policy_json: &'a Map<String, Value>,
}

impl<'a> SettingsSnapshot<'a> {
    fn new(settings: &'a Settings) -> Self {
        Self {
            project_key: &settings.project_key,
            team_write_enabled: settings.team_write_enabled,
            policy_json: &settings.policy_json,
        }
    }
}

/// A memory to store.
#[derive(Serialize)]
struct MemoryInsert<'a> {
    payload_md: &'a str,
    kind: Option<&'a str>,
    actor_user_id: Option<&'a str>,
    meta_json: &'a Map<String, Value>,
    evidence: &'a [Value],
    supersedes: Option<&'a str>,
}

impl<'a> MemoryInsert<'a> {
    fn new(memory: &'a NewMemory) -> Self {
        Self {
            payload_md: &memory.payload_md,
            kind: memory.kind.as_deref(),
            actor_user_id: memory.actor_user_id.as_deref(),
            meta_json: &memory.meta_json,
            evidence: &memory.evidence,
            supersedes: memory.supersedes.as_deref(),
        }
    }
}

pub(super) async fn open_write(store: &PostgresStore, opening: &Opening) -> Result<OpenResult> {
    let audit = &opening.audit;
    let sql = "SELECT * FROM logbook.open_write($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
    let statement = sqlx::query(sql)
        .bind(&audit.actor_user_id)
        .bind(&audit.target_space)
        .bind(audit.action.as_str())
        .bind(&audit.reason)
        .bind(&audit.payload_sha)
        .bind(Json(&audit.evidence_refs_json))
        .bind(&audit.correlation_id)
        .bind(
            opening
                .settings
                .as_deref()
                .map(SettingsSnapshot::new)
                .map(Json),
        )
        .bind(&opening.user_id)
        .bind(opening.is_deduplicated)
        .bind(opening.kept.as_ref().map(MemoryInsert::new).map(Json));
    let rows = store.fetch("begin a write", statement).await?;
    let row = rows::only(&rows)?;
    Ok(match rows::column(row, "answer")? {
        "pending" => OpenResult::Pending {
            in_doubt: rows::column(row, "in_doubt")?,
        },
        "stale" => OpenResult::Stale,
        "kept" => OpenResult::Kept(KeepResult {
            memory_id: rows::column(row, "memory_id")?,
            is_new: rows::column(row, "is_new")?,
        }),
        "known" => OpenResult::Known(KnownMemory {
            outbox_id: rows::column::<Option<i64>>(row, "outbox_id")?.map(MessageId),
            memory_id: rows::column(row, "memory_id")?,
        }),
        other => {
            return Err(rows::corrupt(format!(
                "unknown result {other:?} of open_write"
            )));
        }
    })
}

pub(super) async fn insert_audit(store: &PostgresStore, audit: &NewAudit) -> Result<i64> {
    let sql = "SELECT governance.insert_write_audit($1, $2, $3, $4, $5, $6, $7, $8) AS audit_id";
    let statement = sqlx::query(sql)
        .bind(&audit.actor_user_id)
        .bind(&audit.target_space)
        .bind(audit.action.as_str())
        .bind(&audit.reason)
        .bind(&audit.payload_sha)
        .bind(Json(&audit.evidence_refs_json))
        .bind(&audit.correlation_id)
        .bind(audit.status.as_str());
    let rows = store.fetch("write an audit", statement).await?;
    rows::column(rows::only(&rows)?, "audit_id")
}

pub(super) async fn finalize_audit(
    store: &PostgresStore,
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
    let rows = store.fetch("end an audit", statement).await?;
    Ok(rows::count(rows::only(&rows)?, "count")? > 0)
}

pub(super) async fn audits(
    store: &PostgresStore,
    filter: &AuditFilter,
    limit: u32,
) -> Result<Vec<Audit>> {
    let sql = "SELECT * FROM governance.query_write_audit($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
    let statement = sqlx::query(sql)
        .bind(filter.since.map(|since| since.to_sqlx()))
        .bind(at_most(limit))
        .bind(&filter.actor_user_id)
        .bind(filter.action.map(Action::as_str))
        .bind(&filter.target_space)
        .bind(&filter.reason_prefix)
        .bind(&filter.correlation_id)
        .bind(filter.status.map(AuditStatus::as_str))
        .bind(filter.outbox_id)
        .bind(filter.until.map(|until| until.to_sqlx()))
        .bind(filter.before)
        .bind(filter.after);
    let rows = store.read("read audits", statement).await?;
    rows.iter().map(audit_of).collect()
}

fn audit_of(row: &PgRow) -> Result<Audit> {
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

/// An audit as JSON, for functions that write more than an audit.
pub(super) fn document(audit: &NewAudit) -> Value {
    json!({
        "actor_user_id": audit.actor_user_id,
        "target_space": audit.target_space,
        "action": audit.action,
        "reason": audit.reason,
        "payload_sha": audit.payload_sha,
        "evidence_refs_json": audit.evidence_refs_json,
        "correlation_id": audit.correlation_id,
        "status": audit.status,
    })
}
