//! Where messages go that leave a lease, settled or expired.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap},
};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Entry, later};
use crate::{
    AttemptOutcome, MessageId, Next, QueuePolicy, RecordedOutcome, Report, StateKind, after_expiry,
    codes,
    error::{Error, Result},
    is_counted,
};

/// An attempt to be written, without the columns that come from its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAttempt {
    /// The message, with its counters before this attempt.
    pub entry: Entry,
    /// What the attempt row records.
    pub outcome: AttemptOutcome,
    /// Cause for programs, such as `timeout`; none if none was reported.
    pub code: Option<String>,
    /// Cause in words, as the sink reported it.
    pub detail: Option<String>,
    /// What the receiver returned, as JSON.
    pub result: Option<Value>,
    /// The time at which the message becomes due again.
    pub next_due_at: Option<Timestamp>,
    /// Where the message is from here on.
    pub state: StateKind,
}

impl NewAttempt {
    /// Number of the attempt row, from 1 without gaps.
    pub fn attempt_no(&self) -> u32 {
        self.entry.attempts + 1
    }

    /// The entry for the settle's answer.
    pub fn recorded(&self) -> RecordedOutcome {
        RecordedOutcome {
            id: self.entry.id,
            attempt_no: self.attempt_no(),
            outcome: self.outcome,
            next_due_at: self.next_due_at,
            state: self.state,
        }
    }
}

/// A message that is dead from here on: its attempt, code and detail.
pub type DeadEntry = (MessageId, u32, String, Option<String>);

/// Messages that become ready together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyBatch {
    /// From when on.
    pub due_at: Timestamp,
    /// The messages, with their counters from here on.
    pub entries: Vec<Entry>,
    /// Leased alone, because its last lease expired.
    pub isolated: bool,
}

/// Where messages that leave a lease go.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LeasePlan {
    /// One for each of them, in order.
    pub attempts: Vec<NewAttempt>,
    /// Back to ready, in the order in which the batches are written.
    pub ready: Vec<ReadyBatch>,
    /// The dead.
    pub dead: Vec<DeadEntry>,
    /// The held, each with the reason for programs.
    pub held: Vec<(Entry, Cow<'static, str>)>,
    /// Delivered or dead (`true`), in order: their groups may move on.
    pub finished: Vec<(MessageId, bool)>,
}

impl LeasePlan {
    /// Files a message and returns its new state. The caller files one that goes back to ready.
    fn file(&mut self, entry: Entry, next: Next, detail: Option<&str>) -> StateKind {
        match next {
            Next::Ready { .. } => StateKind::Ready,
            Next::Delivered => {
                self.finished.push((entry.id, false));
                StateKind::Delivered
            }
            Next::Dead { code } => {
                let detail = detail.map(str::to_owned);
                self.dead.push((entry.id, entry.attempts, code, detail));
                self.finished.push((entry.id, true));
                StateKind::Dead
            }
            Next::Held { reason } => {
                self.held.push((entry, reason));
                StateKind::Held
            }
        }
    }
}

/// Plans a settle of messages that the lease holds; `next` decides where each goes.
pub fn settle(
    now: Timestamp,
    entries: &[Entry],
    reports: &[&Report],
    next: impl Fn(&Entry, &Report) -> Next,
) -> LeasePlan {
    let held: HashMap<MessageId, Entry> = entries.iter().map(|entry| (entry.id, *entry)).collect();
    let mut back: BTreeMap<Timestamp, Vec<Entry>> = BTreeMap::new();
    let mut plan = LeasePlan::default();
    for report in reports {
        let entry = held[&report.id];
        let next = next(&entry, report);
        let after = Entry {
            tries: entry.tries + u32::from(is_counted(report)),
            attempts: entry.attempts + 1,
            ..entry
        };
        let next_due_at = match next {
            Next::Ready { delay } => Some(later(now, delay)),
            _ => None,
        };
        if let Some(due_at) = next_due_at {
            back.entry(due_at).or_default().push(after);
        }
        let state = plan.file(after, next, report.detail.as_deref());
        plan.attempts.push(NewAttempt {
            entry,
            outcome: report.outcome.into(),
            code: report.code.clone(),
            detail: report.detail.clone(),
            result: report.result.clone(),
            next_due_at,
            state,
        });
    }
    let batch = |(due_at, entries)| ReadyBatch {
        due_at,
        entries,
        isolated: false,
    };
    plan.ready = back.into_iter().map(batch).collect();
    plan
}

