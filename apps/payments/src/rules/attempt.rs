//! Attempts of a payment in the terms of the protocol.

use consign_kernel::{Attempt, AttemptOutcome, codes};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    OutboxId,
    privacy::{SHOWN_CHARS_MAX, cut, shown_code},
};

/// The `error_code` of a payment that used up its attempts. The last error stays in
/// `error_message`.
pub const RETRY_CEILING_EXCEEDED: &str = "RETRY_CEILING_EXCEEDED";
/// The `error_code` of a lease that expired without a result.
pub const ZOMBIE_REQUEUE: &str = "ZOMBIE_REQUEUE";
/// The `error_code` of a success without a reference: held, never resent automatically.
pub const MISSING_RAIL_REFERENCE: &str = "MISSING_RAIL_REFERENCE";
/// Field of an `expired` attempt's `result`, `true` where the lease's worker may have called the
/// rail without reporting it.
pub const MAY_HAVE_BEGUN: &str = codes::MAY_HAVE_BEGUN;

/// Whether an attempt's `result` has [`MAY_HAVE_BEGUN`].
pub fn may_have_begun(result: Option<&Value>) -> bool {
    let word = result.and_then(|result| result.get(MAY_HAVE_BEGUN));
    word == Some(&Value::Bool(true))
}

/// Maximum length of a reference in bytes. A longer one is rejected in a worker's report and cut in
/// a rail's answer.
pub const REFERENCE_BYTES_MAX: usize = 256;

/// Result of one attempt. It never changes, whatever happens to the payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum AttemptState {
    /// The rail accepted it.
    Dispatched,
    /// It will be retried.
    Retryable,
    /// The last attempt failed.
    Failed,
    /// Its lease expired without a result.
    ZombieRequeue,
}

impl AttemptState {
    /// Every state.
    pub const ALL: [Self; 4] = [
        Self::Dispatched,
        Self::Retryable,
        Self::Failed,
        Self::ZombieRequeue,
    ];

    /// The value in SQL and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dispatched => "DISPATCHED",
            Self::Retryable => "RETRYABLE",
            Self::Failed => "FAILED",
            Self::ZombieRequeue => "ZOMBIE_REQUEUE",
        }
    }

    /// The state for an attempt of the kernel.
    ///
    /// Derived from the attempt alone, because attempts never change: a retry has `next_due_at`, a
    /// final failure has none. A payment in doubt never fails: on its last try, or without a
    /// reference, it is held.
    pub fn of(
        outcome: AttemptOutcome,
        code: Option<&str>,
        next_due_at: Option<Timestamp>,
    ) -> AttemptState {
        match outcome {
            AttemptOutcome::Delivered => Self::Dispatched,
            AttemptOutcome::Dead => Self::Failed,
            AttemptOutcome::Uncertain if code == Some(codes::LEASE_EXPIRED) => Self::ZombieRequeue,
            AttemptOutcome::Uncertain => Self::Retryable,
            _ if next_due_at.is_none() => Self::Failed,
            AttemptOutcome::Expired => Self::ZombieRequeue,
            AttemptOutcome::Retry => Self::Retryable,
        }
    }
}

/// A rail's answer to a dispatch: the `result` of an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RailResult {
    /// The rail's reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rail_reference: Option<String>,
    /// The rail's own code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rail_code: Option<String>,
    /// Latency of the rail, by a monotonic clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<u64>,
}

impl RailResult {
    /// As the attempt's `result`; `None` if empty. A blank reference counts as none.
    pub fn into_value(self) -> Option<Value> {
        let mut map = Map::new();
        let given = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
        if let Some(reference) = given(self.rail_reference) {
            let end = reference.floor_char_boundary(REFERENCE_BYTES_MAX);
            map.insert("rail_reference".to_owned(), reference[..end].into());
        }
        if let Some(code) = given(self.rail_code) {
            map.insert("rail_code".to_owned(), shown_code(&code).into());
        }
        if let Some(latency_ms) = self.latency_ms {
            map.insert("latency_ms".to_owned(), latency_ms.into());
        }
        (!map.is_empty()).then_some(Value::Object(map))
    }

    /// Parses an attempt's `result`; fields of other writers are ignored.
    pub fn from_value(value: Option<&Value>) -> Self {
        let text = |name: &str| {
            let text = value?.get(name)?.as_str()?;
            Some(text.to_owned())
        };
        Self {
            rail_reference: text("rail_reference"),
            rail_code: text("rail_code"),
            latency_ms: value.and_then(|value| value.get("latency_ms")?.as_u64()),
        }
    }
}

