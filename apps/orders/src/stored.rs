//! The payload of an order's message.
//!
//! ```json
//! {"client": "desk-7", "idempotency_key": "01JABCXYZ", "request_digest": "sha256:…",
//!  "order": {"order_id": "ord-1", "instrument": "USDJPY", "side": "BUY",
//!            "requested_at": "2025-08-24T00:00:00Z", "trace_id": "trace-1",
//!            "qty": "0.1", "price": null, "max_spread": "0.002", "warnings": []},
//!  "body": "{…}"}
//! ```
//!
//! `body` is the request as it came, as text: its numbers must not pass through floating point.
//! `order` is what the server filled in. Amounts in it are text for the same reason.

use consign_kernel::Payload;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::{Amount, Client, Filled, Order, OrderKey, OrderRequest, Side};

/// An order as its message carries it.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// Who asked.
    pub client: Client,
    /// Under which key.
    pub key: OrderKey,
    /// The digest of the request.
    pub request_digest: String,
    /// What the server filled in.
    pub filled: Filled,
    /// The request, as it came.
    pub body: String,
}

/// A payload that is no order. Nothing of it is sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stored order cannot be read: {what}")]
pub struct Malformed {
    /// What is wrong; never shows the order.
    pub what: String,
}

impl Malformed {
    fn new(what: impl Into<String>) -> Self {
        Self { what: what.into() }
    }
}

impl Stored {
    /// The order of a request that was accepted. `body` is the text it was read from.
    pub fn new(client: Client, request: &OrderRequest, filled: Filled, body: &str) -> Self {
        Self {
            client,
            key: request.idempotency_key.clone(),
            request_digest: request.digest.clone(),
            filled,
            body: body.to_owned(),
        }
    }

    /// The payload.
    pub fn to_payload(&self) -> Value {
        let filled = &self.filled;
        json!({
            "client": self.client,
            "idempotency_key": self.key,
            "request_digest": self.request_digest,
            "order": {
                "order_id": filled.order_id,
                "instrument": filled.instrument,
                "side": filled.side,
                "requested_at": filled.requested_at,
                "trace_id": filled.trace_id,
                "qty": filled.qty.to_string(),
                "price": filled.price.map(|price| price.to_string()),
                "max_spread": filled.max_spread.map(|spread| spread.to_string()),
                "warnings": filled.warnings,
            },
            "body": self.body,
        })
    }

    /// The order of a message's payload.
    pub fn read(payload: &Payload) -> Result<Self, Malformed> {
        let payload = payload.read();
        let payload: Value = payload.map_err(|error| Malformed::new(error.to_string()))?;
        Self::parse(&payload)
    }

    /// Reads a payload. Its parts are there and of the right kind then; whether the body is the one
    /// that was accepted tells [`Stored::order`].
    pub fn parse(payload: &Value) -> Result<Self, Malformed> {
        let top = Parts::of(payload, "payload")?;
        let order = Parts::of(top.get("order")?, "order")?;
        Ok(Self {
            client: top.parse("client", |text| text.parse().ok())?,
            key: top.parse("idempotency_key", |text| text.parse().ok())?,
            request_digest: top.text("request_digest")?.to_owned(),
            filled: Filled {
                order_id: order.text("order_id")?.to_owned(),
                instrument: order.text("instrument")?.to_owned(),
                side: order.parse("side", Side::from_word)?,
                requested_at: order.parse("requested_at", |text| text.parse().ok())?,
                trace_id: order.text("trace_id")?.to_owned(),
                qty: order.parse("qty", amount)?,
                price: order.optional("price", amount)?,
                max_spread: order.optional("max_spread", amount)?,
                warnings: order.texts("warnings")?,
            },
            body: top.text("body")?.to_owned(),
        })
    }

    /// The order to send. Refused where the body cannot be read or is not the one that was
    /// accepted: its digest or its key differ from what is kept beside it.
    pub fn order(&self) -> Result<Order, Malformed> {
        let request = OrderRequest::reread(self.body.as_bytes())
            .map_err(|invalid| Malformed::new(format!("body: {invalid}")))?;
        if request.digest != self.request_digest {
            return Err(Malformed::new("body has another digest than was accepted"));
        }
        if request.idempotency_key != self.key {
            return Err(Malformed::new("body has another key than was accepted"));
        }
        if !is_filled_from(&self.filled, &request) {
            return Err(Malformed::new("order is not what body asks for"));
        }
        Ok(Order::new(request, self.filled.clone()))
    }
}

