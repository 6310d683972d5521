//! Missing and stored changes.

use consign_artifacts::uri::masked_json;
use consign_scm::{LedgerError, Patch, PatchState, PendingPatch};
use consign_sqlite::extension::{Result, rows};
use serde_json::{Map, Value, json};
use sqlx::{Row, SqliteConnection, sqlite::SqliteRow};

use super::{Answer, check, work::ScmWork};
use crate::store::sql;

pub(super) async fn unmaterialized(
    connection: &mut SqliteConnection,
    repo_id: i64,
    after: i64,
    limit: u32,
) -> Result<Vec<PendingPatch>> {
    let found = sqlx::query(sql!("unmaterialized"))
        .bind(repo_id)
        .bind(after)
        .bind(limit)
        .fetch_all(connection)
        .await?;
    found.iter().map(pending).collect()
}

pub(super) async fn failed(
    connection: &mut SqliteConnection,
    repo_id: i64,
    (attempts, position): (u32, i64),
    limit: u32,
) -> Result<Vec<PendingPatch>> {
    let found = sqlx::query(sql!("failed_patches"))
        .bind(repo_id)
        .bind(attempts)
        .bind(position)
        .bind(limit)
        .fetch_all(connection)
        .await?;
    found.iter().map(pending).collect()
}

fn pending(row: &SqliteRow) -> Result<PendingPatch> {
    Ok(PendingPatch {
        position: row.try_get("position")?,
        rev_or_sha: row.try_get("rev_or_sha")?,
        attempts: rows::count(row.try_get("attempts")?)?,
        error: row.try_get("error")?,
    })
}

/// The rows of a change: stored ones first, the newest first.
pub(super) async fn versions(
    connection: &mut SqliteConnection,
    repo_id: i64,
    rev_or_sha: &str,
) -> Result<Vec<PatchState>> {
    let found = sqlx::query(sql!("patches_of"))
        .bind(repo_id)
        .bind(rev_or_sha)
        .fetch_all(connection)
        .await?;
    found.iter().map(state).collect()
}

pub(super) async fn by_sha(
    connection: &mut SqliteConnection,
    sha256: &str,
) -> Result<Option<PatchState>> {
    let found = sqlx::query(sql!("patch_by_sha"))
        .bind(sha256.to_ascii_lowercase())
        .fetch_optional(connection)
        .await?;
    found.as_ref().map(state).transpose()
}

pub(super) async fn by_id(
    connection: &mut SqliteConnection,
    blob_id: i64,
) -> Result<Option<PatchState>> {
    let found = sqlx::query(sql!("patch_by_id"))
        .bind(blob_id)
        .fetch_optional(connection)
        .await?;
    found.as_ref().map(state).transpose()
}

fn state(row: &SqliteRow) -> Result<PatchState> {
    Ok(PatchState {
        blob_id: row.try_get("blob_id")?,
        source_id: row.try_get("source_id")?,
        source_type: row.try_get("source_type")?,
        uri: row.try_get("uri")?,
        evidence_uri: row.try_get("evidence_uri")?,
        sha256: row.try_get("sha256")?,
        size_bytes: row.try_get("size_bytes")?,
        format: row.try_get("format")?,
        meta_json: rows::document(row.try_get("meta_json")?)?,
    })
}

impl ScmWork<'_, '_> {
    pub(super) async fn put_patch(&mut self, patch: &Patch) -> Answer<i64> {
        check::patch(patch)?;
        let Some(repo) = self.scm_repo(patch.repo_id).await? else {
            return Ok(Err(LedgerError::UnknownRepo(patch.repo_id)));
        };
        let source_type = repo.provider.repo_type();
        let source_id = format!("{}:{}", patch.repo_id, patch.rev_or_sha);
        let is_known: bool = sqlx::query_scalar(sql!("known"))
            .bind(format!("{source_type}:{source_id}"))
            .fetch_one(&mut *self.connection)
            .await?;
        if !is_known {
            let why = format!("{source_type}:{source_id} does not exist");
            return Ok(Err(LedgerError::Refused(why)));
        }
        let uri = patch.uri.as_deref().filter(|uri| !uri.is_empty());
        let known = versions(self.connection, patch.repo_id, &patch.rev_or_sha).await?;
        let stays = |version: &&PatchState| {
            version.uri.is_some() && (uri.is_none() || version.sha256 == patch.sha256)
        };
        if let Some(version) = known.iter().find(stays) {
            return Ok(Ok(version.blob_id));
        }
        let is_here = known.iter().any(|version| version.uri.is_some());
        let open = known.iter().find(|version| version.uri.is_none());
        let evidence_uri = uri.map(|_| {
            format!(
                "memory://patch_blobs/{source_type}/{source_id}/{}",
                patch.sha256
            )
        });
        let failures = open.and_then(|open| open.meta_json["attempts"].as_u64());
        let meta = Meta {
            materialized_at: uri.map(|_| format!("{:.6}", self.now).replace('Z', "+00:00")),
            evidence_uri,
            attempts: failures.unwrap_or_default() + u64::from(uri.is_none()),
        };
        let id = sqlx::query_scalar(sql!("patch_put"))
            .bind(open.map(|open| open.blob_id))
            .bind(source_type)
            .bind(&source_id)
            .bind(uri)
            .bind(&patch.sha256)
            .bind(patch.size_bytes)
            .bind(patch.format.as_str())
            .bind(masked_json(&meta.of(patch)))
            .bind(rows::micros(self.now))
            .fetch_one(&mut *self.connection)
            .await?;
        let more_here = i64::from(uri.is_some() && !is_here);
        let more_failed = i64::from(uri.is_none()) - i64::from(open.is_some());
        self.count_for(patch.repo_id, 0, more_here, more_failed)
            .await?;
        Ok(Ok(id))
    }
}

struct Meta {
    /// `None`: not stored.
    materialized_at: Option<String>,
    evidence_uri: Option<String>,
    attempts: u64,
}

impl Meta {
    fn of(self, patch: &Patch) -> Map<String, Value> {
        let is_here = self.materialized_at.is_some();
        let status = if is_here { "done" } else { "failed" };
        let error = patch.error.as_ref().filter(|_| !is_here);
        let degraded = patch.degrade_reason.as_ref().map(|_| true);
        let fields = [
            ("materialize_status", json!(status)),
            ("materialize_error", json!(error)),
            ("materialized_at", json!(self.materialized_at)),
            ("evidence_uri", json!(self.evidence_uri)),
            ("degraded", json!(degraded)),
            ("degrade_reason", json!(patch.degrade_reason)),
            ("attempts", json!(self.attempts)),
        ];
        let present = fields.into_iter().filter(|(_, value)| !value.is_null());
        present
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }
}
