//! Verdicts for rail replies.

use consign_kernel::Outcome;
use consign_worker::{About, Verdict};

use crate::{
    MISSING_RAIL_REFERENCE, RailResult,
    privacy::{shown, shown_code},
    rail::{RailReply, SubmitResult},
};

/// Codes that make a retry pointless, from any source.
pub const TERMINAL_CODES: [&str; 6] = [
    "INVALID_ACCOUNT",
    "INSUFFICIENT_FUNDS",
    "FRAUD_BLOCK",
    "INVALID_AMOUNT",
    "INVALID_DESTINATION",
    "INVALID_CURRENCY",
];
/// The code of a rail timeout.
pub const DISPATCH_TIMEOUT: &str = "DISPATCH_TIMEOUT";
/// The code of a rail that could not be reached, or whose answer is unreadable.
pub const DISPATCH_ERROR: &str = "DISPATCH_ERROR";
/// The code of a rejection without a code.
const RAIL_REFUSED: &str = "RAIL_REFUSED";

/// The verdict on a dispatch. `latency_ms` is the rail's.
pub(crate) fn verdict(submitted: SubmitResult, latency_ms: u64) -> Verdict {
    match submitted {
        SubmitResult::Replied(reply) => replied(reply, Some(latency_ms)),
        SubmitResult::NotSent { code, why } => {
            Verdict::failed(Outcome::Retry, About::Sink, code, shown(&why))
        }
        SubmitResult::NotNow { why, retry_in } => {
            let paced = Verdict::failed(Outcome::Retry, About::Pace, "RAIL_BUSY", shown(&why));
            paced.with_retry_in(retry_in)
        }
        // It may have arrived: the next worker queries the rail before it sends.
        SubmitResult::Lost { code, why } => {
            let result = RailResult {
                latency_ms: Some(latency_ms),
                ..RailResult::default()
            };
            let lost = Verdict::failed(Outcome::Uncertain, About::Sink, code, shown(&why));
            with(lost, result)
        }
    }
}

/// The verdict for a reply, either to a dispatch or to a query.
pub(crate) fn replied(reply: RailReply, latency_ms: Option<u64>) -> Verdict {
    let (outcome, code) = classify(&reply);
    let detail = reply.error_message.as_deref().map(shown);
    let result = RailResult {
        rail_reference: reply.rail_reference,
        rail_code: reply.rail_code,
        latency_ms,
    };
    let verdict = Verdict {
        code: code.as_deref().map(shown_code),
        detail,
        ..Verdict::failed(outcome, About::Message, "", "")
    };
    with(verdict, result)
}

fn with(verdict: Verdict, result: RailResult) -> Verdict {
    let result = result.into_value();
    Verdict { result, ..verdict }
}

/// The rail's `retryable` takes precedence, then its codes; the default is a retry.
fn classify(reply: &RailReply) -> (Outcome, Option<String>) {
    if reply.is_success {
        let reference = reply.rail_reference.as_deref().unwrap_or_default();
        return if reference.trim().is_empty() {
            (Outcome::Uncertain, Some(MISSING_RAIL_REFERENCE.to_owned()))
        } else {
            (Outcome::Delivered, None)
        };
    }
    let codes = [reply.rail_code.as_deref(), reply.error_code.as_deref()];
    let is_terminal = codes
        .into_iter()
        .flatten()
        .any(|code| TERMINAL_CODES.contains(&code));
    let outcome = match reply.retryable {
        Some(true) => Outcome::Retry,
        Some(false) => Outcome::Dead,
        None if is_terminal => Outcome::Dead,
        None => Outcome::Retry,
    };
    let [rail_code, error_code] = codes;
    let code = error_code.or(rail_code).unwrap_or(RAIL_REFUSED);
    (outcome, Some(code.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn refusal(retryable: Option<bool>, rail_code: &str, error_code: &str) -> RailReply {
        let text = |code: &str| (!code.is_empty()).then(|| code.to_owned());
        RailReply {
            retryable,
            rail_code: text(rail_code),
            error_code: text(error_code),
            ..RailReply::default()
        }
    }

    /// Retryable beats codes, the rail's code comes before the error's, the rest is retried.
    #[test]
    fn refusals_are_classified_in_order() {
        use Outcome::{Dead, Retry};
        let mut table = vec![
            (
                refusal(Some(true), "FRAUD_BLOCK", "FRAUD_BLOCK"),
                Retry,
                "FRAUD_BLOCK",
            ),
            (refusal(Some(false), "TRY_LATER", ""), Dead, "TRY_LATER"),
            (refusal(Some(false), "", ""), Dead, RAIL_REFUSED),
            (refusal(None, "", ""), Retry, RAIL_REFUSED),
            (
                refusal(None, "R17", "SOMETHING_ELSE"),
                Retry,
                "SOMETHING_ELSE",
            ),
            (refusal(None, "fraud_block", ""), Retry, "fraud_block"),
        ];
        for code in TERMINAL_CODES {
            table.push((refusal(None, code, ""), Dead, code));
            table.push((refusal(None, "", code), Dead, code));
            table.push((refusal(None, code, "R17"), Dead, "R17"));
        }
        for (reply, outcome, code) in table {
            let context = format!("{reply:?}");
            let verdict = verdict(SubmitResult::Replied(reply), 3);
            assert_eq!(verdict.outcome, outcome, "{context}");
            assert_eq!(verdict.code.as_deref(), Some(code), "{context}");
        }
    }

    /// A yes counts with a name only.
    #[test]
    fn a_success_needs_a_reference() {
        for (reference, outcome, code) in [
            (Some("R-1"), Outcome::Delivered, None),
            (Some("  "), Outcome::Uncertain, Some(MISSING_RAIL_REFERENCE)),
            (None, Outcome::Uncertain, Some(MISSING_RAIL_REFERENCE)),
        ] {
            let reply = RailReply {
                is_success: true,
                rail_reference: reference.map(str::to_owned),
                ..RailReply::default()
            };
            let verdict = verdict(SubmitResult::Replied(reply), 3);
            assert_eq!(verdict.outcome, outcome, "{reference:?}");
            assert_eq!(verdict.code.as_deref(), code, "{reference:?}");
        }
    }

    /// No answer is retryable to the protocol, and uncertain to the kernel if it was sent.
    #[test]
    fn what_was_not_answered_is_uncertain_only_if_it_left() {
        let why = || "why".to_owned();
        let table = [
            (
                SubmitResult::Lost {
                    code: DISPATCH_TIMEOUT,
                    why: why(),
                },
                (Outcome::Uncertain, About::Sink, DISPATCH_TIMEOUT),
            ),
            (
                SubmitResult::Lost {
                    code: DISPATCH_ERROR,
                    why: why(),
                },
                (Outcome::Uncertain, About::Sink, DISPATCH_ERROR),
            ),
            (
                SubmitResult::NotSent {
                    code: DISPATCH_ERROR,
                    why: why(),
                },
                (Outcome::Retry, About::Sink, DISPATCH_ERROR),
            ),
            (
                SubmitResult::NotNow {
                    why: why(),
                    retry_in: Some(Duration::from_secs(7)),
                },
                (Outcome::Retry, About::Pace, "RAIL_BUSY"),
            ),
        ];
        for (submitted, (outcome, about, code)) in table {
            let verdict = verdict(submitted, 3);
            let found = (verdict.outcome, verdict.about, verdict.code.unwrap());
            assert_eq!(found, (outcome, about, code.to_owned()));
        }
    }
}
