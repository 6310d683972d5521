//! An order as it is sent: every value filled in, quantity and price on the grid.

use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use crate::{Amount, OrderKey, OrderRequest, RiskConstraints, Rules, Side, TimeInForce, rounding};

/// Values that the server adds when it accepts a request. None of them enters the digest.
///
/// They are stored with the order, so that every attempt sends the same, even after a change of
/// settings.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerFields {
    /// The client's id of the order, or a generated one.
    pub order_id: String,
    /// Instrument.
    pub instrument: String,
    /// Buy or sell.
    pub side: Side,
    /// The client's time of the request, capped at the time of acceptance.
    pub requested_at: Timestamp,
    /// The client's trace id, or a generated one.
    pub trace_id: String,
    /// Quantity, rounded.
    pub qty: Amount,
    /// Limit, rounded; `None` for a market order.
    pub price: Option<Amount>,
    /// Maximum spread: the client's, or the default.
    pub max_spread: Option<Amount>,
    /// Differences from the request, for the client. Stored, because the grid may change later.
    pub warnings: Vec<String>,
}

impl ServerFields {
    /// Fills in omitted fields. `now` and `id` are arguments: the same arguments give the same
    /// order.
    pub fn new(request: &OrderRequest, rules: &Rules, now: Timestamp, id: Uuid) -> Self {
        let grid = rules.instruments.get(&request.instrument);
        let rounded = |price| {
            grid.map_or(price, |grid| {
                rounding::round_price(price, grid.price_tick, request.side)
            })
        };
        let asked_spread = request.risk_constraints.and_then(|risk| risk.max_spread);
        let made_up = |prefix: &str| format!("{prefix}-{}", id.simple());
        let qty = grid.map_or(request.qty, |grid| {
            rounding::floor_qty(request.qty, grid.qty_step)
        });
        let price = request.price.map(rounded);
        Self {
            order_id: request.order_id.clone().unwrap_or_else(|| made_up("ord")),
            instrument: request.instrument.clone(),
            side: request.side,
            // A client's clock may be ahead; a request is never later than its arrival.
            requested_at: request.requested_at.map_or(now, |at| at.min(now)),
            trace_id: request.trace_id.clone().unwrap_or_else(|| made_up("trace")),
            qty,
            price,
            max_spread: asked_spread.or(rules.max_spread),
            warnings: differences(request, qty, price),
        }
    }
}

/// Warnings for the client where the order differs from the request.
fn differences(request: &OrderRequest, qty: Amount, price: Option<Amount>) -> Vec<String> {
    let mut warnings = Vec::new();
    if qty != request.qty {
        warnings.push(format!(
            "qty {} is sent as {qty}: quantities are rounded down to the instrument's step",
            request.qty
        ));
    }
    if let (Some(requested), Some(sent)) = (request.price, price)
        && requested != sent
    {
        warnings.push(format!(
            "price {requested} is sent as {sent}: limits are rounded to the instrument's tick, down \
             to buy and up to sell"
        ));
    }
    warnings
}

/// An order to send. As JSON it is an OrderRequest v1.1 with every field present.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Order {
    /// The client's id of the order, or a generated one.
    pub order_id: String,
    /// Instrument.
    pub instrument: String,
    /// Buy or sell.
    pub side: Side,
    /// Quantity.
    pub qty: Amount,
    /// Limit; `None` for a market order.
    pub price: Option<Amount>,
    /// Time in force.
    pub time_in_force: TimeInForce,
    /// The client's labels.
    pub tags: Vec<String>,
    /// Risk limits of the client.
    pub risk_constraints: RiskConstraints,
    /// Trace id.
    pub trace_id: String,
    /// The client's key. The key at the broker is
    /// [`OutgoingOrder::key`](crate::OutgoingOrder::key), because two clients may use the same.
    pub idempotency_key: OrderKey,
    /// When the client placed it.
    pub requested_at: Timestamp,
    /// Differences from the request: for the client, not for the broker.
    #[serde(skip)]
    pub warnings: Vec<String>,
}

impl Order {
    /// The order of a request.
    pub fn new(request: OrderRequest, filled: ServerFields) -> Self {
        Self {
            order_id: filled.order_id,
            instrument: filled.instrument,
            side: filled.side,
            qty: filled.qty,
            price: filled.price,
            time_in_force: request.time_in_force,
            tags: request.tags,
            risk_constraints: RiskConstraints {
                max_spread: filled.max_spread,
                ..request.risk_constraints.unwrap_or_default()
            },
            trace_id: filled.trace_id,
            idempotency_key: request.idempotency_key,
            requested_at: filled.requested_at,
            warnings: filled.warnings,
        }
    }

    /// As JSON text; amounts exact.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("invariant: an order is text and numbers")
    }
}
