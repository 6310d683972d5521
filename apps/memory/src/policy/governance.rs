//! Who may change settings.

use subtle::ConstantTimeEq;

use super::Policy;

/// What somebody who wants to change settings brings along.
#[derive(Clone, Copy, Debug, Default)]
pub struct Credentials<'a> {
    /// The key they give.
    pub admin_key: Option<&'a str>,
    /// The key that is configured.
    pub configured_key: Option<&'a str>,
    /// Whom they say they are, or whom their token says they are.
    pub actor: Option<&'a str>,
    /// Whether callers have to show tokens at all.
    pub is_auth_on: bool,
    /// Whether the actor is who their token says.
    pub is_actor_bound: bool,
    /// Whether their token is an administrator's.
    pub is_admin: bool,
}

/// Whether they may, and the reason for the audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GovernanceDecision {
    /// Whether they may.
    pub is_allowed: bool,
    /// `governance_update:<why>`.
    pub reason: &'static str,
}

/// Whether somebody may change settings. With `policy` as it is before the change.
///
/// Knowing a name that is on the list is no credential where callers are known by tokens: there the
/// token has to say the name.
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
