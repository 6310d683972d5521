//! What orders look like as JSON, for the OpenAPI document only: `consign_orders` writes the answers
//! itself, because stored results are repeated byte for byte.
#![expect(
    dead_code,
    clippy::large_enum_variant,
    reason = "described, never constructed"
)]

use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

/// An order to place. Unknown fields and repeated names are refused.
#[derive(Serialize, ToSchema)]
pub(crate) struct OrderRequest {
    /// What to trade: 3 to 20 of A-Z 0-9 . _ -
    instrument: String,
    side: Side,
    /// More than 0. What is not a multiple of the instrument's step is rounded down to one: see
    /// `qty_sent` and `warnings` in the answer.
    qty: f64,
    /// More than 0; none or null for an order at the market. Rounded to the instrument's tick, down
    /// to buy and up to sell: see `price_sent`.
    price: Option<f64>,
    /// IOC unless said.
    time_in_force: Option<TimeInForce>,
    /// Up to 8 of up to 32 characters.
    tags: Option<Vec<String>>,
    risk_constraints: Option<RiskConstraints>,
    /// Up to 128 characters. No part of what makes two requests the same.
    trace_id: Option<String>,
    /// 8 to 64 characters, as in the `Idempotency-Key` header.
    idempotency_key: String,
    /// The client's own name for the order.
    order_id: Option<String>,
    requested_at: Option<Timestamp>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Side {
    Buy,
    Sell,
}

/// Immediate or cancel, fill or kill, good till cancelled.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum TimeInForce {
    Ioc,
    Fok,
    Gtc,
}

/// What the client wants respected; carried to the broker.
#[derive(Serialize, ToSchema)]
pub(crate) struct RiskConstraints {
    max_dd: Option<f64>,
    max_consecutive_loss: Option<i64>,
    max_spread: Option<f64>,
}

/// Where an order stands, in the ledger's words.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OrderStatus {
    Accepted,
    Succeeded,
    Failed,
}

/// An order without a result yet, or one whose result a person recorded.
#[derive(Serialize, ToSchema)]
pub(crate) struct OrderTaken {
    status: OrderStatus,
    idempotency_key: String,
    /// The id of its message; none for orders sent within the request.
    outbox_id: Option<i64>,
    request_digest: Option<String>,
    /// Until when the key is remembered.
    expires_at: Option<Timestamp>,
    /// How much is sent to the broker.
    qty_sent: Option<f64>,
    /// The limit that is sent; null for an order at the market.
    price_sent: Option<f64>,
    /// In what that differs from what was asked.
    warnings: Option<Vec<String>>,
}

/// What came of an order.
#[derive(Serialize, ToSchema)]
pub(crate) struct ExecResult {
    status: ExecStatus,
    /// The same as `reason_code`, as other errors have it.
    error: Option<String>,
    message: Option<String>,
    order_id: String,
    idempotency_key: Option<String>,
    instrument: String,
    side: Option<Side>,
    requested_at: Timestamp,
    completed_at: Timestamp,
    trace_id: String,
    /// How much was sent to the broker; null only where a stored request could not be read.
    qty_sent: Option<f64>,
    /// The limit that was sent; null for an order at the market.
    price_sent: Option<f64>,
    /// Empty if it failed.
    fills: Vec<Fill>,
    executed_qty: f64,
    avg_price: Option<f64>,
    cost: Option<f64>,
    slippage: Option<f64>,
    broker: Broker,
    latency_ms: Latency,
    /// Why it failed.
    reason_code: Option<String>,
    /// In what was sent differs from what was asked, and what else is strange about it.
    warnings: Option<Vec<String>>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ExecStatus {
    Ok,
    Error,
}

/// One execution at one price.
#[derive(Serialize, ToSchema)]
pub(crate) struct Fill {
    px: f64,
    qty: f64,
    ts: Timestamp,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Broker {
    name: String,
    /// The broker's own name for the order.
    order_ref: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Latency {
    queue: u64,
    broker_rtt: u64,
    total: u64,
}

/// The answer to an order.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum OrderAnswer {
    Taken(OrderTaken),
    Executed(ExecResult),
}

/// All the ledger knows about a key.
#[derive(Serialize, ToSchema)]
pub(crate) struct OrderState {
    status: OrderStatus,
    idempotency_key: String,
    request_digest: String,
    result_digest: Option<String>,
    /// What a repeat of the order is answered with; 201 while it is on its way.
    http_status: u16,
    outbox_id: Option<i64>,
    /// How often the key came with another body.
    conflicts: u64,
    first_seen_at: Timestamp,
    last_seen_at: Timestamp,
    expires_at: Timestamp,
    /// Until when it may be sent.
    order_expires_at: Option<Timestamp>,
    /// How much is sent, while accepted; then `exec_result` has it.
    qty_sent: Option<f64>,
    /// The limit that is sent, likewise.
    price_sent: Option<f64>,
    /// In what that differs from what was asked, likewise.
    warnings: Option<Vec<String>>,
    exec_result: Option<ExecResult>,
}

/// What went wrong.
#[derive(Serialize, ToSchema)]
pub(crate) struct OrderError {
    /// A stable code.
    error: String,
    /// For people.
    message: String,
    idempotency_key: Option<String>,
    /// Every field that is wrong.
    fields: Option<Vec<FieldError>>,
    /// Seconds.
    retry_after: Option<u64>,
    /// `not_done`, or `unknown` if it may have happened all the same.
    outcome: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct FieldError {
    /// `qty`, `tags.3`, or `body` for the whole.
    field: String,
    problem: String,
    /// What would be right.
    accepted: String,
}

/// What went wrong: with the request, or with the order when it was sent.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum OrderFailure {
    Refused(OrderError),
    Failed(ExecResult),
    Recorded(OrderTaken),
}
