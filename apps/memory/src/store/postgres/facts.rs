//! Writes items, events, attachments, values and candidates.

use crate::{KeptEvidence, NewAttachment, NewCandidate, NewEvent, NewEvidence, NewItem};
use consign_kernel::Result;
use serde_json::{Value, json};
use sqlx::{postgres::PgRow, types::Json};

use super::audits::document;
use consign_postgres::{PostgresStore, extension::rows};

pub(super) async fn create_item(store: &PostgresStore, item: &NewItem) -> Result<i64> {
    let sql = "SELECT logbook.create_item($1, $2, $3, $4, $5, $6) AS id";
    let statement = sqlx::query(sql)
        .bind(&item.item_type)
        .bind(&item.title)
        .bind(Json(&item.scope_json))
        .bind(&item.status)
        .bind(&item.owner_user_id)
        .bind(&item.project_key);
    id(&store.fetch("make an item", statement).await?)
}

pub(super) async fn add_event(store: &PostgresStore, event: &NewEvent) -> Result<Option<i64>> {
    let sql = "SELECT logbook.add_event($1, $2, $3, $4, $5, $6, $7) AS id";
    let statement = sqlx::query(sql)
        .bind(event.item_id)
        .bind(&event.event_type)
        .bind(Json(&event.payload_json))
        .bind(&event.status_from)
        .bind(&event.status_to)
        .bind(&event.actor_user_id)
        .bind(&event.source);
    id(&store.fetch("add an event", statement).await?)
}

pub(super) async fn attach(
    store: &PostgresStore,
    attachment: &NewAttachment,
) -> Result<Option<i64>> {
    let sql = "SELECT logbook.attach($1, $2, $3, $4, $5, $6) AS id";
    let statement = sqlx::query(sql)
        .bind(attachment.item_id)
        .bind(&attachment.kind)
        .bind(&attachment.uri)
        .bind(&attachment.sha256)
        .bind(attachment.size_bytes)
        .bind(Json(&attachment.meta_json));
    id(&store.fetch("attach to an item", statement).await?)
}

pub(super) async fn keep_evidence(
    store: &PostgresStore,
    evidence: &NewEvidence,
) -> Result<Option<KeptEvidence>> {
    let (item, attachment, audit) = (&evidence.item, &evidence.attachment, &evidence.audit);
    let item = item.as_ref().map(|item| {
        json!({
            "item_type": item.item_type, "title": item.title, "scope_json": item.scope_json,
            "status": item.status, "owner_user_id": item.owner_user_id,
            "project_key": item.project_key,
        })
    });
    let attachment = json!({
        "item_id": attachment.item_id, "kind": attachment.kind, "uri": attachment.uri,
        "sha256": attachment.sha256, "size_bytes": attachment.size_bytes,
        "meta_json": attachment.meta_json,
    });
    let statement = sqlx::query("SELECT * FROM logbook.keep_evidence($1, $2, $3)")
        .bind(item.map(Json))
        .bind(Json(attachment))
        .bind(Json(document(audit)));
    let rows = store.fetch("keep evidence", statement).await?;
    let kept = |row: &PgRow| {
        Ok(KeptEvidence {
            item_id: rows::column(row, "item_id")?,
            attachment_id: rows::column(row, "attachment_id")?,
        })
    };
    rows.first().map(kept).transpose()
}

pub(super) async fn set_kv(
    store: &PostgresStore,
    namespace: &str,
    key: &str,
    value: &Value,
) -> Result<()> {
    let statement = sqlx::query("SELECT FROM logbook.set_kv($1, $2, $3)")
        .bind(namespace)
        .bind(key)
        .bind(Json(value));
    store.fetch("set a value", statement).await.map(drop)
}

pub(super) async fn get_kv(
    store: &PostgresStore,
    namespace: &str,
    key: &str,
) -> Result<Option<Value>> {
    let statement = sqlx::query("SELECT logbook.get_kv($1, $2) AS value")
        .bind(namespace)
        .bind(key);
    let rows = store.read("read a value", statement).await?;
    let value: Option<Json<Value>> = rows::column(rows::only(&rows)?, "value")?;
    Ok(value.map(|Json(value)| value))
}

pub(super) async fn add_candidate(store: &PostgresStore, candidate: &NewCandidate) -> Result<i64> {
    let sql = "SELECT logbook.add_candidate($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) AS id";
    let statement = sqlx::query(sql)
        .bind(&candidate.source_type)
        .bind(&candidate.source_id)
        .bind(&candidate.pipeline_version)
        .bind(&candidate.space)
        .bind(&candidate.kind)
        .bind(&candidate.title)
        .bind(&candidate.content_md)
        .bind(&candidate.confidence)
        .bind(Json(&candidate.evidence_refs_json))
        .bind(candidate.promote_suggested);
    id(&store.fetch("keep a candidate", statement).await?)
}

fn id<'r, T>(rows: &'r [PgRow]) -> Result<T>
where
    T: sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
{
    rows::column(rows::only(rows)?, "id")
}
