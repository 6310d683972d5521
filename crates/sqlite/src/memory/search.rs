//! Full-text search, and the embedded memory.

use consign_kernel::Error;
use consign_memory::{EmbeddedHit, FallbackHit, Kept, NewMemory};
use sqlx::{Row, SqliteConnection, sqlite::SqliteRow};
use uuid::Uuid;

use super::{
    rows as logbook,
    words::{apart, words},
};
use crate::{
    error::{Failure, Result},
    job::Work,
    rows, sql,
};

impl Work<'_> {
    pub(super) async fn keep(&mut self, memory: &NewMemory) -> Result<Kept> {
        if memory.target_space.is_empty() {
            return Err(Error::invalid("target_space", "must not be empty").into());
        }
        let sha = memory.payload_sha();
        let name = format!("mem_{}", Uuid::new_v4().simple());
        let added = sqlx::query(sql!("kept_add"))
            .bind(&name)
            .bind(&memory.target_space)
            .bind(&sha)
            .bind(&memory.payload_md)
            .bind(&memory.kind)
            .bind(&memory.actor_user_id)
            .bind(rows::masked_json(&memory.meta_json))
            .bind(rows::masked_json(&memory.evidence))
            .bind(rows::micros(self.now))
            .bind(apart(&memory.payload_md))
            .execute(&mut *self.connection)
            .await?;
        if added.rows_affected() == 1 {
            return Ok(Kept {
                memory_id: name,
                is_new: true,
            });
        }
        let memory_id = kept(self.connection, &memory.target_space, &sha).await?;
        Ok(Kept {
            memory_id: memory_id.ok_or_else(|| Failure::corrupt("a kept memory is gone"))?,
            is_new: false,
        })
    }
}

pub(super) async fn kept(
    connection: &mut SqliteConnection,
    target_space: &str,
    payload_sha: &str,
) -> Result<Option<String>> {
    let found = sqlx::query_scalar(sql!("kept_get"))
        .bind(target_space)
        .bind(payload_sha)
        .fetch_optional(connection)
        .await?;
    Ok(found)
}

pub(super) async fn search_kept(
    connection: &mut SqliteConnection,
    query: &str,
    spaces: &[String],
    limit: u32,
) -> Result<Vec<EmbeddedHit>> {
    let found = search(connection, sql!("kept_search"), query, spaces, limit).await?;
    let hit = |row: &SqliteRow| {
        Ok(EmbeddedHit {
            memory_id: row.try_get("memory_id")?,
            space: row.try_get("target_space")?,
            content: row.try_get("payload_md")?,
            payload_sha: row.try_get("payload_sha")?,
            kind: row.try_get("kind")?,
            actor_user_id: row.try_get("actor_user_id")?,
            meta_json: logbook::object(row, "meta_json")?,
            evidence: rows::document(row.try_get("evidence")?)?,
            score: row.try_get("score")?,
            created_at: logbook::time(row, "created_at")?,
        })
    };
    found.iter().map(hit).collect()
}

pub(super) async fn search_logbook(
    connection: &mut SqliteConnection,
    query: &str,
    spaces: &[String],
    limit: u32,
) -> Result<Vec<FallbackHit>> {
    let found = search(connection, sql!("logbook_search"), query, spaces, limit).await?;
    let hit = |row: &SqliteRow| {
        Ok(FallbackHit {
            id: row.try_get("id")?,
            space: row.try_get("space")?,
            content: row.try_get("content")?,
            title: row.try_get("title")?,
            kind: row.try_get("kind")?,
            confidence: row.try_get("confidence")?,
            evidence_refs: logbook::json(row, "evidence_refs_json")?,
            created_at: logbook::time(row, "created_at")?,
        })
    };
    found.iter().map(hit).collect()
}

async fn search(
    connection: &mut SqliteConnection,
    statement: &'static str,
    query: &str,
    spaces: &[String],
    limit: u32,
) -> Result<Vec<SqliteRow>> {
    let words = words(query);
    if words.is_empty() {
        return Ok(Vec::new());
    }
    let found = sqlx::query(statement)
        .bind(rows::json(&words))
        .bind(rows::json(&spaces))
        .bind(limit.min(logbook::ROWS_MAX))
        .fetch_all(connection)
        .await?;
    Ok(found)
}
