//! A worker's report about a claimed payment.

use std::time::Duration;

use consign_kernel::{AttemptOutcome, Error, MessageId, Outcome, Report, Result};
use serde_json::Value;

use crate::{
    AttemptState, MISSING_RAIL_REFERENCE, OutboxId, REFERENCE_BYTES_MAX, RailResult,
    classify::{DISPATCH_ERROR, DISPATCH_TIMEOUT},
    privacy::{shown, shown_code},
};

/// Minimum delay of a retry.
const REST_MIN: Duration = Duration::from_secs(1);

/// A worker's report about a claimed payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The payment.
    pub outbox_id: OutboxId,
    /// `Dispatched`, `Retryable` or `Failed`; any other state is rejected (`P7003` in SQL).
    pub state: AttemptState,
    /// The rail's answer.
    pub result: RailResult,
    /// Error code, for programs.
    pub error_code: Option<String>,
    /// Error message, for people; stored masked and cut.
    pub error_message: Option<String>,
    /// Delay before the retry, at least a second; the queue's schedule when absent.
    pub retry_in: Option<Duration>,
    /// For `Retryable`: whether the rail may have the payment. `Some(true)`: unknown.
    /// `Some(false)`: the rail does not have it, because it was queried or rejected the payment.
    /// When absent see [`report`](Self::report). `Failed` with `Some(true)` is invalid; without it,
    /// `Failed` is in doubt if its code means that the rail did not answer. `Dispatched` ignores
    /// it.
    pub in_doubt: Option<bool>,
}

impl Completion {
    /// A dispatch that the rail confirmed with a reference.
    pub fn dispatched(outbox_id: OutboxId, rail_reference: impl Into<String>) -> Self {
        let result = RailResult {
            rail_reference: Some(rail_reference.into()),
            ..RailResult::default()
        };
        Self {
            outbox_id,
            state: AttemptState::Dispatched,
            result,
            error_code: None,
            error_message: None,
            retry_in: None,
            in_doubt: None,
        }
    }

    /// A failed dispatch: retryable or final.
    pub fn failed(outbox_id: OutboxId, state: AttemptState, error_code: impl Into<String>) -> Self {
        Self {
            state,
            error_code: Some(error_code.into()),
            result: RailResult::default(),
            ..Self::dispatched(outbox_id, "")
        }
    }

    /// Whether the rail accepted it without a reference.
    pub fn lacks_reference(&self) -> bool {
        let reference = self.result.rail_reference.as_deref().unwrap_or_default();
        self.state == AttemptState::Dispatched && reference.trim().is_empty()
    }

    /// Rejects invalid reports.
    pub fn validate(&self) -> Result<()> {
        let reference = self.result.rail_reference.as_deref().unwrap_or_default();
        match self.state {
            AttemptState::ZombieRequeue => {
                let why = "must be DISPATCHED, RETRYABLE or FAILED";
                Err(Error::out_of_bounds("state", "ZOMBIE_REQUEUE", why))
            }
            AttemptState::Failed if self.in_doubt.unwrap_or(self.is_unanswered()) => {
                let why = "a payment in doubt cannot be FAILED; report RETRYABLE, or in_doubt false \
                           if the rail was queried";
                Err(Error::invalid("in_doubt", why))
            }
            _ if reference.len() > REFERENCE_BYTES_MAX => {
                let why = format!(
                    "has {} bytes; must be at most {REFERENCE_BYTES_MAX} bytes",
                    reference.len()
                );
                Err(Error::invalid("rail_reference", why))
            }
            _ => Ok(()),
        }
    }

