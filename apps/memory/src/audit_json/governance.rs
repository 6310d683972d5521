//! Audits of changes to settings.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::Event;
use crate::{
    Action, AuditStatus, Correlation, NewAudit, card::Trim, evidence::Evidence,
    policy::GovernanceDecision, redact,
};

/// A request to change settings.
#[derive(Clone, Debug)]
pub struct GovernanceAudit<'a> {
    /// The request.
    pub correlation: &'a Correlation,
    /// Whose settings.
    pub project_key: &'a str,
    /// Who.
    pub actor_user_id: Option<&'a str>,
    /// Whether they may.
    pub decision: GovernanceDecision,
    /// What they wanted: the switch, if it was to change.
    pub team_write_enabled: Option<bool>,
    /// What they wanted: the keys of the policy that were to change.
    pub policy_json: &'a Map<String, Value>,
    /// When.
    pub event_ts: Timestamp,
}

impl GovernanceAudit<'_> {
    /// The audit.
    pub fn audit(&self) -> NewAudit {
        let (action, status) = match self.decision.is_allowed {
            true => (Action::Allow, AuditStatus::Success),
            false => (Action::Reject, AuditStatus::Failed),
        };
        let space = format!("governance:{}", self.project_key);
        let mut wanted = json!(self.policy_json);
        redact::json(&mut wanted);
        let extra = json!({
            "project_key": self.project_key, "team_write_enabled": self.team_write_enabled,
            "policy_json": wanted,
        });
        let event = Event {
            operation: "governance_update",
            correlation: self.correlation,
            actor_user_id: self.actor_user_id,
            requested_space: &space,
            final_space: self.decision.is_allowed.then_some(space.as_str()),
            action,
            reason: self.decision.reason,
            payload_sha: None,
            payload_len: None,
            evidence: &Evidence::default(),
            trim: &Trim::default(),
            event_ts: self.event_ts,
            memory_id: None,
            backend: None,
            sections: Map::new(),
            extra: &extra.as_object().cloned().unwrap_or_default(),
        };
        event.audit(&space, status)
    }
}
