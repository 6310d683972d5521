//! Status figures, and payments to compare with the rail's records.

use std::collections::BTreeMap;

use consign_server::apps::LateView;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{PaymentShape, PaymentStateWord};
use crate::{LateSuccess, OutboxId, PaymentState, PaymentView, Reconciliation, ReusedReference};

/// Counts of payments.
#[derive(Serialize, ToSchema)]
pub(crate) struct PaymentsStatusShape {
    /// Not finished and not held: waiting, ready, scheduled or leased.
    pending: u64,
    /// Of these, ready and due.
    due: u64,
    /// Of these, due later.
    scheduled: u64,
    /// Of these, waiting for an earlier one of their participant.
    waiting: u64,
    /// Of these, in leases.
    leased: u64,
    /// Of the leased, in expired leases.
    expired: u64,
    held: u64,
    /// Failed and not requeued.
    failed: u64,
    /// Pending payments by attempts so far: 1, 2, 3, 4, and 5 or more.
    attempts_histogram: Vec<u64>,
    /// When the oldest pending one was enqueued.
    oldest_pending_at: Option<Timestamp>,
    /// Attempts of the last hour by state.
    last_hour: BTreeMap<String, u64>,
}

/// How many of each kind to show.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ReconcileParams {
    /// Per kind; default 100, at most 1,000.
    pub(crate) limit: Option<u32>,
}

/// Payments to compare with the rail's records. Empty: nothing to do.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReconciliationBody {
    /// Late successes: the rail accepted, but the lease was lost.
    late_successes: Vec<LateSuccessBody>,
    /// Held or failed although the rail may have them.
    #[schema(value_type = Vec<PaymentShape>)]
    uncertain: Vec<PaymentView>,
    /// Dispatched without a recorded reference, except by an operator's resolution.
    #[schema(value_type = Vec<String>)]
    missing_references: Vec<OutboxId>,
    /// References that several payments share.
    #[schema(value_type = Vec<ReusedReferenceShape>)]
    reused_references: Vec<ReusedReference>,
    /// Whether a list was cut at the limit.
    is_cut: bool,
}

impl From<Reconciliation> for ReconciliationBody {
    fn from(found: Reconciliation) -> Self {
        let late = found.late_successes.into_iter().map(LateSuccessBody::from);
        Self {
            late_successes: late.collect(),
            uncertain: found.uncertain,
            missing_references: found.missing_references,
            reused_references: found.reused_references,
            is_cut: found.is_cut,
        }
    }
}

/// A success that was reported too late: the rail may have paid once or twice.
#[derive(Debug, Serialize, ToSchema)]
struct LateSuccessBody {
    #[schema(value_type = String)]
    outbox_id: OutboxId,
    /// Current state.
    #[schema(value_type = PaymentStateWord)]
    state: PaymentState,
    /// The evidence.
    late: LateView,
}

impl From<LateSuccess> for LateSuccessBody {
    fn from(found: LateSuccess) -> Self {
        Self {
            outbox_id: found.outbox_id,
            state: found.state,
            late: found.late.into(),
        }
    }
}

/// A rail reference shared by several payments of one participant.
#[derive(Serialize, ToSchema)]
pub(crate) struct ReusedReferenceShape {
    participant_id: String,
    rail_type: String,
    rail_reference: String,
    /// Oldest first.
    outbox_ids: Vec<String>,
}
