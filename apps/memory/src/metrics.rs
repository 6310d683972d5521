//! The names of every metric the memory protocol emits. Names are API.

use consign_kernel::AttemptOutcome;
use consign_worker::Verdict;
use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, histogram};
use tokio::time::Instant;

/// Calls of tools, by tool and whether they went well.
pub const CALLS_TOTAL: &str = "consign_memory_calls_total";
/// Memories handed in, by what was answered: allow, redirect, deferred, reject, error.
pub const STORES_TOTAL: &str = "consign_memory_stores_total";
/// How long `memory_store` took, by answer.
pub const STORE_SECONDS: &str = "consign_memory_store_seconds";
/// Searches, by who answered: backend, fallback, nobody.
pub const QUERIES_TOTAL: &str = "consign_memory_queries_total";
/// How long the memory server took, by kind, operation and whether it went well.
pub const BACKEND_SECONDS: &str = "consign_memory_backend_seconds";
/// Deliveries from the outbox, by outcome and code.
pub const FLUSHES_TOTAL: &str = "consign_memory_flushes_total";
/// What did not fit together when the outbox was compared with its audits, by issue.
pub const RECONCILED_TOTAL: &str = "consign_memory_reconciled_total";
/// Rows of the outbox, by status.
pub const OUTBOX: &str = "consign_memory_outbox";
/// Audits that are still pending.
pub const PENDING_AUDITS: &str = "consign_memory_pending_audits";

/// Changes of repositories that became memories, by repository and outcome: stored, redirected,
/// deferred, deduplicated, stopped.
pub const CARDS_TOTAL: &str = "consign_scm_cards_total";

/// Tells the recorder what each metric means, and has the counters that alerts watch begin at 0: of
/// one that appears with its first event, nobody sees that it rose. Call once after installing it.
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
    describe_counter!(CALLS_TOTAL, count, "Calls of tools, by tool and outcome.");
    describe_counter!(STORES_TOTAL, count, "Memories handed in, by answer.");
    describe_histogram!(STORE_SECONDS, Unit::Seconds, "How long memory_store took.");
    describe_counter!(QUERIES_TOTAL, count, "Searches, by who answered.");
    describe_histogram!(
        BACKEND_SECONDS,
        Unit::Seconds,
        "How long the memory server took."
    );
    describe_counter!(FLUSHES_TOTAL, count, "Deliveries from the outbox.");
    describe_counter!(
        RECONCILED_TOTAL,
        count,
        "What did not fit together, by issue."
    );
    describe_counter!(CARDS_TOTAL, count, "Changes that became memories.");
    describe_gauge!(OUTBOX, count, "Rows of the outbox, by status.");
    describe_gauge!(PENDING_AUDITS, count, "Audits that are still pending.");
}

/// A call of the memory server has ended.
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

/// A delivery from the outbox has ended.
pub(crate) fn flushed(verdict: &Verdict) {
    let outcome = AttemptOutcome::from(verdict.outcome).as_str();
    let code = verdict.code.clone().unwrap_or_else(|| "stored".to_owned());
    counter!(FLUSHES_TOTAL, "outcome" => outcome, "code" => code).increment(1);
}

/// A change of a repository was made a memory, or could not be.
pub(crate) fn consumed(repo_id: i64, outcome: &'static str) {
    counter!(CARDS_TOTAL, "repo" => repo_id.to_string(), "outcome" => outcome).increment(1);
}

/// A search was answered, by whom.
pub(crate) fn queried(by: &'static str) {
    counter!(QUERIES_TOTAL, "by" => by).increment(1);
}

/// A memory that was handed in was answered.
pub(crate) fn stored(action: &'static str, since: Instant) {
    counter!(STORES_TOTAL, "action" => action).increment(1);
    let seconds = histogram!(STORE_SECONDS, "action" => action);
    seconds.record(since.elapsed().as_secs_f64());
}
