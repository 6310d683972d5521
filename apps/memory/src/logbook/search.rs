//! What searches find.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A candidate or an event that fits, for when the memory server cannot be asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FallbackHit {
    /// `kc_<candidate_id>` or `ev_<event_id>`.
    pub id: String,
    /// The space it is in.
    pub space: String,
    /// The text.
    pub content: String,
    /// What it is called.
    pub title: String,
    /// The candidate's kind, or the event's type.
    pub kind: String,
    /// The candidate's.
    pub confidence: Option<String>,
    /// The candidate's.
    pub evidence_refs: Value,
    /// Since when.
    pub created_at: Timestamp,
}

/// The answer to keeping a memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its name.
    pub memory_id: String,
    /// Whether it is new.
    pub is_new: bool,
}
