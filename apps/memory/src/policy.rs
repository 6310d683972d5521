//! What a project's settings make of a write.

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

/// A write to decide about.
#[derive(Clone, Debug)]
pub struct PolicyInput<'a> {
    /// Where it is meant to go.
    pub target_space: &'a str,
    /// Who wants it.
    pub actor: Option<&'a str>,
    /// Whether the actor is known by a token and not merely named.
    pub is_actor_bound: bool,
    /// `PROCEDURE`, `DECISION` and so on.
    pub kind: Option<&'a str>,
    /// Whether it comes with evidence.
    pub has_evidence: bool,
    /// The text.
    pub payload_md: &'a str,
    /// Whether it is one of many written by a machine.
    pub is_bulk: bool,
    /// The project's switch.
    pub team_write_enabled: bool,
    /// The project's policy.
    pub policy: &'a Policy,
    /// How spaces are named.
    pub spaces: &'a Spaces,
}

/// What was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether it goes, and as it was meant.
    pub action: Action,
    /// Why; audits write it after `policy:`.
    pub reason: String,
    /// Where it goes; nowhere when it is rejected.
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
            // A name alone proves nothing, so it opens and closes nothing; a token does.
            let is_others = input.spaces.user_of(input.target_space) != input.actor;
            return match input.is_actor_bound && is_others {
                true => decision(Action::Reject, "private_space_of_another", None),
                false => decision(Action::Allow, "private_space", target()),
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

/// Why it may not go to a shared space, if it may not.
fn objection(input: &PolicyInput<'_>) -> Option<String> {
    let policy = input.policy;
    // Characters as people count them for the limits: Unicode scalar values.
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
        _ => None,
    }
}

#[cfg(test)]
mod tests;
