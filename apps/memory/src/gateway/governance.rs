//! `governance_get` and `governance_update`.

use serde_json::{Map, Value, json};
use tracing::error;

use super::{MemoryService, refused};
use crate::{
    Action, AuditStatus, Caller, Correlation, NewAudit, SettingsChange,
    audit_json::{AuditFacts, Operation},
    policy::{Credentials, GovernanceDecision, Policy, authorize},
    redact,
    tools::{Arguments, Refusal},
};

/// Longest actor name that the audit of a malformed request repeats.
const NAME_CHARS_MAX: usize = 200;

/// A change of settings.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct GovernanceUpdate {
    team_write_enabled: Option<bool>,
    policy_json: Map<String, Value>,
    admin_key: Option<String>,
    actor_user_id: Option<String>,
}

/// Whether an audit repeats the name.
fn is_name(name: &str) -> bool {
    (1..=NAME_CHARS_MAX).contains(&name.chars().count()) && !name.chars().any(char::is_control)
}

impl GovernanceUpdate {
    pub(crate) fn take(arguments: &mut Arguments) -> Result<Self, Refusal> {
        let request = Self {
            team_write_enabled: arguments.flag("team_write_enabled")?,
            policy_json: arguments.object("policy_json")?.unwrap_or_default(),
            admin_key: arguments.text("admin_key")?,
            actor_user_id: arguments.text("actor_user_id")?,
        };
        match Policy::problems(&request.policy_json) {
            problems if problems.is_empty() => Ok(request),
            problems => Err(Refusal::new("INVALID_PARAMETER", problems.join("; "))),
        }
    }
}

impl MemoryService {
    /// The project's settings.
    pub(crate) async fn governance_get(&self) -> Result<Value, Refusal> {
        let settings = self.logbook().settings(&self.options().project_key).await;
        Ok(json!({"ok": true, "settings": settings.map_err(refused)?, "message": null}))
    }

    /// Changes the project's settings, if the caller may; audited either way.
    pub(crate) async fn governance_update(
        &self,
        request: GovernanceUpdate,
        caller: &Caller,
    ) -> Result<Value, Refusal> {
        let project_key = &self.options().project_key;
        let current = self.logbook().settings(project_key).await;
        let current = current.map_err(refused)?;
        let claimed = request.actor_user_id.as_deref();
        let actor = actor(claimed, caller).filter(|actor| !actor.is_empty());
        let configured = self.options().governance_admin_key.as_ref();
        let credentials = Credentials {
            admin_key: request.admin_key.as_deref(),
            configured_key: configured.map(|key| key.reveal()),
            actor,
            is_auth_on: caller.is_authenticated,
            is_actor_bound: caller.is_bound(),
            is_admin: caller.is_admin,
        };
        let decision = match self.check_actor(caller, claimed) {
            Ok(()) => authorize(&credentials, &Policy::read(&current.policy_json)),
            Err(_) => rejected_for("governance_update:actor_mismatch"),
        };
        let audit = |decision| request.audit(project_key, actor, decision, caller);
        if !decision.is_allowed {
            return Ok(self.reject_update(&audit(decision)).await);
        }
        let change = SettingsChange {
            project_key: project_key.clone(),
            team_write_enabled: request.team_write_enabled,
            policy_json: request.policy_json.clone(),
            replace: false,
            updated_by: actor.map(str::to_owned),
        };
        let allowed = audit(decision);
        match self.logbook().change_settings(&change, &allowed).await {
            Ok(settings) => {
                let (action, settings) = ("allow", json!(settings));
                Ok(json!({"ok": true, "action": action, "settings": settings, "message": null}))
            }
            Err(error) => {
                error!(%error, "the settings could not be changed");
                let failed = rejected_for("governance_update:internal_error");
                let mut body = self.reject_update(&audit(failed)).await;
                body["message"] = json!(format!("nothing was changed: {error}"));
                body["error_code"] = json!(refused(error).code);
                Ok(body)
            }
        }
    }

    /// Audits a malformed request. The refusal stands if that fails: nothing was done.
    pub(crate) async fn refused_update(&self, claimed: Option<&str>, caller: &Caller) {
        let actor = actor(claimed.filter(|name| is_name(name)), caller);
        let decision = rejected_for("governance_update:invalid_parameter");
        let project_key = &self.options().project_key;
        let audit = GovernanceUpdate::default().audit(project_key, actor, decision, caller);
        if let Err(error) = self.logbook().insert_audit(&audit).await {
            error!(%error, "the audit of a malformed change of settings could not be written");
        }
    }

