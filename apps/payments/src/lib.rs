#![doc = include_str!("../README.md")]

mod attempt;
mod check;
mod claimed;
mod classify;
mod completion;
pub mod metrics;
mod options;
mod payment;
mod port;
mod privacy;
mod rail;
mod relayer;
mod request;
mod resolution;
mod service;
pub mod store;
mod stored;
mod watch;

pub use attempt::{
    AttemptState, AttemptView, MAY_HAVE_BEGUN, MISSING_RAIL_REFERENCE, REFERENCE_BYTES_MAX,
    RETRY_CEILING_EXCEEDED, RailResult, ZOMBIE_REQUEUE, may_have_begun,
};
pub use claimed::{ClaimedPayment, ClaimedPayments, claim_of};
pub use classify::{DISPATCH_ERROR, DISPATCH_TIMEOUT, TERMINAL_CODES};
pub use completion::{Completion, require_references};
pub use options::{
    OnFailed, OrderedBy, PaymentsOptions, RailKind, Secret, queue_policy, queue_work,
};
pub use payment::{NewPayment, OutboxId, PaymentState, PaymentView};
pub use port::{
    CompleteAnswer, Completed, EnqueueAnswer, Enqueued, ImportReport, InFlight, LateSuccess,
    PaymentFilter, PaymentMoved, Payments, PaymentsStatus, Reconciliation, Repaired,
    ReusedReference,
};
#[doc(hidden)]
pub use privacy::VECTORS as MASK_VECTORS;
pub use privacy::{shown, shown_code};
pub use rail::{
    Cancelled, Dispatch, HttpRail, Known, Rail, RailReply, Rails, SimulatedRail, Submitted,
};
pub use relayer::{RailSink, UNKNOWN_RAIL_TYPE};
pub use resolution::{RailBooks, resolved};
pub use service::{Answer, PayCall, PaymentService, payload_hash};
pub use stored::{Stored, queue};
pub use watch::watch;

/// The queue payments travel on.
pub const QUEUE: &str = "payments";
