//! Evidence: texts kept in files.

use serde_json::json;

use super::{
    ToolInfo,
    parts::{actor, evidence_item, flag, text, whole, word},
};
use crate::gateway::CONTENT_TYPES;

pub(super) fn tools() -> Vec<ToolInfo> {
    vec![upload(), read()]
}

fn upload() -> ToolInfo {
    let mut evidence = evidence_item();
    evidence["description"] = json!("The item to give to memory_store in its list `evidence`.");
    ToolInfo::new(
        "evidence_upload",
        "Keeps a text (a log, a diff, a page) as evidence and answers with the item to give to memory_store in \
         `evidence`. Use it when a memory rests on something that has no address of its own, or that may be \
         gone tomorrow. \
         Example: {\"content\": \"2026-01-30 ERROR pool exhausted\", \"content_type\": \"text/plain\", \
         \"title\": \"log of the outage\"}",
        &["content", "content_type"],
        json!({
            "content": text("The text to keep, at most 1 MiB unless the project allows more."),
            "content_type": word(&CONTENT_TYPES.map(|(kind, _)| kind), "What sort of text it is."),
            "title": text("The title of the evidence, for display."),
            "actor_user_id": actor(),
            "project_key": text("The project it belongs to; this one unless given."),
            "item_id": whole("The logbook item it belongs to; a new one is made unless given."),
            "target_space": text("The space of a new item; where a memory of yours would go unless given."),
        }),
        json!({
            "evidence": evidence,
            "attachment_id": whole("The number of the attachment in the logbook."),
            "item_id": whole("The logbook item that the evidence belongs to."),
            "sha256": text("The SHA-256 of the text, 64 hex digits."),
            "size_bytes": whole("How many bytes the text has."),
        }),
    )
    .writing()
    .of_all()
}

fn read() -> ToolInfo {
    ToolInfo::new(
        "evidence_read",
        "Reads evidence back by its reference and checks that its hash is still the one in the reference. Use it \
         to see what a memory is based on before you rely on it. \
         Example: {\"uri\": \"memory://attachments/7/e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"}",
        &["uri"],
        json!({
            "uri": text("The reference: memory://attachments/<id>/<sha256>, memory://patch_blobs/..., or an artifact key."),
            "encoding": json!({
                "type": "string", "enum": ["utf-8", "base64"], "default": "utf-8",
                "description": "How the content is written in the answer; base64 for what is no text.",
            }),
            "max_bytes": whole("Refuse content that is larger than this many bytes."),
            "include_content": flag("Whether to answer with the content (true unless given), or with its size and hash only."),
            "verify_sha256": flag("Whether to check the hash; true unless given."),
        }),
        json!({
            "content": text("The evidence in the requested encoding; absent with include_content \
                false."),
            "sha256": text("The SHA-256 of the content, 64 hex digits."),
            "size_bytes": whole("How many bytes the content has."),
        }),
    )
    .of_all()
}
