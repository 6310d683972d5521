//! The one audit of a request, as far as it is known.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::{
    Action, Correlation, Found,
    audit_json::StoreAudit,
    card::Trim,
    evidence::{Evidence, StrictReport, ValidateRefs},
    policy::EvidenceMode,
};

/// What is known of a request; grows while it is decided about.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) correlation: Correlation,
    /// The backend that it is meant for.
    pub(super) backend: String,
    pub(super) actor: Option<String>,
    pub(super) requested_space: String,
    pub(super) final_space: Option<String>,
    pub(super) text: String,
    pub(super) evidence: Evidence,
    pub(super) trim: Trim,
    pub(super) mode: Option<EvidenceMode>,
    pub(super) refs: Option<ValidateRefs>,
    pub(super) strict: Option<StrictReport>,
    pub(super) extra: Map<String, Value>,
}

impl Draft {
    /// The audit under a decision.
    pub(super) fn decided<'a>(&'a self, action: Action, reason: &'a str) -> StoreAudit<'a> {
        StoreAudit {
            correlation: &self.correlation,
            actor_user_id: self.actor.as_deref(),
            requested_space: &self.requested_space,
            final_space: self.final_space.as_deref(),
            action,
            reason,
            payload_md: &self.text,
            evidence: &self.evidence,
            trim: &self.trim,
            event_ts: Timestamp::now(),
            mode: self.mode,
            validate_refs: self.refs,
            strict: self.strict.as_ref(),
            memory_id: None,
            backend: &self.backend,
            extra: self.extra.clone(),
        }
    }

    /// The audit of what is stored already, under a name if that is known.
    pub(super) fn known<'a>(&'a self, found: &Found, memory_id: Option<&'a str>) -> StoreAudit<'a> {
        let mut audit = self.decided(Action::Allow, "dedup_hit");
        audit.memory_id = memory_id;
        if let Some(outbox_id) = found.outbox_id {
            let name = "original_outbox_id".to_owned();
            audit.extra.insert(name, json!(outbox_id));
        }
        audit
    }

    /// Notes something about the request.
    pub(super) fn note(&mut self, name: &str, value: impl Into<Value>) {
        self.extra.insert(name.to_owned(), value.into());
    }
}
