//! The trait of a sink, and the types of a delivery.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use consign_kernel::{Fence, Message, Outcome, codes::MISDIRECTED};
use serde_json::Value;

/// One message on its way out, under one lease.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// What to deliver.
    pub message: Arc<Message>,
    /// The number its attempt row will get.
    pub attempt_no: u32,
    /// Whether an earlier delivery may have happened. Cleared once a probe has found that
    /// none did.
    pub in_doubt: bool,
    /// The lease's number; sent to the receiver, which may reject older ones.
    pub fence: Fence,
    /// How long this delivery may take. The worker ends it then; a sink may use it for its own
    /// timeouts, whose errors are more precise.
    pub timeout: Duration,
}

impl Delivery {
    /// The key by which the receiver recognises repeats: the same for every attempt of a message.
    pub fn idempotency_key(&self) -> String {
        match &self.message.key {
            Some(key) => format!("{}:{key}", self.message.queue),
            None => format!("{}:{}", self.message.queue, self.message.id),
        }
    }
}

/// What a failure is about. The circuit breaker counts only failures of the sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// This message only: another may well be delivered.
    Message,
    /// The sink: it is down, or rejects our credentials.
    Sink,
    /// The sink is overloaded; see `Verdict::retry_in`.
    Pace,
    /// This process: it lacks a file descriptor or memory, and nothing was sent. The worker tries
    /// again under the same lease, and no try is counted.
    Process,
    /// Nothing but the message: it was not sent, and the sink not asked.
    Unsent,
}

/// The outcome of a delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Delivered, retry, dead or uncertain.
    pub outcome: Outcome,
    /// What a failure is about; ignored when delivered.
    pub about: About,
    /// A short word for programs, such as `http_503`.
    pub code: Option<String>,
    /// A sentence for people. Never holds payloads or secrets.
    pub detail: Option<String>,
    /// What the sink answered, if worth keeping.
    pub result: Option<Value>,
    /// When to try again, if the sink named a time.
    pub retry_in: Option<Duration>,
}

/// Delay of a message that is meant for another destination, at first and at most.
const MISDIRECTED_REST: Duration = Duration::from_mins(1);
const MISDIRECTED_REST_MAX: Duration = Duration::from_mins(15);

impl Verdict {
    /// The sink has it.
    pub fn delivered() -> Self {
        Self {
            outcome: Outcome::Delivered,
            about: About::Message,
            code: None,
            detail: None,
            result: None,
            retry_in: None,
        }
    }

    /// Any other outcome.
    pub fn failed(
        outcome: Outcome,
        about: About,
        code: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            outcome,
            about,
            code: Some(code.into()),
            detail: Some(detail.into()),
            ..Self::delivered()
        }
    }

    /// Nothing was sent, because this process lacks what it needs; see [`is_local`](crate::is_local).
    pub fn local(detail: impl Into<String>) -> Self {
        Self::failed(Outcome::Retry, About::Process, "out_of_resources", detail)
    }

    /// The message is meant for another destination than this worker's; `detail` names the
    /// setting to add; nothing was sent. It rests for a while, in which another worker may take it,
    /// and none of its tries is used up.
    pub fn misdirected(delivery: &Delivery, detail: impl Into<String>) -> Self {
        let outcome = if delivery.in_doubt {
            Outcome::Uncertain
        } else {
            Outcome::Retry
        };
        let doublings = delivery.attempt_no.saturating_sub(1).min(16);
        let rest = MISDIRECTED_REST.saturating_mul(1 << doublings);
        let detail = format!("{MISDIRECTED}: {}", detail.into());
        Self::failed(outcome, About::Message, MISDIRECTED, detail)
            .with_retry_in(Some(rest.min(MISDIRECTED_REST_MAX)))
    }

    /// The same verdict with what the sink answered.
    pub fn with_result(self, result: Value) -> Self {
        Self {
            result: Some(result),
            ..self
        }
    }

    /// The same verdict, to be tried again after `delay`.
    pub fn with_retry_in(self, delay: Option<Duration>) -> Self {
        Self {
            retry_in: delay,
            ..self
        }
    }
}

/// The result of a probe for an earlier delivery.
#[derive(Clone, Debug, PartialEq)]
pub enum Probe {
    /// It arrived; do not send again.
    Delivered(Option<Value>),
    /// It did not arrive; send.
    NotDelivered,
    /// It cannot be determined, and why.
    CannotTell(String),
    /// The verdict of this attempt, found by the probe. Nothing is sent.
    Decided(Box<Verdict>),
}

/// Where a queue's messages go.
#[async_trait]
pub trait Sink: Send + Sync + fmt::Debug {
    /// The kind, as in the configuration: `http`, `log`, ...
    fn kind(&self) -> &'static str;

    /// Where to, for people: an address without secrets.
    fn destination(&self) -> &str;

    /// Delivers one message. May be dropped at any await when the lease is lost.
    async fn deliver(&self, delivery: &Delivery) -> Verdict;

    /// Probes whether an earlier delivery of this message arrived.
    async fn probe(&self, _delivery: &Delivery) -> Probe {
        Probe::CannotTell(format!("{} sinks have no probe", self.kind()))
    }
}
