//! What payments look like as JSON. Most of it is for the OpenAPI document only: `consign_payments`
//! writes these answers itself.

pub(crate) mod books;
pub(crate) mod work;

use consign_kernel::Cursor;
use consign_payments::{OutboxId, PaymentFilter, PaymentState, PaymentView, RailBooks};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::shapes;
use crate::problem::Problem;

/// A payment to take. Unknown fields and repeated names are refused.
#[derive(Serialize, ToSchema)]
pub(crate) struct PaymentRequest {
    /// A UUID in its usual form; with the key it names the payment.
    instruction_id: String,
    idempotency_key: String,
    /// A UUID; may be left out where `payments.tenant_required` is false.
    tenant_id: Option<String>,
    /// Whose sequence it is numbered in.
    participant_id: String,
    /// One of `payments.rail_types`.
    rail_type: String,
    /// A whole number of minor units, 1 or more.
    amount_minor: u64,
    /// Three capital letters.
    currency_code: String,
    /// Who is paid.
    beneficiary_ref_hash: String,
    /// RFC 3339, in UTC.
    submitted_at_utc: Timestamp,
    /// A UUID that joins it to other records. No part of what makes two requests the same.
    correlation_id: Option<String>,
    /// Held from the start, until somebody releases it. No part of it either.
    kyc_hold: Option<bool>,
    /// What else the rail wants to know.
    details: Option<Map<String, Value>>,
}

/// A payment is durable.
#[derive(Serialize, ToSchema)]
pub(crate) struct PaymentTaken {
    ack: bool,
    instruction_id: String,
    /// What it is known by from now on, to the rail as well.
    outbox_id: String,
    outbox_state: PaymentStateWord,
    /// Its number among its participant's.
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
            place: shapes::StateWord,
            attempt_count: u32,
            /// From when it may be claimed, while it is ready.
            next_attempt_at: Option<Timestamp>,
            /// Who holds it, while it is leased. The token is a permission and not shown.
            claimed_by: Option<String>,
            lease_expires_at: Option<Timestamp>,
            /// Why it is held or failed.
            reason: Option<String>,
            $($(#[$more])* $field: $kind,)*
        }
    };
}

payment_shape! {
    /// A payment as it stands, without its payload.
    PaymentShape {}
}

payment_shape! {
    /// A payment with what happened to it.
    PaymentWithAttempts {
        payload_hash: String,
        /// First to last.
        attempts: Vec<PaymentAttempt>,
    }
}

/// What happened to a payment in one lease.
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
    /// Whether the rail may have got it in this attempt, and nobody knows.
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

/// What went wrong.
#[derive(Serialize, ToSchema)]
pub(crate) struct PaymentFailure {
    /// A stable code.
    error: String,
    /// For people.
    message: String,
    /// Every field that is wrong.
    errors: Option<Vec<PaymentFieldError>>,
    /// In what a repeated key differs from the first request.
    field: Option<String>,
    /// The payment that has the key.
    outbox_id: Option<String>,
    /// Why a lease is lost: `unknown_or_expired`, `not_in_lease` or `recorded_otherwise`.
    reason: Option<String>,
    /// Payments about which the rail's word is kept as evidence, although it came too late.
    kept_as_evidence: Option<Vec<String>>,
    /// Seconds.
    retry_after: Option<u64>,
    /// `not_done`, or `unknown` if it may have happened all the same.
    outcome: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct PaymentFieldError {
    field: String,
    message: String,
}

/// Which payments to list.
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
    /// How many; 100 unless said, 1,000 at most.
    pub(crate) limit: Option<u32>,
}

impl PaymentParams {
    /// The filter, with nothing in it that the caller may not see.
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
    /// What to give as `before` for the next page; absent on the last one.
    #[schema(value_type = Option<i64>)]
    pub(crate) next: Option<Cursor>,
}

/// A payment that was moved by hand.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PaymentMoved {
    #[schema(value_type = String)]
    pub(crate) outbox_id: OutboxId,
    #[schema(value_type = PaymentStateWord)]
    pub(crate) state: PaymentState,
}

/// What has become of a held payment, as a person found out.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PaymentResolveBody {
    pub(crate) outcome: PaymentResolution,
    /// By which the rail knows it: needed with `dispatched`.
    pub(crate) rail_reference: Option<String>,
    /// Why, or how it was found out; the audit keeps it.
    #[schema(required, value_type = String)]
    pub(crate) reason: Option<String>,
}

impl PaymentResolveBody {
    /// What the rail's books say.
    pub(crate) fn found(&self) -> Result<RailBooks, Problem> {
        match (self.outcome, &self.rail_reference) {
            (PaymentResolution::Dispatched, reference) => Ok(RailBooks::Dispatched {
                rail_reference: reference.clone().unwrap_or_default(),
            }),
            (PaymentResolution::Failed, None) => Ok(RailBooks::Failed),
            (PaymentResolution::Failed, Some(_)) => {
                let why = "only what was dispatched has one";
                Err(Problem::invalid("rail_reference", why))
            }
        }
    }
}

/// What a person found in the rail's books.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PaymentResolution {
    /// It was paid.
    Dispatched,
    /// It was not, and shall not be.
    Failed,
}

/// The payment of a path, or that there can be none by that name.
pub(crate) fn outbox_id(text: &str) -> Result<OutboxId, Problem> {
    let why = "must be a UUID";
    text.parse().map_err(|_| Problem::invalid("outbox_id", why))
}
