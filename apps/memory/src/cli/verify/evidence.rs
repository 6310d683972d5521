//! Evidence is stored, read back, and attached to a memory.

use serde_json::json;

use super::{
    checks::{facts, only_audit, unfit},
    outcome::StepResult,
    stack::Stack,
};
use crate::{AuditStatus, payload_sha};

/// Uploads a text, reads it by its reference and by a wrong one, and stores a memory on it.
pub(super) async fn keep(stack: &Stack) -> StepResult {
    let gateway = &stack.gateway;
    let content = format!("{}: what a memory rests on", stack.mark);
    let sha = payload_sha(&content);
    let upload = json!({
        "content": content, "content_type": "text/plain", "title": "consign verify",
    });
    let kept = gateway.call("evidence_upload", upload).await?;
    let evidence = kept["evidence"].clone();
    let Some(uri) = evidence["uri"].as_str().filter(|_| kept["ok"] == true) else {
        return Err(unfit("evidence_upload", &kept));
    };
    if kept["sha256"] != sha || !uri.ends_with(&sha) {
        return Err(unfit("evidence_upload took another text", &kept));
    }
    let read = gateway.call("evidence_read", json!({"uri": uri})).await?;
    if read["ok"] != true || read["content"] != content {
        return Err(unfit("evidence_read", &read));
    }
    let wrong = uri.replace(&sha, &payload_sha("another text"));
    let refused = gateway.call("evidence_read", json!({"uri": wrong})).await?;
    if refused["ok"] != false {
        return Err(unfit("evidence_read of another hash", &refused));
    }
    let store = json!({
        "payload_md": format!("{}: a memory that rests on evidence", stack.mark),
        "target_space": stack.space(), "evidence": [evidence],
    });
    let stored = gateway.call("memory_store", store).await?;
    if stored["ok"] != true {
        return Err(unfit("memory_store with evidence", &stored));
    }
    let audit = only_audit(stack, &stored).await?;
    let attached = &audit.evidence_refs_json["attachments"][0];
    if audit.status != AuditStatus::Success || attached["artifact_uri"] != uri {
        return Err(unfit("the audit does not have the evidence", &json!(audit)));
    }
    Ok(facts(
        json!({"evidence_uri": uri, "memory_id": stored["memory_id"]}),
    ))
}
