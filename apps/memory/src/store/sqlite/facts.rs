//! Items, events, attachments, values, candidates.

use crate::{
    Attachment, AttachmentFilter, Candidate, Event, EventFilter, Item, ItemFilter, KeptEvidence,
    NewAttachment, NewCandidate, NewEvent, NewEvidence, NewItem,
    audit_json::merge,
    uri::{mask_credentials, mask_credentials_in_fields, masked_json},
};
use consign_kernel::{Error, quoted};
use serde_json::{Value, json};
use sqlx::{Row, SqliteConnection, sqlite::SqliteRow};

use super::rows::{self as logbook, ROWS_MAX};
use super::words::{event_text, split_words};
use crate::store::sqlite::{LogbookWork, sql};
use consign_sqlite::extension::{Result, rows};

const KINDS: [&str; 5] = ["FACT", "PROCEDURE", "PITFALL", "DECISION", "REVIEW_GUIDE"];

impl LogbookWork<'_, '_> {
    /// Creates an item and returns its id.
    pub async fn create_item(&mut self, item: &NewItem) -> Result<i64> {
        required(&[("item_type", &item.item_type), ("title", &item.title)])?;
        let owner = item.owner_user_id.as_deref();
        self.check_user("owner_user_id", owner).await?;
        let id = sqlx::query_scalar(sql!("item_add"))
            .bind(mask_credentials(&item.item_type))
            .bind(mask_credentials(&item.title))
            .bind(&item.project_key)
            .bind(masked_json(&item.scope_json))
            .bind(mask_credentials(or(&item.status, "open")))
            .bind(owner)
            .bind(rows::micros(self.now))
            .fetch_one(&mut *self.connection)
            .await?;
        Ok(id)
    }

    /// Adds an event to an item; `None` if the item does not exist.
    pub async fn add_event(&mut self, event: &NewEvent) -> Result<Option<i64>> {
        let event = &masked_event(event);
        required(&[("event_type", &event.event_type)])?;
        let actor = event.actor_user_id.as_deref();
        self.check_user("actor_user_id", actor).await?;
        let Some(space) = self.space_of(event.item_id).await? else {
            return Ok(None);
        };
        let named = event.payload_json.get("space").and_then(Value::as_str);
        let space = named.map(str::to_owned).or(space);
        let id = sqlx::query_scalar(sql!("event_add"))
            .bind(event.item_id)
            .bind(&event.event_type)
            .bind(&event.status_from)
            .bind(&event.status_to)
            .bind(rows::json(&event.payload_json))
            .bind(actor)
            .bind(or(&event.source, "tool"))
            .bind(space)
            .bind(rows::micros(self.now))
            .bind(split_words(&event_text(
                &event.event_type,
                &event.payload_json,
            )))
            .fetch_one(&mut *self.connection)
            .await?;
        if let Some(status) = &event.status_to {
            sqlx::query(sql!("item_status"))
                .bind(event.item_id)
                .bind(status)
                .bind(rows::micros(self.now))
                .execute(&mut *self.connection)
                .await?;
        }
        Ok(Some(id))
    }

    /// The space of an item; `None` if the item does not exist.
    async fn space_of(&mut self, item_id: i64) -> Result<Option<Option<String>>> {
        let found = sqlx::query_scalar(sql!("item_space"))
            .bind(item_id)
            .fetch_optional(&mut *self.connection)
            .await?;
        Ok(found)
    }

    pub(super) async fn attach(&mut self, new: &NewAttachment) -> Result<Option<i64>> {
        check_attachment(new)?;
        let sha = new.sha256.to_ascii_lowercase();
        if self.space_of(new.item_id).await?.is_none() {
            return Ok(None);
        }
        sqlx::query(sql!("attachment_add"))
            .bind(new.item_id)
            .bind(mask_credentials(&new.kind))
            .bind(mask_credentials(&new.uri))
            .bind(&sha)
            .bind(new.size_bytes)
            .bind(masked_json(&new.meta_json))
            .bind(rows::micros(self.now))
            .execute(&mut *self.connection)
            .await?;
        let id = sqlx::query_scalar(sql!("attachment_known"))
            .bind(new.item_id)
            .bind(mask_credentials(&new.kind))
            .bind(&sha)
            .fetch_one(&mut *self.connection)
            .await?;
        Ok(Some(id))
    }

