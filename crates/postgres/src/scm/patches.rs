//! The changes themselves: which are missing, which are here.

use consign_kernel::Result as KernelResult;
use consign_scm::{Patch, PatchState, PendingPatch};
use sqlx::{postgres::PgRow, types::Json};

use super::{About, Result, unreadable};
use crate::{PostgresStore, rows};

impl PostgresStore {
    pub(super) async fn unmaterialized_impl(
        &self,
        repo_id: i64,
        after: i64,
        limit: u32,
    ) -> Result<Vec<PendingPatch>> {
        let statement = sqlx::query(include_str!("../../sql/scm_unmaterialized.sql"))
            .bind(repo_id)
            .bind(after)
            .bind(i64::from(limit));
        let rows = self.look(statement).await?;
        let pending: KernelResult<Vec<_>> = rows.iter().map(pending).collect();
        pending.map_err(unreadable)
    }

    pub(super) async fn failed_patches_impl(
        &self,
        repo_id: i64,
        (attempts, position): (u32, i64),
        limit: u32,
    ) -> Result<Vec<PendingPatch>> {
        let statement = sqlx::query(include_str!("../../sql/scm_failed_patches.sql"))
            .bind(repo_id)
            .bind(i64::from(attempts))
            .bind(position)
            .bind(i64::from(limit));
        let rows = self.look(statement).await?;
        let pending: KernelResult<Vec<_>> = rows.iter().map(pending).collect();
        pending.map_err(unreadable)
    }

    pub(super) async fn put_patch_impl(&self, patch: &Patch) -> Result<i64> {
        let sql = "SELECT scm.put_patch($1, $2, $3, $4, $5, $6, $7, $8) AS blob_id";
        let statement = sqlx::query(sql)
            .bind(patch.repo_id)
            .bind(&patch.rev_or_sha)
            .bind(&patch.uri)
            .bind(&patch.sha256)
            .bind(patch.size_bytes)
            .bind(patch.format.as_str())
            .bind(&patch.degrade_reason)
            .bind(&patch.error);
        let about = About {
            repo_id: patch.repo_id,
            key: "",
        };
        let rows = self.ask(about, statement).await?;
        let row = rows::only(&rows).map_err(unreadable)?;
        rows::column(row, "blob_id").map_err(unreadable)
    }

    pub(super) async fn patch_impl(
        &self,
        repo_id: i64,
        rev_or_sha: &str,
    ) -> Result<Option<PatchState>> {
        // Of several versions the newest; one that is here before one that is not.
        let sql = "SELECT p.* FROM scm.repos r
                   JOIN scm.patch_blobs p ON p.source_type = r.repo_type AND p.source_id = r.repo_id || ':' || $2
                   WHERE r.repo_id = $1 ORDER BY p.uri IS NULL, p.blob_id DESC LIMIT 1";
        let rows = self
            .look(sqlx::query(sql).bind(repo_id).bind(rev_or_sha))
            .await?;
        let state = rows.first().map(state).transpose();
        state.map_err(unreadable)
    }

    pub(super) async fn patch_by_sha_impl(&self, sha256: &str) -> Result<Option<PatchState>> {
        let sql = "SELECT * FROM scm.patch_blobs WHERE sha256 = lower($1) AND uri IS NOT NULL
                   ORDER BY blob_id LIMIT 1";
        let rows = self.look(sqlx::query(sql).bind(sha256)).await?;
        let state = rows.first().map(state).transpose();
        state.map_err(unreadable)
    }
}

impl PostgresStore {
    pub(super) async fn patch_by_id_impl(&self, blob_id: i64) -> Result<Option<PatchState>> {
        let sql = "SELECT * FROM scm.patch_blobs WHERE blob_id = $1";
        let rows = self.look(sqlx::query(sql).bind(blob_id)).await?;
        let state = rows.first().map(state).transpose();
        state.map_err(unreadable)
    }
}

fn pending(row: &PgRow) -> KernelResult<PendingPatch> {
    Ok(PendingPatch {
        position: rows::column(row, "position")?,
        rev_or_sha: rows::column(row, "rev_or_sha")?,
        attempts: rows::number(row, "attempts")?,
        error: rows::column(row, "error")?,
    })
}

fn state(row: &PgRow) -> KernelResult<PatchState> {
    let Json(meta_json) = rows::column(row, "meta_json")?;
    Ok(PatchState {
        blob_id: rows::column(row, "blob_id")?,
        source_id: rows::column(row, "source_id")?,
        source_type: rows::column(row, "source_type")?,
        uri: rows::column(row, "uri")?,
        evidence_uri: rows::column(row, "evidence_uri")?,
        sha256: rows::column(row, "sha256")?,
        size_bytes: rows::column(row, "size_bytes")?,
        format: rows::column(row, "format")?,
        meta_json,
    })
}
