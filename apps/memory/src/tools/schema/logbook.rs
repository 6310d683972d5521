//! The logbook: items, events, attachments, values.

use serde_json::json;

use super::{
    ToolInfo,
    parts::{flag, limit, object, rows, text, time, whole},
};

fn item_id() -> serde_json::Value {
    whole("The number of the item, as logbook_create_item or logbook_query_items gave it.")
}

fn namespace() -> serde_json::Value {
    text(
        "A namespace for your keys, so that they do not collide with those of other agents, such \
        as \"release-bot\".",
    )
}

pub(super) fn writing() -> Vec<ToolInfo> {
    let tools = vec![create_item(), add_event(), attach(), set_kv()];
    tools
        .into_iter()
        .map(|tool| tool.writing().of_all())
        .collect()
}

pub(super) fn reading() -> Vec<ToolInfo> {
    let tools = vec![get_kv(), query_items(), query_events(), list_attachments()];
    tools.into_iter().map(ToolInfo::of_all).collect()
}

fn create_item() -> ToolInfo {
    ToolInfo::new(
        "logbook_create_item",
        "Makes an item of the logbook: a task, an incident or another thing that events and \
         attachments belong to. Use it to record the progress of something; use memory_store for \
         what a later conversation needs. Example: {\"item_type\": \"incident\", \"title\": \
         \"Pool exhausted on 30 January\"}",
        &["item_type", "title"],
        json!({
            "item_type": text("What sort of thing it is, in your own word: task, incident, review."),
            "title": text("The title of the item, for display."),
            "status": text("The first status of the item; open unless given."),
            "owner_user_id": text("The user who owns the item; must be a registered user."),
            "scope_json": object("What the item covers, in fields of your own."),
            "project_key": text("The project it belongs to; this one unless given."),
        }),
        json!({"item_id": whole("The number of the new item.")}),
    )
}

fn add_event() -> ToolInfo {
    ToolInfo::new(
        "logbook_add_event",
        "Adds an event to an item of the logbook: something that happened to it, in the order it happened. With \
         status_to the item changes to that status with the event. Events are found by memory_query when the \
         memory server is away. \
         Example: {\"item_id\": 7, \"event_type\": \"note\", \"payload_json\": {\"note\": \"restarted the pool\"}}",
        &["item_id", "event_type"],
        json!({
            "item_id": item_id(),
            "event_type": text("What sort of event it is, in your own word: note, status_change, comment."),
            "payload_json": object("What happened, in fields of your own; `space` in it limits \
                searches that find it to that space."),
            "status_from": text("The status of the item before, if it changes."),
            "status_to": text("The new status of the item, if it changes."),
            "actor_user_id": text("The user who did it; must be a registered user."),
            "source": text("By what means it happened; tool unless given."),
        }),
        json!({"event_id": whole("The number of the new event.")}),
    )
}

fn attach() -> ToolInfo {
    ToolInfo::new(
        "logbook_attach",
        "Attaches to an item of the logbook something that is kept elsewhere, by its address and hash. Use \
         evidence_upload instead for a text that consign itself shall keep. The same attachment is made once. \
         Example: {\"item_id\": 7, \"kind\": \"log\", \"uri\": \"https://logs.example/1\", \
         \"sha256\": \"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"}",
        &["item_id", "kind", "uri", "sha256"],
        json!({
            "item_id": item_id(),
            "kind": text("What sort of attachment it is, in your own word: log, patch, screenshot."),
            "uri": text("Where the attachment is kept, as an address."),
            "sha256": text("The SHA-256 of the attachment, 64 hex digits."),
            "size_bytes": whole("How many bytes the attachment has, if known."),
            "meta_json": object("Anything else to keep with it, in fields of your own."),
        }),
        json!({
            "attachment_id": whole("The number of the attachment."),
            "evidence_uri": text("The reference to give to memory_store as evidence."),
        }),
    )
}

fn set_kv() -> ToolInfo {
    ToolInfo::new(
        "logbook_set_kv",
        "Keeps a JSON value under a namespace and a key, in place of the one that was there. Use it for small \
         state that a later run needs, such as where it stopped; it is not searched. \
         Example: {\"namespace\": \"release-bot\", \"key\": \"last_release\", \"value_json\": {\"tag\": \"v1.4\"}}",
        &["namespace", "key", "value_json"],
        json!({
            "namespace": namespace(),
            "key": text("The name of the value within its namespace, such as \"last_release\"."),
            "value_json": json!({
                "type": ["object", "array", "string", "number", "boolean"],
                "description": "The value to keep: any JSON value but null.",
            }),
        }),
        json!({
            "namespace": text("The namespace that was written to."),
            "key": text("The key that was written to."),
        }),
    )
}

fn get_kv() -> ToolInfo {
    ToolInfo::new(
        "logbook_get_kv",
        "Reads the JSON value that logbook_set_kv kept under a namespace and a key. Use it at the \
         start of a run to continue where the last one stopped; `found` is true if there is a \
         value. Example: {\"namespace\": \"release-bot\", \"key\": \"last_release\"}",
        &["namespace", "key"],
        json!({
            "namespace": namespace(),
            "key": text("The name of the value within its namespace, such as \"last_release\"."),
        }),
        json!({
            "found": flag("Whether there is a value under this key."),
            "value_json": json!({
                "type": ["object", "array", "string", "number", "boolean", "null"],
                "description": "The value that was set last; null if there is none.",
            }),
        }),
    )
}

fn query_items() -> ToolInfo {
    ToolInfo::new(
        "logbook_query_items",
        "Lists items of the logbook newest first, all of them or those of one type, status or owner. Use it to \
         find the item_id that events and attachments need, or what is still open. \
         Example: {\"item_type\": \"incident\", \"status\": \"open\"}",
        &[],
        json!({
            "limit": limit(50, 1_000),
            "item_type": text("Only items of this type, such as \"incident\"."),
            "status": text("Only items with this status, such as \"open\"."),
            "owner_user_id": text("Only items of this user."),
        }),
        json!({
            "items": rows("The items, newest first."),
            "total": whole("How many items there are in this answer."),
        }),
    )
}

fn query_events() -> ToolInfo {
    ToolInfo::new(
        "logbook_query_events",
        "Lists events of the logbook newest first, all of them or those of one item, type, user \
         or time. Use it to see what happened to an item. Events of other users' private spaces \
         are left out. Example: {\"item_id\": 7, \"since\": \"2026-01-30T00:00:00Z\"}",
        &[],
        json!({
            "limit": limit(100, 1_000),
            "item_id": item_id(),
            "event_type": text("Only events of this type, such as \"note\"."),
            "actor_user_id": text("Only events by this user."),
            "since": time("Only events of this time or later."),
        }),
        json!({
            "events": rows("The events, newest first."),
            "total": whole("How many events there are in this answer."),
        }),
    )
}

fn list_attachments() -> ToolInfo {
    ToolInfo::new(
        "logbook_list_attachments",
        "Lists attachments of the logbook newest first, all of them or those of one item or kind, with their \
         addresses and hashes. Use evidence_read to read the content of one. \
         Example: {\"item_id\": 7, \"kind\": \"log\"}",
        &[],
        json!({
            "limit": limit(100, 1_000),
            "item_id": item_id(),
            "kind": text("Only attachments of this kind, such as \"log\"."),
        }),
        json!({
            "attachments": rows("The attachments, newest first."),
            "total": whole("How many attachments there are in this answer."),
        }),
    )
}
