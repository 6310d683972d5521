//! Execution results: ExecResult v1.0.

use std::str::FromStr;

use jiff::Timestamp;
use rust_decimal::{Decimal, RoundingStrategy};
use serde::{Deserialize, Serialize};

use crate::{
    Amount, Masker, Order, Reason, Side, Subject, digest, ledger::FinalResult, rules::request::utc,
};

mod fault;
mod lenient;
mod traded;

pub use fault::Fault;
pub use traded::TradeSummary;

/// Whether an order was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecStatus {
    /// Executed, at least in part.
    Ok,
    /// Not executed.
    Error,
}

impl ExecStatus {
    /// The value in results.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
        }
    }
}

/// One trade by which an order was executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fill {
    /// Price.
    pub px: Amount,
    /// Quantity.
    pub qty: Amount,
    /// Execution time.
    pub ts: Timestamp,
}

impl FromStr for Fill {
    type Err = String;

    /// Parses `QTY@PRICE@TIME`.
    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = || {
            format!(
                "{text:?} is not a fill; write QTY@PRICE@TIME, such as \
                 0.06@146.123@2026-11-17T10:00:00Z"
            )
        };
        let mut parts = text.trim().splitn(3, '@');
        let mut next = || parts.next().ok_or_else(refuse);
        let (qty, px, ts) = (next()?, next()?, next()?);
        Ok(Self {
            px: px.parse().map_err(|_| refuse())?,
            qty: qty.parse().map_err(|_| refuse())?,
            ts: utc(ts).ok_or_else(refuse)?,
        })
    }
}

/// The broker that executed an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokerRef {
    /// The adapter's name.
    pub name: String,
    /// The broker's id of the order; `None` where it never took it.
    #[serde(default)]
    pub order_ref: Option<String>,
}

/// Latencies in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyMs {
    /// From acceptance to the send.
    #[serde(default, deserialize_with = "lenient::whole")]
    pub queue: u64,
    /// The broker call.
    #[serde(default, deserialize_with = "lenient::whole")]
    pub broker_rtt: u64,
    /// Sum of both.
    #[serde(default, deserialize_with = "lenient::whole")]
    pub total: u64,
}

/// Result of an order. Unknown fields are ignored when read, because the contract grows by them.
///
/// Brokers calculate in floating point, and the trade has already happened: amounts with more
/// digits than an [`Amount`] allows are rounded when read, not rejected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecResult {
    /// Executed or not.
    pub status: ExecStatus,
    /// Equal to `reason_code`; every error of the API has this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Reason>,
    /// What went wrong, for people. Masked and short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The order's id.
    pub order_id: String,
    /// The traded instrument.
    pub instrument: String,
    /// Side of the order; `None` only where the stored request is unreadable.
    pub side: Option<Side>,
    /// When the client placed the order.
    pub requested_at: Timestamp,
    /// When the order ended; never before `requested_at`.
    pub completed_at: Timestamp,
    /// Trace id.
    pub trace_id: String,
    /// The client's key.
    #[serde(default)]
    pub idempotency_key: Option<String>,
    /// Quantity sent to the broker: the requested one, rounded down to the instrument's step.
    /// `None` only where the stored request is unreadable.
    #[serde(default)]
    pub qty_sent: Option<Amount>,
    /// Limit sent to the broker, on the instrument's tick; `None` for a market order.
    #[serde(default)]
    pub price_sent: Option<Amount>,
    /// The trades; empty where nothing was executed.
    #[serde(default)]
    pub fills: Vec<Fill>,
    /// Average price of the fills.
    #[serde(default)]
    pub avg_price: Option<Amount>,
    /// Executed quantity.
    #[serde(default)]
    pub executed_qty: Amount,
    /// Cost of the execution.
    #[serde(default)]
    pub cost: Option<Amount>,
    /// Difference to the expected price.
    #[serde(default)]
    pub slippage: Option<Amount>,
    /// The broker.
    pub broker: BrokerRef,
    /// Latencies.
    #[serde(default)]
    pub latency_ms: LatencyMs,
    /// Why it failed; `None` where it was executed.
    #[serde(default)]
    pub reason_code: Option<Reason>,
    /// Remarks on the result.
    #[serde(default, deserialize_with = "lenient::list")]
    pub warnings: Vec<String>,
}

impl ExecResult {
    /// The result of an order that was not executed.
    ///
    /// `message` is shown to the client unchanged: mask it first. `completed_at` is never before
    /// `requested_at`, even if the client's clock is ahead.
    pub fn failed(
        subject: Subject,
        broker: &str,
        reason: Reason,
        message: impl Into<String>,
        completed_at: Timestamp,
    ) -> Self {
        Self {
            error: Some(reason),
            message: Some(message.into()),
            completed_at: completed_at.max(subject.requested_at),
            broker: BrokerRef {
                name: broker.to_owned(),
                order_ref: None,
            },
            reason_code: Some(reason),
            ..Self::nothing(subject)
        }
    }

