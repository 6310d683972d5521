//! What searches find.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

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

/// A memory of the embedded backend that fits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EmbeddedHit {
    /// Its name.
    pub memory_id: String,
    /// The space it is in.
    pub space: String,
    /// The text.
    pub content: String,
    /// Its hash.
    pub payload_sha: String,
    /// Its kind.
    pub kind: Option<String>,
    /// Who stored it.
    pub actor_user_id: Option<String>,
    /// What was kept with it.
    pub meta_json: Map<String, Value>,
    /// Its evidence.
    pub evidence: Vec<Value>,
    /// How well it fits; more is better, and only comparable within one answer.
    pub score: f64,
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
