//! Verdicts of deliveries.

use consign_kernel::Outcome;
use consign_worker::{About, Verdict};
use serde_json::{Value, json};

use crate::{
    BrokerFailure, ExecResult, FinalResult, LedgerEntry, Reason, Subject,
    sink::dispatch::Dispatcher,
};

/// Attempt codes that are not failure reasons.
pub mod codes {
    /// The broker executed the order.
    pub const EXECUTED: &str = "EXECUTED";
    /// A status query showed that the broker had executed the order.
    pub const PROBED: &str = "PROBED";
    /// The ledger had the result already; nothing was sent.
    pub const LEDGER_SYNCED: &str = "LEDGER_SYNCED";
}

/// The order was executed.
pub(super) fn executed(result: &ExecResult, code: &str) -> Verdict {
    Verdict {
        code: Some(code.to_owned()),
        result: Some(remembered(&result.ended())),
        ..Verdict::delivered()
    }
}

/// The ledger has the order as executed.
pub(super) fn synced(entry: &LedgerEntry) -> Verdict {
    let ended = entry.response.as_ref().map(|response| FinalResult {
        http_status: entry.http_status,
        result_digest: entry.result_digest.clone().unwrap_or_default(),
        exec_result: response.clone(),
    });
    Verdict {
        code: Some(codes::LEDGER_SYNCED.to_owned()),
        result: ended.as_ref().map(remembered),
        ..Verdict::delivered()
    }
}

/// The broker failed or rejected the order. `failure` is masked already.
pub(super) fn failed(
    dispatcher: &Dispatcher,
    subject: Subject,
    failure: &BrokerFailure,
) -> Verdict {
    let (reason, message) = (failure.reason, &failure.message);
    let result = dispatcher.remembered(subject, failure);
    Verdict::failed(outcome(failure), about(reason), reason.as_str(), message)
        .with_result(remembered(&result.ended()))
        .with_retry_in(failure.retry_in)
}

/// The order ends without a send.
pub(super) fn ended(
    dispatcher: &Dispatcher,
    subject: Subject,
    reason: Reason,
    why: &str,
) -> Verdict {
    let key = subject.idempotency_key.clone().unwrap_or_default();
    let why = dispatcher.mask(why, &key);
    let result = dispatcher.failed(subject, reason, &why);
    Verdict::failed(Outcome::Dead, About::Message, reason.as_str(), why)
        .with_result(remembered(&result.ended()))
}

fn outcome(failure: &BrokerFailure) -> Outcome {
    match failure {
        failure if failure.is_uncertain => Outcome::Uncertain,
        failure if !failure.reason.is_retried() => Outcome::Dead,
        _ => Outcome::Retry,
    }
}

/// The circuit breaker counts failures that mean an unreachable broker.
fn about(reason: Reason) -> About {
    match reason {
        Reason::BrokerTimeout | Reason::BrokerDown => About::Sink,
        Reason::RateLimited => About::Pace,
        _ => About::Message,
    }
}

fn remembered(ended: &FinalResult) -> Value {
    json!(ended)
}
