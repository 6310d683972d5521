//! Rows of the logbook.

use crate::{Action, Audit, AuditStatus, Settings};
use jiff::Timestamp;
use serde_json::{Map, Value};
use sqlx::{Row, sqlite::SqliteRow};

use consign_sqlite::extension::{Failure, Result, rows};

/// Maximum rows of a list.
pub(super) const ROWS_MAX: u32 = 1_000;

/// A column in microseconds.
pub(super) fn time(row: &SqliteRow, column: &str) -> Result<Timestamp> {
    rows::timestamp(row.try_get(column)?)
}

/// The same for a nullable column.
pub(super) fn time_if_any(row: &SqliteRow, column: &str) -> Result<Option<Timestamp>> {
    let micros: Option<i64> = row.try_get(column)?;
    micros.map(rows::timestamp).transpose()
}

/// A column of JSON.
pub(super) fn json(row: &SqliteRow, column: &str) -> Result<Value> {
    rows::document(row.try_get(column)?)
}

/// A column of a JSON object.
pub(super) fn object(row: &SqliteRow, column: &str) -> Result<Map<String, Value>> {
    rows::document(row.try_get(column)?)
}

pub(super) fn settings(row: &SqliteRow) -> Result<Settings> {
    Ok(Settings {
        project_key: row.try_get("project_key")?,
        team_write_enabled: row.try_get("team_write_enabled")?,
        policy_json: object(row, "policy_json")?,
        updated_by: row.try_get("updated_by")?,
        updated_at: time(row, "updated_at")?,
    })
}

pub(super) fn audit(row: &SqliteRow) -> Result<Audit> {
    Ok(Audit {
        audit_id: row.try_get("audit_id")?,
        created_at: time(row, "created_at")?,
        updated_at: time_if_any(row, "updated_at")?,
        actor_user_id: row.try_get("actor_user_id")?,
        target_space: row.try_get("target_space")?,
        action: action(row.try_get("action")?)?,
        reason: row.try_get("reason")?,
        payload_sha: row.try_get("payload_sha")?,
        evidence_refs_json: json(row, "evidence_refs_json")?,
        correlation_id: row.try_get("correlation_id")?,
        status: status(row.try_get("status")?)?,
    })
}

pub(super) fn action(word: &str) -> Result<Action> {
    let all = [Action::Allow, Action::Redirect, Action::Reject];
    let found = all.into_iter().find(|action| action.as_str() == word);
    found.ok_or_else(|| Failure::corrupt(format!("unknown audit action {word:?}")))
}

fn status(word: &str) -> Result<AuditStatus> {
    use AuditStatus::{Failed, Pending, Redirected, Success};
    let all = [Pending, Success, Failed, Redirected];
    let found = all.into_iter().find(|status| status.as_str() == word);
    found.ok_or_else(|| Failure::corrupt(format!("unknown audit status {word:?}")))
}