    async fn reject_update(&self, audit: &NewAudit) -> Value {
        match self.logbook().insert_audit(audit).await {
            Ok(_) => json!({
                "ok": false, "action": "reject", "settings": null,
                "message": audit.reason, "error_code": "GOVERNANCE_UPDATE_REFUSED",
                "retryable": false,
            }),
            Err(error) => {
                error!(%error, "the audit of a change of settings could not be written");
                json!({
                    "ok": false, "action": "error", "settings": null,
                    "message": format!("the audit could not be written; nothing was changed: {error}"),
                    "error_code": "AUDIT_WRITE_FAILED", "retryable": error.is_retryable(),
                })
            }
        }
    }
}

impl GovernanceUpdate {
    fn audit(
        &self,
        project_key: &str,
        actor: Option<&str>,
        decision: GovernanceDecision,
        caller: &Caller,
    ) -> NewAudit {
        let given = caller.correlation_id.as_deref().unwrap_or_default();
        let correlation = Correlation::parse_or_new(given);
        let space = format!("governance:{project_key}");
        let (action, status) = if decision.is_allowed {
            (Action::Allow, AuditStatus::Success)
        } else {
            (Action::Reject, AuditStatus::Failed)
        };
        let mut policy_json = json!(self.policy_json);
        redact::json(&mut policy_json);
        let mut audit = AuditFacts {
            actor_user_id: actor.map(str::to_owned),
            final_space: decision.is_allowed.then(|| space.clone()),
            action,
            reason: decision.reason.to_owned(),
            ..AuditFacts::new(Operation::GovernanceUpdate, &correlation, space)
        };
        audit.note("project_key", project_key);
        audit.note("team_write_enabled", json!(self.team_write_enabled));
        audit.note("policy_json", policy_json);
        audit.audit(status)
    }
}

/// The acting user: the token's, else the claimed one.
fn actor<'c>(claimed: Option<&'c str>, caller: &'c Caller) -> Option<&'c str> {
    if caller.is_bound() {
        caller.actor.as_deref()
    } else {
        claimed
    }
}

fn rejected_for(reason: &'static str) -> GovernanceDecision {
    GovernanceDecision {
        is_allowed: false,
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_settings_has_one_audit_without_secrets() {
        const CORRELATION: &str = "corr-0123456789abcdef";
        let caller = Caller::anonymous().in_request(CORRELATION);
        let policy_json = json!({"max_chars": 10, "admin_key": "k"});
        let request = GovernanceUpdate {
            team_write_enabled: Some(true),
            policy_json: policy_json.as_object().unwrap().clone(),
            ..GovernanceUpdate::default()
        };
        let audit = |is_allowed, reason| {
            let decision = GovernanceDecision { is_allowed, reason };
            request.audit("p", Some("alice"), decision, &caller)
        };
        let allowed = audit(true, "governance_update:admin_key");
        let event_ts = &allowed.evidence_refs_json["gateway_event"]["event_ts"];
        let extra = json!({"project_key": "p", "team_write_enabled": true,
            "policy_json": {"max_chars": 10, "admin_key": "[REDACTED]"}});
        let summary = json!({"count": 0, "has_strong": false, "uris": []});
        let expected = json!({
            "gateway_event": {
                "schema_version": "2.0", "source": "gateway", "operation": "governance_update",
                "correlation_id": CORRELATION, "actor_user_id": "alice",
                "requested_space": "governance:p", "final_space": "governance:p",
                "decision": {"action": "allow", "reason": "governance_update:admin_key"},
                "payload_sha": null, "payload_len": null, "evidence_summary": summary,
                "trim": {"was_trimmed": false, "why": null, "original_len": null}, "refs": [],
                "event_ts": event_ts, "extra": extra,
            },
            "evidence_summary": summary, "source": "gateway", "correlation_id": CORRELATION,
            "extra": {"project_key": "p", "team_write_enabled": true, "correlation_id": CORRELATION,
                "policy_json": {"max_chars": 10, "admin_key": "[REDACTED]"}},
        });
        assert!(event_ts.is_string());
        assert_eq!(allowed.evidence_refs_json, expected);
        assert_eq!(allowed.target_space, "governance:p");
        assert_eq!(
            (allowed.action, allowed.status),
            (Action::Allow, AuditStatus::Success)
        );

        let reason = "governance_update:invalid_admin_key";
        let refused = audit(false, reason);
        assert_eq!(
            (refused.action, refused.status),
            (Action::Reject, AuditStatus::Failed)
        );
        assert_eq!(refused.reason.as_deref(), Some(reason));
        let final_space = &refused.evidence_refs_json["gateway_event"]["final_space"];
        assert_eq!(*final_space, json!(null));
    }
}
