//! Governance settings.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a project allows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Whose.
    pub project_key: String,
    /// Whether anything may be written to the team's spaces.
    pub team_write_enabled: bool,
    /// The policy as it was set; absent keys have their defaults.
    pub policy_json: Map<String, Value>,
    /// Who changed it last.
    pub updated_by: Option<String>,
    /// When.
    pub updated_at: Timestamp,
}

/// A change of settings.
#[derive(Clone, Debug, PartialEq)]
pub struct SettingsChange {
    /// Whose.
    pub project_key: String,
    /// Absent: as it is.
    pub team_write_enabled: Option<bool>,
    /// Laid over the current policy key by key; with `replace`, instead of it.
    pub policy_json: Map<String, Value>,
    /// Whether `policy_json` is the whole new policy.
    pub replace: bool,
    /// Who does it; made a user if it is none.
    pub updated_by: Option<String>,
}
