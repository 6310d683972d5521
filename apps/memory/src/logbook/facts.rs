//! Items, events, attachments, users, candidates.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::NewAudit;

/// A user to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewUser {
    /// The name it is known by.
    pub user_id: String,
    /// The name it is shown by.
    pub display_name: String,
}

/// An item to make.
#[derive(Clone, Debug, PartialEq)]
pub struct NewItem {
    /// What kind of thing.
    pub item_type: String,
    /// What it is called.
    pub title: String,
    /// The project it belongs to.
    pub project_key: Option<String>,
    /// What it covers.
    pub scope_json: Map<String, Value>,
    /// How it stands; `open` unless said.
    pub status: String,
    /// Whose it is; must be a user.
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
    /// The space that it belongs to, with its events and evidence: `"space"` in its scope, if a
    /// string; else its project's.
    pub fn space(&self) -> Option<String> {
        let said = self.scope_json.get("space").and_then(Value::as_str);
        let project = self.project_key.as_ref();
        let team = project.map(|project| format!("team:{project}"));
        said.map(str::to_owned).or(team)
    }
}

/// Which items. Absent fields fit everything.
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
    /// Of which item.
    pub item_id: i64,
    /// What kind.
    pub event_type: String,
    /// How the item stood.
    pub status_from: Option<String>,
    /// How it stands from now on.
    pub status_to: Option<String>,
    /// What happened. `"space"` in it, if a string, is the space it can be found in; else the
    /// item's: see [`Item::space`].
    pub payload_json: Map<String, Value>,
    /// Who; must be a user.
    pub actor_user_id: Option<String>,
    /// By what means; `tool` unless said.
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
    /// The space it can be found in.
    pub space: Option<String>,
}

/// Which events. Absent fields fit everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "as in Event")]
pub struct EventFilter {
    pub item_id: Option<i64>,
    pub event_type: Option<String>,
    pub actor_user_id: Option<String>,
    pub since: Option<Timestamp>,
}

/// Something to attach.
#[derive(Clone, Debug, PartialEq)]
pub struct NewAttachment {
    /// To which item.
    pub item_id: i64,
    /// What kind.
    pub kind: String,
    /// Where it is.
    pub uri: String,
    /// Its hash, 64 hex digits.
    pub sha256: String,
    /// Its size.
    pub size_bytes: Option<i64>,
    /// Anything else.
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

/// Which attachments. Absent fields fit everything.
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
    /// The item to make for it; absent: the one that the attachment names.
    pub item: Option<NewItem>,
    /// What is attached; its `item_id` counts if there is no item to make.
    pub attachment: NewAttachment,
    /// The audit. `item_id` and `attachment_id` are written into it, also into `gateway_event`.
    pub audit: NewAudit,
}

/// Evidence that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptEvidence {
    /// The item it belongs to.
    pub item_id: i64,
    /// Its attachment.
    pub attachment_id: i64,
}

/// Something an analysis found, and which analysis.
#[derive(Clone, Debug, PartialEq)]
pub struct NewCandidate {
    /// What was analysed: `svn`, `git`, `mr`, `workflow`.
    pub source_type: String,
    /// Which one.
    pub source_id: String,
    /// By which version of the analysis. Same source and version: same run.
    pub pipeline_version: String,
    /// The space it can be found in.
    pub space: String,
    /// `FACT`, `PROCEDURE`, `PITFALL`, `DECISION` or `REVIEW_GUIDE`.
    pub kind: String,
    /// What it is called.
    pub title: String,
    /// The text.
    pub content_md: String,
    /// `high`, `mid` or `low`.
    pub confidence: String,
    /// Where it comes from.
    pub evidence_refs_json: Value,
    /// Whether it should go to the team.
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
