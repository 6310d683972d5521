//! Search, and the memories of the embedded backend.

use crate::{FallbackHit, ItemPage, KeepResult, Listing, MemoryItem, NewAudit, NewMemory, Search};
use consign_kernel::{PAGE_ENTRIES_MAX, Result};
use jiff_sqlx::ToSqlx;
use serde_json::json;
use sqlx::{postgres::PgRow, types::Json};

use super::at_most;
use consign_postgres::{PostgresStore, extension::rows};

/// The columns of a stored memory by name. For a column of a type that sqlx does not know, such as
/// tsvector, sqlx runs a query of its own, which destroys unnamed statements: those behind a
/// transaction pooler and on the command line.
macro_rules! kept_columns {
    ($from:literal) => {
        concat!(
            "SELECT memory_id, payload_md AS content, target_space AS space, kind, actor_user_id, \
             created_at, meta_json, evidence, supersedes, superseded_by FROM ",
            $from
        )
    };
}

pub(super) async fn search_logbook(
    store: &PostgresStore,
    query: &str,
    spaces: &[String],
    limit: u32,
) -> Result<Vec<FallbackHit>> {
    let statement = sqlx::query("SELECT * FROM logbook.search_logbook($1, $2, $3)")
        .bind(query)
        .bind(spaces)
        .bind(at_most(limit));
    let rows = store.read("search the logbook", statement).await?;
    rows.iter().map(fallback_hit).collect()
}

pub(super) async fn keep(store: &PostgresStore, memory: &NewMemory) -> Result<KeepResult> {
    let sql = "SELECT * FROM logbook.keep_memory($1, $2, $3, $4, $5, $6, $7)";
    let statement = sqlx::query(sql)
        .bind(&memory.target_space)
        .bind(&memory.payload_md)
        .bind(&memory.kind)
        .bind(&memory.actor_user_id)
        .bind(Json(&memory.meta_json))
        .bind(Json(&memory.evidence))
        .bind(&memory.supersedes);
    let rows = store.fetch("keep a memory", statement).await?;
    let row = rows::only(&rows)?;
    Ok(KeepResult {
        memory_id: rows::column(row, "memory_id")?,
        is_new: rows::column(row, "is_new")?,
    })
}

pub(super) async fn kept(
    store: &PostgresStore,
    target_space: &str,
    payload_sha: &str,
) -> Result<Option<String>> {
    let statement = sqlx::query("SELECT logbook.kept_memory($1, $2) AS memory_id")
        .bind(target_space)
        .bind(payload_sha);
    let rows = store.read("look for a kept memory", statement).await?;
    rows::column(rows::only(&rows)?, "memory_id")
}

pub(super) async fn search_kept(store: &PostgresStore, search: &Search) -> Result<Vec<MemoryItem>> {
    let filter = &search.filter;
    let sql = "SELECT * FROM logbook.search_memory($1, $2, $3, $4, $5, $6, $7)";
    let statement = sqlx::query(sql)
        .bind(&search.query)
        .bind(&search.spaces)
        .bind(at_most(search.top_k))
        .bind(&filter.kind)
        .bind(&filter.actor)
        .bind(filter.since.map(|at| at.to_sqlx()))
        .bind(filter.until.map(|at| at.to_sqlx()));
    let rows = store.read("search memories", statement).await?;
    let item = |row| kept_item(row, Some(rows::column(row, "score")?));
    rows.iter().map(item).collect()
}

pub(super) async fn read_kept(
    store: &PostgresStore,
    memory_id: &str,
) -> Result<Option<MemoryItem>> {
    let sql = kept_columns!("logbook.read_memory($1)");
    let statement = sqlx::query(sql).bind(memory_id);
    let rows = store.read("read a memory", statement).await?;
    rows.first().map(|row| kept_item(row, None)).transpose()
}

pub(super) async fn list_kept(store: &PostgresStore, listing: &Listing) -> Result<ItemPage> {
    let after = listing.after()?;
    let filter = &listing.filter;
    let limit = listing.limit.min(PAGE_ENTRIES_MAX);
    let sql = kept_columns!(
        "logbook.list_memory($1, $2, $3, $4, $5, $6, $7, $8) ORDER BY created_at DESC, memory_id DESC"
    );
    let statement = sqlx::query(sql)
        .bind(&listing.spaces)
        .bind(i32::try_from(limit + 1).unwrap_or(i32::MAX))
        .bind(&filter.kind)
        .bind(&filter.actor)
        .bind(filter.since.map(|at| at.to_sqlx()))
        .bind(filter.until.map(|at| at.to_sqlx()))
        .bind(after.map(|(at, _)| at.to_sqlx()))
        .bind(after.map(|(_, id)| id));
    let rows = store.read("list memories", statement).await?;
    let items: Result<Vec<MemoryItem>> = rows.iter().map(|row| kept_item(row, None)).collect();
    Ok(ItemPage::of(items?, limit))
}

pub(super) async fn supersede_kept(store: &PostgresStore, old: &str, new: &str) -> Result<()> {
    let statement = sqlx::query("SELECT logbook.supersede_memory($1, $2)")
        .bind(old)
        .bind(new);
    store.fetch("replace a memory", statement).await.map(drop)
}

pub(super) async fn delete_kept(
    store: &PostgresStore,
    memory_id: &str,
    audit: Option<&NewAudit>,
) -> Result<bool> {
    let audit = audit.map(|audit| {
        json!({
            "actor_user_id": audit.actor_user_id, "target_space": audit.target_space,
            "action": audit.action.as_str(), "reason": audit.reason,
            "payload_sha": audit.payload_sha, "evidence_refs_json": audit.evidence_refs_json,
            "correlation_id": audit.correlation_id, "status": audit.status.as_str(),
        })
    });
    let statement = sqlx::query("SELECT logbook.delete_memory($1, $2) AS is_deleted")
        .bind(memory_id)
        .bind(audit.map(Json));
    let rows = store.fetch("remove a memory", statement).await?;
    rows::column(rows::only(&rows)?, "is_deleted")
}

pub(super) async fn memory_spaces(store: &PostgresStore) -> Result<Vec<String>> {
    let statement = sqlx::query("SELECT space FROM logbook.memory_spaces() AS s (space)");
    let rows = store.read("list spaces", statement).await?;
    let space = |row| rows::column(row, "space");
    rows.iter().map(space).collect()
}

fn fallback_hit(row: &PgRow) -> Result<FallbackHit> {
    let Json(evidence_refs) = rows::column(row, "evidence_refs")?;
    Ok(FallbackHit {
        id: rows::column(row, "id")?,
        space: rows::column(row, "space")?,
        content: rows::column(row, "content")?,
        title: rows::column(row, "title")?,
        kind: rows::column(row, "kind")?,
        confidence: rows::column(row, "confidence")?,
        evidence_refs,
        created_at: rows::time(row, "created_at")?,
    })
}

fn kept_item(row: &PgRow, score: Option<f64>) -> Result<MemoryItem> {
    let Json(meta) = rows::column(row, "meta_json")?;
    let Json(evidence) = rows::column(row, "evidence")?;
    Ok(MemoryItem {
        id: rows::column(row, "memory_id")?,
        text: rows::column(row, "content")?,
        space: rows::column(row, "space")?,
        kind: rows::column(row, "kind")?,
        actor: rows::column(row, "actor_user_id")?,
        created_at: Some(rows::time(row, "created_at")?),
        score,
        evidence,
        meta,
        supersedes: rows::column(row, "supersedes")?,
        superseded_by: rows::column(row, "superseded_by")?,
    })
}
