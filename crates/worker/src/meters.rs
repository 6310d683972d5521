//! The metric handles of one queue, looked up once.

use consign_kernel::{Outcome, QueueName};
use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use crate::metrics as names;

/// Every metric of a queue.
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
    pub(crate) fn new(queue: &QueueName, sink: &'static str) -> Self {
        let queue = || queue.to_string();
        Self {
            claimed: counter!(names::CLAIMED_TOTAL, "queue" => queue()),
            claim_seconds: histogram!(names::CLAIM_SECONDS, "queue" => queue()),
            claim_messages: histogram!(names::CLAIM_MESSAGES, "queue" => queue()),
            settle_seconds: histogram!(names::SETTLE_SECONDS, "queue" => queue()),
            in_flight: gauge!(names::IN_FLIGHT, "queue" => queue()),
            retries: counter!(names::RETRIES_TOTAL, "queue" => queue()),
            leases_lost: counter!(names::LEASES_LOST_TOTAL, "queue" => queue()),
            late_results: counter!(names::LATE_RESULTS_TOTAL, "queue" => queue()),
            breaker_state: gauge!(names::BREAKER_STATE, "queue" => queue(), "sink" => sink),
            database_errors: counter!(names::DATABASE_ERRORS_TOTAL, "queue" => queue()),
            pickup_seconds: histogram!(names::PICKUP_SECONDS, "queue" => queue()),
            attempts: ByOutcome::new(
                |outcome| counter!(names::ATTEMPTS_TOTAL, "queue" => queue(), "outcome" => outcome),
            ),
            delivery_seconds: ByOutcome::new(
                |outcome| histogram!(names::DELIVERY_SECONDS, "queue" => queue(), "outcome" => outcome),
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
