//! Reads repositories, their history and status.

use consign_scm::{Change, Provider, Repo, RepoStatus, Step, Stop, Stream};
use consign_sqlite::extension::{Failure, Result, rows};
use jiff::Timestamp;
use serde_json::{Map, Value};
use sqlx::{Row, SqliteConnection, sqlite::SqliteRow};

use crate::store::sql;

const STREAMS: [Stream; 5] = [
    Stream::Git,
    Stream::Svn,
    Stream::Gitlab,
    Stream::GitlabMr,
    Stream::GitlabReviews,
];

/// All repositories, or one.
pub(super) async fn repos(
    connection: &mut SqliteConnection,
    repo_id: Option<i64>,
) -> Result<Vec<Repo>> {
    let found = sqlx::query(sql!("repo_list"))
        .bind(repo_id)
        .fetch_all(connection)
        .await?;
    found.iter().map(repo).collect()
}

pub(super) async fn watermark(
    connection: &mut SqliteConnection,
    key: &str,
) -> Result<Option<Value>> {
    let found: Option<String> = sqlx::query_scalar(sql!("watermark"))
        .bind(consign_scm::NAMESPACE)
        .bind(key)
        .fetch_optional(connection)
        .await?;
    found.as_deref().map(rows::document).transpose()
}

pub(super) async fn changes(
    connection: &mut SqliteConnection,
    repo_id: i64,
    after: i64,
    limit: u32,
) -> Result<Vec<Change>> {
    let found = sqlx::query(sql!("changes"))
        .bind(repo_id)
        .bind(after)
        .bind(limit)
        .fetch_all(connection)
        .await?;
    found.iter().map(change).collect()
}

pub(super) async fn status(connection: &mut SqliteConnection) -> Result<Vec<RepoStatus>> {
    let kept: Vec<(String, String, i64)> = sqlx::query_as(sql!("watermarks"))
        .fetch_all(&mut *connection)
        .await?;
    let found = sqlx::query(sql!("status"))
        .fetch_all(&mut *connection)
        .await?;
    let mut all = Vec::new();
    for row in &found {
        let repo = repo(row)?;
        let keys = STREAMS.map(|stream| stream.key(repo.repo_id));
        let (mut watermarks, mut watermarks_moved_at) = (Map::new(), None);
        for (key, value, updated_at) in kept.iter().filter(|(key, ..)| keys.contains(key)) {
            watermarks.insert(key.clone(), rows::document(value)?);
            watermarks_moved_at = watermarks_moved_at.max(Some(rows::timestamp(*updated_at)?));
        }
        let (mut synced, mut consumed) = Default::default();
        let steps = sqlx::query(sql!("steps"))
            .bind(repo.repo_id)
            .fetch_all(&mut *connection)
            .await?;
        for step in &steps {
            let name: &str = step.try_get("step")?;
            if name == Step::Sync.as_str() {
                synced = ends(step)?
            } else {
                consumed = ends(step)?
            }
        }
        let ((synced_at, sync_stopped), (consumed_at, consume_stopped)) = (synced, consumed);
        all.push(RepoStatus {
            repo,
            changes: number(row, "changes")?,
            last_position: row.try_get("last_position")?,
            last_change_at: time_if_any(row, "last_change_at")?,
            unconsumed: number(row, "unconsumed")?,
            consumed_position: row.try_get("consumed_position")?,
            patches_failed: number(row, "patches_failed")?,
            patches_here: number(row, "patches_here")?,
            watermarks,
            watermarks_moved_at,
            synced_at,
            sync_stopped,
            consumed_at,
            consume_stopped,
        });
    }
    Ok(all)
}

/// When a step last completed, and its failure since.
fn ends(row: &SqliteRow) -> Result<(Option<Timestamp>, Option<Stop>)> {
    let stopped_at = time_if_any(row, "stopped_at")?;
    let stop = |at| {
        Ok::<_, Failure>(Stop {
            code: row.try_get("code")?,
            message: row.try_get("message")?,
            at,
        })
    };
    Ok((
        time_if_any(row, "completed_at")?,
        stopped_at.map(stop).transpose()?,
    ))
}

pub(super) fn repo(row: &SqliteRow) -> Result<Repo> {
    let all = [Provider::Git, Provider::Svn, Provider::Gitlab];
    let word: &str = row.try_get("provider")?;
    let provider = all.into_iter().find(|provider| provider.as_str() == word);
    Ok(Repo {
        repo_id: row.try_get("repo_id")?,
        provider: provider
            .ok_or_else(|| Failure::corrupt(format!("{word:?} is not a provider")))?,
        url: row.try_get("url")?,
        project_key: row.try_get("project_key")?,
        default_branch: row.try_get("default_branch")?,
        created_at: rows::timestamp(row.try_get("created_at")?)?,
    })
}

fn change(row: &SqliteRow) -> Result<Change> {
    Ok(Change {
        position: row.try_get("position")?,
        repo_id: row.try_get("repo_id")?,
        source_id: row.try_get("source_id")?,
        rev_or_sha: row.try_get("rev_or_sha")?,
        author_raw: row.try_get("author_raw")?,
        ts: time_if_any(row, "ts")?,
        message: row.try_get("message")?,
        is_merge: row.try_get("is_merge")?,
        bulk_reason: row.try_get("bulk_reason")?,
        meta_json: rows::document(row.try_get("meta_json")?)?,
    })
}

fn time_if_any(row: &SqliteRow, column: &str) -> Result<Option<Timestamp>> {
    let micros: Option<i64> = row.try_get(column)?;
    micros.map(rows::timestamp).transpose()
}

fn number(row: &SqliteRow, column: &str) -> Result<u64> {
    let number: i64 = row.try_get(column)?;
    u64::try_from(number).map_err(|_| Failure::corrupt(format!("{column} is {number}")))
}
