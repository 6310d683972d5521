//! Reads items, events, attachments and candidates.

use crate::{Attachment, AttachmentFilter, Candidate, Event, EventFilter, Item, ItemFilter};
use consign_kernel::Result;
use jiff_sqlx::ToSqlx as _;
use sqlx::{postgres::PgRow, types::Json};

use super::at_most;
use consign_postgres::{PostgresStore, extension::rows};

pub(super) async fn items(
    store: &PostgresStore,
    filter: &ItemFilter,
    limit: u32,
) -> Result<Vec<Item>> {
    let statement = sqlx::query(include_str!("sql/logbook_items.sql"))
        .bind(&filter.item_type)
        .bind(&filter.status)
        .bind(&filter.owner_user_id)
        .bind(at_most(limit));
    let rows = store.read("read items", statement).await?;
    rows.iter().map(item_of).collect()
}

pub(super) async fn item(store: &PostgresStore, item_id: i64) -> Result<Option<Item>> {
    let sql = "SELECT * FROM logbook.items WHERE item_id = $1";
    let rows = store.read("read an item", sqlx::query(sql).bind(item_id));
    rows.await?.first().map(item_of).transpose()
}

pub(super) async fn events(
    store: &PostgresStore,
    filter: &EventFilter,
    limit: u32,
) -> Result<Vec<Event>> {
    let statement = sqlx::query(include_str!("sql/logbook_events.sql"))
        .bind(filter.item_id)
        .bind(&filter.event_type)
        .bind(&filter.actor_user_id)
        .bind(filter.since.map(|since| since.to_sqlx()))
        .bind(at_most(limit));
    let rows = store.read("read events", statement).await?;
    rows.iter().map(event_of).collect()
}

pub(super) async fn attachments(
    store: &PostgresStore,
    filter: &AttachmentFilter,
    limit: u32,
) -> Result<Vec<Attachment>> {
    let statement = sqlx::query(include_str!("sql/logbook_attachments.sql"))
        .bind(filter.item_id)
        .bind(&filter.kind)
        .bind(&filter.uri)
        .bind(at_most(limit));
    let rows = store.read("read attachments", statement).await?;
    rows.iter().map(attachment_of).collect()
}

pub(super) async fn attachment(
    store: &PostgresStore,
    attachment_id: i64,
) -> Result<Option<Attachment>> {
    let sql = "SELECT a.*, logbook.item_space(i.scope_json, i.project_key) AS space \
                   FROM logbook.attachments a JOIN logbook.items i ON i.item_id = a.item_id \
                   WHERE a.attachment_id = $1";
    let rows = store.read("read an attachment", sqlx::query(sql).bind(attachment_id));
    rows.await?.first().map(attachment_of).transpose()
}

pub(super) async fn candidate(
    store: &PostgresStore,
    candidate_id: i64,
) -> Result<Option<Candidate>> {
    let sql = "SELECT candidate_id, run_id, space, kind, title, content_md, confidence, \
                   evidence_refs_json, promote_suggested, created_at \
                   FROM analysis.knowledge_candidates WHERE candidate_id = $1";
    let rows = store.read("read a candidate", sqlx::query(sql).bind(candidate_id));
    rows.await?.first().map(candidate_of).transpose()
}

fn item_of(row: &PgRow) -> Result<Item> {
    let Json(scope_json) = rows::column(row, "scope_json")?;
    Ok(Item {
        item_id: rows::column(row, "item_id")?,
        item_type: rows::column(row, "item_type")?,
        title: rows::column(row, "title")?,
        project_key: rows::column(row, "project_key")?,
        scope_json,
        status: rows::column(row, "status")?,
        owner_user_id: rows::column(row, "owner_user_id")?,
        created_at: rows::time(row, "created_at")?,
        updated_at: rows::time(row, "updated_at")?,
    })
}

fn event_of(row: &PgRow) -> Result<Event> {
    let Json(payload_json) = rows::column(row, "payload_json")?;
    Ok(Event {
        event_id: rows::column(row, "event_id")?,
        item_id: rows::column(row, "item_id")?,
        event_type: rows::column(row, "event_type")?,
        status_from: rows::column(row, "status_from")?,
        status_to: rows::column(row, "status_to")?,
        payload_json,
        actor_user_id: rows::column(row, "actor_user_id")?,
        source: rows::column(row, "source")?,
        created_at: rows::time(row, "created_at")?,
        space: rows::column(row, "space")?,
    })
}

fn attachment_of(row: &PgRow) -> Result<Attachment> {
    let Json(meta_json) = rows::column(row, "meta_json")?;
    Ok(Attachment {
        attachment_id: rows::column(row, "attachment_id")?,
        item_id: rows::column(row, "item_id")?,
        kind: rows::column(row, "kind")?,
        uri: rows::column(row, "uri")?,
        sha256: rows::column(row, "sha256")?,
        size_bytes: rows::column(row, "size_bytes")?,
        meta_json,
        created_at: rows::time(row, "created_at")?,
        space: rows::column(row, "space")?,
    })
}

fn candidate_of(row: &PgRow) -> Result<Candidate> {
    let Json(evidence_refs_json) = rows::column(row, "evidence_refs_json")?;
    Ok(Candidate {
        candidate_id: rows::column(row, "candidate_id")?,
        run_id: rows::column(row, "run_id")?,
        space: rows::column(row, "space")?,
        kind: rows::column(row, "kind")?,
        title: rows::column(row, "title")?,
        content_md: rows::column(row, "content_md")?,
        confidence: rows::column(row, "confidence")?,
        evidence_refs_json,
        promote_suggested: rows::column(row, "promote_suggested")?,
        created_at: rows::time(row, "created_at")?,
    })
}
