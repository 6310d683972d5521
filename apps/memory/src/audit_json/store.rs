//! Audits of `memory_store`.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{Event, decision, shown_error};
use crate::{
    Action, AuditEnd, AuditStatus, BackendError, Correlation, NewAudit,
    card::Trim,
    evidence::{Evidence, StrictReport, ValidateRefs},
    payload_sha,
    policy::EvidenceMode,
};

const POLICY_VERSION: &str = "v1";
/// In `extra`: whether the memory server may have what an audit says it does not have.
pub(crate) const MAY_BE_STORED: &str = "may_be_stored";

/// A request to store a memory, as far as it has been decided.
#[derive(Clone, Debug)]
pub struct StoreAudit<'a> {
    /// The request.
    pub correlation: &'a Correlation,
    /// Who.
    pub actor_user_id: Option<&'a str>,
    /// Where it was meant to go.
    pub requested_space: &'a str,
    /// Where it goes; nowhere if it is rejected.
    pub final_space: Option<&'a str>,
    /// What was decided.
    pub action: Action,
    /// Why: `policy:…`, `dedup_hit`, `actor_unknown:reject`, `EVIDENCE_VALIDATION_FAILED:…`.
    pub reason: &'a str,
    /// The text.
    pub payload_md: &'a str,
    /// What it is based on.
    pub evidence: &'a Evidence,
    /// What was done to make it short.
    pub trim: &'a Trim,
    /// When.
    pub event_ts: Timestamp,
    /// What the project asks of evidence; none if its settings were not looked at.
    pub mode: Option<EvidenceMode>,
    /// Whether references were checked; none if it did not come to that.
    pub validate_refs: Option<ValidateRefs>,
    /// What the strict check found, if it was made.
    pub strict: Option<&'a StrictReport>,
    /// Under what the memory server has it; known beforehand only if it is stored already.
    pub memory_id: Option<&'a str>,
    /// The backend that it is meant for, by its identity.
    pub backend: &'a str,
    /// Anything else: `original_outbox_id`.
    pub extra: Map<String, Value>,
}

impl StoreAudit<'_> {
    /// The audit: `Pending` before the memory server is called, `Success` for what is stored already,
    /// `Failed` for what is rejected.
    pub fn audit(&self, status: AuditStatus) -> NewAudit {
        NewAudit {
            actor_user_id: self.actor_user_id.map(str::to_owned),
            target_space: self.final_space.unwrap_or(self.requested_space).to_owned(),
            action: self.action,
            reason: Some(self.reason.to_owned()),
            payload_sha: Some(payload_sha(self.payload_md)),
            evidence_refs_json: self.document(),
            correlation_id: Some(self.correlation.to_string()),
            status,
        }
    }

    /// `evidence_refs_json`.
    pub fn document(&self) -> Value {
        let event = Event {
            operation: "memory_store",
            correlation: self.correlation,
            actor_user_id: self.actor_user_id,
            requested_space: self.requested_space,
            final_space: self.final_space,
            action: self.action,
            reason: self.reason,
            payload_sha: Some(&payload_sha(self.payload_md)),
            payload_len: Some(self.payload_md.chars().count()),
            evidence: self.evidence,
            trim: self.trim,
            event_ts: self.event_ts,
            memory_id: self.memory_id,
            backend: Some(self.backend),
            sections: self.sections(),
            extra: &self.extra_with(&[]),
        };
        event.document()
    }

    /// The end of the audit of a memory that is stored.
    pub fn stored(&self, memory_id: &str) -> AuditEnd {
        let patch = json!({"memory_id": memory_id, "gateway_event": {"memory_id": memory_id}});
        AuditEnd {
            status: AuditStatus::Success,
            action: None,
            reason: None,
            patch,
        }
    }

    /// The end of the audit of a memory that is put off; `Logbook::defer` adds the row's number.
    /// `may_be_stored`: the memory server may have it all the same.
    pub fn deferred(&self, error: &BackendError, may_be_stored: bool) -> AuditEnd {
        let word = error.word();
        let reason = format!("openmemory_write_failed:{word}");
        let told = [
            ("last_error", json!(shown_error(&error.to_string()))),
            ("error_code", json!(word)),
            ("intended_action", json!(self.action)),
            // The row may be an earlier request's, which knows nothing of this one's doubt.
            (MAY_BE_STORED, json!(may_be_stored)),
        ];
        let mut end = self.ended(AuditStatus::Redirected, Action::Redirect, reason, &told);
        end.patch["intended_action"] = json!(self.action);
        end
    }

    /// The end of the audit of a memory that the memory server will never take (4xx).
    pub fn refused(&self, error: &BackendError) -> AuditEnd {
        let word = error.word();
        let code = word.strip_prefix("api_error_").unwrap_or(&word);
        let reason = format!("openmemory_write_failed:{word}:client_error:{code}");
        let shown = shown_error(&error.to_string());
        let told = [
            ("last_error", json!(shown)),
            ("error_code", json!(word)),
            ("error_type", json!("client_error")),
            ("error_message", json!(shown)),
            ("status_code", json!(code.parse::<u16>().ok())),
        ];
        self.ended(AuditStatus::Failed, Action::Reject, reason, &told)
    }

    /// The end of the audit of a memory that could neither be stored nor put off. `code` is the one
    /// that the caller is told. `may_be_stored`: the memory server may have it all the same.
    pub fn failed(&self, code: &str, error: &str, may_be_stored: bool) -> AuditEnd {
        let told = [
            ("last_error", json!(shown_error(error))),
            ("error_code", json!(code)),
            (MAY_BE_STORED, json!(may_be_stored)),
        ];
        self.ended(AuditStatus::Failed, Action::Reject, code.to_owned(), &told)
    }

    fn ended(
        &self,
        status: AuditStatus,
        action: Action,
        reason: String,
        told: &[(&str, Value)],
    ) -> AuditEnd {
        let extra = self.extra_with(told);
        let patch = json!({
            // Stores lay `extra` over what is there, but replace the one inside of the event.
            "extra": extra,
            "gateway_event": {"decision": decision(action, &reason), "extra": extra},
        });
        AuditEnd {
            status,
            action: Some(action),
            reason: Some(reason),
            patch,
        }
    }

    fn extra_with(&self, told: &[(&str, Value)]) -> Map<String, Value> {
        let mut extra = self.extra.clone();
        let source = json!(self.evidence.source.as_str());
        extra.insert("evidence_source".to_owned(), source);
        let told = told
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()));
        extra.extend(told);
        extra
    }

    fn sections(&self) -> Map<String, Value> {
        let mut sections = Map::new();
        let mut put = |name: &str, section: Value| {
            sections.insert(name.to_owned(), section);
        };
        if let Some(mode) = self.mode {
            put("policy_mode", json!(mode));
            put(
                "policy",
                json!({
                    "mode": mode, "mode_reason": "from_settings", "policy_version": POLICY_VERSION,
                    "is_pointerized": false, "policy_source": "settings",
                }),
            );
        }
        let strict = self.strict.map(StrictReport::to_value);
        if let Some(validate_refs) = self.validate_refs {
            put(
                "validation",
                json!({
                    "validate_refs_effective": validate_refs.is_on,
                    "validate_refs_reason": validate_refs.reason, "evidence_validation": strict,
                }),
            );
        }
        if let Some(strict) = strict {
            put("evidence_validation", strict);
        }
        sections
    }
}
