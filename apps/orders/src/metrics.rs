//! The names of every metric of the app `orders`. Names are API.
//!
//! The names of the specification with underscores for dots and seconds for milliseconds. The
//! worker counts claims, attempts and lost leases for every queue.

use std::time::Duration;

use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use crate::{Ledger, PurgeReport, Reason};

/// Order requests by outcome.
pub const ORDER_REQUESTS_TOTAL: &str = "order_requests_total";
/// Requests that used a key with another body.
pub const IDEMPOTENCY_CONFLICTS_TOTAL: &str = "idempotency_conflicts_total";
/// Request latency by phase: `validation`, `commit`, `wait`, `broker_rtt`, `total`.
pub const DO_ORDER_LATENCY_SECONDS: &str = "do_order_latency_seconds";
/// Calls rejected by the rate limit.
pub const RATE_LIMITED_TOTAL: &str = "rate_limited_total";
/// Calls rejected by the daily quota.
pub const QUOTA_EXCEEDED_TOTAL: &str = "quota_exceeded_total";
/// Broker calls by adapter and outcome.
pub const BROKER_REQUESTS_TOTAL: &str = "broker_requests_total";
/// Broker latency by adapter.
pub const BROKER_LATENCY_SECONDS: &str = "broker_latency_seconds";
/// Status queries to a broker by adapter and result.
pub const BROKER_QUERIES_TOTAL: &str = "broker_queries_total";
/// Share of the last calls that timed out or found the broker unreachable, by adapter.
pub const BROKER_FAIL_RATIO: &str = "broker_fail_ratio";
/// Results of orders sent within their request that could not be recorded, by status.
pub const ORDER_RESULTS_DROPPED_TOTAL: &str = "order_results_dropped_total";
/// Worker latency by phase: ledger check (`verify`) and send (`send`).
pub const OUTBOX_LATENCY_SECONDS: &str = "outbox_latency_seconds";
/// Orders that ended without a send, by code.
pub const OUTBOX_UNSENT_TOTAL: &str = "outbox_unsent_total";
/// Ledger rows by status.
pub const IDEMPO_LEDGER_ROWS: &str = "idempo_ledger_rows";
/// Ledger rows written by requests of this process, by status.
pub const IDEMPO_LEDGER_WRITES_TOTAL: &str = "idempo_ledger_writes_total";
/// Purged ledger rows by status.
pub const IDEMPO_LEDGER_PURGED_TOTAL: &str = "idempo_ledger_purged_total";
/// The server's metric of the same name: accepted orders are enqueued messages too.
const ENQUEUED_TOTAL: &str = "consign_enqueued_total";

/// Describes each metric and starts every counter at 0: without it the first increment is invisible
/// to `rate()`. Call once after installing the recorder.
pub fn describe() {
    start();
    let counters = [
        (ORDER_REQUESTS_TOTAL, "Order requests by outcome."),
        (
            IDEMPOTENCY_CONFLICTS_TOTAL,
            "Requests that used a key with another body.",
        ),
        (RATE_LIMITED_TOTAL, "Calls rejected by the rate limit."),
        (QUOTA_EXCEEDED_TOTAL, "Calls rejected by the daily quota."),
        (BROKER_REQUESTS_TOTAL, "Broker calls."),
        (
            BROKER_QUERIES_TOTAL,
            "Status queries to a broker about an earlier send.",
        ),
        (
            ORDER_RESULTS_DROPPED_TOTAL,
            "Results of orders sent within their request that could not be recorded.",
        ),
        (OUTBOX_UNSENT_TOTAL, "Orders that ended without a send."),
        (
            IDEMPO_LEDGER_WRITES_TOTAL,
            "Ledger rows written by requests.",
        ),
        (IDEMPO_LEDGER_PURGED_TOTAL, "Purged ledger rows."),
    ];
    for (name, meaning) in counters {
        describe_counter!(name, Unit::Count, meaning);
    }
    let histograms = [
        (
            DO_ORDER_LATENCY_SECONDS,
            "Latency of order requests by phase.",
        ),
        (BROKER_LATENCY_SECONDS, "Broker latency."),
        (OUTBOX_LATENCY_SECONDS, "Worker latency per order by phase."),
    ];
    for (name, meaning) in histograms {
        describe_histogram!(name, Unit::Seconds, meaning);
    }
    describe_gauge!(
        BROKER_FAIL_RATIO,
        Unit::Count,
        "Share of the last calls that timed out or found the broker unreachable."
    );
    describe_gauge!(IDEMPO_LEDGER_ROWS, Unit::Count, "Ledger rows.");
}

