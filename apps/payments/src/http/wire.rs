//! JSON shapes of payments. Most are for the OpenAPI document only: the service writes these
//! answers itself.

pub(super) mod figures;
pub(super) mod work;

use consign_kernel::{Cursor, quoted};
use consign_server::apps::{Problem, StateWord};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::{OutboxId, PaymentFilter, PaymentState, PaymentView, RailRecord};

/// A payment to accept. Unknown fields and repeated names are rejected.
#[derive(Serialize, ToSchema)]
pub(crate) struct PaymentRequest {
    /// A UUID in its usual form; with the key it identifies the payment.
    instruction_id: String,
    idempotency_key: String,
    /// A UUID; optional where `payments.tenant_required` is false.
    tenant_id: Option<String>,
    /// Owner of the sequence in which it is numbered.
    participant_id: String,
    /// One of `payments.rail_types`.
    rail_type: String,
    /// A whole number of minor units, 1 or more.
    amount_minor: u64,
    /// Three capital letters.
    currency_code: String,
    /// Hash of the beneficiary's reference.
    beneficiary_ref_hash: String,
    /// RFC 3339, in UTC.
    submitted_at_utc: Timestamp,
    /// A UUID that links it to other records. Not part of the comparison with earlier requests.
    correlation_id: Option<String>,
    /// Held from the start until an operator releases it.
    kyc_hold: Option<bool>,
    /// Further fields for the rail.
    details: Option<Map<String, Value>>,
}

