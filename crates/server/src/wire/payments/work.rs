//! Payments for workers that cannot reach the database: the same words as in SQL.

use std::time::Duration;

use consign_kernel::{Fence, Token};
use consign_payments::{
    AttemptState, ClaimedPayment, ClaimedPayments, Completed, Completion, OutboxId, PaymentState,
    RailResult, Repaired,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{PaymentAttemptState, PaymentStateWord};
use crate::problem::{Problem, codes};

/// A request for payments.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PaymentClaimBody {
    /// At most this many, 1 to 1,000; 1 unless said.
    #[serde(default = "one")]
    pub(crate) batch_size: u32,
    /// Who works; the caller's own name unless said. Completing wants the same.
    pub(crate) worker_id: Option<String>,
    /// How long the lease shall live, 1 to 3,600.
    pub(crate) lease_seconds: u64,
    /// Whether the rail may be called from now on without another word: should the lease end in
    /// silence, the next claim is in doubt. False for workers that say before each call that it
    /// begins.
    #[serde(default = "yes")]
    pub(crate) begin: bool,
    /// How long to wait for payments if there are none; not at all unless said.
    #[serde(default)]
    pub(crate) wait_ms: u64,
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}

/// Payments, and the permission to speak for them.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PaymentLeaseBody {
    /// The permission: keep it to yourself.
    #[schema(value_type = String)]
    lease_token: Token,
    /// Grows with every lease; pass it on, so that the rail can refuse older holders.
    #[schema(value_type = i64)]
    fence: Fence,
    /// By the database's clock.
    lease_expires_at: Timestamp,
    /// Oldest due first.
    #[schema(value_type = Vec<ClaimedPaymentShape>)]
    payments: Vec<ClaimedPayment>,
}

impl From<ClaimedPayments> for PaymentLeaseBody {
    fn from(claimed: ClaimedPayments) -> Self {
        Self {
            lease_token: claimed.lease_token,
            fence: claimed.fence,
            lease_expires_at: claimed.lease_expires_at,
            payments: claimed.payments,
        }
    }
}

/// A payment in a lease.
#[derive(Serialize, ToSchema)]
pub(crate) struct ClaimedPaymentShape {
    /// What to call the rail with as its reference, on every attempt.
    outbox_id: String,
    instruction_id: String,
    participant_id: String,
    sequence_id: i64,
    idempotency_key: String,
    rail_type: String,
    tenant_id: Option<String>,
    payload: Map<String, Value>,
    /// Attempts recorded so far.
    attempt_count: u32,
    /// Whether the rail may have it already: ask by `outbox_id` before sending.
    in_doubt: bool,
}

/// What the rail said about payments of one lease.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompleteBody {
    /// Who claimed them; the caller's own name unless said.
    pub(crate) worker_id: Option<String>,
    /// One for each payment, 1,000 at most.
    completions: Vec<CompletionBody>,
}

/// What the rail said about one payment.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompletionBody {
    #[schema(value_type = String)]
    outbox_id: OutboxId,
    /// `DISPATCHED`, `RETRYABLE` or `FAILED`.
    state: String,
    /// By which the rail knows it; `DISPATCHED` needs one.
    rail_reference: Option<String>,
    /// The rail's own word for what happened.
    rail_code: Option<String>,
    /// Why not, for programs.
    error_code: Option<String>,
    /// Why not, for people; cut and masked.
    error_message: Option<String>,
    /// How long the rail took.
    latency_ms: Option<u64>,
    /// How long a `RETRYABLE` one rests, at least 1; the queue's schedule unless said.
    retry_delay_seconds: Option<u64>,
    /// Whether the rail may have a `RETRYABLE` one. True: nobody knows. False: it was asked, or has
    /// refused it. Unless said, a timeout, `DISPATCH_ERROR` and no code at all leave a doubt, and an
    /// earlier doubt stays.
    in_doubt: Option<bool>,
}

impl CompleteBody {
    /// As the store is told, if it can be.
    pub(crate) fn completions(&self) -> Result<Vec<Completion>, Problem> {
        let said = self.completions.iter().map(CompletionBody::completion);
        said.collect()
    }
}