/// Labels of counters and the values they have.
const STARTED: &[(&str, &str, &[&str])] = &[
    (
        ORDER_REQUESTS_TOTAL,
        "outcome",
        &[
            "accepted",
            "succeeded",
            "failed",
            "replayed",
            "conflict",
            "validation",
            "rate_limited",
            "unavailable",
        ],
    ),
    (
        ORDER_RESULTS_DROPPED_TOTAL,
        "status",
        &["succeeded", "failed"],
    ),
    (
        OUTBOX_UNSENT_TOTAL,
        "code",
        &[
            crate::codes::LEDGER_SYNCED,
            Reason::IdempotencyConflict.as_str(),
            Reason::LedgerMissing.as_str(),
            Reason::OrderExpired.as_str(),
            Reason::ValidationError.as_str(),
        ],
    ),
    (
        IDEMPO_LEDGER_WRITES_TOTAL,
        "status",
        &["accepted", "succeeded", "failed"],
    ),
    (
        IDEMPO_LEDGER_PURGED_TOTAL,
        "status",
        &["succeeded", "failed"],
    ),
    (ENQUEUED_TOTAL, "queue", &[crate::QUEUE]),
];

fn start() {
    for (name, label, values) in STARTED {
        for value in *values {
            counter!(*name, *label => *value).increment(0);
        }
    }
    for name in [
        IDEMPOTENCY_CONFLICTS_TOTAL,
        RATE_LIMITED_TOTAL,
        QUOTA_EXCEEDED_TOTAL,
    ] {
        counter!(name).increment(0);
    }
}

/// Starts the counters of an adapter at 0.
pub(crate) fn start_adapter(adapter: &'static str) {
    for outcome in [
        "ok",
        "timeout",
        "down",
        "rejected",
        "rate_limited",
        "internal",
    ] {
        counter!(BROKER_REQUESTS_TOTAL, "adapter" => adapter, "outcome" => outcome).increment(0);
    }
    for answer in ["executed", "not_executed", "unknown"] {
        counter!(BROKER_QUERIES_TOTAL, "adapter" => adapter, "answer" => answer).increment(0);
    }
}

/// Outcome of a request: few label values, independent of the codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Accepted,
    Succeeded,
    Failed,
    Replayed,
    Conflict,
    Validation,
    RateLimited,
    Unavailable,
}

impl Outcome {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Replayed => "replayed",
            Self::Conflict => "conflict",
            Self::Validation => "validation",
            Self::RateLimited => "rate_limited",
            Self::Unavailable => "unavailable",
        }
    }
}

pub(crate) fn requested(outcome: Outcome, took: Duration) {
    counter!(ORDER_REQUESTS_TOTAL, "outcome" => outcome.as_str()).increment(1);
    if outcome == Outcome::Conflict {
        counter!(IDEMPOTENCY_CONFLICTS_TOTAL).increment(1);
    }
    order_phase("total", took);
}

pub(crate) fn order_phase(phase: &'static str, took: Duration) {
    histogram!(DO_ORDER_LATENCY_SECONDS, "phase" => phase).record(took.as_secs_f64());
}

pub(crate) fn outbox_phase(phase: &'static str, took: Duration) {
    histogram!(OUTBOX_LATENCY_SECONDS, "phase" => phase).record(took.as_secs_f64());
}

pub(crate) fn rate_limited() {
    counter!(RATE_LIMITED_TOTAL).increment(1);
}

pub(crate) fn quota_exceeded() {
    counter!(QUOTA_EXCEEDED_TOTAL).increment(1);
}

/// A row was written; `is_enqueued` if a message was enqueued with it.
pub(crate) fn written(status: &'static str, is_enqueued: bool) {
    counter!(IDEMPO_LEDGER_WRITES_TOTAL, "status" => status).increment(1);
    if is_enqueued {
        counter!(ENQUEUED_TOTAL, "queue" => crate::QUEUE).increment(1);
    }
}

pub(crate) fn broker_called(adapter: &'static str, failure: Option<Reason>, took: Duration) {
    let outcome = failure.map_or("ok", Reason::broker_outcome);
    counter!(BROKER_REQUESTS_TOTAL, "adapter" => adapter, "outcome" => outcome).increment(1);
    histogram!(BROKER_LATENCY_SECONDS, "adapter" => adapter).record(took.as_secs_f64());
}

pub(crate) fn broker_fail_ratio(adapter: &'static str, ratio: f64) {
    gauge!(BROKER_FAIL_RATIO, "adapter" => adapter).set(ratio);
}

pub(crate) fn broker_queried(adapter: &'static str, answer: &'static str) {
    counter!(BROKER_QUERIES_TOTAL, "adapter" => adapter, "answer" => answer).increment(1);
}

pub(crate) fn result_dropped(status: &'static str) {
    counter!(ORDER_RESULTS_DROPPED_TOTAL, "status" => status).increment(1);
}

pub(crate) fn unsent(code: &'static str) {
    counter!(OUTBOX_UNSENT_TOTAL, "code" => code).increment(1);
}

pub(crate) fn purged(report: &PurgeReport) {
    for (status, count) in [("succeeded", report.succeeded), ("failed", report.failed)] {
        counter!(IDEMPO_LEDGER_PURGED_TOTAL, "status" => status).increment(count);
    }
}

/// Samples the ledger. Call it periodically.
pub async fn sample(ledger: &dyn Ledger) -> consign_kernel::Result<()> {
    for (status, count) in ledger.count().await? {
        gauge!(IDEMPO_LEDGER_ROWS, "status" => status).set(count as f64);
    }
    Ok(())
}
