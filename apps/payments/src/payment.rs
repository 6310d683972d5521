//! What a payment is to a store.

use std::{fmt, str::FromStr};

use consign_kernel::{Error, MessageId, Payload, Result, StateKind};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

/// Longest instruction, key, participant and rail type, in bytes.
const TEXT_BYTES_MAX: usize = 256;

/// Identity of a payment: the reference every rail sees, on every attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OutboxId(pub Uuid);

impl fmt::Display for OutboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for OutboxId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let id = Uuid::parse_str(text);
        id.map(Self)
            .map_err(|_| Error::invalid("outbox_id", "must be a UUID"))
    }
}

/// A payment to enqueue.
#[derive(Clone, Debug, PartialEq)]
pub struct NewPayment {
    /// Which instruction of the business it carries out.
    pub instruction_id: String,
    /// Under which key; together with the instruction it names the payment.
    pub idempotency_key: String,
    /// Whose sequence it is numbered in.
    pub participant_id: String,
    /// Over which rail.
    pub rail_type: String,
    /// Whose it is; none where there is but one tenant.
    pub tenant_id: Option<Uuid>,
    /// What joins it to other records. Not compared when the key is repeated.
    pub correlation_id: Option<Uuid>,
    /// The caller's object: `amount_minor`, `currency_code`, a destination, and what else the rail
    /// wants.
    pub payload: Payload,
    /// The message's headers: trace context and the like. Not compared either.
    pub headers: Map<String, Value>,
    /// Whether it starts held: it is never claimed until somebody releases it.
    pub kyc_hold: bool,
}

impl NewPayment {
    /// Refuses what no store could keep.
    pub fn validate(&self) -> Result<()> {
        for (what, text) in [
            ("instruction_id", &self.instruction_id),
            ("idempotency_key", &self.idempotency_key),
            ("participant_id", &self.participant_id),
            ("rail_type", &self.rail_type),
        ] {
            if text.trim().is_empty() || text.len() > TEXT_BYTES_MAX || text.contains('\0') {
                let why = format!("must be 1 to {TEXT_BYTES_MAX} bytes, not blank, without U+0000");
                return Err(Error::invalid(what, why));
            }
        }
        if !self.payload.as_str().starts_with('{') {
            return Err(Error::invalid("payload", "must be a JSON object"));
        }
        // As deep as it stands in the message.
        #[derive(Serialize)]
        struct Inner<'a> {
            payload: &'a Payload,
        }
        let payload = &self.payload;
        let checked = Payload::of(&Inner { payload });
        checked.map_err(|error| Error::invalid(error.place, error.why))?;
        Ok(())
    }
}

/// How a payment stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PaymentState {
    /// Waiting for its turn, ready, or in a lease.
    Pending,
    /// Parked until somebody decides.
    Held,
    /// The rail has it. Final.
    Dispatched,
    /// It will not be dispatched, unless a person requeues it.
    Failed,
}

impl PaymentState {
    /// Every state, in the order of a payment's life.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Held, Self::Dispatched, Self::Failed];

    /// As in SQL and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Held => "HELD",
            Self::Dispatched => "DISPATCHED",
            Self::Failed => "FAILED",
        }
    }
}

impl From<StateKind> for PaymentState {
    fn from(kind: StateKind) -> Self {
        match kind {
            StateKind::Waiting | StateKind::Ready | StateKind::Leased => Self::Pending,
            StateKind::Held => Self::Held,
            StateKind::Delivered => Self::Dispatched,
            StateKind::Dead => Self::Failed,
        }
    }
}

impl fmt::Display for PaymentState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for PaymentState {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        let known = Self::ALL.into_iter().find(|state| state.as_str() == word);
        known.ok_or_else(|| {
            let words = Self::ALL.map(Self::as_str).join(", ");
            Error::invalid(format!("state {word:?}"), format!("is not one of {words}"))
        })
    }
}

/// A payment as it stands, without its payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentView {
    /// Its identity.
    pub outbox_id: OutboxId,
    /// Its message in the queue `payments`.
    pub message_id: MessageId,
    /// The instruction.
    pub instruction_id: String,
    /// The key.
    pub idempotency_key: String,
    /// Whose sequence.
    pub participant_id: String,
    /// Its number there: 1, 2, 3 … without gaps.
    pub sequence_id: i64,
    /// Over which rail.
    pub rail_type: String,
    /// Whose it is.
    pub tenant_id: Option<Uuid>,
    /// What joins it to other records.
    pub correlation_id: Option<Uuid>,
    /// When it was enqueued.
    pub created_at: Timestamp,
    /// How it stands.
    pub state: PaymentState,
    /// Where its message is: says more than `state`.
    pub place: StateKind,
    /// Attempts recorded so far.
    pub attempt_count: u32,
    /// From when it may be claimed, while it is ready.
    pub next_attempt_at: Option<Timestamp>,
    /// Who holds it, while it is leased.
    pub claimed_by: Option<String>,
    /// When that lease ends unless renewed. The token is not shown: it is a permission.
    pub lease_expires_at: Option<Timestamp>,
    /// Why it is held or failed, for programs.
    pub reason: Option<String>,
}
