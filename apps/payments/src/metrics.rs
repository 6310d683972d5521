//! The names of every metric of the app `payments`. Names are API.

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram};

/// Payment requests over HTTP by answer.
pub const INGRESS_TOTAL: &str = "consign_payments_ingress_total";
/// Dispatches by kind of rail and outcome.
pub const DISPATCHES_TOTAL: &str = "consign_payments_dispatches_total";
/// Latency of rails by kind.
pub const RAIL_SECONDS: &str = "consign_payments_rail_seconds";
/// Events that need an operator, by kind.
pub const ALARMS_TOTAL: &str = "consign_payments_alarms_total";
/// Payments to compare with the rail's records, by kind.
pub const UNRECONCILED: &str = "consign_payments_unreconciled";

/// Describes each metric and starts every counter at 0: without it the first increment is invisible
/// to `rate()`. Call once after installing the recorder.
pub fn describe() {
    counter!(ALARMS_TOTAL, "kind" => "missing_reference").increment(0);
    for answer in ["accepted", "replayed", "conflict", "refused", "failed"] {
        counter!(INGRESS_TOTAL, "answer" => answer).increment(0);
    }
    describe_counter!(
        INGRESS_TOTAL,
        Unit::Count,
        "Payment requests over HTTP by answer."
    );
    describe_counter!(
        DISPATCHES_TOTAL,
        Unit::Count,
        "Dispatches by kind of rail and outcome."
    );
    describe_histogram!(RAIL_SECONDS, Unit::Seconds, "Latency of rails.");
    describe_counter!(
        ALARMS_TOTAL,
        Unit::Count,
        "Events that need an operator: successes without a reference."
    );
    describe_gauge!(
        UNRECONCILED,
        Unit::Count,
        "Payments to compare with the rail's records, by kind."
    );
}

/// Starts the counters of a kind of rail at 0.
pub(crate) fn start_rail(rail: &'static str) {
    for outcome in ["delivered", "retry", "dead", "uncertain"] {
        counter!(DISPATCHES_TOTAL, "rail" => rail, "outcome" => outcome).increment(0);
    }
}
