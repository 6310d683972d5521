//! Audits of requests that are none: something in them is missing, too long or not what it must be.

use jiff::Timestamp;
use serde_json::{Map, json};

use super::{Event, shown_error};
use crate::{Action, AuditStatus, Correlation, NewAudit, card::Trim, evidence::Evidence};

/// A request to store a memory that could not be read as one.
#[derive(Clone, Copy, Debug)]
pub struct UnfitAudit<'a> {
    /// The request.
    pub correlation: &'a Correlation,
    /// Who, as far as that could be read.
    pub actor_user_id: Option<&'a str>,
    /// Where it was meant to go, as far as that could be read.
    pub requested_space: &'a str,
    /// `invalid_parameter:<name>`, or `OUTBOX_VALIDATION_FAILED`.
    pub reason: &'a str,
    /// The same in words.
    pub message: &'a str,
    /// The hash of its text, if there is one.
    pub payload_sha: Option<&'a str>,
    /// The backend that it was meant for, by its identity.
    pub backend: &'a str,
}

impl UnfitAudit<'_> {
    /// The audit: it is final.
    pub fn audit(&self) -> NewAudit {
        // Names that a caller made up are in the message; no store takes this character.
        let message = shown_error(self.message).replace('\0', "\u{fffd}");
        let event = Event {
            operation: "memory_store",
            correlation: self.correlation,
            actor_user_id: self.actor_user_id,
            requested_space: self.requested_space,
            final_space: None,
            action: Action::Reject,
            reason: self.reason,
            payload_sha: self.payload_sha,
            payload_len: None,
            evidence: &Evidence::default(),
            trim: &Trim::default(),
            event_ts: Timestamp::now(),
            memory_id: None,
            backend: Some(self.backend),
            sections: Map::new(),
            extra: &Map::from_iter([("last_error".to_owned(), json!(message))]),
        };
        event.audit(self.requested_space, AuditStatus::Failed)
    }
}