/// A payment is durable.
#[derive(Serialize, ToSchema)]
pub(crate) struct PaymentReceiptBody {
    ack: bool,
    instruction_id: String,
    /// Identity of the payment, also at the rail.
    outbox_id: String,
    outbox_state: PaymentStateWord,
    /// Its number in the participant's sequence.
    sequence_id: i64,
    created_at: Timestamp,
    /// `sha256:` of the payload as stored.
    payload_hash: String,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[expect(dead_code, reason = "described, never constructed")]
pub(crate) enum PaymentStateWord {
    Pending,
    Held,
    Dispatched,
    Failed,
}

/// The fields of a payment, and more.
macro_rules! payment_shape {
    ($(#[$meta:meta])* $name:ident { $($(#[$more:meta])* $field:ident: $kind:ty,)* }) => {
        $(#[$meta])*
        #[derive(Serialize, ToSchema)]
        pub(crate) struct $name {
            outbox_id: String,
            /// Its message in the queue `payments`.
            message_id: i64,
            instruction_id: String,
            idempotency_key: String,
            participant_id: String,
            sequence_id: i64,
            rail_type: String,
            tenant_id: Option<String>,
            correlation_id: Option<String>,
            created_at: Timestamp,
            state: PaymentStateWord,
            message_state: StateWord,
            attempt_count: u32,
            /// When it can be claimed, while it is ready.
            next_attempt_at: Option<Timestamp>,
            /// Owner of the lease, while it is leased. The token is secret and not shown.
            claimed_by: Option<String>,
            lease_expires_at: Option<Timestamp>,
            /// Why it is held or failed.
            reason: Option<String>,
            /// When its content was erased.
            erased_at: Option<Timestamp>,
            $($(#[$more])* $field: $kind,)*
        }
    };
}

payment_shape! {
    /// A payment without its payload.
    PaymentShape {}
}

payment_shape! {
    /// A payment with its attempts.
    PaymentWithAttempts {
        /// Null if its content was erased.
        payload_hash: Option<String>,
        /// In order.
        attempts: Vec<PaymentAttempt>,
    }
}

/// One attempt of a payment.
#[derive(Serialize, ToSchema)]
pub(crate) struct PaymentAttempt {
    outbox_id: String,
    attempt_no: u32,
    state: PaymentAttemptState,
    claimed_at: Timestamp,
    completed_at: Timestamp,
    worker_id: String,
    rail_reference: Option<String>,
    rail_code: Option<String>,
    error_code: Option<String>,
    error_message: Option<String>,
    latency_ms: Option<u64>,
    next_attempt_at: Option<Timestamp>,
    /// Whether the outcome at the rail is unknown.
    in_doubt: bool,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[expect(dead_code, reason = "described, never constructed")]
pub(crate) enum PaymentAttemptState {
    Dispatched,
    Retryable,
    Failed,
    ZombieRequeue,
}

/// An error.
#[derive(Serialize, ToSchema)]
pub(crate) struct PaymentFailure {
    /// A stable code.
    error: String,
    /// For people.
    message: String,
    /// Every invalid field.
    errors: Option<Vec<PaymentFieldError>>,
    /// The first field that differs from the earlier request.
    field: Option<String>,
    /// The payment that has the key.
    outbox_id: Option<String>,
    /// Why a lease is lost: `unknown_or_expired`, `not_in_lease` or `recorded_otherwise`.
    reason: Option<String>,
    /// Payments whose late results were stored as evidence.
    kept_as_evidence: Option<Vec<String>>,
    /// Seconds.
    retry_after: Option<u64>,
    /// `not_done`, or `unknown` if the change may have been applied.
    outcome: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct PaymentFieldError {
    field: String,
    message: String,
}

/// Filter of the list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PaymentParams {
    /// Only this tenant's.
    #[param(value_type = Option<String>)]
    pub(crate) tenant_id: Option<Uuid>,
    /// Only this participant's.
    participant_id: Option<String>,
    /// Only this instruction's.
    instruction_id: Option<String>,
    /// Only those in this state.
    #[param(value_type = Option<PaymentStateWord>)]
    state: Option<PaymentState>,
    /// Only payments whose message is below this: the `next` of the page before.
    pub(crate) before: Option<i64>,
    /// Maximum number; default 100, at most 1,000.
    pub(crate) limit: Option<u32>,
}

impl PaymentParams {
    /// The filter, restricted to what the caller may see.
    pub(crate) fn filter(self, tenant_id: Option<Uuid>) -> PaymentFilter {
        PaymentFilter {
            tenant_id,
            participant_id: self.participant_id,
            instruction_id: self.instruction_id,
            state: self.state,
        }
    }
}

/// Some payments, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PaymentPage {
    #[schema(value_type = Vec<PaymentShape>)]
    pub(crate) payments: Vec<PaymentView>,
    /// `before` of the next page; absent on the last one.
    #[schema(value_type = Option<i64>)]
    pub(crate) next: Option<Cursor>,
}

/// Result of a manual operation.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PaymentMoveBody {
    #[schema(value_type = String)]
    pub(crate) outbox_id: OutboxId,
    #[schema(value_type = PaymentStateWord)]
    pub(crate) state: PaymentState,
}

/// Resolution of a held payment by an operator.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PaymentResolveBody {
    pub(crate) outcome: PaymentResolution,
    /// The rail's reference: required with `dispatched`.
    pub(crate) rail_reference: Option<String>,
    /// Reason; stored in the audit.
    #[schema(required, value_type = String)]
    pub(crate) reason: Option<String>,
}

impl PaymentResolveBody {
    /// The rail's record as stated.
    pub(crate) fn found(&self) -> Result<RailRecord, Problem> {
        match (self.outcome, &self.rail_reference) {
            (PaymentResolution::Dispatched, reference) => Ok(RailRecord::Dispatched {
                rail_reference: reference.clone().unwrap_or_default(),
            }),
            (PaymentResolution::Failed, None) => Ok(RailRecord::Failed),
            (PaymentResolution::Failed, Some(_)) => {
                let why = "is allowed only with dispatched";
                Err(Problem::invalid("rail_reference", why))
            }
        }
    }
}

/// What the rail's records show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PaymentResolution {
    /// It was paid.
    Dispatched,
    /// It was not paid and will not be.
    Failed,
}

/// Parses the payment of a path.
pub(crate) fn outbox_id(text: &str) -> Result<OutboxId, Problem> {
    let wrong = |_| Problem::out_of_bounds("outbox_id", quoted(text), "must be a UUID");
    text.parse().map_err(wrong)
}
