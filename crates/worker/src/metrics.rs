//! The names of every metric a worker emits. Names are API.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

/// Messages claimed, by queue.
pub const CLAIMED_TOTAL: &str = "consign_claimed_total";
/// Attempts recorded, by queue and outcome.
pub const ATTEMPTS_TOTAL: &str = "consign_attempts_total";
/// Attempts after which the message is due again, by queue.
pub const RETRIES_TOTAL: &str = "consign_retries_total";
/// How long deliveries took, by queue and outcome.
pub const DELIVERY_SECONDS: &str = "consign_delivery_seconds";
/// How long claims took, by queue.
pub const CLAIM_SECONDS: &str = "consign_claim_seconds";
/// How long settles took, by queue.
pub const SETTLE_SECONDS: &str = "consign_settle_seconds";
/// Messages per claim, by queue.
pub const CLAIM_MESSAGES: &str = "consign_claim_messages";
/// Deliveries under way, by queue.
pub const IN_FLIGHT: &str = "consign_in_flight";
/// Leases lost while they held something, by queue.
pub const LEASES_LOST_TOTAL: &str = "consign_leases_lost_total";
/// Results that came after their lease was lost, by queue.
pub const LATE_RESULTS_TOTAL: &str = "consign_late_results_total";
/// 0 closed, 1 half open, 2 open; by queue and sink.
pub const BREAKER_STATE: &str = "consign_breaker_state";
/// Store operations that failed, by queue.
pub const DATABASE_ERRORS_TOTAL: &str = "consign_database_errors_total";
/// From enqueue to claim, of the first message of each claim on its first attempt; a requested delay
/// is part of it. By queue.
pub const PICKUP_SECONDS: &str = "consign_pickup_seconds";

/// Describes each metric to the recorder. Call once after installing it.
pub fn describe() {
    describe_counter!(CLAIMED_TOTAL, Unit::Count, "Messages claimed.");
    describe_counter!(
        ATTEMPTS_TOTAL,
        Unit::Count,
        "Attempts recorded, by outcome."
    );
    describe_counter!(
        RETRIES_TOTAL,
        Unit::Count,
        "Attempts after which the message is due again."
    );
    describe_histogram!(DELIVERY_SECONDS, Unit::Seconds, "How long deliveries took.");
    describe_histogram!(CLAIM_SECONDS, Unit::Seconds, "How long claims took.");
    describe_histogram!(SETTLE_SECONDS, Unit::Seconds, "How long settles took.");
    describe_histogram!(CLAIM_MESSAGES, Unit::Count, "Messages per claim.");
    describe_gauge!(IN_FLIGHT, Unit::Count, "Deliveries under way.");
    describe_counter!(
        LEASES_LOST_TOTAL,
        Unit::Count,
        "Leases lost while they still held messages."
    );
    describe_counter!(
        LATE_RESULTS_TOTAL,
        Unit::Count,
        "Results that came after their lease was lost, kept as evidence."
    );
    describe_gauge!(
        BREAKER_STATE,
        Unit::Count,
        "Circuit breaker of the sink: 0 closed, 1 half open, 2 open."
    );
    describe_counter!(
        DATABASE_ERRORS_TOTAL,
        Unit::Count,
        "Store operations that failed."
    );
    describe_histogram!(
        PICKUP_SECONDS,
        Unit::Seconds,
        "From enqueue to claim, of the oldest message of each claim on its first attempt."
    );
}
