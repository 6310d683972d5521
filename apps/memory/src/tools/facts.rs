//! The tools of the logbook.

use consign_kernel::MessageId;
use serde_json::{Value, json};

use super::{Answer, Arguments, Refusal, wrong};
use crate::{
    AttachmentFilter, Caller, EventFilter, ItemFilter, MemoryService, NewAttachment, NewEvent,
    NewItem, OutboxRow, OutboxStatus,
    gateway::{plain_key, refused},
};

/// Namespaces of cursors, which move in transactions with their records.
const RESERVED: [&str; 2] = [crate::consume::NAMESPACE, consign_scm::NAMESPACE];

pub(super) async fn dispatch(
    service: &MemoryService,
    name: &str,
    arguments: Arguments,
    caller: &Caller,
) -> Answer {
    match name {
        "outbox_status" => outbox_status(service, arguments, caller).await,
        "logbook_create_item" => create_item(service, arguments, caller).await,
        "logbook_add_event" => add_event(service, arguments, caller).await,
        "logbook_attach" => attach(service, arguments, caller).await,
        "logbook_set_kv" => set_kv(service, arguments).await,
        "logbook_get_kv" => get_kv(service, arguments).await,
        "logbook_query_items" => query_items(service, arguments, caller).await,
        "logbook_query_events" => query_events(service, arguments, caller).await,
        "logbook_list_attachments" => list_attachments(service, arguments, caller).await,
        _ => Err(super::unknown(service, name)),
    }
}

async fn outbox_status(
    service: &MemoryService,
    mut arguments: Arguments,
    caller: &Caller,
) -> Answer {
    let outbox_id = arguments.whole("outbox_id")?;
    let status = arguments.text("status")?;
    let limit = arguments.limit("limit", 50, 1_000)?;
    arguments.end()?;
    let status = match status.as_deref() {
        None => None,
        Some("pending") => Some(OutboxStatus::Pending),
        Some("sent") => Some(OutboxStatus::Sent),
        Some("dead") => Some(OutboxStatus::Dead),
        Some(other) => {
            let value = consign_kernel::quoted(other);
            return Err(wrong(
                "status",
                &format!("is {value}; must be pending, sent or dead"),
            ));
        }
    };
    let rows = match outbox_id {
        Some(id) => {
            let row = service.logbook().outbox_row(MessageId(id)).await;
            row.map_err(refused)?.into_iter().collect()
        }
        None => {
            let rows = service.logbook().outbox_rows(status, limit).await;
            rows.map_err(refused)?
        }
    };
    let mine = |row: &OutboxRow| service.may_use(caller, &row.target_space);
    let rows: Vec<Value> = rows.iter().filter(|row| mine(row)).map(shown).collect();
    if outbox_id.is_some() && rows.is_empty() {
        return Err(Refusal::new(
            "NOT_FOUND",
            "the row does not exist, or has left the outbox",
        ));
    }
    Ok(json!({"ok": true, "rows": rows, "total": rows.len()}))
}

/// A row without its text, which only searches return.
fn shown(row: &OutboxRow) -> Value {
    let mut shown = serde_json::to_value(row).expect("invariant: a row is JSON");
    if let Some(fields) = shown.as_object_mut() {
        fields.remove("payload_md");
        let text = Some(&row.payload_md).filter(|_| row.erased_at.is_none());
        let payload_len = text.map(|text| text.chars().count());
        fields.insert("payload_len".into(), json!(payload_len));
    }
    shown
}

async fn create_item(service: &MemoryService, mut arguments: Arguments, caller: &Caller) -> Answer {
    let project_key = arguments.text("project_key")?;
    let item = NewItem {
        item_type: arguments.named("item_type")?,
        title: arguments.named("title")?,
        project_key: Some(project_key.unwrap_or_else(|| service.options().project_key.clone())),
        scope_json: arguments.object("scope_json")?.unwrap_or_default(),
        status: arguments.text("status")?.unwrap_or_else(|| "open".into()),
        owner_user_id: arguments.text("owner_user_id")?,
    };
    arguments.end()?;
    if let Some(space) = item.scope_json.get("space").and_then(Value::as_str) {
        service.check_space(caller, space)?;
    }
    let item_id = service
        .logbook()
        .create_item(&item)
        .await
        .map_err(refused)?;
    Ok(json!({"ok": true, "item_id": item_id}))
}

async fn add_event(service: &MemoryService, mut arguments: Arguments, caller: &Caller) -> Answer {
    let event = NewEvent {
        item_id: item_id(&mut arguments)?,
        event_type: arguments.named("event_type")?,
        status_from: arguments.text("status_from")?,
        status_to: arguments.text("status_to")?,
        payload_json: arguments.object("payload_json")?.unwrap_or_default(),
        actor_user_id: arguments.text("actor_user_id")?,
        source: arguments.text("source")?.unwrap_or_else(|| "tool".into()),
    };
    arguments.end()?;
    if let Some(space) = event.payload_json.get("space").and_then(Value::as_str) {
        service.check_space(caller, space)?;
    }
    service.check_actor(caller, event.actor_user_id.as_deref())?;
    service.check_item(caller, event.item_id).await?;
    match service.logbook().add_event(&event).await.map_err(refused)? {
        Some(event_id) => Ok(json!({"ok": true, "event_id": event_id})),
        None => Err(no_item(event.item_id)),
    }
}

