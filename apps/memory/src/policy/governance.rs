//! Authorization of settings changes.

use subtle::ConstantTimeEq;

use super::Policy;

/// The credentials of a request to change settings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Credentials<'a> {
    /// The key in the request.
    pub admin_key: Option<&'a str>,
    /// The configured key.
    pub configured_key: Option<&'a str>,
    /// The token's actor, else the claimed one.
    pub actor: Option<&'a str>,
    /// Whether callers need tokens.
    pub is_auth_on: bool,
    /// Whether the token names the actor.
    pub is_actor_bound: bool,
    /// Whether the token has the admin scope.
    pub is_admin: bool,
}

/// The decision, and the reason for the audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GovernanceDecision {
    /// Whether the change is allowed.
    pub is_allowed: bool,
    /// `governance_update:<rule>`.
    pub reason: &'static str,
}

/// Decides by the policy before the change. Knowing a listed name is no credential where callers have
/// tokens: the token has to name the actor.
pub fn authorize(credentials: &Credentials<'_>, policy: &Policy) -> GovernanceDecision {
    let allowed = |reason| GovernanceDecision {
        is_allowed: true,
        reason,
    };
    let refused = |reason| GovernanceDecision {
        is_allowed: false,
        reason,
    };
    let given = credentials.admin_key.filter(|key| !key.is_empty());
    let configured = credentials.configured_key.filter(|key| !key.is_empty());
    let actor = credentials.actor.filter(|actor| !actor.is_empty());
    if let (Some(given), Some(configured)) = (given, configured)
        && bool::from(given.as_bytes().ct_eq(configured.as_bytes()))
    {
        return allowed("governance_update:admin_key");
    }
    if credentials.is_admin {
        return allowed("governance_update:admin_token");
    }
    let is_listed = actor.is_some_and(|actor| policy.lists_user(actor));
    if is_listed && (credentials.is_actor_bound || !credentials.is_auth_on) {
        return allowed("governance_update:allowlist_user");
    }
    match (given, configured, actor) {
        (None, _, None) => refused("governance_update:missing_credentials"),
        (Some(_), None, _) => refused("governance_update:admin_key_not_configured"),
        (Some(_), Some(_), _) => refused("governance_update:invalid_admin_key"),
        (None, _, Some(_)) => refused("governance_update:user_not_in_allowlist"),
    }
}
