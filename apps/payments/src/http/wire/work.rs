//! Payments for workers without a database connection, with the same terms as in SQL.

use std::time::Duration;

use consign_kernel::{Fence, Token};
use consign_server::apps::Problem;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{PaymentAttemptState, PaymentStateWord};
use crate::{
    AttemptState, ClaimedPayment, ClaimedPayments, Completion, CompletionResult, OutboxId,
    PaymentState, RailResult, RepairResult, http::INVALID_COMPLETION_STATE,
};

/// A claim of payments.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PaymentClaimBody {
    /// Maximum number, 1 to 1,000; default 1.
    #[serde(default = "one")]
    pub(crate) batch_size: u32,
    /// Name of the worker; default the caller's name. Completions must use the same.
    pub(crate) worker_id: Option<String>,
    /// Lease time in seconds, 1 to 3,600.
    pub(crate) lease_seconds: u64,
    /// Whether the worker may call the rail without a begin: if the lease then expires without a
    /// result, the next claim is in doubt. Set it to false for workers that call begin before each
    /// dispatch.
    #[serde(default = "yes")]
    pub(crate) begin: bool,
    /// How long to wait if nothing is due; default 0.
    #[serde(default)]
    pub(crate) wait_ms: u64,
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}

/// Payments and the lease that covers them.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PaymentLeaseBody {
    /// Token of the lease; secret.
    #[schema(value_type = String)]
    lease_token: Token,
    /// Grows with every lease; pass it on, so that the rail can reject older owners.
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
    /// Reference at the rail, on every attempt.
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
    /// Whether the rail may have it already: query by `outbox_id` before sending.
    in_doubt: bool,
}

/// The rail's answers for payments of one lease.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompleteBody {
    /// Owner of the lease; default the caller's name.
    pub(crate) worker_id: Option<String>,
    /// One per payment, at most 1,000.
    completions: Vec<CompletionBody>,
}

/// The rail's answer for one payment.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompletionBody {
    #[schema(value_type = String)]
    outbox_id: OutboxId,
    /// `DISPATCHED`, `RETRYABLE` or `FAILED`.
    state: String,
    /// The rail's reference; required with `DISPATCHED`.
    rail_reference: Option<String>,
    /// The rail's own code.
    rail_code: Option<String>,
    /// Error code, for programs.
    error_code: Option<String>,
    /// Error message, for people; cut and masked.
    error_message: Option<String>,
    /// Latency of the rail.
    latency_ms: Option<u64>,
    /// Delay of a `RETRYABLE` payment, at least 1; default the queue's schedule.
    retry_delay_seconds: Option<u64>,
    /// Whether the rail may have a `RETRYABLE` payment. True: unknown. False: the rail was queried,
    /// or rejected it. By default a timeout, `DISPATCH_ERROR` and a missing code leave a doubt, and
    /// an earlier doubt stays.
    in_doubt: Option<bool>,
}

impl CompleteBody {
    /// The store's completions, if all states are valid.
    pub(crate) fn completions(&self) -> Result<Vec<Completion>, Problem> {
        let completions = self.completions.iter().map(CompletionBody::completion);
        completions.collect()
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
            return Err(Problem::new(INVALID_COMPLETION_STATE, detail));
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

impl From<Vec<CompletionResult>> for CompletedBody {
    fn from(completed: Vec<CompletionResult>) -> Self {
        let payment = |completed: CompletionResult| CompletedPayment {
            outbox_id: completed.outbox_id,
            attempt_no: completed.attempt_no,
            effective_state: completed.state,
            state: PaymentState::from(completed.message_state),
        };
        Self {
            completed: completed.into_iter().map(payment).collect(),
        }
    }
}

/// What was recorded for one payment.
#[derive(Debug, Serialize, ToSchema)]
struct CompletedPayment {
    #[schema(value_type = String)]
    outbox_id: OutboxId,
    attempt_no: u32,
    /// State of the attempt; `FAILED` where the last try was used up.
    #[schema(value_type = PaymentAttemptState)]
    effective_state: AttemptState,
    /// State of the payment after it.
    #[schema(value_type = PaymentStateWord)]
    state: PaymentState,
}

/// Payments that a rail accepted without a reference.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UnreferencedBody {
    /// Owner of the lease; default the caller's name.
    pub(crate) worker_id: Option<String>,
    /// At most 1,000.
    payments: Vec<UnreferencedPayment>,
}

/// A payment that a rail accepted without a reference.
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

/// The payments whose evidence is stored.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LateResultsBody {
    #[schema(value_type = Vec<String>)]
    pub(crate) kept: Vec<OutboxId>,
}

/// New lease time.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PaymentRenewBody {
    /// From now, 1 to 3,600; never shortens the lease.
    pub(crate) lease_seconds: u64,
}

/// New expiry of the lease.
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

/// Released payments, without an attempt.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PaymentReleasedBody {
    /// How many payments.
    pub(crate) released: usize,
}

/// Number of expired leases to end.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RepairBody {
    /// Maximum number, 1 to 1,000; default 100.
    pub(crate) batch_size: Option<u32>,
}

/// Payments taken back from expired leases.
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

impl From<Vec<RepairResult>> for RepairedBody {
    fn from(repaired: Vec<RepairResult>) -> Self {
        let payment = |repaired: RepairResult| RepairedPayment {
            outbox_id: repaired.outbox_id,
            attempt_no: repaired.attempt_no,
            effective_state: repaired.state,
        };
        Self {
            repaired: repaired.into_iter().map(payment).collect(),
        }
    }
}
