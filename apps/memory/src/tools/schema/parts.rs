//! Parts of schemas that several tools have.

use serde_json::{Map, Value, json};

use crate::card::CardKind;

pub(super) fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

pub(super) fn word(words: &[&str], description: &str) -> Value {
    json!({"type": "string", "enum": words, "description": description})
}

pub(super) fn flag(description: &str) -> Value {
    json!({"type": "boolean", "description": description})
}

pub(super) fn whole(description: &str) -> Value {
    json!({"type": "integer", "description": description})
}

pub(super) fn limit(default: u32, most: u32) -> Value {
    json!({
        "type": "integer", "minimum": 1, "maximum": most, "default": default,
        "description": format!("How many to answer with at most, from 1 to {most}; {default} unless given."),
    })
}

pub(super) fn object(description: &str) -> Value {
    json!({"type": "object", "description": description})
}

pub(super) fn texts(description: &str) -> Value {
    json!({"type": "array", "items": {"type": "string"}, "description": description})
}

/// The same, or null.
pub(super) fn maybe(mut schema: Value) -> Value {
    schema["type"] = json!([schema["type"], "null"]);
    schema
}

pub(super) fn time(description: &str) -> Value {
    let description = format!("{description} RFC 3339 with a zone, such as 2026-01-30T10:00:00Z.");
    json!({"type": "string", "description": description})
}

pub(super) fn actor() -> Value {
    text(
        "The user id of the person or agent you act for, such as \"alice\". Leave it out if your \
         token has a user; another user than the token's is rejected.",
    )
}

pub(super) fn kind(description: &str) -> Value {
    let words = CardKind::ALL.map(CardKind::as_str);
    word(&words, description)
}

pub(super) fn spaces() -> Value {
    texts(
        "The spaces to look in, such as [\"team:web\", \"private:alice\"]. Leave it out to search \
         the team's space and your private one.",
    )
}

/// One piece of evidence.
pub(super) fn evidence_item() -> Value {
    json!({
        "type": "object",
        "required": ["uri"],
        "properties": {
            "uri": text(
                "Where the evidence is: memory://..., https://..., git://..., svn://..., or the reference that \
                 evidence_upload answered with."
            ),
            "sha256": text("The SHA-256 of the evidence, 64 hex digits. Projects with strict evidence need it."),
            "source_type": text("What sort of source it is: patch, attachment, artifact, external."),
            "source_id": text("The source's own name for it, such as git:1:abc123."),
            "title": text("The title of the evidence, for display."),
        },
    })
}

/// A memory as it is read back.
pub(super) fn item() -> Value {
    json!({
        "type": "object",
        "required": ["id", "text", "space", "kind", "actor", "created_at", "score", "evidence", "meta"],
        "properties": {
            "id": text("The name of this memory, for memory_get, memory_update and memory_delete."),
            "text": text("The memory itself, as it was stored."),
            "space": text("The space that it is in."),
            "kind": maybe(text("What sort of memory it is; null if its writer gave none.")),
            "actor": maybe(text("The user who stored it; null if none is recorded.")),
            "created_at": maybe(text("When it was stored, RFC 3339; null if the memory server \
                does not return it.")),
            "score": maybe(json!({
                "type": "number",
                "description": "How well it fits the query; only comparable within one answer.",
            })),
            "evidence": json!({
                "type": "array", "items": {"type": "object"},
                "description": "What the memory is based on, as its writer gave it.",
            }),
            "meta": object("The values that its writer stored with it (meta_json)."),
            "supersedes": text("The id of the older version that this one replaced, if it did."),
            "superseded_by": text("The id of the newer version that replaced this one, if one did."),
        },
    })
}

pub(super) fn items(description: &str) -> Value {
    json!({"type": "array", "items": item(), "description": description})
}

pub(super) fn rows(description: &str) -> Value {
    json!({"type": "array", "items": {"type": "object"}, "description": description})
}

/// What every tool answers, and what this one does besides. Refusals leave the latter out.
pub(super) fn answer(properties: Value) -> Value {
    let common = json!({
        "ok": flag("Whether the tool did what was requested."),
        "correlation_id": text("The name of this request in audits and logs."),
        "message": maybe(text("What happened, for display; null if there is nothing to add.")),
        "success": flag("Present with ok false, when the tool did not do it."),
        "error_code": text("Why the tool did not do it: a stable code for programs."),
        "retryable": flag("Whether the same call may succeed later."),
        "details": object("What exactly was wrong, such as the parameter's name."),
    });
    let mut all = match common {
        Value::Object(common) => common,
        _ => Map::new(),
    };
    if let Value::Object(own) = properties {
        all.extend(own);
    }
    json!({"type": "object", "properties": all, "required": ["ok", "correlation_id"]})
}

/// What tools that write answer besides.
pub(super) fn written() -> Value {
    json!({
        "action": word(
            &["allow", "redirect", "deferred", "reject", "error"],
            "allow: done as requested. redirect: stored in another space, for the reason in \
             reason. deferred: kept and delivered later, do not store it again. reject: refused. \
             error: failed; retryable is true if the same call may succeed later."
        ),
        "reason": maybe(text("Why, as the audit has it: a stable code such as \
            policy:team_write_disabled.")),
        "space_written": maybe(text("The space that the memory is stored in; null if it is not stored.")),
        "memory_id": maybe(text("The id of the stored memory, for memory_get, memory_update, memory_delete.")),
        "outbox_id": maybe(whole("The row of the outbox that keeps a deferred memory.")),
        "evidence_refs": texts("The references that came with the request."),
        "context": object("What an error was about: space, hash of the text, time."),
    })
}
