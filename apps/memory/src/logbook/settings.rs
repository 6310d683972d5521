//! Governance settings.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The settings of a project.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The project.
    pub project_key: String,
    /// Whether shared spaces are writable.
    pub team_write_enabled: bool,
    /// The policy; absent keys have their defaults.
    pub policy_json: Map<String, Value>,
    /// The user of the last change.
    pub updated_by: Option<String>,
    /// The time of the last change.
    pub updated_at: Timestamp,
}

/// A change of settings.
#[derive(Clone, Debug, PartialEq)]
pub struct SettingsChange {
    /// The project.
    pub project_key: String,
    /// Absent: unchanged.
    pub team_write_enabled: Option<bool>,
    /// Merged into the policy key by key; with `replace`, the whole policy.
    pub policy_json: Map<String, Value>,
    /// Whether `policy_json` is the whole new policy.
    pub replace: bool,
    /// The acting user; created if it does not exist.
    pub updated_by: Option<String>,
}
