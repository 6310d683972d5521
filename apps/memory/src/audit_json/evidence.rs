//! Audits of `evidence_upload`.

use jiff::Timestamp;
use serde_json::{Map, json};

use super::Event;
use crate::{AuditStatus, Correlation, NewAudit, card::Trim, evidence::Evidence, policy::Decision};

/// Evidence that is kept. Its item and attachment are written into the audit where they are made.
#[derive(Clone, Copy, Debug)]
pub struct EvidenceAudit<'a> {
    /// The request.
    pub correlation: &'a Correlation,
    /// Who.
    pub actor_user_id: Option<&'a str>,
    /// Where it was meant to go; absent: its item says so, or the policy.
    pub requested_space: Option<&'a str>,
    /// Where it goes, and why.
    pub decision: &'a Decision,
    /// The hash of the content.
    pub sha256: &'a str,
    /// The file.
    pub artifact_uri: &'a str,
    /// What the content is.
    pub content_type: &'a str,
    /// Its length.
    pub size_bytes: usize,
}

impl EvidenceAudit<'_> {
    /// The audit: it is final.
    pub fn audit(&self) -> NewAudit {
        let final_space = self.decision.final_space.as_deref();
        let space = final_space.or(self.requested_space).unwrap_or_default();
        let reason = format!("evidence_upload:{}", self.decision.reason);
        let extra = [
            ("artifact_uri", json!(self.artifact_uri)),
            ("content_type", json!(self.content_type)),
            ("size_bytes", json!(self.size_bytes)),
        ];
        let extra = extra.map(|(name, value)| (name.to_owned(), value));
        let event = Event {
            operation: "evidence_upload",
            correlation: self.correlation,
            actor_user_id: self.actor_user_id,
            requested_space: self.requested_space.unwrap_or(space),
            final_space,
            action: self.decision.action,
            reason: &reason,
            payload_sha: Some(self.sha256),
            payload_len: None,
            evidence: &Evidence::default(),
            trim: &Trim::default(),
            event_ts: Timestamp::now(),
            memory_id: None,
            backend: None,
            sections: Map::new(),
            extra: &Map::from_iter(extra),
        };
        event.audit(space, AuditStatus::Success)
    }
}
