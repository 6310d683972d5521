//! Pure decisions of the payment protocol: no I/O, no clock, no randomness.

pub(crate) mod attempt;
pub(crate) mod check;
mod claimed;
pub(crate) mod classify;
mod completion;
mod payment;
pub(crate) mod privacy;
pub(crate) mod request;
mod resolution;
pub(crate) mod stored;

pub use attempt::{
    AttemptState, AttemptView, MAY_HAVE_BEGUN, MISSING_RAIL_REFERENCE, REFERENCE_BYTES_MAX,
    RETRY_CEILING_EXCEEDED, RailResult, ZOMBIE_REQUEUE, may_have_begun,
};
pub use claimed::{ClaimedPayment, ClaimedPayments, claim_of};
pub use classify::{DISPATCH_ERROR, DISPATCH_TIMEOUT, TERMINAL_CODES};
pub use completion::{Completion, require_references};
pub use payment::{NewPayment, OutboxId, PaymentState, PaymentView};
#[doc(hidden)]
pub use privacy::VECTORS as MASK_VECTORS;
pub use privacy::{shown, shown_code};
pub use resolution::{RailRecord, resolved};
pub use stored::{StoredPayment, queue};