    /// The kernel's report; `None` for a state that workers cannot report.
    ///
    /// `was_in_doubt`: the payment was in doubt before this attempt. `Retryable` leaves the payment
    /// in doubt (`Uncertain`) if it says so. Without `in_doubt` it does so where its `error_code`
    /// is `DISPATCH_TIMEOUT` or `DISPATCH_ERROR`, where there is no code at all, and where it was
    /// in doubt before: only an explicit `in_doubt: false` ends a doubt.
    pub fn report(&self, id: MessageId, was_in_doubt: bool) -> Option<Report> {
        let outcome = match self.state {
            AttemptState::Dispatched if self.lacks_reference() => Outcome::Uncertain,
            AttemptState::Dispatched => Outcome::Delivered,
            AttemptState::Retryable if self.leaves_doubt(was_in_doubt) => Outcome::Uncertain,
            AttemptState::Retryable => Outcome::Retry,
            AttemptState::Failed => Outcome::Dead,
            AttemptState::ZombieRequeue => return None,
        };
        let code = match self.state {
            AttemptState::Dispatched if self.lacks_reference() => {
                Some(MISSING_RAIL_REFERENCE.to_owned())
            }
            AttemptState::Dispatched => None,
            _ => self.error_code.as_deref().map(shown_code),
        };
        Some(Report {
            id,
            outcome,
            code,
            detail: self.error_message.as_deref().map(shown),
            result: self.result.clone().into_value(),
            retry_in: self.retry_in.map(|delay| delay.max(REST_MIN)),
        })
    }

    /// Whether its code means that the rail was called and did not answer.
    fn is_unanswered(&self) -> bool {
        let code = self.error_code.as_deref().unwrap_or_default();
        [DISPATCH_TIMEOUT, DISPATCH_ERROR].contains(&code.trim())
    }

    fn leaves_doubt(&self, was_in_doubt: bool) -> bool {
        let given = |code: &Option<String>| {
            let code = code.as_deref().map(str::trim);
            code.filter(|code| !code.is_empty()).map(str::to_owned)
        };
        self.in_doubt.unwrap_or_else(|| {
            match (given(&self.error_code), given(&self.result.rail_code)) {
                (None, None) => true,
                _ => was_in_doubt || self.is_unanswered(),
            }
        })
    }

    /// Evidence of the rail's answer after the lease was lost; `None` for a state that workers
    /// cannot report. Here a success without a reference is a success.
    pub fn evidence(&self, id: MessageId) -> Option<Report> {
        let report = self.report(id, false)?;
        Some(match self.state {
            AttemptState::Dispatched => Report {
                outcome: Outcome::Delivered,
                code: None,
                ..report
            },
            _ => report,
        })
    }

    /// Whether an attempt records the same as this completion: state, reference, and doubt if it is
    /// set. A different one is not a repetition.
    pub fn is_recorded_as(
        &self,
        outcome: AttemptOutcome,
        code: Option<&str>,
        result: Option<&Value>,
    ) -> bool {
        let own = self.result.clone().into_value();
        let reference = RailResult::from_value(own.as_ref()).rail_reference;
        let is_unreferenced = code == Some(MISSING_RAIL_REFERENCE);
        let is_same = match (self.state, outcome) {
            (AttemptState::Dispatched, AttemptOutcome::Delivered) => true,
            (AttemptState::Dispatched, AttemptOutcome::Uncertain) => is_unreferenced,
            (AttemptState::Failed, AttemptOutcome::Dead) => true,
            (AttemptState::Retryable, AttemptOutcome::Retry) => self.in_doubt != Some(true),
            (AttemptState::Retryable, AttemptOutcome::Uncertain) => {
                !is_unreferenced && self.in_doubt != Some(false)
            }
            _ => false,
        };
        is_same && reference == RailResult::from_value(result).rail_reference
    }
}

