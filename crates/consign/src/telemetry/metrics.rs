//! The metrics of the process: the recorder, and the names of what the binary itself measures.
//! Names are API.

use metrics::{Unit, describe_counter, describe_gauge};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use consign_app::Registry;

use crate::failure::{Exit, Failure};

/// Messages by queue and state; those delivered are not counted.
pub(crate) const MESSAGES: &str = "consign_messages";
/// How many queues there are.
pub(crate) const QUEUES: &str = "consign_queues";
/// How long the oldest due message has been waiting, by queue.
pub(crate) const OLDEST_READY_AGE_SECONDS: &str = "consign_oldest_ready_age_seconds";
/// Whether the database answered the last query.
pub(crate) const DATABASE_UP: &str = "consign_database_up";
/// Messages that are neither delivered nor dead, by queue; a name of the seeds.
pub(crate) const OUTBOX_PENDING_COUNT: &str = "outbox_pending_count";

/// How large the database is.
pub(crate) const DATABASE_BYTES: &str = "consign_database_bytes";
/// Messages, attempts and late results with their indexes.
pub(crate) const HISTORY_BYTES: &str = "consign_history_bytes";
/// By how much the database grows in a day.
pub(crate) const DATABASE_GROWTH_BYTES_PER_DAY: &str = "consign_database_growth_bytes_per_day";
/// How much the database may grow until its bound or the disk of its file is reached.
pub(crate) const DATABASE_ROOM_BYTES: &str = "consign_database_room_bytes";
/// Messages in the database, delivered ones included.
pub(crate) const HISTORY_MESSAGES: &str = "consign_history_messages";
/// Age of the oldest message in the database.
pub(crate) const HISTORY_OLDEST_AGE_SECONDS: &str = "consign_history_oldest_age_seconds";
/// Messages enqueued in a day.
pub(crate) const HISTORY_MESSAGES_PER_DAY: &str = "consign_history_messages_per_day";
/// Bytes that the messages of a day take, about.
pub(crate) const HISTORY_BYTES_PER_DAY: &str = "consign_history_bytes_per_day";
/// Messages ever, by event: enqueued, delivered, dead, erased, departed.
pub(crate) const MESSAGES_TOTAL: &str = "consign_messages_total";
/// Passes of the maintenance since the last one that was done, which ended before everything had left.
pub(crate) const STUCK_PASSES: &str = "consign_retention_stuck_passes";
/// Alerts that this process enqueued, by queue and reason.
pub(crate) const ALERTS_TOTAL: &str = "consign_alerts_total";
/// Queues that the counter of alerts names, at most.
pub(crate) const QUEUES_NAMED_MAX: usize = 1_000;

/// From a fast database to a delivery that takes its whole timeout.
const SECONDS: &[f64] = &[
    0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0,
];
const MESSAGES_PER_CLAIM: &[f64] = &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0];

/// Makes this process's metrics go to `/metrics`.
pub(crate) fn install(registry: &Registry) -> Result<PrometheusHandle, Failure> {
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
    consign_retention::metrics::describe();
    consign_schedule::metrics::describe();
    consign_server::metrics::describe();
    for app in registry.apps {
        app.describe_metrics();
    }
    Ok(handle)
}

/// Leaves the kind of `outbox_pending_count` open: `_count` is the suffix of histograms and summaries, so
/// `promtool check metrics` rejects a gauge of this name.
pub(crate) fn with_untyped(text: String) -> String {
    let gauge = format!("# TYPE {OUTBOX_PENDING_COUNT} gauge\n");
    text.replacen(
        &gauge,
        &format!("# TYPE {OUTBOX_PENDING_COUNT} untyped\n"),
        1,
    )
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
        "Whether the database answered the last query: 1 or 0."
    );
    describe_gauge!(
        OUTBOX_PENDING_COUNT,
        Unit::Count,
        "Messages that are neither delivered nor dead."
    );
    describe_counter!(ALERTS_TOTAL, Unit::Count, "Alerts enqueued, by reason.");
    describe_growth();
}

fn describe_growth() {
    describe_gauge!(DATABASE_BYTES, Unit::Bytes, "How large the database is.");
    describe_gauge!(
        HISTORY_BYTES,
        Unit::Bytes,
        "Messages, attempts and late results with their indexes."
    );
    describe_gauge!(
        DATABASE_GROWTH_BYTES_PER_DAY,
        Unit::Bytes,
        "By how much the database grows in a day."
    );
    describe_gauge!(
        DATABASE_ROOM_BYTES,
        Unit::Bytes,
        "How much the database may grow until its bound or the disk of its file is reached."
    );
    describe_gauge!(
        HISTORY_MESSAGES,
        Unit::Count,
        "Messages in the database, delivered ones included."
    );
    describe_gauge!(
        HISTORY_OLDEST_AGE_SECONDS,
        Unit::Seconds,
        "Age of the oldest message in the database."
    );
    describe_gauge!(
        HISTORY_MESSAGES_PER_DAY,
        Unit::Count,
        "Messages enqueued in a day."
    );
    describe_gauge!(
        HISTORY_BYTES_PER_DAY,
        Unit::Bytes,
        "Bytes that the messages of a day take, about."
    );
    describe_counter!(
        MESSAGES_TOTAL,
        Unit::Count,
        "Messages ever, by event: enqueued, delivered, dead, erased, departed."
    );
    describe_gauge!(
        STUCK_PASSES,
        Unit::Count,
        "Passes of the maintenance since the last one that was done, which ended before everything had left."
    );
}