/// Whether what the server filled in is what the client asked for, and rounded in its favour only.
/// The grid is not looked at: it may have changed since, and orders are sent as they were accepted.
fn is_filled_from(filled: &Filled, request: &OrderRequest) -> bool {
    let is_kept =
        |name: &Option<String>, kept: &str| name.as_deref().is_none_or(|name| name == kept);
    let is_fair_price = match (filled.price, request.price) {
        (None, None) => true,
        (Some(rounded), Some(asked)) => {
            rounded.is_positive()
                && match request.side {
                    Side::Buy => rounded <= asked,
                    Side::Sell => rounded >= asked,
                }
        }
        _ => false,
    };
    let asked_spread = request.risk_constraints.and_then(|risk| risk.max_spread);
    filled.instrument == request.instrument
        && filled.side == request.side
        && filled.qty <= request.qty
        && filled.qty.is_positive()
        && is_fair_price
        && asked_spread.is_none_or(|asked| filled.max_spread == Some(asked))
        && is_kept(&request.order_id, &filled.order_id)
        && is_kept(&request.trace_id, &filled.trace_id)
        && request
            .requested_at
            .is_none_or(|at| filled.requested_at <= at)
}

fn amount(text: &str) -> Option<Amount> {
    text.parse().ok()
}

/// An object of the payload, with its name for complaints.
struct Parts<'a> {
    members: &'a Map<String, Value>,
    name: &'static str,
}

impl<'a> Parts<'a> {
    fn of(value: &'a Value, name: &'static str) -> Result<Self, Malformed> {
        let members = value
            .as_object()
            .ok_or_else(|| Malformed::new(format!("{name} is not an object")))?;
        Ok(Self { members, name })
    }

    fn wrong(&self, field: &str) -> Malformed {
        Malformed::new(format!("{} has no valid {field}", self.name))
    }

    fn get(&self, field: &str) -> Result<&'a Value, Malformed> {
        self.members.get(field).ok_or_else(|| self.wrong(field))
    }

    fn text(&self, field: &str) -> Result<&'a str, Malformed> {
        self.get(field)?.as_str().ok_or_else(|| self.wrong(field))
    }

    fn parse<T>(&self, field: &str, read: impl Fn(&str) -> Option<T>) -> Result<T, Malformed> {
        read(self.text(field)?).ok_or_else(|| self.wrong(field))
    }

    /// A list of texts; none where there is none.
    fn texts(&self, field: &str) -> Result<Vec<String>, Malformed> {
        let Some(value) = self.members.get(field) else {
            return Ok(Vec::new());
        };
        let items = value.as_array().ok_or_else(|| self.wrong(field))?;
        let text = |item: &Value| item.as_str().map(str::to_owned);
        let texts: Option<Vec<String>> = items.iter().map(text).collect();
        texts.ok_or_else(|| self.wrong(field))
    }

    fn optional<T>(
        &self,
        field: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, Malformed> {
        match self.members.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(_) => self.parse(field, read).map(Some),
        }
    }
}

/// What a result is about.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    /// Which order.
    pub order_id: String,
    /// What was to be traded.
    pub instrument: String,
    /// Buy or sell, if known.
    pub side: Option<Side>,
    /// When it was asked for.
    pub requested_at: Timestamp,
    /// The trace.
    pub trace_id: String,
    /// The client's key, if known.
    pub idempotency_key: Option<String>,
    /// How much was to be sent, if known.
    pub qty: Option<Amount>,
    /// The limit that was to be sent; none: at the market, or not known.
    pub price: Option<Amount>,
    /// In what that differs from what was asked.
    pub warnings: Vec<String>,
}

impl Subject {
    /// What can still be read of a payload, however damaged. What cannot is empty; the time is
    /// `otherwise_at` then.
    pub fn of_payload(payload: &Payload, otherwise_at: Timestamp) -> Self {
        let payload: Value = payload.read().unwrap_or_default();
        let order = &payload["order"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Self {
            order_id: text(&order["order_id"]),
            instrument: text(&order["instrument"]),
            side: order["side"].as_str().and_then(Side::from_word),
            requested_at: order["requested_at"]
                .as_str()
                .and_then(|text| text.parse().ok())
                .unwrap_or(otherwise_at),
            trace_id: text(&order["trace_id"]),
            idempotency_key: payload["idempotency_key"].as_str().map(str::to_owned),
            qty: order["qty"].as_str().and_then(amount),
            price: order["price"].as_str().and_then(amount),
            warnings: order["warnings"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|warning| warning.as_str().map(str::to_owned))
                .collect(),
        }
    }
}

impl From<&Order> for Subject {
    fn from(order: &Order) -> Self {
        Self {
            order_id: order.order_id.clone(),
            instrument: order.instrument.clone(),
            side: Some(order.side),
            requested_at: order.requested_at,
            trace_id: order.trace_id.clone(),
            idempotency_key: Some(order.idempotency_key.as_str().to_owned()),
            qty: Some(order.qty),
            price: order.price,
            warnings: order.warnings.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
