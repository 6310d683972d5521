#![doc = include_str!("../README.md")]

mod attempt;
mod payment;
mod port;

pub use attempt::{
    AttemptState, AttemptView, Completion, MISSING_RAIL_REFERENCE, RETRY_CEILING_EXCEEDED,
    RailResult, ZOMBIE_REQUEUE,
};
pub use payment::{NewPayment, OutboxId, PaymentState, PaymentView};
pub use port::{
    CompleteAnswer, Completed, EnqueueAnswer, Enqueued, ImportReport, InFlight, LateSuccess,
    PaymentFilter, PaymentMoved, Payments, PaymentsStatus, Reconciliation, Repaired,
    ReusedReference,
};

/// The lane payments travel on.
pub const LANE: &str = "payments";