    /// An empty result for this subject.
    pub(crate) fn nothing(subject: Subject) -> Self {
        Self {
            status: ExecStatus::Error,
            error: None,
            message: None,
            order_id: subject.order_id,
            instrument: subject.instrument,
            side: subject.side,
            requested_at: subject.requested_at,
            completed_at: subject.requested_at,
            trace_id: subject.trace_id,
            idempotency_key: subject.idempotency_key,
            qty_sent: subject.qty,
            price_sent: subject.price,
            fills: Vec::new(),
            avg_price: None,
            executed_qty: Amount::ZERO,
            cost: None,
            slippage: None,
            broker: BrokerRef {
                name: "unknown".to_owned(),
                order_ref: None,
            },
            latency_ms: LatencyMs::default(),
            reason_code: None,
            warnings: subject.warnings,
        }
    }

    /// Parses a result; amounts stay exact.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// As JSON text: amounts exact, the same bytes for the same result.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("invariant: a result is text and numbers")
    }

    /// `sha256:` and the digest of the stable fields.
    pub fn digest(&self) -> String {
        digest::result_digest(self)
    }

    /// What the ledger stores: 200 where it was executed, else the status of the reason.
    pub fn ended(&self) -> FinalResult {
        let http_status = match self.status {
            ExecStatus::Ok => 200,
            ExecStatus::Error => self
                .reason_code
                .unwrap_or(Reason::InternalError)
                .http_status(),
        };
        FinalResult {
            http_status,
            result_digest: self.digest(),
            exec_result: self.to_json(),
        }
    }

    /// Contract violations of this result for `order`. The fills' sum may differ from the executed
    /// quantity by less than `qty_step`; without it they must match.
    pub fn faults(&self, order: &Order, qty_step: Option<Amount>) -> Vec<Fault> {
        fault::find(self, order, qty_step)
    }

    /// Remarks that do not put the execution in doubt.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if let (Some(stated), Some(average)) = (self.avg_price, average_price(&self.fills))
            && stated.distance(average) > AVERAGE_ERROR_MAX
        {
            remarks.push(format!(
                "avg_price is {stated}, the average of the fills is {average}"
            ));
        }
        if self.completed_at < self.requested_at {
            remarks.push(format!("completed_at was {}", self.completed_at));
        }
        remarks
    }

    /// The result of `order` as it is stored and shown to the client: with the order's own trace
    /// and key, not completed before it was requested, and masked. Control characters are removed:
    /// PostgreSQL cannot store all of them.
    pub(crate) fn into_stored(self, order: &Order, masker: &Masker) -> Self {
        let key = order.idempotency_key.as_str();
        let mut warnings = order.warnings.clone();
        warnings.extend(self.remarks());
        // A broker that received the order's warnings may repeat them.
        let reported = self.warnings.iter().map(|text| masker.mask(text, &[key]));
        warnings.extend(reported.filter(|text| !order.warnings.contains(text)));
        warnings.truncate(WARNINGS_MAX);
        Self {
            message: self.message.map(|text| masker.mask(&text, &[key])),
            trace_id: order.trace_id.clone(),
            idempotency_key: Some(key.to_owned()),
            qty_sent: Some(order.qty),
            price_sent: order.price,
            completed_at: self.completed_at.max(self.requested_at),
            broker: BrokerRef {
                name: line(&masker.mask(&self.broker.name, &[])),
                order_ref: masked_ref(self.broker.order_ref, masker),
            },
            warnings,
            ..self
        }
    }
}

/// The broker's order reference, without secrets. The client's key stays: brokers name orders by
/// it.
fn masked_ref(order_ref: Option<String>, masker: &Masker) -> Option<String> {
    order_ref.map(|order_ref| line(&masker.mask(&order_ref, &[])))
}

/// A name or reference on one line.
fn line(text: &str) -> String {
    let text = text.chars().take(REF_CHARS_MAX);
    text.map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Maximum warnings of a result.
const WARNINGS_MAX: usize = 16;
/// Longer than any reference.
const REF_CHARS_MAX: usize = 256;

/// Decimal places of averages.
const AVERAGE_PLACES: u32 = 8;
/// One unit in the last place: brokers round in different ways.
pub(crate) const AVERAGE_ERROR_MAX: Decimal = Decimal::from_parts(1, 0, 0, false, AVERAGE_PLACES);

/// The average price of fills by quantity; `None` without fills.
pub fn average_price(fills: &[Fill]) -> Option<Amount> {
    let (mut cost, mut qty) = (Decimal::ZERO, Decimal::ZERO);
    for fill in fills {
        let part = fill.px.decimal().checked_mul(fill.qty.decimal())?;
        cost = cost.checked_add(part)?;
        qty = qty.checked_add(fill.qty.decimal())?;
    }
    let average = cost.checked_div(qty)?;
    let rounding = RoundingStrategy::MidpointAwayFromZero;
    Amount::new(average.round_dp_with_strategy(AVERAGE_PLACES, rounding))
}

#[cfg(test)]
mod tests;
