//! An order as the broker gets it: every value filled in, quantity and price on the grid.

use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use crate::{Amount, OrderKey, OrderRequest, RiskConstraints, Rules, Side, TimeInForce, rounding};

/// What the server adds to a request when it accepts it. None of it enters the digest.
///
/// It is kept with the order, so that every attempt sends the same, whatever the rules say by then.
#[derive(Clone, Debug, PartialEq)]
pub struct Filled {
    /// The client's name for the order, or one made up.
    pub order_id: String,
    /// What is traded.
    pub instrument: String,
    /// Buy or sell.
    pub side: Side,
    /// When the client says it asked, but not later than when the order came in.
    pub requested_at: Timestamp,
    /// The client's trace, or one made up.
    pub trace_id: String,
    /// How much, rounded.
    pub qty: Amount,
    /// The limit, rounded; none: at the market.
    pub price: Option<Amount>,
    /// The widest spread: the client's, or the default.
    pub max_spread: Option<Amount>,
    /// In what the order differs from what was asked, for the client. It is kept because the grid
    /// may be another by the time the client is told.
    pub warnings: Vec<String>,
}

impl Filled {
    /// Fills in what a request leaves open. `now` and `id` come from outside: the same arguments
    /// give the same order.
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
            // A client's clock may be ahead; nothing was asked for before it came in.
            requested_at: request.requested_at.map_or(now, |at| at.min(now)),
            trace_id: request.trace_id.clone().unwrap_or_else(|| made_up("trace")),
            qty,
            price,
            max_spread: asked_spread.or(rules.max_spread),
            warnings: differences(request, qty, price),
        }
    }
}

/// What a client should know before it relies on what it asked for.
fn differences(request: &OrderRequest, qty: Amount, price: Option<Amount>) -> Vec<String> {
    let mut told = Vec::new();
    if qty != request.qty {
        told.push(format!(
            "qty {} is sent as {qty}: quantities are rounded down to the instrument's step",
            request.qty
        ));
    }
    if let (Some(asked), Some(sent)) = (request.price, price)
        && asked != sent
    {
        told.push(format!(
            "price {asked} is sent as {sent}: limits are rounded to the instrument's tick, down \
             to buy and up to sell"
        ));
    }
    told
}

/// An order on its way to a broker. As JSON it is an OrderRequest v1.1 with every field present.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Order {
    /// The client's name for the order, or one made up.
    pub order_id: String,
    /// What to trade.
    pub instrument: String,
    /// Buy or sell.
    pub side: Side,
    /// How much.
    pub qty: Amount,
    /// The limit; none: at the market.
    pub price: Option<Amount>,
    /// How long it stands.
    pub time_in_force: TimeInForce,
    /// The client's own words for it.
    pub tags: Vec<String>,
    /// What the client is willing to risk.
    pub risk_constraints: RiskConstraints,
    /// The trace.
    pub trace_id: String,
    /// The client's key. What the broker knows the order by is
    /// [`Outgoing::key`](crate::Outgoing::key): two clients may have the same.
    pub idempotency_key: OrderKey,
    /// When it was asked for.
    pub requested_at: Timestamp,
    /// In what it differs from what was asked: for the client, not for the broker.
    #[serde(skip)]
    pub warnings: Vec<String>,
}

impl Order {
    /// The order a request became.
    pub fn new(request: OrderRequest, filled: Filled) -> Self {
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

    /// As JSON text: amounts exact.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("invariant: an order is text and numbers")
    }
}
