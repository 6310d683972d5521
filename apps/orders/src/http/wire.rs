//! JSON shapes of orders, for the OpenAPI document only: the service writes the answers itself,
//! because stored results are replayed byte for byte.
#![expect(
    dead_code,
    clippy::large_enum_variant,
    reason = "described, never constructed"
)]

use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

/// An order to place. Unknown fields and repeated names are rejected.
#[derive(Serialize, ToSchema)]
pub(super) struct OrderRequest {
    /// What to trade: 3 to 20 of A-Z 0-9 . _ -
    instrument: String,
    side: Side,
    /// More than 0. Rounded down to a multiple of the instrument's step: see `qty_sent` and
    /// `warnings` in the answer.
    qty: f64,
    /// More than 0; omitted or null for a market order. Rounded to the instrument's tick, down for
    /// a buy and up for a sell: see `price_sent`.
    price: Option<f64>,
    /// Default IOC.
    time_in_force: Option<TimeInForce>,
    /// Up to 8 of up to 32 characters.
    tags: Option<Vec<String>>,
    risk_constraints: Option<RiskConstraints>,
    /// Up to 128 characters. Not part of the comparison with earlier requests.
    trace_id: Option<String>,
    /// 8 to 64 characters, as in the `Idempotency-Key` header.
    idempotency_key: String,
    /// The client's id of the order.
    order_id: Option<String>,
    requested_at: Option<Timestamp>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Side {
    Buy,
    Sell,
}

/// Immediate or cancel, fill or kill, good till cancelled.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum TimeInForce {
    Ioc,
    Fok,
    Gtc,
}

/// Risk limits of the client; forwarded to the broker.
#[derive(Serialize, ToSchema)]
pub(super) struct RiskConstraints {
    max_dd: Option<f64>,
    max_consecutive_loss: Option<i64>,
    max_spread: Option<f64>,
}

/// Status of an order in the ledger.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum OrderStatus {
    Accepted,
    Succeeded,
    Failed,
}

/// An order without a result, or one that an operator resolved without a body.
#[derive(Serialize, ToSchema)]
pub(super) struct OrderAcceptedBody {
    status: OrderStatus,
    idempotency_key: String,
    /// The id of its message; null for orders sent within the request.
    outbox_id: Option<i64>,
    request_digest: Option<String>,
    /// When the key expires.
    expires_at: Option<Timestamp>,
    /// Quantity sent to the broker.
    qty_sent: Option<f64>,
    /// Limit sent to the broker; null for a market order.
    price_sent: Option<f64>,
    /// Differences between the request and what is sent.
    warnings: Option<Vec<String>>,
}

/// Result of an order.
#[derive(Serialize, ToSchema)]
pub(super) struct ExecResult {
    status: ExecStatus,
    /// Equal to `reason_code`, as in other errors.
    error: Option<String>,
    message: Option<String>,
    order_id: String,
    idempotency_key: Option<String>,
    instrument: String,
    side: Option<Side>,
    requested_at: Timestamp,
    completed_at: Timestamp,
    trace_id: String,
    /// Quantity sent to the broker; null only where the stored request is unreadable.
    qty_sent: Option<f64>,
    /// Limit sent to the broker; null for a market order.
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
    /// Differences between the request and what was sent, and remarks on the result.
    warnings: Option<Vec<String>>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ExecStatus {
    Ok,
    Error,
}

/// One execution at one price.
#[derive(Serialize, ToSchema)]
pub(super) struct Fill {
    px: f64,
    qty: f64,
    ts: Timestamp,
}

#[derive(Serialize, ToSchema)]
pub(super) struct Broker {
    name: String,
    /// The broker's id of the order.
    order_ref: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub(super) struct Latency {
    queue: u64,
    broker_rtt: u64,
    total: u64,
}

/// What is left of the result of an order whose content was erased.
#[derive(Serialize, ToSchema)]
pub(super) struct ErasedResult {
    status: ExecStatus,
    /// Why it failed.
    error: Option<String>,
    reason_code: Option<String>,
    message: String,
    idempotency_key: String,
    /// True.
    erased: bool,
}

/// The result of an order, or what is left of it.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum StoredResult {
    Executed(ExecResult),
    Erased(ErasedResult),
}

/// The answer to an order.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum OrderAnswer {
    Taken(OrderAcceptedBody),
    Executed(ExecResult),
    Erased(ErasedResult),
}

/// The state of a key in the ledger.
#[derive(Serialize, ToSchema)]
pub(super) struct OrderState {
    status: OrderStatus,
    idempotency_key: String,
    request_digest: String,
    result_digest: Option<String>,
    /// Status of a repeated request; 201 while the order is accepted.
    http_status: u16,
    outbox_id: Option<i64>,
    /// How often the key was used with another body.
    conflicts: u64,
    first_seen_at: Timestamp,
    last_seen_at: Timestamp,
    expires_at: Timestamp,
    /// When an unsent order expires.
    order_expires_at: Option<Timestamp>,
    /// Quantity to send, while accepted; then in `exec_result`.
    qty_sent: Option<f64>,
    /// Limit to send, likewise.
    price_sent: Option<f64>,
    /// Differences between the request and what is sent, likewise.
    warnings: Option<Vec<String>>,
    exec_result: Option<StoredResult>,
}

/// An error.
#[derive(Serialize, ToSchema)]
pub(super) struct OrderError {
    /// A stable code.
    error: String,
    /// For people.
    message: String,
    idempotency_key: Option<String>,
    /// Every invalid field.
    fields: Option<Vec<FieldError>>,
    /// Seconds.
    retry_after: Option<u64>,
    /// `not_done`, or `unknown` if the change may have been applied.
    outcome: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub(super) struct FieldError {
    /// `qty`, `tags.3`, or `body` for the whole body.
    field: String,
    problem: String,
    /// Valid values.
    accepted: String,
}

/// An error of the request, or a failed order.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum OrderFailure {
    Refused(OrderError),
    Failed(ExecResult),
    Erased(ErasedResult),
    Recorded(OrderAcceptedBody),
}
