//! What operators do.

use consign_kernel::{AuditEntry, By, MessageId, Moved, Resolution};
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
pub(crate) struct ReasonBody {
    /// Why; the audit keeps it.
    #[schema(required, value_type = String)]
    pub(crate) reason: Option<String>,
}

/// Messages to move by hand.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MoveBody {
    /// Which; 1,000 at most.
    #[schema(value_type = Vec<i64>)]
    pub(crate) ids: Vec<MessageId>,
    /// Why; the audit keeps it.
    #[schema(required, value_type = String)]
    pub(crate) reason: Option<String>,
}

/// What has become of a held message, as a person found out.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResolveBody {
    pub(crate) outcome: ResolutionWord,
    /// What came of it; an order or a payment is delivered only with it. An order:
    /// `{"order_ref": "B-17", "fills": [{"px": 146.12, "qty": 0.1, "ts": "2026-11-17T10:00:00Z"}]}`
    /// and `avg_price`, if known, to be checked; a payment: `{"rail_reference": "..."}`.
    #[schema(value_type = Option<Object>)]
    pub(crate) result: Option<Box<RawValue>>,
    /// Why, or how it was found out; the audit keeps it.
    #[schema(required, value_type = String)]
    pub(crate) reason: Option<String>,
}

/// What has become of held messages, as a person found out.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResolveManyBody {
    /// Which; 1,000 at most.
    #[schema(value_type = Vec<i64>)]
    pub(crate) ids: Vec<MessageId>,
    pub(crate) outcome: ResolutionWord,
    /// Why, or how it was found out; the audit keeps it.
    #[schema(required, value_type = String)]
    pub(crate) reason: Option<String>,
}

/// What a person found out about a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ResolutionWord {
    /// It has arrived.
    Delivered,
    /// It has not, and shall not be tried again.
    Dead,
    /// It cannot be found out: dead, and in doubt should it be requeued.
    Unknown,
}

/// What the store is told. A result beside another word than `delivered` is a contradiction.
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

/// What became of each message, by id.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MoveAnswer {
    #[schema(value_type = Vec<shapes::Moved>)]
    pub(crate) messages: Vec<Moved>,
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
    /// How many; 100 unless said, 1,000 at most.
    pub(crate) limit: Option<u32>,
}

/// Who acts and why, or that nobody said why.
pub(crate) fn by(caller: &Caller, reason: Option<String>) -> Result<By, Problem> {
    let reason = reason.filter(|reason| !reason.trim().is_empty());
    let reason = reason.ok_or_else(|| {
        let detail = "say why, as in {\"reason\": \"...\"}; the audit keeps it";
        Problem::new(codes::REASON_REQUIRED, detail)
    })?;
    Ok(By::new(&caller.actor, reason))
}
