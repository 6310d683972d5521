//! The metrics of the process: the recorder, and the names of what the binary itself measures.
//! Names are API.

use metrics::{Unit, describe_counter, describe_gauge};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use crate::failure::{Exit, Failure};

/// Messages by queue and state; those delivered are not counted.
pub(crate) const MESSAGES: &str = "consign_messages";
/// How many queues there are.
pub(crate) const QUEUES: &str = "consign_queues";
/// How long the oldest due message has been waiting, by queue.
pub(crate) const OLDEST_READY_AGE_SECONDS: &str = "consign_oldest_ready_age_seconds";
/// Whether the database answered the last time it was asked.
pub(crate) const DATABASE_UP: &str = "consign_database_up";
/// Messages that are neither delivered nor dead, by queue; a name of the seeds.
pub(crate) const OUTBOX_PENDING_COUNT: &str = "outbox_pending_count";
/// Orders taken over from a worker whose lease ran out; by queue.
pub(crate) const OUTBOX_LOCK_LEASE_EXPIRED_TOTAL: &str = "outbox_lock_lease_expired_total";

/// From a fast database to a delivery that takes its whole timeout.
const SECONDS: &[f64] = &[
    0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0,
];
const MESSAGES_PER_CLAIM: &[f64] = &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0];

/// Makes this process's metrics go to `/metrics`.
pub(crate) fn install() -> Result<PrometheusHandle, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        let message = format!("metrics cannot be recorded: {error}");
        Failure::new(Exit::Wrong, "metrics", message)
    };
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), SECONDS)
        .and_then(|builder| {
            let messages = Matcher::Full(consign_worker::metrics::CLAIM_MESSAGES.into());
            builder.set_buckets_for_metric(messages, MESSAGES_PER_CLAIM)
        })
        .and_then(PrometheusBuilder::install_recorder)
        .map_err(|error| failed(&error))?;
    describe();
    consign_worker::metrics::describe();
    consign_server::metrics::describe();
    consign_orders::metrics::describe();
    consign_payments::metrics::describe();
    consign_memory::metrics::describe();
    crate::service::scm_metrics::describe();
    Ok(handle)
}

fn describe() {
    describe_gauge!(QUEUES, Unit::Count, "How many queues there are.");
    describe_gauge!(
        MESSAGES,
        Unit::Count,
        "Messages by state; those delivered are not counted."
    );
    describe_gauge!(
        OLDEST_READY_AGE_SECONDS,
        Unit::Seconds,
        "How long the oldest due message has been waiting."
    );
    describe_gauge!(
        DATABASE_UP,
        Unit::Count,
        "Whether the database answered when it was last asked: 1 or 0."
    );
    describe_gauge!(
        OUTBOX_PENDING_COUNT,
        Unit::Count,
        "Messages that are neither delivered nor dead."
    );
    describe_counter!(
        OUTBOX_LOCK_LEASE_EXPIRED_TOTAL,
        Unit::Count,
        "Leases that ran out: those this process lost; of orders, those it took over from others."
    );
}
