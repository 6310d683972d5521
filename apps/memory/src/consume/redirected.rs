//! Why cards are redirected to a private space.

use serde::Serialize;
use serde_json::{Value, json};

use super::ConsumeOptions;
use crate::{Settings, policy::Policy};

/// Objections of a project's settings to cards in its team space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RedirectReasons {
    /// The first objection, as in audits after `policy:`.
    pub reason: String,
    /// The `governance_update` that would send cards to the team; `None` if the objection is a list
    /// of users.
    pub update: Option<Value>,
}

impl RedirectReasons {
    /// `None`: the objection is about the card itself.
    pub(super) fn by(
        settings: &Settings,
        policy: &Policy,
        options: &ConsumeOptions,
    ) -> Option<Self> {
        let kind = options.card_kind.as_str();
        let is_closed = !settings.team_write_enabled;
        let is_stranger = !policy.admits_user(options.actor_user_id.as_deref());
        let is_odd = !policy.admits_kind(kind);
        // In the order of the policy: the first that applies is the reason.
        let reason = match (is_closed, is_stranger, is_odd) {
            (true, _, _) => "team_write_disabled".to_owned(),
            (_, true, _) => "user_not_in_allowlist".to_owned(),
            (_, _, true) => format!("kind_not_allowed:{kind}"),
            (false, false, false) => return None,
        };
        let mut update = json!({});
        if is_closed {
            update["team_write_enabled"] = json!(true);
        }
        if is_odd {
            let known = policy.allowed_kinds.iter().flatten().map(String::as_str);
            let kinds: Vec<&str> = known.chain([kind]).collect();
            update["policy_json"] = json!({"allowed_kinds": kinds});
        }
        Some(Self {
            reason,
            update: (!is_stranger).then_some(update),
        })
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::Map;

    use super::*;
    use crate::{
        Action,
        policy::{PolicyInput, decide},
        space::Spaces,
    };

    fn settings(team_write_enabled: bool, policy_json: Value) -> Settings {
        Settings {
            project_key: "p".to_owned(),
            team_write_enabled,
            policy_json: serde_json::from_value(policy_json).unwrap(),
            updated_by: None,
            updated_at: Timestamp::UNIX_EPOCH,
        }
    }

    /// The policy's decision for a card.
    fn decided(settings: &Settings, actor: Option<&str>) -> (Action, String) {
        let decision = decide(&PolicyInput {
            target_space: "team:p",
            actor,
            is_actor_bound: false,
            is_authenticated: false,
            kind: Some("FACT"),
            has_evidence: true,
            payload_md: "short",
            is_bulk: false,
            team_write_enabled: settings.team_write_enabled,
            policy: &Policy::read(&settings.policy_json),
            spaces: &Spaces::default(),
        });
        (decision.action, decision.reason)
    }

    fn updated(settings: &Settings, update: &Value) -> Settings {
        let mut new = settings.clone();
        if let Some(enabled) = update["team_write_enabled"].as_bool() {
            new.team_write_enabled = enabled;
        }
        let none = Map::new();
        let policy = update["policy_json"].as_object().unwrap_or(&none);
        new.policy_json.extend(policy.clone());
        new
    }

    /// The reason is the policy's, and what is recommended helps.
    #[test]
    fn what_is_recommended_lets_cards_through() {
        let table = [
            (false, json!({}), None, true),
            (true, json!({}), None, true),
            (false, json!({"allowed_kinds": []}), None, true),
            (true, json!({"allowed_kinds": ["DECISION"]}), None, true),
            (
                false,
                json!({"allowlist_users": ["ann"]}),
                Some("ann"),
                true,
            ),
            (
                true,
                json!({"allowlist_users": ["ann"]}),
                Some("bob"),
                false,
            ),
            (false, json!({"allowlist_users": ["ann"]}), None, false),
        ];
        for (enabled, policy_json, actor, is_helped) in table {
            let settings = settings(enabled, policy_json);
            let options = ConsumeOptions {
                actor_user_id: actor.map(str::to_owned),
                ..ConsumeOptions::default()
            };
            let policy = Policy::read(&settings.policy_json);
            let by = RedirectReasons::by(&settings, &policy, &options).unwrap();
            let (action, reason) = decided(&settings, actor);
            assert_eq!((action, reason), (Action::Redirect, by.reason.clone()));
            let Some(update) = by.update.as_ref().filter(|_| is_helped) else {
                assert_eq!(by.update, None, "{settings:?}");
                continue;
            };
            let after = updated(&settings, update);
            assert_eq!(decided(&after, actor).0, Action::Allow, "{update}");
            let policy = Policy::read(&after.policy_json);
            assert_eq!(RedirectReasons::by(&after, &policy, &options), None);
        }
    }
}