    /// Every part is validated before it is written, but the item is written before its parts: what
    /// an existing item may reject is checked first.
    pub(super) async fn keep_evidence(
        &mut self,
        new: &NewEvidence,
    ) -> Result<Option<KeptEvidence>> {
        let mut attachment = new.attachment.clone();
        check_attachment(&attachment)?;
        self.check_audit(&new.audit).await?;
        if let Some(item) = &new.item {
            attachment.item_id = self.create_item(item).await?;
        }
        let item_id = attachment.item_id;
        let Some(attachment_id) = self.attach(&attachment).await? else {
            return Ok(None);
        };
        let mut audit = new.audit.clone();
        let ids = json!({"item_id": item_id, "attachment_id": attachment_id});
        let mut patch = ids.clone();
        patch["gateway_event"] = ids;
        if let Value::Object(document) = &mut audit.evidence_refs_json {
            merge(document, &patch);
        }
        self.add_audit(&audit).await?;
        Ok(Some(KeptEvidence {
            item_id,
            attachment_id,
        }))
    }

    pub(in crate::store::sqlite) async fn set_kv(
        &mut self,
        namespace: &str,
        key: &str,
        value: &Value,
    ) -> Result<()> {
        required(&[("namespace", namespace), ("key", key)])?;
        plain(&[("namespace", namespace), ("key", key)])?;
        sqlx::query(sql!("kv_set"))
            .bind(namespace)
            .bind(key)
            .bind(masked_json(value))
            .bind(rows::micros(self.now))
            .execute(&mut *self.connection)
            .await?;
        Ok(())
    }

    pub(super) async fn add_candidate(&mut self, new: &NewCandidate) -> Result<i64> {
        required(&[
            ("source_type", &new.source_type),
            ("source_id", &new.source_id),
            ("pipeline_version", &new.pipeline_version),
            ("space", &new.space),
            ("title", &new.title),
        ])?;
        if !KINDS.contains(&new.kind.as_str()) {
            let why = format!("must be one of {}", KINDS.join(", "));
            return Err(Error::out_of_bounds("kind", quoted(&new.kind), why).into());
        }
        if !["high", "mid", "low"].contains(&new.confidence.as_str()) {
            let (value, why) = (quoted(&new.confidence), "must be high, mid or low");
            return Err(Error::out_of_bounds("confidence", value, why).into());
        }
        sqlx::query(sql!("run_make"))
            .bind(&new.source_type)
            .bind(&new.source_id)
            .bind(&new.pipeline_version)
            .bind(rows::micros(self.now))
            .execute(&mut *self.connection)
            .await?;
        let id = sqlx::query_scalar(sql!("candidate_add"))
            .bind(&new.source_type)
            .bind(&new.source_id)
            .bind(&new.pipeline_version)
            .bind(rows::micros(self.now))
            .bind(&new.space)
            .bind(&new.kind)
            .bind(&new.title)
            .bind(&new.content_md)
            .bind(&new.confidence)
            .bind(masked_json(&new.evidence_refs_json))
            .bind(new.promote_suggested)
            .bind(split_words(&format!("{}\n{}", new.title, new.content_md)))
            .fetch_one(&mut *self.connection)
            .await?;
        Ok(id)
    }
}

pub(super) async fn get_kv(
    connection: &mut SqliteConnection,
    namespace: &str,
    key: &str,
) -> Result<Option<Value>> {
    let found: Option<String> = sqlx::query_scalar(sql!("kv_get"))
        .bind(namespace)
        .bind(key)
        .fetch_optional(connection)
        .await?;
    found.as_deref().map(rows::document).transpose()
}

pub(super) async fn items(
    connection: &mut SqliteConnection,
    filter: &ItemFilter,
    limit: u32,
) -> Result<Vec<Item>> {
    let found = sqlx::query(sql!("item_list"))
        .bind(&filter.item_type)
        .bind(&filter.status)
        .bind(&filter.owner_user_id)
        .bind(limit.min(ROWS_MAX))
        .fetch_all(connection)
        .await?;
    found.iter().map(item).collect()
}

pub(super) async fn item_of(
    connection: &mut SqliteConnection,
    item_id: i64,
) -> Result<Option<Item>> {
    let found = sqlx::query(sql!("item_get"))
        .bind(item_id)
        .fetch_optional(connection)
        .await?;
    found.as_ref().map(item).transpose()
}

pub(super) async fn events(
    connection: &mut SqliteConnection,
    filter: &EventFilter,
    limit: u32,
) -> Result<Vec<Event>> {
    let found = sqlx::query(sql!("event_list"))
        .bind(filter.item_id)
        .bind(&filter.event_type)
        .bind(&filter.actor_user_id)
        .bind(filter.since.map(rows::micros))
        .bind(limit.min(ROWS_MAX))
        .fetch_all(connection)
        .await?;
    found.iter().map(event).collect()
}

pub(super) async fn attachments(
    connection: &mut SqliteConnection,
    filter: &AttachmentFilter,
    limit: u32,
) -> Result<Vec<Attachment>> {
    let found = sqlx::query(sql!("attachment_list"))
        .bind(filter.item_id)
        .bind(&filter.kind)
        .bind(&filter.uri)
        .bind(limit.min(ROWS_MAX))
        .fetch_all(connection)
        .await?;
    found.iter().map(attachment_of).collect()
}

