//! Rows of the ledger.

use consign_kernel::Result;
use consign_postgres::extension::rows;
use consign_scm::{Change, PatchState, PendingPatch, Repo, RepoStatus, Stop};
use sqlx::{postgres::PgRow, types::Json};

pub(super) fn repo(row: &PgRow) -> Result<Repo> {
    Ok(Repo {
        repo_id: rows::column(row, "repo_id")?,
        provider: rows::word(row, "provider")?,
        url: rows::column(row, "url")?,
        project_key: rows::column(row, "project_key")?,
        default_branch: rows::column(row, "default_branch")?,
        created_at: rows::time(row, "created_at")?,
    })
}

pub(super) fn change(row: &PgRow) -> Result<Change> {
    let Json(meta_json) = rows::column(row, "meta_json")?;
    Ok(Change {
        position: rows::column(row, "position")?,
        repo_id: rows::column(row, "repo_id")?,
        source_id: rows::column(row, "source_id")?,
        rev_or_sha: rows::column(row, "rev_or_sha")?,
        author_raw: rows::column(row, "author_raw")?,
        ts: rows::optional_time(row, "ts")?,
        message: rows::column(row, "message")?,
        is_merge: rows::column(row, "is_merge")?,
        bulk_reason: rows::column(row, "bulk_reason")?,
        meta_json,
    })
}

pub(super) fn status(row: &PgRow) -> Result<RepoStatus> {
    let Json(watermarks) = rows::column(row, "watermarks")?;
    Ok(RepoStatus {
        repo: repo(row)?,
        changes: rows::count(row, "changes")?,
        last_position: rows::column(row, "last_position")?,
        last_change_at: rows::optional_time(row, "last_change_at")?,
        unconsumed: rows::count(row, "unconsumed")?,
        consumed_position: rows::column(row, "consumed_position")?,
        patches_failed: rows::count(row, "patches_failed")?,
        patches_here: rows::count(row, "patches_here")?,
        watermarks,
        watermarks_moved_at: rows::optional_time(row, "watermarks_moved_at")?,
        synced_at: rows::optional_time(row, "synced_at")?,
        sync_stopped: stop(row, ["sync_stopped_at", "sync_code", "sync_message"])?,
        consumed_at: rows::optional_time(row, "consumed_at")?,
        consume_stopped: stop(
            row,
            ["consume_stopped_at", "consume_code", "consume_message"],
        )?,
    })
}

/// The failure in these columns.
fn stop(row: &PgRow, [at, code, message]: [&'static str; 3]) -> Result<Option<Stop>> {
    let Some(at) = rows::optional_time(row, at)? else {
        return Ok(None);
    };
    Ok(Some(Stop {
        code: rows::column(row, code)?,
        message: rows::column(row, message)?,
        at,
    }))
}

pub(super) fn pending(row: &PgRow) -> Result<PendingPatch> {
    Ok(PendingPatch {
        position: rows::column(row, "position")?,
        rev_or_sha: rows::column(row, "rev_or_sha")?,
        attempts: rows::number(row, "attempts")?,
        error: rows::column(row, "error")?,
    })
}

pub(super) fn patch(row: &PgRow) -> Result<PatchState> {
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
