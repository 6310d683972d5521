//! Operator actions.

use consign_kernel::{AuditEntry, By, MessageId, MoveResult, Resolution};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::shapes;
use crate::{
    gate::access::Caller,
    problem::{Problem, codes},
};

/// Why something is done.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReasonBody {
    /// The reason, for the audit log.
    #[schema(required, value_type = String)]
    pub reason: Option<String>,
}

/// Messages to move by hand.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MoveBody {
    /// Which; 1,000 at most.
    #[schema(value_type = Vec<i64>)]
    pub(crate) ids: Vec<MessageId>,
    /// The reason, for the audit log.
    #[schema(required, value_type = String)]
    pub reason: Option<String>,
}

/// The group whose head is to be closed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SkipBody {
    /// Which group.
    pub(crate) group: String,
    /// The reason, for the audit log.
    #[schema(required, value_type = String)]
    pub reason: Option<String>,
}

/// The outcome of a held message that an operator determined.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResolveBody {
    pub(crate) outcome: ResolutionWord,
    /// Result of the delivery. The queue of an app may require it, in the form that the app defines.
    #[schema(value_type = Option<Object>)]
    pub(crate) result: Option<Box<RawValue>>,
    /// How the outcome was determined, for the audit log.
    #[schema(required, value_type = String)]
    pub reason: Option<String>,
}

/// The outcome of held messages that an operator determined.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResolveManyBody {
    /// Which; 1,000 at most.
    #[schema(value_type = Vec<i64>)]
    pub(crate) ids: Vec<MessageId>,
    pub(crate) outcome: ResolutionWord,
    /// How the outcome was determined, for the audit log.
    #[schema(required, value_type = String)]
    pub reason: Option<String>,
}

/// The outcome of a delivery that an operator determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ResolutionWord {
    /// The receiver has it.
    Delivered,
    /// Not delivered; do not try again.
    Dead,
    /// It cannot be determined: dead, and in doubt if it is requeued.
    Unknown,
}

/// The resolution for the store. Rejects a result with any outcome but `delivered`.
pub(crate) fn resolution(
    word: ResolutionWord,
    result: Option<String>,
) -> Result<Resolution, Problem> {
    match (word, result) {
        (ResolutionWord::Delivered, result) => Ok(Resolution::Delivered { result }),
        (ResolutionWord::Dead, None) => Ok(Resolution::Dead),
        (ResolutionWord::Unknown, None) => Ok(Resolution::Unknown),
        (_, Some(_)) => Err(Problem::invalid(
            "result",
            "only what was delivered has one",
        )),
    }
}

/// The result of each move, by message id.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MoveAnswer {
    #[schema(value_type = Vec<shapes::MoveResultBody>)]
    pub(crate) messages: Vec<MoveResult>,
}

/// Operator actions, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AuditPage {
    #[schema(value_type = Vec<shapes::AuditEntry>)]
    pub(crate) audit: Vec<AuditEntry>,
    /// What to give as `before` for the next page; absent on the last one.
    pub(crate) next: Option<i64>,
}

/// Which operator actions to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditParams {
    /// Only those on this message.
    pub(crate) message_id: Option<i64>,
    /// Only entries below this id: the `next` of the page before.
    pub(crate) before: Option<i64>,
    /// How many; 100 by default, 1,000 at most.
    pub(crate) limit: Option<u32>,
}

/// Who acts and why; a problem where the reason is missing.
pub fn by(caller: &Caller, reason: Option<String>) -> Result<By, Problem> {
    let reason = reason.filter(|reason| !reason.trim().is_empty());
    let reason = reason.ok_or_else(|| {
        let detail = "a reason is required, as in {\"reason\": \"...\"}; the audit log records it";
        Problem::new(codes::REASON_REQUIRED, detail)
    })?;
    Ok(By::new(&caller.actor, reason))
}
