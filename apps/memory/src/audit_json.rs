//! Audits of requests: what stands in `evidence_refs_json`, and how a pending one ends.
//!
//! At the top: `gateway_event` with everything about the request, the evidence sorted into `patches`,
//! `attachments` and `external`, `evidence_summary`, `refs`, and, lifted so that SQL finds them,
//! `source`, `payload_sha`, `correlation_id`, `memory_id`, `backend`, `outbox_id`, `intended_action`,
//! `original_outbox_id`, `consume`. `extra` always has the `correlation_id`.
//!
//! Audits of the outbox are written by the stores (see [`crate::Logbook`]) in the same shape.

mod delete;
mod evidence;
mod governance;
mod store;
mod unfit;

pub(crate) use self::store::MAY_BE_STORED;
pub use self::{
    delete::DeleteAudit, evidence::EvidenceAudit, governance::GovernanceAudit, store::StoreAudit,
    unfit::UnfitAudit,
};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::{Action, AuditStatus, Correlation, NewAudit, card::Trim, evidence::Evidence, redact};

const SCHEMA_VERSION: &str = "2.0";
const SOURCE: &str = "gateway";
/// As much of an error is kept.
const ERROR_CHARS_MAX: usize = 500;
/// What is lifted from `extra`.
const LIFTED: [&str; 5] = [
    "worker_id",
    "attempt_id",
    "intended_action",
    "original_outbox_id",
    "consume",
];

/// What all audits of requests have.
struct Event<'a> {
    operation: &'static str,
    correlation: &'a Correlation,
    actor_user_id: Option<&'a str>,
    requested_space: &'a str,
    final_space: Option<&'a str>,
    action: Action,
    reason: &'a str,
    payload_sha: Option<&'a str>,
    payload_len: Option<usize>,
    evidence: &'a Evidence,
    trim: &'a Trim,
    event_ts: Timestamp,
    memory_id: Option<&'a str>,
    /// The backend that it was meant for.
    backend: Option<&'a str>,
    /// Sections of `gateway_event` that only some have.
    sections: Map<String, Value>,
    extra: &'a Map<String, Value>,
}

impl Event<'_> {
    /// The row of the audit.
    fn audit(self, target_space: &str, status: AuditStatus) -> NewAudit {
        NewAudit {
            actor_user_id: self.actor_user_id.map(str::to_owned),
            target_space: target_space.to_owned(),
            action: self.action,
            reason: Some(self.reason.to_owned()),
            payload_sha: self.payload_sha.map(str::to_owned),
            correlation_id: Some(self.correlation.to_string()),
            status,
            evidence_refs_json: self.document(),
        }
    }

    fn document(self) -> Value {
        let correlation_id = self.correlation.as_str();
        let (summary, refs) = (self.evidence.summary(), self.evidence.uris());
        let mut event = json!({
            "schema_version": SCHEMA_VERSION, "source": SOURCE, "operation": self.operation,
            "correlation_id": correlation_id, "actor_user_id": self.actor_user_id,
            "requested_space": self.requested_space, "final_space": self.final_space,
            "decision": decision(self.action, self.reason),
            "payload_sha": self.payload_sha, "payload_len": self.payload_len,
            "evidence_summary": summary, "trim": self.trim, "refs": refs,
            "event_ts": self.event_ts, "extra": self.extra,
        });
        let mut document = crate::evidence::classify(self.evidence).lists();
        let mut put = |name: &str, value: Value| {
            document.insert(name.to_owned(), value);
        };
        put("evidence_summary", summary);
        if !refs.is_empty() {
            put("refs", json!(refs));
        }
        put("source", json!(SOURCE));
        put("correlation_id", json!(correlation_id));
        if let Some(payload_sha) = self.payload_sha {
            put("payload_sha", json!(payload_sha));
        }
        if let Some(memory_id) = self.memory_id {
            put("memory_id", json!(memory_id));
            event["memory_id"] = json!(memory_id);
        }
        if let Some(backend) = self.backend {
            put("backend", json!(backend));
            event["backend"] = json!(backend);
        }
        for name in LIFTED {
            if let Some(value) = self.extra.get(name) {
                put(name, value.clone());
            }
        }
        let mut extra = self.extra.clone();
        extra.insert("correlation_id".to_owned(), json!(correlation_id));
        put("extra", Value::Object(extra));
        for (name, section) in self.sections {
            event[name] = section;
        }
        put("gateway_event", event);
        Value::Object(document)
    }
}

fn decision(action: Action, reason: &str) -> Value {
    json!({"action": action, "reason": reason})
}

/// An error as audits keep it: without secrets, not too long.
pub fn shown_error(error: &str) -> String {
    let shown = redact::text(error);
    shown.chars().take(ERROR_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests;
