//! The project's settings and the report.

use serde_json::json;

use super::{
    ToolInfo,
    parts::{actor, flag, maybe, object, text, word},
};

pub(super) fn tools() -> Vec<ToolInfo> {
    vec![report(), get(), update()]
}

fn report() -> ToolInfo {
    ToolInfo::new(
        "reliability_report",
        "Counts what became of every write: how many memories were stored, redirected, deferred, delivered \
         later, refused and lost, and whether audits and outbox agree. Use it to see whether the gateway works, \
         not to find memories. \
         Example: {}",
        &[],
        json!({}),
        json!({
            "outbox_stats": object("Rows of the outbox by status, and how old the oldest is."),
            "audit_stats": object("Audits by action and by reason."),
            "invariants": object("Whether what must be equal is equal."),
        }),
    )
}

fn get() -> ToolInfo {
    ToolInfo::new(
        "governance_get",
        "Shows the project's settings: whether shared spaces may be written to (team_write_enabled), and the \
         policy that decides about kinds, evidence, lengths and users. Use it to find out why a memory was \
         redirected or refused. \
         Example: {}",
        &[],
        json!({}),
        json!({"settings": object("The settings: project_key, team_write_enabled, policy_json, updated_by, updated_at.")}),
    )
}

fn update() -> ToolInfo {
    ToolInfo::new(
        "governance_update",
        "Changes the project's settings: opens or closes shared spaces, and sets rules of the policy. Only for \
         operators: it needs the admin key, a token that may change settings, or an actor on the current \
         allowlist_users. Do not call it on your own account to get a memory stored. \
         Example: {\"team_write_enabled\": true, \"policy_json\": {\"require_evidence\": false}, \
         \"admin_key\": \"...\"}",
        &[],
        json!({
            "team_write_enabled": flag("Whether memories may be written to shared spaces; unchanged unless given."),
            "policy_json": policy(),
            "admin_key": text("The project's admin key, if you were given one."),
            "actor_user_id": actor(),
        }),
        json!({
            "action": word(&["allow", "reject", "error"], "allow: changed. reject: refused. error: failed."),
            "settings": maybe(object("The settings after the change; null if it was refused.")),
        }),
    )
    .writing()
}

fn policy() -> serde_json::Value {
    json!({
        "type": "object",
        "description": "Rules to change, merged into the current policy by name; the rest stays. \
            Names of your own are stored too.",
        "properties": {
            "allowlist_users": json!({
                "type": "array", "items": {"type": "string"},
                "description": "Users who may write to shared spaces; an empty list allows all \
                    users.",
            }),
            "allowed_kinds": json!({
                "type": "array", "items": {"type": "string"},
                "description": "Kinds that shared spaces take; an empty list takes all.",
            }),
            "require_evidence": flag("Whether memories for shared spaces need evidence."),
            "evidence_mode": word(&["compat", "strict"], "strict refuses evidence without a SHA-256."),
            "max_chars": json!({
                "type": "integer", "minimum": 0,
                "description": "The longest text that shared spaces take, in characters.",
            }),
            "bulk_mode": word(
                &["very_short", "reject", "allow"],
                "How memories with is_bulk are treated: very_short requires a very short text, \
                 reject rejects them, allow accepts them."
            ),
            "bulk_max_chars": json!({
                "type": "integer", "minimum": 0,
                "description": "The longest text of a memory with is_bulk, in characters.",
            }),
        },
    })
}
