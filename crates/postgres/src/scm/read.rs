//! Reading repositories, their history, and how they stand.

use consign_kernel::Result as KernelResult;
use consign_scm::{Change, Repo, RepoStatus, Stop, Stream};
use serde_json::Value;
use sqlx::{postgres::PgRow, types::Json};

use super::{Result, unreadable};
use crate::{PostgresStore, rows};

impl PostgresStore {
    pub(super) async fn repos_impl(&self) -> Result<Vec<Repo>> {
        let rows = self.look(sqlx::query("SELECT * FROM scm.repos ORDER BY repo_id"));
        let repos: KernelResult<Vec<_>> = rows.await?.iter().map(repo).collect();
        repos.map_err(unreadable)
    }

    pub(super) async fn repo_impl(&self, repo_id: i64) -> Result<Option<Repo>> {
        let statement = sqlx::query("SELECT * FROM scm.repos WHERE repo_id = $1").bind(repo_id);
        let rows = self.look(statement).await?;
        rows.first().map(repo).transpose().map_err(unreadable)
    }

    pub(super) async fn watermark_impl(
        &self,
        repo_id: i64,
        stream: Stream,
    ) -> Result<Option<Value>> {
        let statement = sqlx::query("SELECT scm.watermark($1) AS value").bind(stream.key(repo_id));
        let rows = self.look(statement).await?;
        let row = rows::only(&rows).map_err(unreadable)?;
        let value: Option<Json<Value>> = rows::column(row, "value").map_err(unreadable)?;
        Ok(value.map(|Json(value)| value))
    }

    pub(super) async fn changes_impl(
        &self,
        repo_id: i64,
        after: i64,
        limit: u32,
    ) -> Result<Vec<Change>> {
        let statement = sqlx::query(include_str!("../../sql/scm_changes.sql"))
            .bind(repo_id)
            .bind(after)
            .bind(i64::from(limit));
        let rows = self.look(statement).await?;
        let changes: KernelResult<Vec<_>> = rows.iter().map(change).collect();
        changes.map_err(unreadable)
    }

    pub(super) async fn status_impl(&self) -> Result<Vec<RepoStatus>> {
        let rows = self.look(sqlx::query("SELECT * FROM scm.status()")).await?;
        let status: KernelResult<Vec<_>> = rows.iter().map(status).collect();
        status.map_err(unreadable)
    }
}

pub(super) fn repo(row: &PgRow) -> KernelResult<Repo> {
    Ok(Repo {
        repo_id: rows::column(row, "repo_id")?,
        provider: rows::word(row, "provider")?,
        url: rows::column(row, "url")?,
        project_key: rows::column(row, "project_key")?,
        default_branch: rows::column(row, "default_branch")?,
        created_at: rows::time(row, "created_at")?,
    })
}

fn change(row: &PgRow) -> KernelResult<Change> {
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

fn status(row: &PgRow) -> KernelResult<RepoStatus> {
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

/// What was in the way, by the columns that say when and what.
fn stop(row: &PgRow, [at, code, message]: [&'static str; 3]) -> KernelResult<Option<Stop>> {
    let Some(at) = rows::optional_time(row, at)? else {
        return Ok(None);
    };
    Ok(Some(Stop {
        code: rows::column(row, code)?,
        message: rows::column(row, message)?,
        at,
    }))
}
