//! The JSON document of a write audit (`evidence_refs_json`), built in this module only.
//!
//! Callers collect [`AuditFacts`]; [`AuditFacts::audit`] makes the row, and `end` the patch
//! that ends a pending one. At the top of the document: `gateway_event` with every fact, the evidence
//! sorted into `patches`, `attachments` and `external`, `evidence_summary`, `refs`, and, where SQL can
//! index them, `source`, `payload_sha`, `correlation_id`, `memory_id`, `backend`, `outbox_id`,
//! `retry_count`, `next_attempt_at` and the fields named in `LIFTED`. `extra` always has the
//! `correlation_id`.
//!
//! PostgreSQL builds two parts in SQL, because its hooks and reconciliation also serve workers that
//! use nothing but SQL: the audits of the outbox (`logbook.write_outbox_audit`) and the merge of a
//! patch (`governance.update_write_audit`). The cases `outcomes`, `reconcile`, `defer`, `audits`,
//! `evidence` and `open` run on both stores and hold the two builders to one shape.

mod end;

use consign_kernel::MessageId;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub(crate) use self::end::{MAY_BE_REMOVED, PendingAudit, merge};
use crate::{
    Action, AuditStatus, Correlation, NewAudit,
    card::Trim,
    evidence::{Evidence, StrictReport, ValidateRefs, classify},
    policy::EvidenceMode,
    redact,
};

const SCHEMA_VERSION: &str = "2.0";
const POLICY_VERSION: &str = "v1";
const ERROR_CHARS_MAX: usize = 500;
/// Fields of `extra` that are repeated at the top of the document.
const LIFTED: [&str; 5] = [
    "worker_id",
    "attempt_id",
    "intended_action",
    "original_outbox_id",
    "consume",
];

/// The operation an audit records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `memory_store` and `memory_update`.
    MemoryStore,
    /// `memory_delete`.
    MemoryDelete,
    /// `evidence_upload`.
    EvidenceUpload,
    /// `governance_update`.
    GovernanceUpdate,
    /// A delivery attempt of the outbox.
    OutboxFlush,
    /// A repair by reconciliation.
    OutboxReconcile,
    /// A reconciliation that an operator runs.
    Reconcile,
}

impl Operation {
    /// The value of `operation`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MemoryStore => "memory_store",
            Self::MemoryDelete => "memory_delete",
            Self::EvidenceUpload => "evidence_upload",
            Self::GovernanceUpdate => "governance_update",
            Self::OutboxFlush => "outbox_flush",
            Self::OutboxReconcile => "outbox_reconcile",
            Self::Reconcile => "reconcile",
        }
    }

    /// The value of `source`: the component that writes the audit.
    pub fn source(self) -> &'static str {
        match self {
            Self::OutboxFlush => "outbox_worker",
            Self::OutboxReconcile => "reconcile_outbox",
            Self::Reconcile => "operator",
            _ => "gateway",
        }
    }
}

/// The checks that the project's settings required of the evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct EvidenceChecks {
    /// `evidence_mode` of the settings.
    pub mode: EvidenceMode,
    /// Whether references were validated, and why.
    pub validate_refs: ValidateRefs,
    /// The result of the strict check; absent if it did not run.
    pub strict: Option<StrictReport>,
}

/// The outbox row an audit is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxFacts {
    /// The message id.
    pub outbox_id: MessageId,
    /// Failed attempts so far, this one included.
    pub retry_count: i64,
    /// When the next attempt is due.
    pub next_attempt_at: Option<Timestamp>,
}

/// Everything an audit can state. Start from [`AuditFacts::new`] and set what applies.
#[derive(Clone, Debug)]
pub struct AuditFacts {
    /// The operation.
    pub operation: Operation,
    /// The request or lease.
    pub correlation_id: String,
    /// The acting user, as far as known.
    pub actor_user_id: Option<String>,
    /// The space the request names.
    pub requested_space: String,
    /// The space written to; absent if the request is rejected.
    pub final_space: Option<String>,
    /// The decision.
    pub action: Action,
    /// The reason of the decision: `policy:…`, `dedup_hit`, `actor_unknown:reject`, ….
    pub reason: String,
    /// SHA-256 of the text or file.
    pub payload_sha: Option<String>,
    /// Length of the text in characters.
    pub payload_len: Option<usize>,
    /// The evidence of the memory.
    pub evidence: Evidence,
    /// How the card was shortened.
    pub trim: Trim,
    /// RFC 3339 time of the event.
    pub event_ts: String,
    /// The backend's id of the memory.
    pub memory_id: Option<String>,
    /// The identity of the backend the request is for.
    pub backend: Option<String>,
    /// The outbox row; absent for requests.
    pub outbox: Option<OutboxFacts>,
    /// Absent if the settings were not read.
    pub checks: Option<EvidenceChecks>,
    /// Operation-specific facts.
    pub extra: Map<String, Value>,
}

