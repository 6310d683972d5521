//! The names of every metric of the maintenance. Names are API.

use metrics::{Unit, describe_counter};

/// Messages that left the database.
pub const DEPARTED_TOTAL: &str = "consign_departed_total";
/// Steps that the store refused, by reason.
pub const REFUSALS_TOTAL: &str = "consign_retention_refusals_total";
/// Passes that failed.
pub const FAILURES_TOTAL: &str = "consign_retention_failures_total";

/// Describes each metric to the recorder. Call once after installing it.
pub fn describe() {
    describe_counter!(
        DEPARTED_TOTAL,
        Unit::Count,
        "Messages that left the database."
    );
    describe_counter!(
        REFUSALS_TOTAL,
        Unit::Count,
        "Steps of the maintenance that were refused, by reason."
    );
    describe_counter!(
        FAILURES_TOTAL,
        Unit::Count,
        "Passes of the maintenance that failed."
    );
}
