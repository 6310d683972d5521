//! The names of every metric of the app `memory`. Names are API.

use consign_kernel::AttemptOutcome;
use consign_worker::Verdict;
use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, histogram};
use tokio::time::Instant;

/// Tool calls by tool and success.
pub const CALLS_TOTAL: &str = "consign_memory_calls_total";
/// Store requests by action: allow, redirect, deferred, reject, error.
pub const STORES_TOTAL: &str = "consign_memory_stores_total";
/// Latency of `memory_store` by action.
pub const STORE_SECONDS: &str = "consign_memory_store_seconds";
/// Searches by source of the answer: backend, fallback, none.
pub const QUERIES_TOTAL: &str = "consign_memory_queries_total";
/// Latency of the memory server by kind, operation and success.
pub const BACKEND_SECONDS: &str = "consign_memory_backend_seconds";
/// Deliveries from the outbox, by outcome and code.
pub const FLUSHES_TOTAL: &str = "consign_memory_flushes_total";
/// Findings of reconciliations by issue.
pub const RECONCILED_TOTAL: &str = "consign_memory_reconciled_total";
/// Outbox rows by status.
pub const OUTBOX: &str = "consign_memory_outbox";
/// Pending audits.
pub const PENDING_AUDITS: &str = "consign_memory_pending_audits";

/// Consumed changes of repositories by repository and outcome: stored, redirected, deferred,
/// deduplicated, stopped.
pub const CARDS_TOTAL: &str = "consign_scm_cards_total";

/// Describes each metric and starts the counters of alerts at 0: without it the first increment is
/// invisible to `rate()`. Call once after installing the recorder.
pub fn describe() {
    for action in ["allow", "redirect", "deferred", "reject", "error"] {
        counter!(STORES_TOTAL, "action" => action).increment(0);
    }
    for issue in [
        "missing_audit",
        "stale_lock",
        "hanging_audit",
        "missing_outbox_row",
    ] {
        counter!(RECONCILED_TOTAL, "issue" => issue).increment(0);
    }
    let count = Unit::Count;
    describe_counter!(CALLS_TOTAL, count, "Tool calls by tool and outcome.");
    describe_counter!(STORES_TOTAL, count, "Store requests by action.");
    describe_histogram!(STORE_SECONDS, Unit::Seconds, "Latency of memory_store.");
    describe_counter!(QUERIES_TOTAL, count, "Searches by source of the answer.");
    describe_histogram!(
        BACKEND_SECONDS,
        Unit::Seconds,
        "Latency of the memory server."
    );
    describe_counter!(FLUSHES_TOTAL, count, "Deliveries from the outbox.");
    describe_counter!(
        RECONCILED_TOTAL,
        count,
        "Findings of reconciliations by issue."
    );
    describe_counter!(CARDS_TOTAL, count, "Consumed changes of repositories.");
    describe_gauge!(OUTBOX, count, "Outbox rows by status.");
    describe_gauge!(PENDING_AUDITS, count, "Pending audits.");
}

/// Records a call of the memory server.
pub(crate) fn backend_call(
    kind: &'static str,
    operation: &'static str,
    since: Instant,
    went_well: bool,
) {
    let outcome = if went_well { "ok" } else { "failed" };
    let seconds = histogram!(
        BACKEND_SECONDS, "kind" => kind, "operation" => operation, "outcome" => outcome
    );
    seconds.record(since.elapsed().as_secs_f64());
}

/// Records a delivery from the outbox.
pub(crate) fn flushed(verdict: &Verdict) {
    let outcome = AttemptOutcome::from(verdict.outcome).as_str();
    let code = verdict.code.clone().unwrap_or_else(|| "stored".to_owned());
    counter!(FLUSHES_TOTAL, "outcome" => outcome, "code" => code).increment(1);
}

/// Records a consumed change.
pub(crate) fn consumed(repo_id: i64, outcome: &'static str) {
    counter!(CARDS_TOTAL, "repo" => repo_id.to_string(), "outcome" => outcome).increment(1);
}

/// Records a search.
pub(crate) fn queried(by: &'static str) {
    counter!(QUERIES_TOTAL, "by" => by).increment(1);
}

/// Records a store request.
pub(crate) fn stored(action: &'static str, since: Instant) {
    counter!(STORES_TOTAL, "action" => action).increment(1);
    let seconds = histogram!(STORE_SECONDS, "action" => action);
    seconds.record(since.elapsed().as_secs_f64());
}
