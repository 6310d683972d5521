//! What a worker says about a payment it holds.

use std::time::Duration;

use consign_kernel::{AttemptOutcome, Error, MessageId, Outcome, Report, Result};
use serde_json::Value;

use crate::{
    AttemptState, MISSING_RAIL_REFERENCE, OutboxId, REFERENCE_BYTES_MAX, RailResult,
    classify::{DISPATCH_ERROR, DISPATCH_TIMEOUT},
    privacy::{shown, shown_code},
};

/// The least a retryable payment rests.
const REST_MIN: Duration = Duration::from_secs(1);

/// What a worker says about a payment it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The payment.
    pub outbox_id: OutboxId,
    /// `Dispatched`, `Retryable` or `Failed`; anything else is refused (`P7003` in SQL).
    pub state: AttemptState,
    /// What the rail said.
    pub result: RailResult,
    /// Why not, for programs.
    pub error_code: Option<String>,
    /// Why not, for people; kept masked and cut.
    pub error_message: Option<String>,
    /// How long to rest, at least a second; the queue's schedule when absent.
    pub retry_in: Option<Duration>,
    /// Of a `Retryable` one, whether the rail may have it: `Some(true)` nobody knows, `Some(false)`
    /// the caller vouches that the rail has not got it, because it was asked or has refused it. When
    /// absent see [`report`](Self::report). A `Failed` one cannot be in doubt, and is if it says that
    /// the rail did not answer and not that it was asked since; a `Dispatched` one is
    /// known, whatever stands here.
    pub in_doubt: Option<bool>,
}

impl Completion {
    /// A dispatch the rail has confirmed under a reference.
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

    /// A dispatch that failed: to be retried, or for good.
    pub fn failed(outbox_id: OutboxId, state: AttemptState, error_code: impl Into<String>) -> Self {
        Self {
            state,
            error_code: Some(error_code.into()),
            result: RailResult::default(),
            ..Self::dispatched(outbox_id, "")
        }
    }

    /// Whether the rail said yes and did not say under which reference.
    pub fn lacks_reference(&self) -> bool {
        let reference = self.result.rail_reference.as_deref().unwrap_or_default();
        self.state == AttemptState::Dispatched && reference.trim().is_empty()
    }

    /// Refuses what is nobody's to say.
    pub fn validate(&self) -> Result<()> {
        let reference = self.result.rail_reference.as_deref().unwrap_or_default();
        match self.state {
            AttemptState::ZombieRequeue => {
                let why = "a completion is DISPATCHED, RETRYABLE or FAILED";
                Err(Error::invalid("state", why))
            }
            AttemptState::Failed if self.in_doubt.unwrap_or(self.is_unanswered()) => {
                let why = "a payment in doubt cannot have failed; say RETRYABLE, or that it is not \
                           in doubt if the rail was asked";
                Err(Error::invalid("in_doubt", why))
            }
            _ if reference.len() > REFERENCE_BYTES_MAX => {
                let why = format!("must be at most {REFERENCE_BYTES_MAX} bytes");
                Err(Error::invalid("rail_reference", why))
            }
            _ => Ok(()),
        }
    }

    /// As the kernel is told; none for a state that is nobody's to report.
    ///
    /// `was_in_doubt`: the payment was in doubt before this attempt. A `Retryable` one leaves the
    /// payment in doubt (`Uncertain`) if it says so; if it says nothing, then where its
    /// `error_code` is `DISPATCH_TIMEOUT` or `DISPATCH_ERROR`, where neither the rail nor the
    /// worker gave a code, and where it was in doubt before: only the word of somebody who knows
    /// ends a doubt.
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

    /// Whether its code says that the rail was called and did not answer.
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

    /// As evidence of what the rail said after the lease was gone; none for a state that is
    /// nobody's to report. A success is one here also without a reference.
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

    /// Whether an attempt says what this completion says: the state it stands for, the reference,
    /// and whether it is in doubt, if that is said. What differs is no repetition.
    pub fn is_recorded_as(
        &self,
        outcome: AttemptOutcome,
        code: Option<&str>,
        result: Option<&Value>,
    ) -> bool {
        let said = self.result.clone().into_value();
        let reference = RailResult::from_value(said.as_ref()).rail_reference;
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

/// Refuses to settle a payment as delivered without the rail's reference, whoever settles it. The
/// PostgreSQL store has the same rule in SQL (`consign.require_references`).
pub fn require_references<'r>(reports: impl IntoIterator<Item = &'r Report>) -> Result<()> {
    let lacks_reference = |report: &&Report| {
        let said = RailResult::from_value(report.result.as_ref()).rail_reference;
        let is_kept = |said: &str| !said.trim().is_empty() && said.len() <= REFERENCE_BYTES_MAX;
        report.outcome == Outcome::Delivered && !said.as_deref().is_some_and(is_kept)
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

    /// The order of the rules: the worker's word, then the codes, then what was before.
    #[test]
    fn a_retryable_completion_says_what_is_known() {
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
            let mut said = Completion::failed(id, AttemptState::Retryable, "");
            said.error_code = error_code.map(str::to_owned);
            said.result.rail_code = rail_code.map(str::to_owned);
            said.in_doubt = in_doubt;
            let report = said.report(MessageId(1), was_in_doubt).unwrap();
            assert_eq!(report.outcome, expected, "{said:?} {was_in_doubt}");
            let kept = error_code.map(str::trim);
            assert_eq!(report.code.as_deref(), kept, "the code is kept");
        }
    }

    #[test]
    fn what_nobody_can_know_is_refused() {
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
        for (said, is_fine) in table {
            assert_eq!(said.validate().is_ok(), is_fine, "{said:?}");
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
