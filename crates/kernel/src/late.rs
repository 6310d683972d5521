//! Late results: reported after their lease had ended.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Fence, MessageId, Outcome, Token};

/// What a worker reported about a message it no longer held: evidence, never an outcome.
///
/// Append-only, like attempts. At most one per lease and message: the first is kept. A delivery puts
/// every later claim of the message in doubt.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LateResult {
    /// Number that the store gave the message; never reused.
    pub message_id: MessageId,
    /// The token of the lease that had ended; nil to a login that may only read.
    pub token: Token,
    /// That lease's fence.
    pub fence: Fence,
    /// Who had held it.
    pub owner: String,
    /// The reported outcome.
    pub outcome: Outcome,
    /// A short word for programs.
    pub code: Option<String>,
    /// A sentence for people.
    pub detail: Option<String>,
    /// What the sink answered.
    pub result: Option<Value>,
    /// When the report arrived.
    pub at: Timestamp,
}