impl CompletionBody {
    fn completion(&self) -> Result<Completion, Problem> {
        let reportable = [
            AttemptState::Dispatched,
            AttemptState::Retryable,
            AttemptState::Failed,
        ];
        let state = reportable.into_iter().find(|s| s.as_str() == self.state);
        let Some(state) = state else {
            let detail = format!(
                "payment {}: {:?} is not DISPATCHED, RETRYABLE or FAILED",
                self.outbox_id, self.state
            );
            return Err(Problem::new(codes::INVALID_COMPLETION_STATE, detail));
        };
        let result = RailResult {
            rail_reference: self.rail_reference.clone(),
            rail_code: self.rail_code.clone(),
            latency_ms: self.latency_ms,
        };
        Ok(Completion {
            outbox_id: self.outbox_id,
            state,
            result,
            error_code: self.error_code.clone(),
            error_message: self.error_message.clone(),
            retry_in: self.retry_delay_seconds.map(Duration::from_secs),
            in_doubt: self.in_doubt,
        })
    }
}

/// What was recorded, in the order of the completions.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CompletedBody {
    completed: Vec<CompletedPayment>,
}

impl From<Vec<Completed>> for CompletedBody {
    fn from(completed: Vec<Completed>) -> Self {
        let payment = |completed: Completed| CompletedPayment {
            outbox_id: completed.outbox_id,
            attempt_no: completed.attempt_no,
            effective_state: completed.state,
            state: PaymentState::from(completed.place),
        };
        Self {
            completed: completed.into_iter().map(payment).collect(),
        }
    }
}

/// What was recorded about one payment.
#[derive(Debug, Serialize, ToSchema)]
struct CompletedPayment {
    #[schema(value_type = String)]
    outbox_id: OutboxId,
    attempt_no: u32,
    /// What the attempt says; `FAILED` where the last try was used up.
    #[schema(value_type = PaymentAttemptState)]
    effective_state: AttemptState,
    /// How the payment stands after it.
    #[schema(value_type = PaymentStateWord)]
    state: PaymentState,
}

/// Payments that a rail took without naming a reference.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UnreferencedBody {
    /// Who claimed them; the caller's own name unless said.
    pub(crate) worker_id: Option<String>,
    /// Which, 1,000 at most.
    payments: Vec<UnreferencedPayment>,
}

/// A payment that a rail took without naming a reference.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct UnreferencedPayment {
    #[schema(value_type = String)]
    outbox_id: OutboxId,
    rail_code: Option<String>,
    error_message: Option<String>,
    latency_ms: Option<u64>,
}

impl UnreferencedBody {
    pub(crate) fn completions(&self) -> Vec<Completion> {
        let completion = |payment: &UnreferencedPayment| Completion {
            outbox_id: payment.outbox_id,
            state: AttemptState::Dispatched,
            result: RailResult {
                rail_reference: None,
                rail_code: payment.rail_code.clone(),
                latency_ms: payment.latency_ms,
            },
            error_code: None,
            error_message: payment.error_message.clone(),
            retry_in: None,
            in_doubt: None,
        };
        self.payments.iter().map(completion).collect()
    }
}

/// What is on record as evidence now.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WitnessedBody {
    #[schema(value_type = Vec<String>)]
    pub(crate) kept: Vec<OutboxId>,
}

/// How long a lease shall live from now on.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PaymentRenewBody {
    /// From now, 1 to 3,600; never shortens the lease.
    pub(crate) lease_seconds: u64,
}

/// When the lease ends now.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PaymentRenewedBody {
    /// By the database's clock.
    pub(crate) lease_expires_at: Timestamp,
}

/// Payments for which the rail is about to be called.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PaymentBeginBody {
    #[schema(value_type = Vec<String>)]
    pub(crate) outbox_ids: Vec<OutboxId>,
}

/// What went back, uncounted.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PaymentReleasedBody {
    /// How many payments.
    pub(crate) released: usize,
}

/// How many expired leases to end.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RepairBody {
    /// At most this many, 1 to 1,000; 100 unless said.
    pub(crate) batch_size: Option<u32>,
}

/// What was taken back from workers that fell silent.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RepairedBody {
    repaired: Vec<RepairedPayment>,
}

#[derive(Debug, Serialize, ToSchema)]
struct RepairedPayment {
    #[schema(value_type = String)]
    outbox_id: OutboxId,
    /// The attempt that was appended.
    attempt_no: u32,
    /// `ZOMBIE_REQUEUE`, or `FAILED` where it was the last try.
    #[schema(value_type = PaymentAttemptState)]
    effective_state: AttemptState,
}

impl From<Vec<Repaired>> for RepairedBody {
    fn from(repaired: Vec<Repaired>) -> Self {
        let payment = |repaired: Repaired| RepairedPayment {
            outbox_id: repaired.outbox_id,
            attempt_no: repaired.attempt_no,
            effective_state: repaired.state,
        };
        Self {
            repaired: repaired.into_iter().map(payment).collect(),
        }
    }
}
