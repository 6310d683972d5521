//! The trait between the order protocol and the brokers that execute orders.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::{Amount, ExecResult, ExecStatus, Fault, Masker, Order, Reason, TradeSummary};

mod factory;
mod http;
mod paper;

pub use factory::broker;
pub use http::Http;
pub use paper::{BadScript, Paper, Script};

/// One order to send.
#[derive(Clone, Copy, Debug)]
pub struct OutgoingOrder<'a> {
    /// What to execute.
    pub order: &'a Order,
    /// Idempotency key at the broker, `client/key`: the same for every attempt.
    pub key: &'a str,
    /// Time limit of the call. The adapter enforces it and returns `BROKER_TIMEOUT`.
    pub timeout: Duration,
    /// The number of the attempt, from 1.
    pub attempt_no: u32,
    /// The message's headers, such as `traceparent`.
    pub headers: &'a Map<String, Value>,
}

/// Why an order was not executed, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {message}")]
pub struct BrokerFailure {
    /// The reason.
    pub reason: Reason,
    /// What happened, for people. Not masked yet.
    pub message: String,
    /// Delay before the next attempt, if the broker requested one.
    pub retry_in: Option<Duration>,
    /// Whether this send may have executed the order all the same.
    pub is_uncertain: bool,
    /// Whether the broker itself reported on this order. From a broker that recognises keys this
    /// covers earlier sends too.
    pub is_from_broker: bool,
    /// What was traded although the order failed.
    pub traded: Option<Box<TradeSummary>>,
}

impl BrokerFailure {
    /// A failure for this reason. A broker that did not answer in time may have executed the order;
    /// every other reason means that it did not.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            retry_in: None,
            is_uncertain: reason == Reason::BrokerTimeout,
            is_from_broker: !reason.is_retried(),
            traded: None,
        }
    }

    /// Marks the outcome as uncertain: the order may have been executed.
    pub fn uncertain(self) -> Self {
        Self {
            is_uncertain: true,
            ..self
        }
    }

    /// Marks the failure as not reported by the broker itself, but for example by a gateway.
    pub fn not_from_broker(self) -> Self {
        Self {
            is_from_broker: false,
            ..self
        }
    }

    /// Sets the delay before the next attempt.
    pub fn with_retry_in(self, delay: Option<Duration>) -> Self {
        Self {
            retry_in: delay,
            ..self
        }
    }
}

/// Result of a status query for a key.
#[derive(Clone, Debug, PartialEq)]
pub enum BrokerLookup {
    /// The broker executed the order.
    Executed(Box<ExecResult>),
    /// The broker did not execute the order, and has no order with this key.
    NotExecuted,
    /// The status is unknown, and why.
    Unknown(String),
}

/// Executes orders. Adapters never retry by themselves.
#[async_trait]
pub trait Broker: Send + Sync + fmt::Debug {
    /// The adapter's name, as in results, logs and metrics.
    fn name(&self) -> &'static str;

    /// Whether the broker recognises repeated keys and executes each once. An order that may have
    /// been executed is sent again only then.
    fn takes_keys(&self) -> bool;

    /// Whether the broker supports status queries by key.
    fn has_status_query(&self) -> bool;

    /// Sends an order. The result is the broker's answer, not yet [`vetted`]. The future may be
    /// dropped at any await when the lease is lost.
    async fn send(&self, outgoing: &OutgoingOrder<'_>) -> Result<ExecResult, BrokerFailure>;

    /// Queries the status of the order with this key.
    async fn status(&self, _key: &str) -> BrokerLookup {
        BrokerLookup::Unknown(format!("the {} broker has no status query", self.name()))
    }
}

/// Validates a broker's answer: an executed order, or a failure.
///
/// An answer that violates the contract is an uncertain failure, unless it states that nothing was
/// traded, or what was. An answer about another order is no information about ours. A valid answer
/// is returned as it is stored: remarks are added to its warnings, secrets are masked.
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
    Ok(result.into_stored(order, masker))
}

/// The failure for an answer that violates the contract.
fn broken(result: ExecResult, faults: &[Fault]) -> BrokerFailure {
    let violations: Vec<String> = faults.iter().map(ToString::to_string).collect();
    let message = format!(
        "the broker's answer is not a valid result: {}",
        violations.join("; ")
    );
    if faults.iter().any(Fault::is_about_something_else) {
        return BrokerFailure::new(Reason::InternalError, message).uncertain();
    }
    let final_one = faults.iter().find(|fault| !fault.reason().is_retried());
    let failure = match final_one {
        Some(fault) => BrokerFailure::new(fault.reason(), message),
        None => BrokerFailure::new(Reason::InternalError, message).uncertain(),
    };
    BrokerFailure {
        traded: TradeSummary::of(result).map(Box::new),
        ..failure
    }
}

#[cfg(test)]
mod tests;