/// Plans the end of a lease: an attempt for every message, and everything that goes back goes back
/// in halves, each to be leased alone, so that a poison message is alone after log2(n) crashes.
///
/// A message that is only presumed to have begun is treated as if it had not, but its attempt is marked, and
/// the next claim is in doubt. `alone` counts the loss as a try.
pub fn expiry(
    policy: &QueuePolicy,
    due_at: Timestamp,
    entries: &[Entry],
    begun: &BTreeSet<MessageId>,
    presumed_begun: bool,
    alone: bool,
) -> LeasePlan {
    let mut back: Vec<Entry> = Vec::new();
    let mut plan = LeasePlan::default();
    for entry in entries {
        let has_begun = begun.contains(&entry.id);
        let (next, tries) = after_expiry(policy, entry.tries, has_begun, alone);
        let after = Entry {
            tries,
            attempts: entry.attempts + 1,
            ..*entry
        };
        let state = plan.file(after, next, None);
        if state == StateKind::Ready {
            back.push(after);
        }
        plan.attempts.push(NewAttempt {
            entry: *entry,
            outcome: if has_begun {
                AttemptOutcome::Uncertain
            } else {
                AttemptOutcome::Expired
            },
            code: Some(codes::LEASE_EXPIRED.to_owned()),
            detail: None,
            result: (presumed_begun && !has_begun).then(|| json!({codes::MAY_HAVE_BEGUN: true})),
            next_due_at: (state == StateKind::Ready).then_some(due_at),
            state,
        });
    }
    let half = back.len().div_ceil(2).max(1);
    let batch = |entries: &[Entry]| ReadyBatch {
        due_at,
        entries: entries.to_vec(),
        isolated: true,
    };
    plan.ready = back.chunks(half).map(batch).collect();
    plan
}

/// How the reports under a token are treated.
#[derive(Debug, PartialEq, Eq)]
pub enum ReportClass<'r> {
    /// The lease is over and not all of them were recorded under it.
    LeaseLost,
    /// All of them were recorded before: a lost reply is not a lost lease.
    Repeated,
    /// These messages were never in the lease.
    NotInLease(Vec<MessageId>),
    /// Record these.
    New(Vec<&'r Report>),
}

/// Classifies reports: `held` are the messages of the lease if it lives, `is_recorded` returns what the
/// token has recorded before.
pub fn classify_reports<'r>(
    held: Option<&[Entry]>,
    reports: &'r [Report],
    is_recorded: impl Fn(MessageId) -> bool,
) -> ReportClass<'r> {
    let fresh: Vec<&Report> = reports.iter().filter(|r| !is_recorded(r.id)).collect();
    let is_repeated = fresh.is_empty() && !reports.is_empty();
    let Some(held) = held else {
        return if is_repeated {
            ReportClass::Repeated
        } else {
            ReportClass::LeaseLost
        };
    };
    let strangers = not_in_lease(held, fresh.iter().map(|report| report.id));
    if !strangers.is_empty() {
        return ReportClass::NotInLease(strangers);
    }
    if is_repeated {
        return ReportClass::Repeated;
    }
    ReportClass::New(fresh)
}

/// Those of `ids` that are not among the entries of a lease, sorted, each once.
pub fn not_in_lease(entries: &[Entry], ids: impl Iterator<Item = MessageId>) -> Vec<MessageId> {
    let held: BTreeSet<MessageId> = entries.iter().map(|entry| entry.id).collect();
    let ids: BTreeSet<MessageId> = ids.collect();
    ids.difference(&held).copied().collect()
}

/// Rejects reports that name a message twice.
pub fn reject_repeats(reports: &[Report]) -> Result<()> {
    let mut seen = BTreeSet::new();
    let twice = reports.iter().find(|report| !seen.insert(report.id));
    twice.map_or(Ok(()), |report| {
        let why = format!("message {} is reported twice", report.id);
        Err(Error::invalid("reports", why))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Outcome;

    fn entries(ids: impl Iterator<Item = i64>) -> Vec<Entry> {
        ids.map(|id| Entry::new(MessageId(id))).collect()
    }

    #[test]
    fn what_comes_back_from_an_expiry_is_isolated_in_halves() {
        let policy = QueuePolicy::default();
        for (count, halves) in [(1, vec![1]), (2, vec![1, 1]), (5, vec![3, 2])] {
            let entries = entries(1..=count);
            let begun = BTreeSet::new();
            let due_at = Timestamp::UNIX_EPOCH;
            let plan = expiry(&policy, due_at, &entries, &begun, false, count == 1);
            assert!(plan.ready.iter().all(|batch| batch.isolated));
            let lengths: Vec<_> = plan.ready.iter().map(|batch| batch.entries.len()).collect();
            assert_eq!(lengths, halves);
            assert_eq!(plan.attempts.len(), entries.len());
        }
    }

    #[test]
    fn reports_are_new_repeated_or_of_strangers() {
        let held = entries(1..=2);
        let report = |id| Report::new(MessageId(id), Outcome::Delivered);
        let check = |held: Option<&[Entry]>, ids: &[i64], recorded: i64, expected: &str| {
            let reports: Vec<Report> = ids.iter().map(|id| report(*id)).collect();
            let found = classify_reports(held, &reports, |id| id.0 == recorded);
            let word = match found {
                ReportClass::LeaseLost => "lost".to_owned(),
                ReportClass::Repeated => "repeated".to_owned(),
                ReportClass::NotInLease(ids) => format!("not in lease {ids:?}"),
                ReportClass::New(fresh) => format!("{} new", fresh.len()),
            };
            assert_eq!(word, expected, "{ids:?}");
        };
        check(Some(&held), &[1, 2], 0, "2 new");
        check(Some(&held), &[1, 3], 3, "1 new");
        check(Some(&held), &[3], 3, "repeated");
        check(Some(&held), &[1, 4], 3, "not in lease [MessageId(4)]");
        check(Some(&held), &[], 0, "0 new");
        check(None, &[3], 3, "repeated");
        check(None, &[1], 3, "lost");
        check(None, &[], 0, "lost");
    }
}