/// Rejects every settle of a payment as delivered without the rail's reference. The PostgreSQL
/// store has the same rule in SQL (`consign.require_references`).
pub fn require_references<'r>(reports: impl IntoIterator<Item = &'r Report>) -> Result<()> {
    let lacks_reference = |report: &&Report| {
        let reference = RailResult::from_value(report.result.as_ref()).rail_reference;
        let is_kept = |reference: &str| {
            !reference.trim().is_empty() && reference.len() <= REFERENCE_BYTES_MAX
        };
        report.outcome == Outcome::Delivered && !reference.as_deref().is_some_and(is_kept)
    };
    match reports.into_iter().find(lacks_reference) {
        None => Ok(()),
        Some(report) => {
            let why = format!(
                "message {} is a payment, and a payment is dispatched only with the rail's \
                 reference: {{\"rail_reference\": \"...\"}}, 1 to {REFERENCE_BYTES_MAX} bytes. Nothing \
                 was written. Report payments with Payments::complete or POST \
                 /v1/payments/leases/{{token}}/complete",
                report.id
            );
            Err(Error::invalid("result", why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Precedence: the worker's `in_doubt`, then the codes, then the state before.
    #[test]
    fn a_retryable_completion_reports_its_doubt() {
        let id = OutboxId(uuid::Uuid::from_u128(7));
        let (yes, no, unsaid) = (Some(true), Some(false), None);
        let table = [
            (unsaid, Some("RAIL_DOWN"), None, false, Outcome::Retry),
            (unsaid, Some("RAIL_DOWN"), None, true, Outcome::Uncertain),
            (
                unsaid,
                Some(DISPATCH_TIMEOUT),
                None,
                false,
                Outcome::Uncertain,
            ),
            (
                unsaid,
                Some(DISPATCH_ERROR),
                Some("R"),
                false,
                Outcome::Uncertain,
            ),
            (unsaid, None, Some("R"), false, Outcome::Retry),
            (unsaid, None, None, false, Outcome::Uncertain),
            (unsaid, Some(" "), Some(""), false, Outcome::Uncertain),
            (yes, Some("RAIL_DOWN"), Some("R"), false, Outcome::Uncertain),
            (no, Some(DISPATCH_TIMEOUT), None, true, Outcome::Retry),
        ];
        for (in_doubt, error_code, rail_code, was_in_doubt, expected) in table {
            let mut completion = Completion::failed(id, AttemptState::Retryable, "");
            completion.error_code = error_code.map(str::to_owned);
            completion.result.rail_code = rail_code.map(str::to_owned);
            completion.in_doubt = in_doubt;
            let report = completion.report(MessageId(1), was_in_doubt).unwrap();
            assert_eq!(report.outcome, expected, "{completion:?} {was_in_doubt}");
            let kept = error_code.map(str::trim);
            assert_eq!(report.code.as_deref(), kept, "the code is kept");
        }
    }

    #[test]
    fn rejects_failed_for_a_payment_in_doubt() {
        let id = OutboxId(uuid::Uuid::from_u128(7));
        let failed = Completion::failed(id, AttemptState::Failed, "X");
        let torn = Completion {
            in_doubt: Some(true),
            ..failed.clone()
        };
        let unanswered = Completion::failed(id, AttemptState::Failed, " DISPATCH_TIMEOUT");
        let asked = Completion {
            in_doubt: Some(false),
            ..unanswered.clone()
        };
        let zombie = Completion::failed(id, AttemptState::ZombieRequeue, "X");
        let done = Completion {
            in_doubt: Some(true),
            ..Completion::dispatched(id, "r")
        };
        let table = [
            (failed, true),
            (torn, false),
            (unanswered, false),
            (asked, true),
            (zombie, false),
            (done, true),
        ];
        for (completion, is_fine) in table {
            assert_eq!(completion.validate().is_ok(), is_fine, "{completion:?}");
        }
    }

    /// A success is evidence of one also where no reference came with it.
    #[test]
    fn evidence_of_a_success_is_a_success() {
        let id = OutboxId(uuid::Uuid::from_u128(7));
        let unreferenced = Completion {
            result: RailResult::default(),
            ..Completion::dispatched(id, "")
        };
        let report = unreferenced.evidence(MessageId(1)).unwrap();
        assert_eq!((report.outcome, report.code), (Outcome::Delivered, None));
    }
}
