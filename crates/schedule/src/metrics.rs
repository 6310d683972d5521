//! The names of every metric of schedules. Names are API.

use metrics::{Unit, describe_counter, describe_gauge};

/// Ticks that this process enqueued a message for, by queue.
pub const TICKS_TOTAL: &str = "consign_schedule_ticks_total";
/// Missed ticks that this process took, by queue and policy.
pub const MISSED_TOTAL: &str = "consign_schedule_missed_total";
/// Steps of schedules that failed.
pub const FAILURES_TOTAL: &str = "consign_schedule_failures_total";
/// How long the tick that waits longest has been due.
pub const OVERDUE_SECONDS: &str = "consign_schedule_overdue_seconds";

/// Describes each metric to the recorder. Call once after installing it.
pub fn describe() {
    describe_counter!(
        TICKS_TOTAL,
        Unit::Count,
        "Ticks of schedules that a message was enqueued for."
    );
    describe_counter!(
        MISSED_TOTAL,
        Unit::Count,
        "Ticks of schedules that were found more than a minute late."
    );
    describe_counter!(
        FAILURES_TOTAL,
        Unit::Count,
        "Steps of schedules that failed."
    );
    describe_gauge!(
        OVERDUE_SECONDS,
        Unit::Seconds,
        "How long the tick that waits longest has been due."
    );
}
