//! The names of every metric the payment protocol emits. Names are API.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

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

/// Tells the recorder what each metric means. Call once after installing it.
pub fn describe() {
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
