//! Every tool, and what it takes.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

/// A tool as it is announced.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolInfo {
    /// Its name.
    pub name: &'static str,
    /// What it does, for those who choose.
    pub description: &'static str,
    /// What it takes, as JSON Schema: an object.
    pub input_schema: Map<String, Value>,
    /// Whether it changes nothing.
    pub is_read_only: bool,
}

/// Every tool there is.
pub fn list() -> &'static [ToolInfo] {
    static TOOLS: LazyLock<Vec<ToolInfo>> =
        LazyLock::new(|| [memory(), governance(), evidence(), logbook(), listings()].concat());
    &TOOLS
}

fn tool(
    name: &'static str,
    description: &'static str,
    is_read_only: bool,
    required: &[&str],
    properties: Value,
) -> ToolInfo {
    let schema = json!({
        "type": "object", "properties": properties, "required": required,
        "additionalProperties": false,
    });
    let Value::Object(input_schema) = schema else {
        unreachable!("invariant: written as an object")
    };
    ToolInfo {
        name,
        description,
        input_schema,
        is_read_only,
    }
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn flag(description: &str) -> Value {
    json!({"type": "boolean", "description": description})
}

fn whole(description: &str) -> Value {
    json!({"type": "integer", "description": description})
}

fn limit(default: u32, most: u32) -> Value {
    json!({
        "type": "integer", "minimum": 1, "maximum": most, "default": default,
        "description": "How many at most.",
    })
}

fn object(description: &str) -> Value {
    json!({"type": "object", "description": description})
}

fn texts(description: &str) -> Value {
    json!({"type": "array", "items": {"type": "string"}, "description": description})
}

fn objects(description: &str) -> Value {
    json!({"type": "array", "items": {"type": "object"}, "description": description})
}

fn actor() -> Value {
    text("Who does this. With a token of one person: that person, or absent.")
}

fn memory() -> Vec<ToolInfo> {
    vec![
        store(),
        tool(
            "memory_query",
            "Searches memories. Without the memory server it searches the logbook instead and says \
             so with degraded = true: rely on that less.",
            true,
            &["query"],
            json!({
                "query": text("What to look for."),
                "spaces": texts("Where to look; absent: the team's space."),
                "filters": object("What else must fit, in the memory server's words."),
                "top_k": limit(10, 100),
            }),
        ),
        tool(
            "reliability_report",
            "How many memories were stored, deferred, delivered later, refused and lost.",
            true,
            &[],
            json!({}),
        ),
    ]
}

fn governance() -> Vec<ToolInfo> {
    vec![
        tool(
            "governance_get",
            "The project's settings: whether the team's spaces may be written to, and the policy.",
            true,
            &[],
            json!({}),
        ),
        tool(
            "governance_update",
            "Changes the project's settings. Needs the admin key, or an actor on the current \
             allowlist_users.",
            false,
            &[],
            json!({
                "team_write_enabled": flag("Whether the team's spaces may be written to."),
                "policy_json": object("Laid over the current policy key by key."),
                "admin_key": text("The admin key."),
                "actor_user_id": actor(),
            }),
        ),
    ]
}

fn evidence() -> Vec<ToolInfo> {
    vec![
        tool(
            "evidence_upload",
            "Keeps a text as evidence and answers with the reference to give to memory_store.",
            false,
            &["content", "content_type"],
            json!({
                "content": text("The text."),
                "content_type": text("text/plain, text/markdown, text/x-diff, application/json ..."),
                "title": text("What it is called."),
                "actor_user_id": actor(),
                "project_key": text("The project it belongs to; absent: this one."),
                "item_id": whole("The item it belongs to; absent: a new one."),
                "target_space": text("The space of a new item; absent: where a memory of yours would go."),
            }),
        ),
        tool(
            "evidence_read",
            "Reads evidence by its memory:// reference and checks its hash.",
            true,
            &["uri"],
            json!({
                "uri": text("memory://attachments/<id>/<sha256>, or an artifact key."),
                "encoding": json!({
                    "type": "string", "enum": ["utf-8", "base64"], "default": "utf-8",
                    "description": "How the content is written.",
                }),
                "max_bytes": whole("Refuse what is larger."),
                "include_content": flag("Whether to answer with the content; else only its measures."),
                "verify_sha256": flag("Whether to check the hash."),
            }),
        ),
    ]
}

fn store() -> ToolInfo {
    tool(
        "memory_store",
        "Stores a memory. Answers allow (stored where asked), redirect (stored elsewhere, as the \
         policy says), deferred (the memory server cannot take it now; it is kept and delivered \
         later, outbox_id tells which), reject (refused) or error.",
        false,
        // One of payload_md and card.
        &[],
        json!({
            "payload_md": text("The memory, as Markdown. Required unless card is given."),
            "card": object(
                "Instead of payload_md: kind, owner, module, summary, details, evidence, \
                 confidence, visibility, ttl. Built into a memory card, shortened where needed."
            ),
            "target_space": text("team:<project>, private:<user> or org:<name>; absent: the team's."),
            "meta_json": object("Kept with it."),
            "kind": text("PROCEDURE, REVIEW_GUIDE, PITFALL, DECISION, FACT or REFLECTION."),
            "evidence_refs": texts("References to evidence."),
            "evidence": objects("Evidence: uri (required), sha256, source_id, source_type, ..."),
            "is_bulk": flag("Whether it is one of very many."),
            "item_id": whole("The logbook's item it is about."),
            "actor_user_id": text("Who stores it."),
        }),
    )
}

fn logbook() -> Vec<ToolInfo> {
    let item_id = || whole("The item.");
    vec![
        tool(
            "logbook_create_item",
            "Makes an item: something that events and attachments belong to.",
            false,
            &["item_type", "title"],
            json!({
                "item_type": text("What kind of thing."),
                "title": text("What it is called."),
                "status": text("How it stands; absent: open."),
                "owner_user_id": text("Whose it is; must be a user."),
                "scope_json": object("What it covers."),
                "project_key": text("The project it belongs to; absent: this one."),
            }),
        ),
        tool(
            "logbook_add_event",
            "Adds an event to an item; with status_to, the item changes to it.",
            false,
            &["item_id", "event_type"],
            json!({
                "item_id": item_id(),
                "event_type": text("What kind."),
                "payload_json": object("What happened; space in it says where it can be found."),
                "status_from": text("How the item stood."),
                "status_to": text("How it stands from now on."),
                "actor_user_id": text("Who; must be a user."),
                "source": text("By what means; absent: tool."),
            }),
        ),
        tool(
            "logbook_attach",
            "Attaches something that is kept elsewhere to an item.",
            false,
            &["item_id", "kind", "uri", "sha256"],
            json!({
                "item_id": item_id(),
                "kind": text("What kind."),
                "uri": text("Where it is."),
                "sha256": text("Its hash: 64 hex digits."),
                "size_bytes": whole("Its size."),
                "meta_json": object("Anything else."),
            }),
        ),
        tool(
            "logbook_set_kv",
            "Sets a value.",
            false,
            &["namespace", "key", "value_json"],
            json!({
                "namespace": text("Whose."), "key": text("Which."),
                "value_json": json!({
                    "type": ["object", "array", "string", "number", "boolean"],
                    "description": "Any JSON value but null.",
                }),
            }),
        ),
        tool(
            "logbook_get_kv",
            "Reads a value.",
            true,
            &["namespace", "key"],
            json!({"namespace": text("Whose."), "key": text("Which.")}),
        ),
    ]
}

fn listings() -> Vec<ToolInfo> {
    let item_id = || whole("The item.");
    vec![
        tool(
            "outbox_status",
            "Memories that wait to be stored, were stored later, or were given up.",
            true,
            &[],
            json!({
                "outbox_id": whole("One of them."),
                "status": json!({
                    "type": "string", "enum": ["pending", "sent", "dead"],
                    "description": "Only those.",
                }),
                "limit": limit(50, 1_000),
            }),
        ),
        tool(
            "logbook_query_items",
            "Items, newest first.",
            true,
            &[],
            json!({
                "limit": limit(50, 1_000),
                "item_type": text("Only those."),
                "status": text("Only those."),
                "owner_user_id": text("Only theirs."),
            }),
        ),
        tool(
            "logbook_query_events",
            "Events, newest first.",
            true,
            &[],
            json!({
                "limit": limit(100, 1_000),
                "item_id": item_id(),
                "event_type": text("Only those."),
                "actor_user_id": text("Only theirs."),
                "since": text("Not older than this time, such as 2026-01-30T10:00:00Z."),
            }),
        ),
        tool(
            "logbook_list_attachments",
            "Attachments, newest first.",
            true,
            &[],
            json!({
                "limit": limit(100, 1_000),
                "item_id": item_id(),
                "kind": text("Only those."),
            }),
        ),
    ]
}