impl AuditFacts {
    /// A rejected request about a space, stamped with the current time.
    pub fn new(
        operation: Operation,
        correlation: &Correlation,
        requested_space: impl Into<String>,
    ) -> Self {
        Self {
            operation,
            correlation_id: correlation.to_string(),
            actor_user_id: None,
            requested_space: requested_space.into(),
            final_space: None,
            action: Action::Reject,
            reason: String::new(),
            payload_sha: None,
            payload_len: None,
            evidence: Evidence::default(),
            trim: Trim::default(),
            event_ts: Timestamp::now().to_string(),
            memory_id: None,
            backend: None,
            outbox: None,
            checks: None,
            extra: Map::new(),
        }
    }

    /// Adds a fact to `extra`.
    pub fn note(&mut self, name: &str, value: impl Into<Value>) {
        self.extra.insert(name.to_owned(), value.into());
    }

    /// The row to insert.
    pub fn audit(&self, status: AuditStatus) -> NewAudit {
        let space = self.final_space.as_ref().unwrap_or(&self.requested_space);
        NewAudit {
            actor_user_id: self.actor_user_id.clone(),
            target_space: space.clone(),
            action: self.action,
            reason: Some(self.reason.clone()),
            payload_sha: self.payload_sha.clone(),
            evidence_refs_json: self.document(),
            correlation_id: Some(self.correlation_id.clone()),
            status,
        }
    }

    fn document(&self) -> Value {
        let (summary, refs) = (self.evidence.summary(), self.evidence.uris());
        let source = self.operation.source();
        let mut event = json!({
            "schema_version": SCHEMA_VERSION, "source": source,
            "operation": self.operation.as_str(), "correlation_id": self.correlation_id,
            "actor_user_id": self.actor_user_id, "requested_space": self.requested_space,
            "final_space": self.final_space, "decision": decision(self.action, &self.reason),
            "payload_sha": self.payload_sha, "payload_len": self.payload_len,
            "evidence_summary": summary, "trim": self.trim, "refs": refs,
            "event_ts": self.event_ts, "extra": self.extra,
        });
        let mut document = classify(&self.evidence).lists();
        let mut put = |name: &str, value: Value| {
            document.insert(name.to_owned(), value);
        };
        put("evidence_summary", summary);
        if !refs.is_empty() {
            put("refs", json!(refs));
        }
        put("source", json!(source));
        put("correlation_id", json!(self.correlation_id));
        if let Some(payload_sha) = &self.payload_sha {
            put("payload_sha", json!(payload_sha));
        }
        for (name, value) in self.indexed() {
            if !value.is_null() {
                event[name] = value.clone();
                put(name, value);
            }
        }
        for name in LIFTED {
            if let Some(value) = self.extra.get(name) {
                put(name, value.clone());
            }
        }
        let mut extra = self.extra.clone();
        extra.insert("correlation_id".to_owned(), json!(self.correlation_id));
        put("extra", Value::Object(extra));
        if let Some(checks) = &self.checks {
            checks.write(&mut event);
        }
        put("gateway_event", event);
        Value::Object(document)
    }

    /// Fields that stand both at the top and in `gateway_event`, null if absent.
    fn indexed(&self) -> [(&'static str, Value); 5] {
        let outbox = self.outbox.as_ref();
        let next = outbox.and_then(|outbox| outbox.next_attempt_at);
        [
            ("memory_id", json!(self.memory_id)),
            ("backend", json!(self.backend)),
            ("outbox_id", json!(outbox.map(|outbox| outbox.outbox_id))),
            (
                "retry_count",
                json!(outbox.map(|outbox| outbox.retry_count)),
            ),
            ("next_attempt_at", json!(next.map(micros_text))),
        ]
    }
}

impl EvidenceChecks {
    fn write(&self, event: &mut Value) {
        let strict = self.strict.as_ref().map(StrictReport::to_value);
        event["policy_mode"] = json!(self.mode);
        event["policy"] = json!({
            "mode": self.mode, "mode_reason": "from_settings", "policy_version": POLICY_VERSION,
            "is_pointerized": false, "policy_source": "settings",
        });
        event["validation"] = json!({
            "validate_refs_effective": self.validate_refs.is_on,
            "validate_refs_reason": self.validate_refs.reason, "evidence_validation": strict,
        });
        if let Some(strict) = strict {
            event["evidence_validation"] = strict;
        }
    }
}

fn decision(action: Action, reason: &str) -> Value {
    json!({"action": action, "reason": reason})
}

/// An error text for audits and answers: secrets masked, at most 500 characters.
pub fn shown_error(error: &str) -> String {
    let shown = redact::text(error);
    shown.chars().take(ERROR_CHARS_MAX).collect()
}

/// A time as PostgreSQL's `logbook.iso` writes it.
pub(crate) fn micros_text(at: Timestamp) -> String {
    format!("{at:.6}").replace('Z', "+00:00")
}

#[cfg(test)]
mod tests;
