//! Items, events, attachments, users, candidates.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::NewAudit;

/// A user to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewUser {
    /// The id.
    pub user_id: String,
    /// The display name.
    pub display_name: String,
}

/// An item to create.
#[derive(Clone, Debug, PartialEq)]
pub struct NewItem {
    /// The type.
    pub item_type: String,
    /// What it is called.
    pub title: String,
    /// The project.
    pub project_key: Option<String>,
    /// The scope; `"space"` in it is the item's space.
    pub scope_json: Map<String, Value>,
    /// The status, `open` by default.
    pub status: String,
    /// The owner; has to be a user.
    pub owner_user_id: Option<String>,
}

/// An item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as in NewItem")]
pub struct Item {
    pub item_id: i64,
    pub item_type: String,
    pub title: String,
    pub project_key: Option<String>,
    pub scope_json: Map<String, Value>,
    pub status: String,
    pub owner_user_id: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl Item {
    /// The space of the item, its events and evidence: `"space"` in its scope, else its project's.
    pub fn space(&self) -> Option<String> {
        let scope = self.scope_json.get("space").and_then(Value::as_str);
        let project = self.project_key.as_ref();
        let team = project.map(|project| format!("team:{project}"));
        scope.map(str::to_owned).or(team)
    }
}

/// A filter of items. Absent fields match everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "as in Item")]
pub struct ItemFilter {
    pub item_type: Option<String>,
    pub status: Option<String>,
    pub owner_user_id: Option<String>,
}

/// An event to add.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEvent {
    /// The item.
    pub item_id: i64,
    /// What kind.
    pub event_type: String,
    /// The item's status before.
    pub status_from: Option<String>,
    /// The item's status from now on.
    pub status_to: Option<String>,
    /// The payload. `"space"` in it is the event's space; by default it is the item's, see [`Item::space`].
    pub payload_json: Map<String, Value>,
    /// The acting user; has to be a user.
    pub actor_user_id: Option<String>,
    /// The source, `tool` by default.
    pub source: String,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as in NewEvent")]
pub struct Event {
    pub event_id: i64,
    pub item_id: i64,
    pub event_type: String,
    pub status_from: Option<String>,
    pub status_to: Option<String>,
    pub payload_json: Map<String, Value>,
    pub actor_user_id: Option<String>,
    pub source: String,
    pub created_at: Timestamp,
    /// The event's space.
    pub space: Option<String>,
}

/// A filter of events. Absent fields match everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "as in Event")]
pub struct EventFilter {
    pub item_id: Option<i64>,
    pub event_type: Option<String>,
    pub actor_user_id: Option<String>,
    pub since: Option<Timestamp>,
}

/// An attachment to create.
#[derive(Clone, Debug, PartialEq)]
pub struct NewAttachment {
    /// The item.
    pub item_id: i64,
    /// What kind.
    pub kind: String,
    /// The URI.
    pub uri: String,
    /// SHA-256, 64 hex digits.
    pub sha256: String,
    /// The size.
    pub size_bytes: Option<i64>,
    /// Further fields.
    pub meta_json: Map<String, Value>,
}

/// An attachment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as in NewAttachment")]
pub struct Attachment {
    pub attachment_id: i64,
    pub item_id: i64,
    pub kind: String,
    pub uri: String,
    pub sha256: String,
    pub size_bytes: Option<i64>,
    pub meta_json: Map<String, Value>,
    pub created_at: Timestamp,
    /// The space of its item: see [`Item::space`].
    pub space: Option<String>,
}

/// A filter of attachments. Absent fields match everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "as in Attachment")]
pub struct AttachmentFilter {
    pub item_id: Option<i64>,
    pub kind: Option<String>,
    /// The URI as it is stored.
    pub uri: Option<String>,
}

/// Evidence to keep: what is attached, to which item, and the audit of it.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEvidence {
    /// An item to create for it; absent: the one that the attachment names.
    pub item: Option<NewItem>,
    /// The attachment; its `item_id` is ignored if an item is created.
    pub attachment: NewAttachment,
    /// The audit. The store adds `item_id` and `attachment_id`, also in `gateway_event`.
    pub audit: NewAudit,
}

/// Evidence that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptEvidence {
    /// The item.
    pub item_id: i64,
    /// The attachment.
    pub attachment_id: i64,
}

/// A finding of an analysis run.
#[derive(Clone, Debug, PartialEq)]
pub struct NewCandidate {
    /// The source: `svn`, `git`, `mr`, `workflow`.
    pub source_type: String,
    /// The id of the source.
    pub source_id: String,
    /// The version of the analysis. Source and version identify the run.
    pub pipeline_version: String,
    /// The space it can be found in.
    pub space: String,
    /// `FACT`, `PROCEDURE`, `PITFALL`, `DECISION` or `REVIEW_GUIDE`.
    pub kind: String,
    /// The title.
    pub title: String,
    /// The text.
    pub content_md: String,
    /// `high`, `mid` or `low`.
    pub confidence: String,
    /// The evidence.
    pub evidence_refs_json: Value,
    /// Whether it is suggested for the team's space.
    pub promote_suggested: bool,
}

/// A candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as in NewCandidate")]
pub struct Candidate {
    pub candidate_id: i64,
    pub run_id: i64,
    pub space: String,
    pub kind: String,
    pub title: String,
    pub content_md: String,
    pub confidence: String,
    pub evidence_refs_json: Value,
    pub promote_suggested: bool,
    pub created_at: Timestamp,
}

/// A candidate or an event, found while the memory server does not answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FallbackHit {
    /// `kc_<candidate_id>` or `ev_<event_id>`.
    pub id: String,
    /// The space.
    pub space: String,
    /// The text.
    pub content: String,
    /// The title.
    pub title: String,
    /// The candidate's kind, or the event's type.
    pub kind: String,
    /// The candidate's confidence.
    pub confidence: Option<String>,
    /// The candidate's evidence.
    pub evidence_refs: Value,
    /// When it was created.
    pub created_at: Timestamp,
}
