//! The seam between the order protocol and who executes orders.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::{Amount, ExecResult, ExecStatus, Fault, Masker, Order, Reason, Traded};

mod factory;
mod http;
mod paper;

pub use factory::broker;
pub use http::Http;
pub use paper::{BadScript, Paper, Script};

/// One order on its way out.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// What to execute.
    pub order: &'a Order,
    /// What the broker recognises repeats by, `client/key`: the same for every attempt.
    pub key: &'a str,
    /// How long the call may take. An adapter ends it by itself then, with `BROKER_TIMEOUT`.
    pub timeout: Duration,
    /// The number of the attempt, from 1.
    pub attempt_no: u32,
    /// The message's headers, such as `traceparent`.
    pub headers: &'a Map<String, Value>,
}

/// Why an order was not executed, as far as anybody knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {message}")]
pub struct BrokerFailure {
    /// The reason.
    pub reason: Reason,
    /// What happened, for people. Not yet masked.
    pub message: String,
    /// When to try again, if the broker said so.
    pub retry_in: Option<Duration>,
    /// Whether this send may have executed the order all the same.
    pub is_uncertain: bool,
    /// Whether the broker itself spoke about this order. From one that recognises keys that is a
    /// word about earlier sends too.
    pub knows_order: bool,
    /// What was traded although the order failed.
    pub traded: Option<Box<Traded>>,
}

impl BrokerFailure {
    /// A failure for this reason. A broker that did not answer in time may have executed the order;
    /// every other reason by itself says that it did not.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            retry_in: None,
            is_uncertain: reason == Reason::BrokerTimeout,
            knows_order: !reason.is_retried(),
            traded: None,
        }
    }

    /// The same, but nobody knows whether the order was executed.
    pub fn uncertain(self) -> Self {
        Self {
            is_uncertain: true,
            ..self
        }
    }

    /// The same, but not from somebody who knows the order: a gateway, or nobody knows who.
    pub fn from_a_stranger(self) -> Self {
        Self {
            knows_order: false,
            ..self
        }
    }

    /// The same, to be tried again after `delay`.
    pub fn with_retry_in(self, delay: Option<Duration>) -> Self {
        Self {
            retry_in: delay,
            ..self
        }
    }
}

/// What a broker knows about a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// It has executed the order.
    Executed(Box<ExecResult>),
    /// It has not, and does not know the key.
    NotExecuted,
    /// It cannot say, and why.
    Unknown(String),
}

/// Who executes orders. Adapters never try again by themselves.
#[async_trait]
pub trait Broker: Send + Sync + fmt::Debug {
    /// The adapter's name, as in results, logs and metrics.
    fn name(&self) -> &'static str;

    /// Whether it recognises a key it has seen and does not execute it twice. What may have been
    /// executed is sent again only then.
    fn takes_keys(&self) -> bool;

    /// Whether it can be asked about a key.
    fn can_be_asked(&self) -> bool;

    /// Sends an order. The result is what the broker says, not yet [`vetted`]. May be dropped at any
    /// await when the lease is lost.
    async fn send(&self, outgoing: &Outgoing<'_>) -> Result<ExecResult, BrokerFailure>;

    /// Asks what became of the order with this key.
    async fn status(&self, _key: &str) -> Asked {
        Asked::Unknown(format!("{} brokers cannot be asked", self.name()))
    }
}

/// What a broker's answer is worth: an executed order, or a failure.
///
/// An answer that breaks the contract is a failure that may have been executed, unless it says that
/// nothing was, or what was. One about another order says nothing about ours. A good one comes back as it is kept: what is merely strange about it is added to its
/// warnings, what a broker said that nobody should see is masked.
pub fn vetted(
    result: ExecResult,
    order: &Order,
    qty_step: Option<Amount>,
    masker: &Masker,
) -> Result<ExecResult, BrokerFailure> {
    let faults = result.faults(order, qty_step);
    if !faults.is_empty() {
        return Err(broken(result, &faults));
    }
    if result.status == ExecStatus::Error {
        let reason = result.reason_code.unwrap_or(Reason::InternalError);
        let reason = Reason::of_broker(reason.as_str());
        let message = result
            .message
            .unwrap_or_else(|| format!("the broker answered {reason}"));
        return Err(BrokerFailure::new(reason, message));
    }
    Ok(result.kept(order, masker))
}

/// What an answer that breaks the contract comes to.
fn broken(result: ExecResult, faults: &[Fault]) -> BrokerFailure {
    let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
    let message = format!("the broker's answer is no result: {}", told.join("; "));
    if faults.iter().any(Fault::is_about_something_else) {
        return BrokerFailure::new(Reason::InternalError, message).uncertain();
    }
    let final_one = faults.iter().find(|fault| !fault.reason().is_retried());
    let failure = match final_one {
        Some(fault) => BrokerFailure::new(fault.reason(), message),
        None => BrokerFailure::new(Reason::InternalError, message).uncertain(),
    };
    BrokerFailure {
        traded: Traded::of(result).map(Box::new),
        ..failure
    }
}

#[cfg(test)]
mod tests;
