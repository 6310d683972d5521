//! Decides where a message goes next. Pure: policy and facts in, decision out.
//!
//! The PostgreSQL store repeats these rules in SQL, because workers in other languages settle
//! there; the conformance suite checks that both agree.

use std::{borrow::Cow, time::Duration};

use crate::{OnUncertain, Outcome, QueuePolicy, Report, Resolution};

/// Codes the kernel itself gives to dead and held messages and to attempts.
pub mod codes {
    /// The queue's `attempts_max` was reached by a report without a code.
    pub const ATTEMPTS_EXHAUSTED: &str = "attempts_exhausted";
    /// A lease ended without a result.
    pub const LEASE_EXPIRED: &str = "lease_expired";
    /// Reported dead without a code.
    pub const DEAD: &str = "dead";
    /// This program cannot read it: it was written past what the kernel accepts.
    pub const UNREADABLE: &str = "unreadable";
    /// Held because its outcome is uncertain.
    pub const UNCERTAIN: &str = "uncertain";
    /// Its time passed before it was delivered, and nothing was sent in this attempt.
    pub const EXPIRED_BEFORE_DELIVERY: &str = "expired_before_delivery";
    /// An operator resolved a held message.
    pub const RESOLVED: &str = "resolved";
    /// In the result of an attempt whose lease ended: its holder was presumed to call the sink without
    /// recording the start of each call.
    pub const MAY_HAVE_BEGUN: &str = "may_have_begun";
    /// Reported retry or uncertain: the message is meant for another destination than this worker's,
    /// and nothing was sent. It becomes due again and none of its tries is used up.
    pub const MISDIRECTED: &str = "misdirected";
}

/// Where a message goes from its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is done.
    Delivered,
    /// Back to ready after this delay.
    Ready {
        /// How long it rests.
        delay: Duration,
    },
    /// To the dead, with this code.
    Dead {
        /// Why.
        code: String,
    },
    /// Held, because its outcome is uncertain.
    Held {
        /// Why, for programs.
        reason: Cow<'static, str>,
    },
}

const UNCERTAIN: Next = Next::Held {
    reason: Cow::Borrowed(codes::UNCERTAIN),
};

fn dead(code: &str) -> Next {
    Next::Dead {
        code: code.to_owned(),
    }
}

/// Whether a report uses up a try of its message.
pub fn is_counted(report: &Report) -> bool {
    let is_over = matches!(report.outcome, Outcome::Delivered | Outcome::Dead);
    is_over || report.code.as_deref() != Some(codes::MISDIRECTED)
}

/// Where a reported message goes. `tries` are the counted tries before this one.
///
/// `chance` in `[0, 1)` spreads the retry delay.
pub fn after_settle(policy: &QueuePolicy, tries: u32, report: &Report, chance: f64) -> Next {
    let rested = || {
        let delay = report
            .retry_in
            .unwrap_or_else(|| policy.retry.delay(tries + 1, chance));
        Next::Ready { delay }
    };
    if !is_counted(report) {
        return rested();
    }
    let again = |exhausted: Next| {
        if tries + 1 >= policy.attempts_max {
            exhausted
        } else {
            rested()
        }
    };
    if let (Outcome::Uncertain, Some(code)) = (report.outcome, &report.code)
        && policy.hold_codes.contains(code)
    {
        return Next::Held {
            reason: Cow::Owned(code.clone()),
        };
    }
    if let (Outcome::Uncertain, Some(codes::EXPIRED_BEFORE_DELIVERY)) =
        (report.outcome, report.code.as_deref())
    {
        // No further try follows. Dead would mean that no earlier one arrived.
        return match policy.on_uncertain {
            OnUncertain::Resend => dead(codes::EXPIRED_BEFORE_DELIVERY),
            OnUncertain::Probe | OnUncertain::Hold => Next::Held {
                reason: Cow::Borrowed(codes::EXPIRED_BEFORE_DELIVERY),
            },
        };
    }
    match (report.outcome, policy.on_uncertain) {
        (Outcome::Delivered, _) => Next::Delivered,
        (Outcome::Dead, _) => dead(report.code.as_deref().unwrap_or(codes::DEAD)),
        // The code of the last failure says more than that it was the last.
        (Outcome::Retry, _) | (Outcome::Uncertain, OnUncertain::Resend) => again(dead(
            report.code.as_deref().unwrap_or(codes::ATTEMPTS_EXHAUSTED),
        )),
        // Dead would mean that it did not arrive, which is not certain.
        (Outcome::Uncertain, OnUncertain::Probe) => again(UNCERTAIN),
        (Outcome::Uncertain, OnUncertain::Hold) => UNCERTAIN,
    }
}

/// Where a held message goes when an operator resolves it, whatever its queue's policy.
pub fn after_resolution(resolution: &Resolution) -> Next {
    match resolution {
        Resolution::Delivered { .. } => Next::Delivered,
        Resolution::Dead | Resolution::Unknown => dead(codes::RESOLVED),
    }
}

