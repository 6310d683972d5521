//! What came of an order: ExecResult v1.0.

use std::str::FromStr;

use jiff::Timestamp;
use rust_decimal::{Decimal, RoundingStrategy};
use serde::{Deserialize, Serialize};

use crate::{
    Amount, Masker, Order, Reason, Side, digest, ledger::Ended, request::utc, stored::Subject,
};

mod fault;
mod lenient;
mod traded;

pub use fault::Fault;
pub use traded::Traded;

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
    /// As in results.
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
    /// At which price.
    pub px: Amount,
    /// How much.
    pub qty: Amount,
    /// When.
    pub ts: Timestamp,
}

impl FromStr for Fill {
    type Err = String;

    /// As people write one: `QTY@PRICE@TIME`.
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

/// Who executed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokerRef {
    /// The adapter's name.
    pub name: String,
    /// The broker's own name for the order; none where it never took it.
    #[serde(default)]
    pub order_ref: Option<String>,
}

/// Where the time went, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyMs {
    /// From acceptance to the send.
    #[serde(default, deserialize_with = "lenient::whole")]
    pub queue: u64,
    /// The call of the broker.
    #[serde(default, deserialize_with = "lenient::whole")]
    pub broker_rtt: u64,
    /// All of it.
    #[serde(default, deserialize_with = "lenient::whole")]
    pub total: u64,
}

/// What came of an order. Fields nobody knows are ignored when read: the contract grows by them.
///
/// Brokers reckon in floating point, and their answer is about something that has happened: amounts
/// with more digits than an [`Amount`] has are rounded when read, not refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecResult {
    /// Executed or not.
    pub status: ExecStatus,
    /// The same as `reason_code`, under the name every other error of the API has it by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Reason>,
    /// What went wrong, for people. Masked and short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Which order.
    pub order_id: String,
    /// What was traded.
    pub instrument: String,
    /// Bought or sold; none only where a stored request could not be read any more.
    pub side: Option<Side>,
    /// When it was asked for.
    pub requested_at: Timestamp,
    /// When it was over; never before `requested_at`.
    pub completed_at: Timestamp,
    /// The trace.
    pub trace_id: String,
    /// The client's key.
    #[serde(default)]
    pub idempotency_key: Option<String>,
    /// How much was sent to the broker: what was asked for, rounded down to the instrument's step.
    /// None only where a stored request could not be read any more.
    #[serde(default)]
    pub qty_sent: Option<Amount>,
    /// The limit that was sent, on the instrument's tick; none: at the market.
    #[serde(default)]
    pub price_sent: Option<Amount>,
    /// The trades; none where nothing was executed.
    #[serde(default)]
    pub fills: Vec<Fill>,
    /// Their average price.
    #[serde(default)]
    pub avg_price: Option<Amount>,
    /// How much was executed.
    #[serde(default)]
    pub executed_qty: Amount,
    /// What it cost.
    #[serde(default)]
    pub cost: Option<Amount>,
    /// How far the price was from what was expected.
    #[serde(default)]
    pub slippage: Option<Amount>,
    /// Who executed it.
    pub broker: BrokerRef,
    /// Where the time went.
    #[serde(default)]
    pub latency_ms: LatencyMs,
    /// Why not; none where it was executed.
    #[serde(default)]
    pub reason_code: Option<Reason>,
    /// What is strange about it.
    #[serde(default, deserialize_with = "lenient::list")]
    pub warnings: Vec<String>,
}

impl ExecResult {
    /// The result of an order that was not executed.
    ///
    /// `message` is shown to the client as it is: mask it before. A client's clock may be ahead; the
    /// order is not over before it was asked for all the same.
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

    /// A result that says nothing but what it is about.
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

    /// Reads a result, amounts exact.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// As JSON text: amounts exact, always the same bytes for the same result.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("invariant: a result is text and numbers")
    }

    /// `sha256:` and the digest of what is stable about it.
    pub fn digest(&self) -> String {
        digest::result_digest(self)
    }

    /// What the ledger keeps: 200 where it was executed, else the status of the reason.
    pub fn ended(&self) -> Ended {
        let http_status = match self.status {
            ExecStatus::Ok => 200,
            ExecStatus::Error => self
                .reason_code
                .unwrap_or(Reason::InternalError)
                .http_status(),
        };
        Ended {
            http_status,
            result_digest: self.digest(),
            exec_result: self.to_json(),
        }
    }

    /// What is wrong with it as the result of `order`; empty: nothing. `qty_step` is how far the
    /// fills may be from the executed quantity, exclusive; none: they must match.
    pub fn faults(&self, order: &Order, qty_step: Option<Amount>) -> Vec<Fault> {
        fault::find(self, order, qty_step)
    }

    /// What is strange about it but no reason to doubt that it was executed.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if let (Some(told), Some(average)) = (self.avg_price, average_price(&self.fills))
            && told.distance(average) > AVERAGE_ERROR_MAX
        {
            remarks.push(format!(
                "avg_price is {told}, the average of the fills is {average}"
            ));
        }
        if self.completed_at < self.requested_at {
            remarks.push(format!("completed_at was {}", self.completed_at));
        }
        remarks
    }

    /// The result of `order` as it is kept and shown to the client: with the order's own trace and
    /// key, not over before it was asked for, and without what a broker should not have said. No
    /// control characters remain: PostgreSQL does not keep all of them.
    pub(crate) fn kept(self, order: &Order, masker: &Masker) -> Self {
        let key = order.idempotency_key.as_str();
        let mut warnings = order.warnings.clone();
        warnings.extend(self.remarks());
        // A broker that was told the order's warnings may repeat them.
        let told = self.warnings.iter().map(|text| masker.mask(text, &[key]));
        warnings.extend(told.filter(|text| !order.warnings.contains(text)));
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

/// A broker's name for an order, without secrets. The client's key stays: brokers name orders by it.
fn masked_ref(order_ref: Option<String>, masker: &Masker) -> Option<String> {
    order_ref.map(|order_ref| line(&masker.mask(&order_ref, &[])))
}

/// A name or reference on one line.
fn line(text: &str) -> String {
    let text = text.chars().take(REF_CHARS_MAX);
    text.map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// More say nothing.
const WARNINGS_MAX: usize = 16;
/// Longer than any reference.
const REF_CHARS_MAX: usize = 256;

/// Averages are told to this many places.
const AVERAGE_PLACES: u32 = 8;
/// One in the last place: two ways to round.
pub(crate) const AVERAGE_ERROR_MAX: Decimal = Decimal::from_parts(1, 0, 0, false, AVERAGE_PLACES);

/// The average price of fills, by quantity; none where there are none.
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
