//! Payments as a store sees them.

use std::{fmt, str::FromStr};

use consign_kernel::{Error, MessageId, Payload, Result, StateKind, quoted};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

/// Maximum bytes of instruction, key, participant and rail type.
const TEXT_BYTES_MAX: usize = 256;

/// Identity of a payment: the reference at the rail, on every attempt.
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
            .map_err(|_| Error::out_of_bounds("outbox_id", quoted(text), "must be a UUID"))
    }
}

/// A payment to enqueue.
#[derive(Clone, Debug, PartialEq)]
pub struct NewPayment {
    /// The business instruction.
    pub instruction_id: String,
    /// Idempotency key; with the instruction it identifies the payment.
    pub idempotency_key: String,
    /// Owner of the sequence in which it is numbered.
    pub participant_id: String,
    /// Rail type.
    pub rail_type: String,
    /// Tenant; `None` without tenants.
    pub tenant_id: Option<Uuid>,
    /// Links it to other records. Not compared when the key is repeated.
    pub correlation_id: Option<Uuid>,
    /// The caller's object: `amount_minor`, `currency_code`, a destination, and further fields for
    /// the rail.
    pub payload: Payload,
    /// The message's headers, such as trace context. Not compared either.
    pub headers: Map<String, Value>,
    /// Whether it starts held: it cannot be claimed until an operator releases it.
    pub kyc_hold: bool,
}

impl NewPayment {
    /// Rejects values that no store can keep.
    pub fn validate(&self) -> Result<()> {
        for (what, text) in [
            ("instruction_id", &self.instruction_id),
            ("idempotency_key", &self.idempotency_key),
            ("participant_id", &self.participant_id),
            ("rail_type", &self.rail_type),
        ] {
            if text.trim().is_empty() || text.len() > TEXT_BYTES_MAX || text.contains('\0') {
                let why = format!(
                    "has {} bytes; must be 1 to {TEXT_BYTES_MAX}, not blank, without U+0000",
                    text.len()
                );
                return Err(Error::invalid(what, why));
            }
        }
        if !self.payload.as_str().starts_with('{') {
            return Err(Error::invalid("payload", "must be a JSON object"));
        }
        // At the depth that it has in the message.
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

/// State of a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PaymentState {
    /// Waiting, ready, or leased.
    Pending,
    /// Held until an operator decides.
    Held,
    /// Accepted by the rail. Final.
    Dispatched,
    /// Not dispatched, unless an operator requeues it.
    Failed,
}

impl PaymentState {
    /// Every state in the order of a payment's life.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Held, Self::Dispatched, Self::Failed];

    /// The value in SQL and JSON.
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
            // Payments are not discarded: the engine refuses queues of apps.
            StateKind::Dead | StateKind::Discarded => Self::Failed,
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
        let found = Self::ALL.into_iter().find(|state| state.as_str() == word);
        found.ok_or_else(|| {
            let words = Self::ALL.map(Self::as_str).join(", ");
            Error::invalid(format!("state {word:?}"), format!("must be one of {words}"))
        })
    }
}

/// A payment without its payload.
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
    /// Owner of the sequence.
    pub participant_id: String,
    /// Its number in the sequence: 1, 2, 3 … without gaps.
    pub sequence_id: i64,
    /// Rail type.
    pub rail_type: String,
    /// Tenant.
    pub tenant_id: Option<Uuid>,
    /// Links it to other records.
    pub correlation_id: Option<Uuid>,
    /// When it was enqueued.
    pub created_at: Timestamp,
    /// State.
    pub state: PaymentState,
    /// State of its message, which is more specific than `state`.
    pub message_state: StateKind,
    /// Attempts recorded so far.
    pub attempt_count: u32,
    /// When it can be claimed, while it is ready.
    pub next_attempt_at: Option<Timestamp>,
    /// Owner of the lease, while it is leased.
    pub claimed_by: Option<String>,
    /// When that lease expires unless renewed. The token is secret and not shown.
    pub lease_expires_at: Option<Timestamp>,
    /// Why it is held or failed, for programs.
    pub reason: Option<String>,
    /// When its content was erased: of its payload, amount and currency are left.
    pub erased_at: Option<Timestamp>,
}
