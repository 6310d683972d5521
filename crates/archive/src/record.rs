//! Records: one message with everything that was recorded about it.

use consign_kernel::{
    Attempt, AttemptOutcome, AuditEntry, Erasure, Fence, LateResult, Message, MessageId, Outcome,
    Payload, QueueName, StateKind,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Error, Result};

/// A message as archived; one line of a data file.
///
/// The fields of the message stand beside the others in the JSON object. Fields that this version
/// does not have are ignored when a line is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Line")]
pub struct Record {
    /// The message.
    #[serde(flatten)]
    pub message: Message,
    /// Delivered, dead or discarded.
    pub state: StateKind,
    /// [`payload_digest`] of the payload, which an erasure keeps; of a message that was erased before it
    /// left, the digest that the database computed.
    pub digest: String,
    /// Its attempts, in their order.
    pub attempts: Vec<ArchivedAttempt>,
    /// Its late results, in their order.
    pub late: Vec<ArchivedLate>,
    /// Operator actions on it, in their order.
    pub audit: Vec<AuditEntry>,
    /// When and why it died, for a dead message.
    pub dead: Option<Death>,
    /// Who erased its payload, and when.
    pub erased: Option<Erasure>,
}

/// A line as it is read. Flattening would pass the payload's numbers through floating point.
#[derive(Deserialize)]
struct Line {
    id: MessageId,
    queue: QueueName,
    key: Option<String>,
    group: Option<String>,
    payload: Payload,
    headers: Map<String, Value>,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
    state: StateKind,
    digest: String,
    attempts: Vec<ArchivedAttempt>,
    late: Vec<ArchivedLate>,
    audit: Vec<AuditEntry>,
    dead: Option<Death>,
    erased: Option<Erasure>,
}

impl From<Line> for Record {
    fn from(line: Line) -> Self {
        Self {
            message: Message {
                id: line.id,
                queue: line.queue,
                key: line.key,
                group: line.group,
                payload: line.payload,
                headers: line.headers,
                created_at: line.created_at,
                expires_at: line.expires_at,
            },
            state: line.state,
            digest: line.digest,
            attempts: line.attempts,
            late: line.late,
            audit: line.audit,
            dead: line.dead,
            erased: line.erased,
        }
    }
}

impl Record {
    /// Rejects a record of an unfinished message, and a digest of another payload.
    pub(crate) fn validate(&self) -> Result<()> {
        let id = self.message.id;
        let invalid = |why: String| Err(Error::InvalidRecord { id, why });
        if !self.state.is_finished() {
            let state = self.state;
            return invalid(format!(
                "it is {state}; only finished messages leave the database"
            ));
        }
        if self.erased.is_none() && self.digest != payload_digest(&self.message.payload) {
            return invalid("its digest is not that of its payload".to_owned());
        }
        Ok(())
    }
}

/// SHA-256 of a payload's canonical text without the zeros that end a fraction, in lower-case hex.
pub fn payload_digest(payload: &Payload) -> String {
    payload.digest_hex()
}

/// An attempt as archived: without the lease's token, which is a permission.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArchivedAttempt {
    /// 1, 2, 3 … without gaps.
    pub attempt_no: u32,
    /// The recorded outcome.
    pub outcome: AttemptOutcome,
    /// The owner of the lease.
    pub owner: String,
    /// The lease's fence.
    pub fence: Fence,
    /// When the lease was taken.
    pub claimed_at: Timestamp,
    /// When the outcome was recorded.
    pub finished_at: Timestamp,
    /// A short word for programs.
    pub code: Option<String>,
    /// A sentence for people; none after an erasure.
    pub detail: Option<String>,
    /// The answer of the sink; none after an erasure.
    pub result: Option<Value>,
    /// When the message was due again, if this attempt sent it back.
    pub next_due_at: Option<Timestamp>,
}

impl From<Attempt> for ArchivedAttempt {
    fn from(attempt: Attempt) -> Self {
        Self {
            attempt_no: attempt.attempt_no,
            outcome: attempt.outcome,
            owner: attempt.owner,
            fence: attempt.fence,
            claimed_at: attempt.claimed_at,
            finished_at: attempt.finished_at,
            code: attempt.code,
            detail: attempt.detail,
            result: attempt.result,
            next_due_at: attempt.next_due_at,
        }
    }
}

/// A late result as archived: without the lease's token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArchivedLate {
    /// The fence of the lease that had ended.
    pub fence: Fence,
    /// The owner of that lease.
    pub owner: String,
    /// The reported outcome.
    pub outcome: Outcome,
    /// A short word for programs.
    pub code: Option<String>,
    /// A sentence for people; none after an erasure.
    pub detail: Option<String>,
    /// The answer of the sink; none after an erasure.
    pub result: Option<Value>,
    /// When the report arrived.
    pub at: Timestamp,
}

impl From<LateResult> for ArchivedLate {
    fn from(late: LateResult) -> Self {
        Self {
            fence: late.fence,
            owner: late.owner,
            outcome: late.outcome,
            code: late.code,
            detail: late.detail,
            result: late.result,
            at: late.at,
        }
    }
}

/// When and why a message died.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Death {
    /// Since when it is dead.
    pub at: Timestamp,
    /// A short word for programs.
    pub code: String,
    /// A sentence for people; none after an erasure.
    pub detail: Option<String>,
}
