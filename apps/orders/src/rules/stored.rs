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
//! `body` is the request as received, as text: its numbers must not pass through floating point.
//! `order` is what the server filled in. Its amounts are text for the same reason.

use consign_kernel::Payload;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::{Amount, Client, Order, OrderKey, OrderRequest, ServerFields, Side};

/// An order as its message carries it.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredOrder {
    /// The client.
    pub client: Client,
    /// Its idempotency key.
    pub key: OrderKey,
    /// The digest of the request.
    pub request_digest: String,
    /// Values that the server filled in.
    pub filled: ServerFields,
    /// The request, as received.
    pub body: String,
}

/// A payload that is not an order. Nothing is sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stored order cannot be read: {what}")]
pub struct PayloadError {
    /// What is wrong; never contains the order.
    pub what: String,
}

impl PayloadError {
    fn new(what: impl Into<String>) -> Self {
        Self { what: what.into() }
    }
}

impl StoredOrder {
    /// The order of an accepted request. `body` is the text from which it was parsed.
    pub fn new(client: Client, request: &OrderRequest, filled: ServerFields, body: &str) -> Self {
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

    /// Parses a message's payload.
    pub fn read(payload: &Payload) -> Result<Self, PayloadError> {
        let payload = payload.read();
        let payload: Value = payload.map_err(|error| PayloadError::new(error.to_string()))?;
        Self::parse(&payload)
    }

    /// Parses a payload: checks presence and types of its parts. [`StoredOrder::order`] checks that
    /// the body is the accepted one.
    pub fn parse(payload: &Value) -> Result<Self, PayloadError> {
        let top = Parts::of(payload, "payload")?;
        let order = Parts::of(top.get("order")?, "order")?;
        Ok(Self {
            client: top.parse("client", |text| text.parse().ok())?,
            key: top.parse("idempotency_key", |text| text.parse().ok())?,
            request_digest: top.text("request_digest")?.to_owned(),
            filled: ServerFields {
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

    /// The order to send. Rejected where the body is unreadable or not the accepted one: its digest
    /// or key differ from the stored ones.
    pub fn order(&self) -> Result<Order, PayloadError> {
        let request = OrderRequest::reread(self.body.as_bytes())
            .map_err(|invalid| PayloadError::new(format!("body: {invalid}")))?;
        if request.digest != self.request_digest {
            return Err(PayloadError::new(
                "the digest of body differs from the accepted one",
            ));
        }
        if request.idempotency_key != self.key {
            return Err(PayloadError::new(
                "the key in body differs from the accepted one",
            ));
        }
        if !is_filled_from(&self.filled, &request) {
            return Err(PayloadError::new("order does not match body"));
        }
        Ok(Order::new(request, self.filled.clone()))
    }
}

/// Whether the filled-in values match the request, rounded in its favour only. The grid is not
/// checked: it may have changed, and orders are sent as they were accepted.
fn is_filled_from(filled: &ServerFields, request: &OrderRequest) -> bool {
    let is_kept =
        |name: &Option<String>, kept: &str| name.as_deref().is_none_or(|name| name == kept);
    let is_fair_price = match (filled.price, request.price) {
        (None, None) => true,
        (Some(rounded), Some(requested)) => {
            rounded.is_positive()
                && match request.side {
                    Side::Buy => rounded <= requested,
                    Side::Sell => rounded >= requested,
                }
        }
        _ => false,
    };
    let requested_spread = request.risk_constraints.and_then(|risk| risk.max_spread);
    filled.instrument == request.instrument
        && filled.side == request.side
        && filled.qty <= request.qty
        && filled.qty.is_positive()
        && is_fair_price
        && requested_spread.is_none_or(|requested| filled.max_spread == Some(requested))
        && is_kept(&request.order_id, &filled.order_id)
        && is_kept(&request.trace_id, &filled.trace_id)
        && request
            .requested_at
            .is_none_or(|at| filled.requested_at <= at)
}

fn amount(text: &str) -> Option<Amount> {
    text.parse().ok()
}

/// An object of the payload, with its name for errors.
struct Parts<'a> {
    members: &'a Map<String, Value>,
    name: &'static str,
}

impl<'a> Parts<'a> {
    fn of(value: &'a Value, name: &'static str) -> Result<Self, PayloadError> {
        let members = value
            .as_object()
            .ok_or_else(|| PayloadError::new(format!("{name} is not an object")))?;
        Ok(Self { members, name })
    }

    fn wrong(&self, field: &str) -> PayloadError {
        PayloadError::new(format!("{} has no valid {field}", self.name))
    }

    fn get(&self, field: &str) -> Result<&'a Value, PayloadError> {
        self.members.get(field).ok_or_else(|| self.wrong(field))
    }

    fn text(&self, field: &str) -> Result<&'a str, PayloadError> {
        self.get(field)?.as_str().ok_or_else(|| self.wrong(field))
    }

    fn parse<T>(&self, field: &str, read: impl Fn(&str) -> Option<T>) -> Result<T, PayloadError> {
        read(self.text(field)?).ok_or_else(|| self.wrong(field))
    }

    /// A list of texts; empty if absent.
    fn texts(&self, field: &str) -> Result<Vec<String>, PayloadError> {
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
    ) -> Result<Option<T>, PayloadError> {
        match self.members.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(_) => self.parse(field, read).map(Some),
        }
    }
}

/// What a result is about.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    /// The order's id.
    pub order_id: String,
    /// Instrument.
    pub instrument: String,
    /// Side, if readable.
    pub side: Option<Side>,
    /// When the client placed it.
    pub requested_at: Timestamp,
    /// Trace id.
    pub trace_id: String,
    /// The client's key, if readable.
    pub idempotency_key: Option<String>,
    /// Quantity to send, if readable.
    pub qty: Option<Amount>,
    /// Limit to send; `None` for a market order or if unreadable.
    pub price: Option<Amount>,
    /// Differences from the request.
    pub warnings: Vec<String>,
}

impl Subject {
    /// What is readable of a damaged payload. Unreadable fields are empty; the time is
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
