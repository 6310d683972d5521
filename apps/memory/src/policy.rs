//! The write policy of a project: allow, redirect or reject.

mod explain;
mod governance;
mod settings;

pub use self::{
    explain::explain,
    governance::{Credentials, GovernanceDecision, authorize},
    settings::{BulkMode, EvidenceMode, Policy},
};

use crate::{
    Action,
    space::{SpaceKind, Spaces},
};

/// The facts that a decision depends on.
#[derive(Clone, Debug)]
pub struct PolicyInput<'a> {
    /// The requested space.
    pub target_space: &'a str,
    /// The acting user.
    pub actor: Option<&'a str>,
    /// Whether a token names the actor.
    pub is_actor_bound: bool,
    /// Whether a token was presented at all.
    pub is_authenticated: bool,
    /// `PROCEDURE`, `DECISION` and so on.
    pub kind: Option<&'a str>,
    /// Whether the request has evidence.
    pub has_evidence: bool,
    /// The text.
    pub payload_md: &'a str,
    /// Whether it is part of a bulk write.
    pub is_bulk: bool,
    /// Whether the project's shared spaces are writable.
    pub team_write_enabled: bool,
    /// The project's policy.
    pub policy: &'a Policy,
    /// How spaces are named.
    pub spaces: &'a Spaces,
}

/// The decision about a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Allow, redirect or reject.
    pub action: Action,
    /// The rule; audits write it after `policy:`.
    pub reason: String,
    /// The space written to; absent if rejected.
    pub final_space: Option<String>,
}

/// Decides about a write; the first rule that applies wins.
pub fn decide(input: &PolicyInput<'_>) -> Decision {
    let decision = |action, reason: &str, space: Option<String>| Decision {
        action,
        reason: reason.to_owned(),
        final_space: space,
    };
    let target = || Some(input.target_space.to_owned());
    match input.spaces.kind(input.target_space) {
        None => return decision(Action::Reject, "unknown_space_type", None),
        Some(SpaceKind::Private) => {
            // A claimed name is no credential, so only a token closes the spaces of others.
            let is_others = input.spaces.user_of(input.target_space) != input.actor;
            return if input.is_actor_bound && is_others {
                decision(Action::Reject, "private_space_of_another", None)
            } else {
                decision(Action::Allow, "private_space", target())
            };
        }
        Some(SpaceKind::Team | SpaceKind::Org) => {}
    }
    match objection(input) {
        Some(reason) => {
            let own = input.spaces.private_of(input.actor);
            decision(Action::Redirect, &reason, Some(own))
        }
        None => decision(Action::Allow, "policy_passed", target()),
    }
}

/// The first rule that keeps a write out of a shared space.
fn objection(input: &PolicyInput<'_>) -> Option<String> {
    let policy = input.policy;
    // The limits count Unicode scalar values.
    let chars = input.payload_md.chars().count() as u64;
    if !input.team_write_enabled {
        return Some("team_write_disabled".to_owned());
    }
    if !policy.admits_user(input.actor) {
        return Some("user_not_in_allowlist".to_owned());
    }
    if let Some(kind) = input.kind
        && !policy.admits_kind(kind)
    {
        return Some(format!("kind_not_allowed:{kind}"));
    }
    if policy.require_evidence && !input.has_evidence {
        return Some("missing_evidence".to_owned());
    }
    if chars > policy.max_chars {
        return Some(format!("exceeds_max_chars:{chars}>{}", policy.max_chars));
    }
    match policy.bulk_mode {
        BulkMode::VeryShort if input.is_bulk && chars > policy.bulk_max_chars => {
            Some("bulk_too_long".to_owned())
        }
        BulkMode::Reject if input.is_bulk => Some("bulk_not_allowed".to_owned()),
        // Knowing a listed name is no credential where callers have tokens.
        _ if input.is_authenticated && !input.is_actor_bound => {
            let is_listed = policy.allowlist_users.is_some();
            is_listed.then(|| "user_not_in_allowlist".to_owned())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
