//! The metric handles of one lane, looked up once.

use consign_kernel::{LaneName, Outcome};
use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use crate::metrics as names;

/// Every metric of a lane.
#[derive(Debug)]
pub(crate) struct Meters {
    pub(crate) claimed: Counter,
    pub(crate) claim_seconds: Histogram,
    pub(crate) claim_messages: Histogram,
    pub(crate) settle_seconds: Histogram,
    pub(crate) in_flight: Gauge,
    pub(crate) retries: Counter,
    pub(crate) leases_lost: Counter,
    pub(crate) late_results: Counter,
    pub(crate) breaker_state: Gauge,
    pub(crate) database_errors: Counter,
    pub(crate) pickup_seconds: Histogram,
    attempts: ByOutcome<Counter>,
    delivery_seconds: ByOutcome<Histogram>,
}

#[derive(Debug)]
struct ByOutcome<T> {
    delivered: T,
    retry: T,
    dead: T,
    uncertain: T,
}

impl<T> ByOutcome<T> {
    fn new(make: impl Fn(&'static str) -> T) -> Self {
        Self {
            delivered: make("delivered"),
            retry: make("retry"),
            dead: make("dead"),
            uncertain: make("uncertain"),
        }
    }

    fn of(&self, outcome: Outcome) -> &T {
        match outcome {
            Outcome::Delivered => &self.delivered,
            Outcome::Retry => &self.retry,
            Outcome::Dead => &self.dead,
            Outcome::Uncertain => &self.uncertain,
        }
    }
}

impl Meters {
    pub(crate) fn new(lane: &LaneName, sink: &'static str) -> Self {
        let lane = || lane.to_string();
        Self {
            claimed: counter!(names::CLAIMED_TOTAL, "lane" => lane()),
            claim_seconds: histogram!(names::CLAIM_SECONDS, "lane" => lane()),
            claim_messages: histogram!(names::CLAIM_MESSAGES, "lane" => lane()),
            settle_seconds: histogram!(names::SETTLE_SECONDS, "lane" => lane()),
            in_flight: gauge!(names::IN_FLIGHT, "lane" => lane()),
            retries: counter!(names::RETRIES_TOTAL, "lane" => lane()),
            leases_lost: counter!(names::LEASES_LOST_TOTAL, "lane" => lane()),
            late_results: counter!(names::LATE_RESULTS_TOTAL, "lane" => lane()),
            breaker_state: gauge!(names::BREAKER_STATE, "lane" => lane(), "sink" => sink),
            database_errors: counter!(names::DATABASE_ERRORS_TOTAL, "lane" => lane()),
            pickup_seconds: histogram!(names::PICKUP_SECONDS, "lane" => lane()),
            attempts: ByOutcome::new(
                |outcome| counter!(names::ATTEMPTS_TOTAL, "lane" => lane(), "outcome" => outcome),
            ),
            delivery_seconds: ByOutcome::new(
                |outcome| histogram!(names::DELIVERY_SECONDS, "lane" => lane(), "outcome" => outcome),
            ),
        }
    }

    pub(crate) fn attempts(&self, outcome: Outcome) -> &Counter {
        self.attempts.of(outcome)
    }

    pub(crate) fn delivery_seconds(&self, outcome: Outcome) -> &Histogram {
        self.delivery_seconds.of(outcome)
    }
}
