//! Settings.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tracing::error;

use super::{MemoryService, refused};
use crate::{
    Caller, Correlation, SettingsChange,
    audit_json::GovernanceAudit,
    policy::{Credentials, GovernanceDecision, Policy, authorize},
    tools::{Arguments, Refusal},
};

/// Longest name of somebody who made a malformed request.
const NAME_CHARS_MAX: usize = 200;

/// A change of settings, as it was asked for.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct GovernanceUpdate {
    team_write_enabled: Option<bool>,
    policy_json: Map<String, Value>,
    admin_key: Option<String>,
    actor_user_id: Option<String>,
}

/// Whether an audit can keep it: whoever makes up names does not fill audits with them.
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
        let is_bound = caller.is_authenticated && caller.actor.is_some();
        let actor = match is_bound {
            true => caller.actor.as_deref(),
            false => request.actor_user_id.as_deref(),
        };
        let actor = actor.filter(|actor| !actor.is_empty());
        let configured = self.options().governance_admin_key.as_ref();
        let credentials = Credentials {
            admin_key: request.admin_key.as_deref(),
            configured_key: configured.map(|key| key.reveal()),
            actor,
            is_auth_on: caller.is_authenticated,
            is_actor_bound: is_bound,
            is_admin: caller.is_admin,
        };
        let claimed = request.actor_user_id.as_deref();
        let decision = match self.check_actor(caller, claimed) {
            Ok(()) => authorize(&credentials, &Policy::read(&current.policy_json)),
            Err(_) => GovernanceDecision {
                is_allowed: false,
                reason: "governance_update:actor_mismatch",
            },
        };
        let given = caller.correlation_id.as_deref().unwrap_or_default();
        let correlation = Correlation::parse_or_new(given);
        let audit = GovernanceAudit {
            correlation: &correlation,
            project_key,
            actor_user_id: actor,
            decision,
            team_write_enabled: request.team_write_enabled,
            policy_json: &request.policy_json,
            event_ts: Timestamp::now(),
        };
        if !decision.is_allowed {
            return Ok(self.rejected(&audit).await);
        }
        let change = SettingsChange {
            project_key: project_key.clone(),
            team_write_enabled: request.team_write_enabled,
            policy_json: request.policy_json.clone(),
            replace: false,
            updated_by: actor.map(str::to_owned),
        };
        match self
            .logbook()
            .change_settings(&change, &audit.audit())
            .await
        {
            Ok(settings) => {
                let (action, settings) = ("allow", json!(settings));
                Ok(json!({"ok": true, "action": action, "settings": settings, "message": null}))
            }
            Err(error) => {
                error!(%error, "settings could not be changed");
                let failed = GovernanceAudit {
                    decision: GovernanceDecision {
                        is_allowed: false,
                        reason: "governance_update:internal_error",
                    },
                    ..audit
                };
                let mut body = self.rejected(&failed).await;
                body["message"] = json!(format!("nothing was changed: {error}"));
                body["error_code"] = json!(refused(error).code);
                Ok(body)
            }
        }
    }

    /// Audits what is no request to change anything. Nothing was done and nothing will be, so the
    /// refusal stands even where the audit cannot be written.
    pub(crate) async fn refused_update(&self, claimed: Option<&str>, caller: &Caller) {
        let is_bound = caller.is_authenticated && caller.actor.is_some();
        let actor = match is_bound {
            true => caller.actor.as_deref(),
            false => claimed.filter(|name| is_name(name)),
        };
        let given = caller.correlation_id.as_deref().unwrap_or_default();
        let correlation = Correlation::parse_or_new(given);
        let audit = GovernanceAudit {
            correlation: &correlation,
            project_key: &self.options().project_key,
            actor_user_id: actor,
            decision: GovernanceDecision {
                is_allowed: false,
                reason: "governance_update:invalid_parameter",
            },
            team_write_enabled: None,
            policy_json: &Map::new(),
            event_ts: Timestamp::now(),
        };
        if let Err(error) = self.logbook().insert_audit(&audit.audit()).await {
            error!(%error, "the audit of a malformed change of settings could not be written");
        }
    }

    /// Refuses a change, with its audit.
    async fn rejected(&self, audit: &GovernanceAudit<'_>) -> Value {
        match self.logbook().insert_audit(&audit.audit()).await {
            Ok(_) => json!({
                "ok": false, "action": "reject", "settings": null,
                "message": audit.decision.reason, "error_code": "GOVERNANCE_UPDATE_REFUSED",
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
