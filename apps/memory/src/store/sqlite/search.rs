//! Full-text search and the embedded backend.

use crate::{FallbackHit, ItemPage, KeepResult, Listing, MemoryItem, NewAudit, NewMemory, Search};
use consign_kernel::{Error, PAGE_ENTRIES_MAX};
use sqlx::{Row, SqliteConnection, sqlite::SqliteRow};
use uuid::Uuid;

use super::rows as logbook;
use super::words::{split_words, words};
use crate::store::sqlite::{LogbookWork, sql};
use crate::uri::masked_json;
use consign_sqlite::extension::{Failure, Result, rows};

impl LogbookWork<'_, '_> {
    pub(super) async fn keep(&mut self, memory: &NewMemory) -> Result<KeepResult> {
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
            .bind(masked_json(&memory.meta_json))
            .bind(masked_json(&memory.evidence))
            .bind(rows::micros(self.now))
            .bind(split_words(&memory.payload_md))
            .bind(&memory.supersedes)
            .execute(&mut *self.connection)
            .await?;
        let is_new = added.rows_affected() == 1;
        let memory_id = if is_new {
            Some(name)
        } else {
            kept(self.connection, &memory.target_space, &sha).await?
        };
        let memory_id = memory_id.ok_or_else(|| Failure::corrupt("a stored memory disappeared"))?;
        if let Some(old) = &memory.supersedes {
            self.supersede_kept(old, &memory_id).await?;
        }
        Ok(KeepResult { memory_id, is_new })
    }

    pub(super) async fn supersede_kept(&mut self, old: &str, new: &str) -> Result<()> {
        sqlx::query(sql!("kept_supersede"))
            .bind(old)
            .bind(new)
            .execute(&mut *self.connection)
            .await?;
        Ok(())
    }

    pub(super) async fn delete_kept(
        &mut self,
        memory_id: &str,
        audit: Option<&NewAudit>,
    ) -> Result<bool> {
        if let Some(audit) = audit {
            self.check_audit(audit).await?;
        }
        // SQLite overwrites what it frees in the file from here on.
        self.run("PRAGMA secure_delete = ON").await?;
        let deleted = sqlx::query(sql!("kept_delete"))
            .bind(memory_id)
            .execute(&mut *self.connection)
            .await?;
        // Overwriting would cost every other transaction.
        self.run("PRAGMA secure_delete = OFF").await?;
        let is_deleted = deleted.rows_affected() > 0;
        if let Some(audit) = audit.filter(|_| is_deleted) {
            self.add_audit(audit).await?;
        }
        Ok(is_deleted)
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
    search: &Search,
) -> Result<Vec<MemoryItem>> {
    let words = words(&search.query);
    if words.is_empty() {
        return Ok(Vec::new());
    }
    let filter = &search.filter;
    let found = sqlx::query(sql!("kept_search"))
        .bind(rows::json(&words))
        .bind(rows::json(&search.spaces))
        .bind(search.top_k.min(logbook::ROWS_MAX))
        .bind(&filter.kind)
        .bind(&filter.actor)
        .bind(filter.since.map(rows::micros))
        .bind(filter.until.map(rows::micros))
        .fetch_all(connection)
        .await?;
    found.iter().map(item).collect()
}

pub(super) async fn read_kept(
    connection: &mut SqliteConnection,
    memory_id: &str,
) -> Result<Option<MemoryItem>> {
    let found = sqlx::query(sql!("kept_read"))
        .bind(memory_id)
        .fetch_optional(connection)
        .await?;
    found.as_ref().map(item).transpose()
}

pub(super) async fn list_kept(
    connection: &mut SqliteConnection,
    listing: &Listing,
) -> Result<ItemPage> {
    let after = listing.after()?;
    let filter = &listing.filter;
    let limit = listing.limit.min(PAGE_ENTRIES_MAX);
    let found = sqlx::query(sql!("kept_list"))
        .bind(rows::json(&listing.spaces))
        .bind(limit + 1)
        .bind(&filter.kind)
        .bind(&filter.actor)
        .bind(filter.since.map(rows::micros))
        .bind(filter.until.map(rows::micros))
        .bind(after.as_ref().map(|(at, _)| rows::micros(*at)))
        .bind(after.as_ref().map(|(_, id)| *id))
        .fetch_all(connection)
        .await?;
    let items: Result<Vec<MemoryItem>> = found.iter().map(item).collect();
    Ok(ItemPage::of(items?, limit))
}

pub(super) async fn memory_spaces(connection: &mut SqliteConnection) -> Result<Vec<String>> {
    let spaces = sqlx::query_scalar(sql!("memory_spaces"))
        .fetch_all(connection)
        .await?;
    Ok(spaces)
}

fn item(row: &SqliteRow) -> Result<MemoryItem> {
    Ok(MemoryItem {
        id: row.try_get("memory_id")?,
        text: row.try_get("payload_md")?,
        space: row.try_get("target_space")?,
        kind: row.try_get("kind")?,
        actor: row.try_get("actor_user_id")?,
        created_at: Some(logbook::time(row, "created_at")?),
        score: row.try_get("score")?,
        evidence: rows::document(row.try_get("evidence")?)?,
        meta: logbook::object(row, "meta_json")?,
        supersedes: row.try_get("supersedes")?,
        superseded_by: row.try_get("superseded_by")?,
    })
}

pub(super) async fn search_logbook(
    connection: &mut SqliteConnection,
    query: &str,
    spaces: &[String],
    limit: u32,
) -> Result<Vec<FallbackHit>> {
    let words = words(query);
    if words.is_empty() {
        return Ok(Vec::new());
    }
    let found = sqlx::query(sql!("logbook_search"))
        .bind(rows::json(&words))
        .bind(rows::json(&spaces))
        .bind(limit.min(logbook::ROWS_MAX))
        .fetch_all(connection)
        .await?;
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
