//! The policy in a project's settings.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The requirements on evidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EvidenceMode {
    /// Anything that names a source.
    #[default]
    Compat,
    /// Every piece with its hash.
    Strict,
}

impl EvidenceMode {
    /// The value in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Compat => "compat",
            Self::Strict => "strict",
        }
    }
}

/// The rule for bulk writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BulkMode {
    /// At most `bulk_max_chars`.
    #[default]
    VeryShort,
    /// Not in shared spaces.
    Reject,
    /// Like all other writes.
    Allow,
}

/// A project's policy; absent keys have their defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Users who may write to shared spaces; none: all.
    pub allowlist_users: Option<Vec<String>>,
    /// Kinds allowed in shared spaces; none: all.
    pub allowed_kinds: Option<Vec<String>>,
    /// Whether shared spaces require evidence.
    pub require_evidence: bool,
    /// The requirements on evidence.
    pub evidence_mode: EvidenceMode,
    /// Longest text in characters.
    pub max_chars: u64,
    /// The rule for bulk writes.
    pub bulk_mode: BulkMode,
    /// Longest text of a bulk write in characters.
    pub bulk_max_chars: u64,
}

impl Default for Policy {
    fn default() -> Self {
        let kinds = ["PROCEDURE", "REVIEW_GUIDE", "PITFALL", "DECISION"];
        Self {
            allowlist_users: None,
            allowed_kinds: Some(kinds.map(str::to_owned).to_vec()),
            require_evidence: true,
            evidence_mode: EvidenceMode::Compat,
            max_chars: 1_200,
            bulk_mode: BulkMode::VeryShort,
            bulk_max_chars: 200,
        }
    }
}

impl Policy {
    /// Reads `policy_json`. Absent, null and invalid keys have their defaults, but an invalid list admits
    /// no one: a mistake must not open a space to all users.
    pub fn read(policy_json: &Map<String, Value>) -> Self {
        let default = Self::default();
        let list = |name: &str, absent: &Option<Vec<String>>| match given(policy_json, name) {
            None => absent.clone(),
            Some(value) => match strings(value) {
                Some(list) if list.is_empty() => None,
                read => Some(read.unwrap_or_default()),
            },
        };
        let number = |name: &str, absent| {
            let number = given(policy_json, name).and_then(Value::as_u64);
            number.unwrap_or(absent)
        };
        let word = |name: &str| {
            let word = given(policy_json, name).and_then(Value::as_str);
            word.unwrap_or_default().to_ascii_lowercase()
        };
        let require_evidence = given(policy_json, "require_evidence").and_then(Value::as_bool);
        Self {
            allowlist_users: list("allowlist_users", &default.allowlist_users),
            allowed_kinds: list("allowed_kinds", &default.allowed_kinds),
            require_evidence: require_evidence.unwrap_or(default.require_evidence),
            evidence_mode: match word("evidence_mode").as_str() {
                "strict" => EvidenceMode::Strict,
                _ => EvidenceMode::Compat,
            },
            max_chars: number("max_chars", default.max_chars),
            bulk_mode: match word("bulk_mode").as_str() {
                "reject" => BulkMode::Reject,
                "allow" => BulkMode::Allow,
                _ => BulkMode::VeryShort,
            },
            bulk_max_chars: number("bulk_max_chars", default.bulk_max_chars),
        }
    }

    /// The problems of a `policy_json` before it is set. Unknown keys are accepted.
    pub fn problems(policy_json: &Map<String, Value>) -> Vec<String> {
        let mut problems = Vec::new();
        let mut ask = |name: &str, wanted: &str, is_right: &dyn Fn(&Value) -> bool| {
            if let Some(value) = given(policy_json, name)
                && !is_right(value)
            {
                problems.push(format!("policy_json.{name} must be {wanted}"));
            }
        };
        for name in ["allowlist_users", "allowed_kinds"] {
            ask(name, "a list of strings", &|value| strings(value).is_some());
        }
        ask("require_evidence", "true or false", &Value::is_boolean);
        for name in ["max_chars", "bulk_max_chars"] {
            ask(name, "a number from 0", &Value::is_u64);
        }
        ask("evidence_mode", "\"compat\" or \"strict\"", &|value| {
            is_one_of(value, &["compat", "strict"])
        });
        ask(
            "bulk_mode",
            "\"very_short\", \"reject\" or \"allow\"",
            &|value| is_one_of(value, &["very_short", "reject", "allow"]),
        );
        problems
    }

    /// Whether this user may write to shared spaces.
    pub fn admits_user(&self, actor: Option<&str>) -> bool {
        let Some(users) = &self.allowlist_users else {
            return true;
        };
        actor.is_some_and(|actor| users.iter().any(|user| user == actor))
    }

    /// Whether this user may change settings; an absent list admits no one.
    pub fn lists_user(&self, actor: &str) -> bool {
        let mut users = self.allowlist_users.iter().flatten();
        users.any(|user| user == actor)
    }

    /// Whether this kind may go to shared spaces.
    pub fn admits_kind(&self, kind: &str) -> bool {
        let Some(kinds) = &self.allowed_kinds else {
            return true;
        };
        kinds.iter().any(|allowed| allowed == kind)
    }
}

fn given<'j>(policy_json: &'j Map<String, Value>, name: &str) -> Option<&'j Value> {
    policy_json.get(name).filter(|value| !value.is_null())
}

fn strings(value: &Value) -> Option<Vec<String>> {
    let list = value.as_array()?.iter();
    list.map(|item| item.as_str().map(str::to_owned)).collect()
}

fn is_one_of(value: &Value, words: &[&str]) -> bool {
    let word = value.as_str().unwrap_or_default();
    words.iter().any(|known| known.eq_ignore_ascii_case(word))
}