/// Where a message goes whose lease ended, and its counted tries from then on.
///
/// The loss of a lease counts as a try only for a message that was alone in it: otherwise any of
/// them may be the one that killed the worker. It comes back without delay, since the lease
/// itself has already passed.
pub fn after_expiry(policy: &QueuePolicy, tries: u32, begun: bool, alone: bool) -> (Next, u32) {
    let tries = tries + u32::from(alone);
    if begun && policy.on_uncertain == OnUncertain::Hold {
        return (UNCERTAIN, tries);
    }
    if alone && tries >= policy.attempts_max {
        return if begun && policy.on_uncertain == OnUncertain::Probe {
            (UNCERTAIN, tries)
        } else {
            (dead(codes::LEASE_EXPIRED), tries)
        };
    }
    (
        Next::Ready {
            delay: Duration::ZERO,
        },
        tries,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MessageId, RetrySchedule};

    fn policy(on_uncertain: OnUncertain) -> QueuePolicy {
        QueuePolicy {
            attempts_max: 3,
            retry: RetrySchedule::Table {
                delays_ms: vec![1_000, 2_000],
            },
            on_uncertain,
            ..QueuePolicy::default()
        }
    }

    fn ready(ms: u64) -> Next {
        Next::Ready {
            delay: Duration::from_millis(ms),
        }
    }

    #[test]
    fn a_report_leads_to_the_state_of_the_policy() {
        use OnUncertain::{Hold, Probe, Resend};
        use Outcome::{Dead, Delivered, Retry, Uncertain};
        let table = [
            (Delivered, Resend, 0, Next::Delivered),
            (Delivered, Resend, 2, Next::Delivered),
            (Dead, Resend, 0, dead("no_such_user")),
            (Retry, Resend, 0, ready(1_000)),
            (Retry, Resend, 1, ready(2_000)),
            (Retry, Resend, 2, dead("no_such_user")),
            (Uncertain, Resend, 0, ready(1_000)),
            (Uncertain, Probe, 1, ready(2_000)),
            (Uncertain, Probe, 2, UNCERTAIN),
            (Retry, Probe, 2, dead("no_such_user")),
            (Uncertain, Resend, 2, dead("no_such_user")),
            (Uncertain, Hold, 2, UNCERTAIN),
        ];
        for (outcome, on_uncertain, tries, expected) in table {
            let report = Report {
                code: Some("no_such_user".into()),
                ..Report::new(MessageId(1), outcome)
            };
            let actual = after_settle(&policy(on_uncertain), tries, &report, 0.5);
            assert_eq!(
                actual, expected,
                "{outcome:?} {on_uncertain:?} after {tries}"
            );
        }
    }

    #[test]
    fn a_last_try_without_a_code_is_dead_as_exhausted() {
        let report = Report::new(MessageId(1), Outcome::Retry);
        let next = after_settle(&policy(OnUncertain::Resend), 2, &report, 0.5);
        assert_eq!(next, dead(codes::ATTEMPTS_EXHAUSTED));
    }

    #[test]
    fn a_hold_code_holds_an_uncertain_report_under_any_on_uncertain() {
        for on_uncertain in [OnUncertain::Resend, OnUncertain::Probe, OnUncertain::Hold] {
            for (outcome, code, is_held) in [
                (Outcome::Uncertain, "NO_RECEIPT", true),
                (Outcome::Uncertain, "TIMEOUT", false),
                (Outcome::Retry, "NO_RECEIPT", false),
            ] {
                let policy = QueuePolicy {
                    hold_codes: vec!["NO_RECEIPT".to_owned()],
                    ..policy(on_uncertain)
                };
                let report = Report {
                    code: Some(code.to_owned()),
                    ..Report::new(MessageId(1), outcome)
                };
                // On its last try as well: what may have arrived is not dead.
                let next = after_settle(&policy, 2, &report, 0.5);
                let reason = Cow::Borrowed("NO_RECEIPT");
                assert_eq!(next == Next::Held { reason }, is_held, "{on_uncertain:?}");
            }
        }
    }

    #[test]
    fn a_message_meant_for_another_destination_keeps_its_tries() {
        for on_uncertain in [OnUncertain::Resend, OnUncertain::Probe, OnUncertain::Hold] {
            for (outcome, is_counted_as_try) in [
                (Outcome::Retry, false),
                (Outcome::Uncertain, false),
                (Outcome::Delivered, true),
                (Outcome::Dead, true),
            ] {
                let report = Report {
                    code: Some(codes::MISDIRECTED.to_owned()),
                    ..Report::new(MessageId(1), outcome)
                };
                assert_eq!(is_counted(&report), is_counted_as_try, "{outcome:?}");
                let next = after_settle(&policy(on_uncertain), 2, &report, 0.5);
                let is_due_again = matches!(next, Next::Ready { .. });
                assert_eq!(is_due_again, !is_counted_as_try, "{outcome:?}: {next:?}");
            }
        }
    }

    #[test]
    fn a_report_may_name_its_own_delay() {
        let report = Report {
            retry_in: Some(Duration::from_secs(77)),
            ..Report::new(MessageId(1), Outcome::Retry)
        };
        assert_eq!(
            after_settle(&policy(OnUncertain::Resend), 0, &report, 0.5),
            ready(77_000)
        );
    }

    #[test]
    fn an_expiry_counts_only_against_a_message_alone_in_its_lease() {
        use OnUncertain::{Hold, Probe, Resend};
        let table = [
            (Resend, 2, false, false, (ready(0), 2)),
            (Resend, 1, false, true, (ready(0), 2)),
            (Resend, 2, false, true, (dead(codes::LEASE_EXPIRED), 3)),
            (Resend, 2, true, false, (ready(0), 2)),
            (Probe, 2, true, true, (UNCERTAIN, 3)),
            (Probe, 2, false, true, (dead(codes::LEASE_EXPIRED), 3)),
            (Resend, 2, true, true, (dead(codes::LEASE_EXPIRED), 3)),
            (Hold, 0, true, false, (UNCERTAIN, 0)),
            (Hold, 2, true, true, (UNCERTAIN, 3)),
            (Hold, 0, false, false, (ready(0), 0)),
        ];
        for (on_uncertain, tries, begun, alone, expected) in table {
            let actual = after_expiry(&policy(on_uncertain), tries, begun, alone);
            assert_eq!(
                actual, expected,
                "{on_uncertain:?} {tries} begun={begun} alone={alone}"
            );
        }
    }
}