pub(super) async fn attachment(
    connection: &mut SqliteConnection,
    attachment_id: i64,
) -> Result<Option<Attachment>> {
    let found = sqlx::query(sql!("attachment_get"))
        .bind(attachment_id)
        .fetch_optional(connection)
        .await?;
    found.as_ref().map(attachment_of).transpose()
}

pub(super) async fn candidate(
    connection: &mut SqliteConnection,
    candidate_id: i64,
) -> Result<Option<Candidate>> {
    let found = sqlx::query(sql!("candidate_get"))
        .bind(candidate_id)
        .fetch_optional(connection)
        .await?;
    found.as_ref().map(candidate_of).transpose()
}

fn item(row: &SqliteRow) -> Result<Item> {
    Ok(Item {
        item_id: row.try_get("item_id")?,
        item_type: row.try_get("item_type")?,
        title: row.try_get("title")?,
        project_key: row.try_get("project_key")?,
        scope_json: logbook::object(row, "scope_json")?,
        status: row.try_get("status")?,
        owner_user_id: row.try_get("owner_user_id")?,
        created_at: logbook::time(row, "created_at")?,
        updated_at: logbook::time(row, "updated_at")?,
    })
}

fn event(row: &SqliteRow) -> Result<Event> {
    Ok(Event {
        event_id: row.try_get("event_id")?,
        item_id: row.try_get("item_id")?,
        event_type: row.try_get("event_type")?,
        status_from: row.try_get("status_from")?,
        status_to: row.try_get("status_to")?,
        payload_json: logbook::object(row, "payload_json")?,
        actor_user_id: row.try_get("actor_user_id")?,
        source: row.try_get("source")?,
        created_at: logbook::time(row, "created_at")?,
        space: row.try_get("space")?,
    })
}

fn attachment_of(row: &SqliteRow) -> Result<Attachment> {
    Ok(Attachment {
        attachment_id: row.try_get("attachment_id")?,
        item_id: row.try_get("item_id")?,
        kind: row.try_get("kind")?,
        uri: row.try_get("uri")?,
        sha256: row.try_get("sha256")?,
        size_bytes: row.try_get("size_bytes")?,
        meta_json: logbook::object(row, "meta_json")?,
        created_at: logbook::time(row, "created_at")?,
        space: row.try_get("space")?,
    })
}

fn candidate_of(row: &SqliteRow) -> Result<Candidate> {
    Ok(Candidate {
        candidate_id: row.try_get("candidate_id")?,
        run_id: row.try_get("run_id")?,
        space: row.try_get("space")?,
        kind: row.try_get("kind")?,
        title: row.try_get("title")?,
        content_md: row.try_get("content_md")?,
        confidence: row.try_get("confidence")?,
        evidence_refs_json: logbook::json(row, "evidence_refs_json")?,
        promote_suggested: row.try_get("promote_suggested")?,
        created_at: logbook::time(row, "created_at")?,
    })
}

fn required(fields: &[(&str, &str)]) -> consign_kernel::Result<()> {
    match fields.iter().find(|(_, text)| text.is_empty()) {
        Some((name, _)) => Err(Error::invalid(*name, "is empty")),
        None => Ok(()),
    }
}

/// Rejects names with credentials: masked, two of them could become equal.
fn plain(names: &[(&str, &str)]) -> consign_kernel::Result<()> {
    match names
        .iter()
        .find(|(_, text)| mask_credentials(text) != *text)
    {
        Some((name, _)) => Err(Error::invalid(*name, "contains credentials; remove them")),
        None => Ok(()),
    }
}

fn check_attachment(new: &NewAttachment) -> consign_kernel::Result<()> {
    required(&[("kind", &new.kind), ("uri", &new.uri)])?;
    let is_hash = new.sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hash && new.sha256.len() == 64 {
        Ok(())
    } else {
        Err(Error::out_of_bounds(
            "sha256",
            quoted(&new.sha256),
            "must be 64 hex digits",
        ))
    }
}

/// An event without credentials, also in its search text.
fn masked_event(event: &NewEvent) -> NewEvent {
    let mut event = event.clone();
    event.event_type = mask_credentials(&event.event_type).into_owned();
    event.source = mask_credentials(&event.source).into_owned();
    for status in [&mut event.status_from, &mut event.status_to] {
        *status = status
            .as_deref()
            .map(|status| mask_credentials(status).into_owned());
    }
    mask_credentials_in_fields(&mut event.payload_json);
    event
}

/// The text, or the default if it is empty.
fn or<'t>(text: &'t str, default: &'t str) -> &'t str {
    match text {
        "" => default,
        text => text,
    }
}