async fn attach(service: &MemoryService, mut arguments: Arguments, caller: &Caller) -> Answer {
    let attachment = NewAttachment {
        item_id: item_id(&mut arguments)?,
        kind: arguments.named("kind")?,
        uri: plain_key(&arguments.named("uri")?),
        sha256: arguments.named("sha256")?.to_ascii_lowercase(),
        size_bytes: arguments.whole("size_bytes")?,
        meta_json: arguments.object("meta_json")?.unwrap_or_default(),
    };
    arguments.end()?;
    let is_hash = |text: &str| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    if !is_hash(&attachment.sha256) {
        return Err(wrong("sha256", "must be 64 hex digits"));
    }
    service.check_item(caller, attachment.item_id).await?;
    // A reference to a file makes it readable to users of the item.
    service.check_file(caller, &attachment.uri).await?;
    let attached = service.logbook().attach(&attachment).await;
    match attached.map_err(refused)? {
        Some(id) => Ok(json!({
            "ok": true, "attachment_id": id,
            "evidence_uri": format!("memory://attachments/{id}/{}", attachment.sha256),
        })),
        None => Err(no_item(attachment.item_id)),
    }
}

async fn set_kv(service: &MemoryService, mut arguments: Arguments) -> Answer {
    let namespace = arguments.named("namespace")?;
    let key = arguments.named("key")?;
    let value = arguments.value("value_json");
    arguments.end()?;
    let value = value.ok_or_else(|| super::missing("value_json"))?;
    if RESERVED.contains(&namespace.as_str()) {
        let why = "is reserved by consign; use `consign scm rewind` to set a cursor back";
        return Err(wrong("namespace", why));
    }
    let set = service.logbook().set_kv(&namespace, &key, &value).await;
    set.map_err(refused)?;
    Ok(json!({"ok": true, "namespace": namespace, "key": key}))
}

async fn get_kv(service: &MemoryService, mut arguments: Arguments) -> Answer {
    let namespace = arguments.named("namespace")?;
    let key = arguments.named("key")?;
    arguments.end()?;
    let value = service.logbook().get_kv(&namespace, &key).await;
    let value = value.map_err(refused)?;
    Ok(json!({"ok": true, "found": value.is_some(), "value_json": value}))
}

async fn query_items(service: &MemoryService, mut arguments: Arguments, caller: &Caller) -> Answer {
    let limit = arguments.limit("limit", 50, 1_000)?;
    let filter = ItemFilter {
        item_type: arguments.text("item_type")?,
        status: arguments.text("status")?,
        owner_user_id: arguments.text("owner_user_id")?,
    };
    arguments.end()?;
    let items = service.logbook().items(&filter, limit).await;
    let mut items = items.map_err(refused)?;
    items.retain(|item| service.may_see(caller, item.space().as_deref()));
    Ok(json!({"ok": true, "total": items.len(), "items": items}))
}

async fn query_events(
    service: &MemoryService,
    mut arguments: Arguments,
    caller: &Caller,
) -> Answer {
    let limit = arguments.limit("limit", 100, 1_000)?;
    let filter = EventFilter {
        item_id: arguments.whole("item_id")?,
        event_type: arguments.text("event_type")?,
        actor_user_id: arguments.text("actor_user_id")?,
        since: arguments.time("since")?,
    };
    arguments.end()?;
    let events = service.logbook().events(&filter, limit).await;
    let mut events = events.map_err(refused)?;
    events.retain(|event| service.may_see(caller, event.space.as_deref()));
    Ok(json!({"ok": true, "total": events.len(), "events": events}))
}

async fn list_attachments(
    service: &MemoryService,
    mut arguments: Arguments,
    caller: &Caller,
) -> Answer {
    let limit = arguments.limit("limit", 100, 1_000)?;
    let filter = AttachmentFilter {
        item_id: arguments.whole("item_id")?,
        kind: arguments.text("kind")?,
        uri: None,
    };
    arguments.end()?;
    let attachments = service.logbook().attachments(&filter, limit).await;
    let mut attachments = attachments.map_err(refused)?;
    attachments.retain(|attachment| service.may_see(caller, attachment.space.as_deref()));
    Ok(json!({"ok": true, "total": attachments.len(), "attachments": attachments}))
}

fn item_id(arguments: &mut Arguments) -> Result<i64, Refusal> {
    let item_id = arguments.whole("item_id")?;
    item_id.ok_or_else(|| super::missing("item_id"))
}

fn no_item(item_id: i64) -> Refusal {
    Refusal::new("NOT_FOUND", format!("item {item_id} does not exist"))
}
