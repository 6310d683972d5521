//! Working without a database connection: claims and what follows them.

use std::time::Duration;

use consign_kernel::{
    ClaimedMessage, EndedLease, Fence, Lease, LeaseView, Message, MessageId, Outcome, Payload,
    QueueName, RecordedOutcome, Report, SendSlots, Token,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::shapes;

/// A request for messages.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClaimBody {
    /// The queue to take from.
    #[schema(value_type = String)]
    pub(crate) queue: QueueName,
    /// The owner in leases and attempts; by default the caller's name.
    pub(crate) owner: Option<String>,
    /// At most this many messages; 1 by default.
    #[serde(default = "one")]
    pub(crate) limit: u32,
    /// The lease time; by default that of the queue, which rejects more than
    /// its `lease_ttl_max_ms`.
    pub(crate) ttl_ms: Option<u64>,
    /// At most this many bytes of payloads and headers, but one message at least; the queue's
    /// `claim_max_bytes` by default.
    pub(crate) bytes_max: Option<u64>,
    /// How long to wait for messages if there are none; 0 by default.
    #[serde(default)]
    pub(crate) wait_ms: u64,
}

fn one() -> u32 {
    1
}

/// A request for send slots.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SlotsBody {
    /// At most this many, 1 to 1,000; 1 by default.
    #[serde(default = "one")]
    pub(crate) count: u32,
}

/// Times at which the caller may send a message each.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReservedBody {
    /// The database's clock.
    #[schema(value_type = String, format = DateTime)]
    now: Timestamp,
    /// The time of the first slot; with a `count` of 0, when to call again.
    #[schema(value_type = String, format = DateTime)]
    first_at: Timestamp,
    /// From one slot to the next, in microseconds.
    apart_us: u64,
    /// How many slots there are; 0 if those of the next seconds are reserved.
    count: u32,
}

impl From<SendSlots> for ReservedBody {
    fn from(slots: SendSlots) -> Self {
        Self {
            now: slots.now,
            first_at: slots.first_at,
            apart_us: slots.apart_us,
            count: slots.count,
        }
    }
}

/// Leased messages, and the token to settle them.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LeaseBody {
    /// The permission to settle: keep it secret.
    #[schema(value_type = String)]
    token: Token,
    /// Grows with every lease; send it to the receiver, so that it can reject older holders.
    #[schema(value_type = i64)]
    fence: Fence,
    claimed_at: Timestamp,
    /// By the database's clock.
    expires_at: Timestamp,
    /// The same as a duration from the claim, for clocks that differ.
    expires_in_ms: u64,
    /// Oldest due first.
    messages: Vec<ClaimedBody>,
}

impl From<Lease> for LeaseBody {
    fn from(lease: Lease) -> Self {
        let lives = lease.expires_at.duration_since(lease.claimed_at);
        Self {
            token: lease.token,
            fence: lease.fence,
            claimed_at: lease.claimed_at,
            expires_at: lease.expires_at,
            expires_in_ms: u64::try_from(lives.as_millis()).unwrap_or(0),
            messages: lease.messages.into_iter().map(ClaimedBody::from).collect(),
        }
    }
}

/// A message in a lease.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ClaimedBody {
    #[schema(value_type = i64)]
    id: MessageId,
    #[schema(value_type = String)]
    queue: QueueName,
    key: Option<String>,
    group: Option<String>,
    #[schema(value_type = Value)]
    payload: Payload,
    #[schema(value_type = Object)]
    headers: Map<String, Value>,
    created_at: Timestamp,
    /// From then on, by the database's clock, do not send it: report it dead with the code
    /// `expired_before_delivery`.
    expires_at: Option<Timestamp>,
    /// The number its attempt will get.
    attempt_no: u32,
    /// Earlier attempts that count toward the queue's limit.
    tries: u32,
    /// Whether an earlier delivery may have happened: probe the receiver before sending.
    in_doubt: bool,
}

impl From<ClaimedMessage> for ClaimedBody {
    fn from(claimed: ClaimedMessage) -> Self {
        let Message {
            id,
            queue,
            key,
            group,
            payload,
            headers,
            created_at,
            expires_at,
        } = claimed.message;
        Self {
            id,
            queue,
            key,
            group,
            payload,
            headers,
            created_at,
            expires_at,
            attempt_no: claimed.attempt_no,
            tries: claimed.tries,
            in_doubt: claimed.in_doubt,
        }
    }
}

/// A renewal.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RenewBody {
    /// From now; never shortens the lease.
    pub(crate) ttl_ms: u64,
}

/// When the lease ends now.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RenewedBody {
    /// By the database's clock.
    pub(crate) expires_at: Timestamp,
}

/// Messages whose transport call is about to start.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BeginBody {
    #[schema(value_type = Vec<i64>)]
    pub(crate) ids: Vec<MessageId>,
}

/// That it has been recorded: should the lease end now, these messages are uncertain.
#[derive(Debug, Serialize, ToSchema)]
pub struct BegunBody {
    pub(crate) begun: bool,
}

impl BegunBody {
    /// It has been.
    pub fn recorded() -> Self {
        Self { begun: true }
    }
}

/// An empty request.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseBody {}

/// Messages that went back to ready without an attempt.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReleasedBody {
    #[schema(value_type = Vec<i64>)]
    pub(crate) ids: Vec<MessageId>,
}

/// Outcomes.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SettleBody {
    pub(crate) reports: Vec<ReportBody>,
}

/// What happened to one message.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportBody {
    #[schema(value_type = i64)]
    id: MessageId,
    #[schema(value_type = shapes::OutcomeWord)]
    outcome: Outcome,
    /// A short word for programs, such as `http_503`.
    #[serde(default)]
    code: Option<String>,
    /// A sentence for people.
    #[serde(default)]
    detail: Option<String>,
    /// The receiver's answer, if worth keeping.
    #[serde(default)]
    result: Option<Value>,
    /// When to try again; by default the queue's retry schedule.
    #[serde(default)]
    retry_in_ms: Option<u64>,
}

impl From<ReportBody> for Report {
    fn from(body: ReportBody) -> Self {
        Self {
            id: body.id,
            outcome: body.outcome,
            code: body.code,
            detail: body.detail,
            result: body.result,
            retry_in: body.retry_in_ms.map(Duration::from_millis),
        }
    }
}

/// What was recorded.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SettledBody {
    /// In the order of the reports.
    #[schema(value_type = Vec<shapes::RecordedOutcomeBody>)]
    pub(crate) recorded: Vec<RecordedOutcome>,
    /// Whether all of it had been recorded before, so that nothing was written.
    pub(crate) repeated: bool,
}

/// Leases, oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LeaseList {
    #[schema(value_type = Vec<shapes::LeaseView>)]
    pub(crate) leases: Vec<LeaseView>,
}

/// A lease that an operator ended.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EndedBody {
    #[schema(value_type = i64)]
    fence: Fence,
    #[schema(value_type = String)]
    queue: QueueName,
    /// Who held it.
    owner: String,
    /// Messages it held.
    messages: u64,
}

impl From<EndedLease> for EndedBody {
    fn from(ended: EndedLease) -> Self {
        Self {
            fence: ended.fence,
            queue: ended.queue,
            owner: ended.owner,
            messages: ended.messages,
        }
    }
}
