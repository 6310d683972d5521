//! Searching, and the memories of the embedded backend.

use consign_kernel::Result;
use consign_memory::{EmbeddedHit, FallbackHit, Kept, NewMemory};
use sqlx::{postgres::PgRow, types::Json};

use super::at_most;
use crate::{PostgresStore, rows};

impl PostgresStore {
    pub(super) async fn search_logbook_impl(
        &self,
        query: &str,
        spaces: &[String],
        limit: u32,
    ) -> Result<Vec<FallbackHit>> {
        let statement = sqlx::query("SELECT * FROM logbook.search_logbook($1, $2, $3)")
            .bind(query)
            .bind(spaces)
            .bind(at_most(limit));
        let rows = self.read("search the logbook", statement).await?;
        rows.iter().map(fallback_hit).collect()
    }

    pub(super) async fn keep_impl(&self, memory: &NewMemory) -> Result<Kept> {
        let sql = "SELECT * FROM logbook.keep_memory($1, $2, $3, $4, $5, $6)";
        let statement = sqlx::query(sql)
            .bind(&memory.target_space)
            .bind(&memory.payload_md)
            .bind(&memory.kind)
            .bind(&memory.actor_user_id)
            .bind(Json(&memory.meta_json))
            .bind(Json(&memory.evidence));
        let rows = self.fetch("keep a memory", statement).await?;
        let row = rows::only(&rows)?;
        Ok(Kept {
            memory_id: rows::column(row, "memory_id")?,
            is_new: rows::column(row, "is_new")?,
        })
    }

    pub(super) async fn kept_impl(
        &self,
        target_space: &str,
        payload_sha: &str,
    ) -> Result<Option<String>> {
        let statement = sqlx::query("SELECT logbook.kept_memory($1, $2) AS memory_id")
            .bind(target_space)
            .bind(payload_sha);
        let rows = self.read("look for a kept memory", statement).await?;
        rows::column(rows::only(&rows)?, "memory_id")
    }

    pub(super) async fn search_kept_impl(
        &self,
        query: &str,
        spaces: &[String],
        limit: u32,
    ) -> Result<Vec<EmbeddedHit>> {
        let statement = sqlx::query("SELECT * FROM logbook.search_memory($1, $2, $3)")
            .bind(query)
            .bind(spaces)
            .bind(at_most(limit));
        let rows = self.read("search memories", statement).await?;
        rows.iter().map(embedded_hit).collect()
    }
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

fn embedded_hit(row: &PgRow) -> Result<EmbeddedHit> {
    let Json(meta_json) = rows::column(row, "meta_json")?;
    let Json(evidence) = rows::column(row, "evidence")?;
    Ok(EmbeddedHit {
        memory_id: rows::column(row, "memory_id")?,
        space: rows::column(row, "space")?,
        content: rows::column(row, "content")?,
        payload_sha: rows::column(row, "payload_sha")?,
        kind: rows::column(row, "kind")?,
        actor_user_id: rows::column(row, "actor_user_id")?,
        meta_json,
        evidence,
        score: rows::column(row, "score")?,
        created_at: rows::time(row, "created_at")?,
    })
}
