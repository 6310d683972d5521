//! The names of every metric the payment protocol emits. Names are API.

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram};

/// Payments handed in over HTTP, by what was answered.
pub const INGRESS_TOTAL: &str = "consign_payments_ingress_total";
/// Dispatches, by kind of rail and outcome.
pub const DISPATCHES_TOTAL: &str = "consign_payments_dispatches_total";
/// How long rails took, by kind.
pub const RAIL_SECONDS: &str = "consign_payments_rail_seconds";
/// Events somebody must look at, by kind.
pub const ALARMS_TOTAL: &str = "consign_payments_alarms_total";
/// What waits to be compared with a rail's books, by kind.
pub const UNRECONCILED: &str = "consign_payments_unreconciled";

/// Tells the recorder what each metric means, and has every counter begin at 0: of one that appears
/// with its first event, nobody sees that it rose. Call once after installing it.
pub fn describe() {
    counter!(ALARMS_TOTAL, "kind" => "missing_reference").increment(0);
    for answer in ["accepted", "replayed", "conflict", "refused", "failed"] {
        counter!(INGRESS_TOTAL, "answer" => answer).increment(0);
    }
    describe_counter!(
        INGRESS_TOTAL,
        Unit::Count,
        "Payments handed in over HTTP, by answer."
    );
    describe_counter!(
        DISPATCHES_TOTAL,
        Unit::Count,
        "Dispatches, by kind of rail and outcome."
    );
    describe_histogram!(RAIL_SECONDS, Unit::Seconds, "How long rails took.");
    describe_counter!(
        ALARMS_TOTAL,
        Unit::Count,
        "Events somebody must look at: successes without a reference."
    );
    describe_gauge!(
        UNRECONCILED,
        Unit::Count,
        "What waits to be compared with a rail's books, by kind."
    );
}

/// The counters of a kind of rail begin at 0 too.
pub(crate) fn start_rail(rail: &'static str) {
    for outcome in ["delivered", "retry", "dead", "uncertain"] {
        counter!(DISPATCHES_TOTAL, "rail" => rail, "outcome" => outcome).increment(0);
    }
}