/// An attempt of a payment. The payload is not copied: it is the message's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptView {
    /// The payment.
    pub outbox_id: OutboxId,
    /// 1, 2, 3 … without gaps.
    pub attempt_no: u32,
    /// Result.
    pub state: AttemptState,
    /// When the lease was taken.
    pub claimed_at: Timestamp,
    /// When the outcome was recorded.
    pub completed_at: Timestamp,
    /// Owner of the lease.
    pub worker_id: String,
    /// The rail's reference.
    pub rail_reference: Option<String>,
    /// The rail's own code.
    pub rail_code: Option<String>,
    /// Error code, for programs.
    pub error_code: Option<String>,
    /// Error message, for people.
    pub error_message: Option<String>,
    /// Latency of the rail.
    pub latency_ms: Option<u64>,
    /// When the payment was due again, if this attempt was retried.
    pub next_attempt_at: Option<Timestamp>,
    /// Whether the outcome at the rail is unknown.
    pub in_doubt: bool,
}

impl AttemptView {
    /// The view of a kernel attempt.
    pub fn new(outbox_id: OutboxId, attempt: &Attempt) -> Self {
        let code = attempt.code.as_deref();
        let state = AttemptState::of(attempt.outcome, code, attempt.next_due_at);
        let is_given_up = state == AttemptState::Failed && attempt.outcome != AttemptOutcome::Dead;
        let error_code = match (state, code) {
            (AttemptState::Dispatched, _) => None,
            // The last error is kept at the start of the message.
            _ if is_given_up => Some(RETRY_CEILING_EXCEEDED.to_owned()),
            (AttemptState::ZombieRequeue, _) => Some(ZOMBIE_REQUEUE.to_owned()),
            (_, code) => code.map(str::to_owned),
        };
        let error_message = match (is_given_up, code, &attempt.detail) {
            (true, Some(code), Some(detail)) => Some(format!("{code}: {detail}")),
            (true, Some(code), None) => Some(code.to_owned()),
            (_, _, detail) => detail.clone(),
        };
        let error_message = error_message.map(|text| cut(&text, SHOWN_CHARS_MAX).to_owned());
        let result = RailResult::from_value(attempt.result.as_ref());
        Self {
            outbox_id,
            attempt_no: attempt.attempt_no,
            state,
            claimed_at: attempt.claimed_at,
            completed_at: attempt.finished_at,
            worker_id: attempt.owner.clone(),
            rail_reference: result.rail_reference,
            rail_code: result.rail_code,
            error_code,
            error_message,
            latency_ms: result.latency_ms,
            next_attempt_at: attempt.next_due_at,
            in_doubt: attempt.outcome == AttemptOutcome::Uncertain
                || may_have_begun(attempt.result.as_ref()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What an attempt says depends on nothing but itself.
    #[test]
    fn an_attempt_state_depends_on_the_attempt_alone() {
        use AttemptOutcome::{Dead, Delivered, Expired, Retry, Uncertain};
        use AttemptState::{Dispatched, Failed, Retryable, ZombieRequeue};
        let (again, never) = (Some(Timestamp::UNIX_EPOCH), None);
        let table = [
            (Delivered, None, never, Dispatched),
            (Delivered, Some("probed"), never, Dispatched),
            (Delivered, Some(codes::RESOLVED), never, Dispatched),
            (Dead, Some("INVALID_ACCOUNT"), never, Failed),
            (Retry, Some("RAIL_DOWN"), again, Retryable),
            (Retry, Some("RAIL_DOWN"), never, Failed),
            (Uncertain, Some("DISPATCH_TIMEOUT"), again, Retryable),
            (Uncertain, Some("DISPATCH_TIMEOUT"), never, Retryable),
            (Uncertain, Some(MISSING_RAIL_REFERENCE), never, Retryable),
            (Uncertain, Some(codes::LEASE_EXPIRED), again, ZombieRequeue),
            (Uncertain, Some(codes::LEASE_EXPIRED), never, ZombieRequeue),
            (Expired, Some(codes::LEASE_EXPIRED), again, ZombieRequeue),
            (Expired, Some(codes::LEASE_EXPIRED), never, Failed),
        ];
        for (outcome, code, next_due_at, expected) in table {
            let state = AttemptState::of(outcome, code, next_due_at);
            assert_eq!(state, expected, "{outcome:?} {code:?} {next_due_at:?}");
        }
    }

    #[test]
    fn a_rail_result_is_cut_and_read_back() {
        let result = RailResult {
            rail_reference: Some("ä".repeat(1_000)),
            rail_code: Some("R-17".into()),
            latency_ms: Some(42),
        };
        let value = result.into_value().unwrap();
        let kept = RailResult::from_value(Some(&value));
        assert_eq!(
            kept.rail_reference,
            Some("ä".repeat(REFERENCE_BYTES_MAX / 2))
        );
        assert_eq!(kept.rail_code.as_deref(), Some("R-17"));
        assert_eq!(kept.latency_ms, Some(42));
        assert_eq!(RailResult::default().into_value(), None);
        let strange = json!({"rail_reference": 7, "latency_ms": -1});
        assert_eq!(
            RailResult::from_value(Some(&strange)),
            RailResult::default()
        );
    }
}
