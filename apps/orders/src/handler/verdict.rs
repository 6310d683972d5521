//! From what happened to what is recorded.

use consign_kernel::Outcome;
use consign_worker::{About, Verdict};
use serde_json::{Value, json};

use crate::{BrokerFailure, Ended, ExecResult, LedgerEntry, Reason, Subject, dispatch::Dispatcher};

/// Codes of attempts that are no reasons for a failure.
pub mod codes {
    /// The broker executed the order and said so.
    pub const EXECUTED: &str = "EXECUTED";
    /// The broker was asked and had executed the order.
    pub const PROBED: &str = "PROBED";
    /// The ledger knew how the order had ended; nothing was sent.
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

/// The ledger says that the order was executed.
pub(super) fn synced(entry: &LedgerEntry) -> Verdict {
    let ended = entry.response.as_ref().map(|response| Ended {
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

/// The broker failed, or did not want the order. `failure` is masked already.
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

/// The order ends without having been sent.
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

/// The breaker counts what says that the broker is not there.
fn about(reason: Reason) -> About {
    match reason {
        Reason::BrokerTimeout | Reason::BrokerDown => About::Sink,
        Reason::RateLimited => About::Pace,
        _ => About::Message,
    }
}

fn remembered(ended: &Ended) -> Value {
    json!(ended)
}
