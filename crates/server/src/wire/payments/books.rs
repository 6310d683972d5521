//! Figures about payments, and what is to be compared with a rail's books.

use std::collections::BTreeMap;

use consign_payments::{
    LateSuccess, OutboxId, PaymentState, PaymentView, Reconciliation, ReusedReference,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{PaymentShape, PaymentStateWord};
use crate::wire::messages::LateView;

/// The supervisor's figures.
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
    /// Of the leased, in leases that have ended.
    expired: u64,
    held: u64,
    /// Failed and not requeued.
    failed: u64,
    /// Pending ones by attempts so far: 1, 2, 3, 4, and 5 or more.
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
    /// Of each kind; 100 unless said, 1,000 at most.
    pub(crate) limit: Option<u32>,
}

/// What should be compared with the rail's own books. Nothing in it: nothing to do.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReconciliationBody {
    /// Refused successes: the rail accepted, the lease was gone.
    late_successes: Vec<LateSuccessBody>,
    /// Held or failed although the rail may have them.
    #[schema(value_type = Vec<PaymentShape>)]
    uncertain: Vec<PaymentView>,
    /// Dispatched without a reference on record, except by a person's word.
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

/// A success that was told too late: the rail may have paid once, or twice.
#[derive(Debug, Serialize, ToSchema)]
struct LateSuccessBody {
    #[schema(value_type = String)]
    outbox_id: OutboxId,
    /// How it stands now.
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

/// A reference under which a rail knows several payments of one participant.
#[derive(Serialize, ToSchema)]
pub(crate) struct ReusedReferenceShape {
    participant_id: String,
    rail_type: String,
    rail_reference: String,
    /// Oldest first.
    outbox_ids: Vec<String>,
}
