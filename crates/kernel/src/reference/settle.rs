//! Settling: outcomes under a live lease, fenced.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{DeadRow, Entry, HeldRow, LeaseRow, Reference, later};
use crate::{
    Attempt, AttemptOutcome, Fence, MessageId, Next, Recorded, Report, SettleAnswer, Token,
    after_settle, codes,
    error::{Error, Result},
    is_counted,
};

impl Reference {
    /// Records outcomes. `chance` in `[0, 1)` spreads retry delays.
    pub fn settle(
        &mut self,
        now: Timestamp,
        token: Token,
        reports: &[Report],
        chance: f64,
    ) -> Result<SettleAnswer> {
        let reports: Vec<Report> = reports.iter().cloned().map(Report::bounded).collect();
        each_once(&reports)?;
        let earlier = self.settled_under(token, &reports);
        let Some(fence) = self.live(now, token) else {
            // A lost reply is not a lost lease: a repeated settle is told what was recorded.
            let repeated = !reports.is_empty() && earlier.len() == reports.len();
            return Ok(match repeated {
                true => SettleAnswer::AlreadySettled(self.recorded(token, &reports)),
                false => SettleAnswer::LeaseLost,
            });
        };
        let fresh: Vec<&Report> = reports
            .iter()
            .filter(|report| !earlier.contains(&report.id))
            .collect();
        let strangers = self.leases[&fence].strangers(fresh.iter().map(|report| report.id));
        if !strangers.is_empty() {
            return Ok(SettleAnswer::NotInLease(strangers));
        }
        if fresh.is_empty() && !reports.is_empty() {
            return Ok(SettleAnswer::AlreadySettled(self.recorded(token, &reports)));
        }
        self.record(now, fence, &fresh, chance);
        Ok(SettleAnswer::Settled(self.recorded(token, &reports)))
    }

    /// Writes attempts, moves the messages, shrinks or ends the lease.
    fn record(&mut self, now: Timestamp, fence: Fence, reports: &[&Report], chance: f64) {
        let lease = self.leases[&fence].clone();
        let mut back: BTreeMap<Timestamp, Vec<Entry>> = BTreeMap::new();
        let mut finished = Vec::new();
        for report in reports {
            let entry = lease.entry(report.id);
            let next = after_settle(self.policy(&lease.queue), entry.tries, report, chance);
            let due_at = match &next {
                Next::Ready { delay } => Some(later(now, *delay)),
                _ => None,
            };
            self.append_attempt(
                now,
                fence,
                &lease,
                entry,
                Some(report),
                report.outcome.into(),
                due_at,
            );
            let entry = Entry {
                tries: entry.tries + u32::from(is_counted(report)),
                attempts: entry.attempts + 1,
                ..entry
            };
            match next {
                Next::Ready { .. } => {
                    back.entry(due_at.expect("invariant: set above"))
                        .or_default()
                        .push(entry);
                }
                next => {
                    finished.extend(self.park_or_end(now, &lease, entry, next, &report.detail));
                }
            }
        }
        for (due_at, entries) in back {
            self.make_ready(&lease.queue, due_at, &entries, false);
        }
        let settled: BTreeSet<MessageId> = reports.iter().map(|report| report.id).collect();
        let row = self.lease_mut(fence);
        row.entries.retain(|entry| !settled.contains(&entry.id));
        row.begun.retain(|id| !settled.contains(id));
        if row.entries.is_empty() {
            self.leases.remove(&fence);
        }
        for (id, died) in finished {
            self.pass_turn(now, id, died);
        }
    }

    /// Files a message that does not go back: answers with it (and whether it died) if its group
    /// may move on.
    pub(super) fn park_or_end(
        &mut self,
        now: Timestamp,
        lease: &LeaseRow,
        entry: Entry,
        next: Next,
        detail: &Option<String>,
    ) -> Option<(MessageId, bool)> {
        match next {
            Next::Delivered => Some((entry.id, false)),
            Next::Dead { code } => {
                let row = DeadRow {
                    queue: lease.queue.clone(),
                    at: now,
                    attempt_no: entry.attempts,
                    code,
                    detail: detail.clone(),
                };
                self.dead.insert(entry.id, row);
                Some((entry.id, true))
            }
            Next::Held { reason } => {
                let reason = reason.into_owned();
                self.held.insert(
                    entry.id,
                    HeldRow {
                        at: now,
                        reason,
                        entry,
                    },
                );
                None
            }
            Next::Ready { .. } => unreachable!("invariant: the caller files what goes back"),
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "an attempt row has this many sources"
    )]
    pub(super) fn append_attempt(
        &mut self,
        now: Timestamp,
        fence: Fence,
        lease: &LeaseRow,
        entry: Entry,
        report: Option<&Report>,
        outcome: AttemptOutcome,
        next_due_at: Option<Timestamp>,
    ) {
        let attempt_no = entry.attempts + 1;
        let expired = || Some(codes::LEASE_EXPIRED.to_owned());
        let attempt = Attempt {
            message_id: entry.id,
            attempt_no,
            outcome,
            owner: lease.owner.clone(),
            fence,
            token: lease.token,
            claimed_at: lease.claimed_at,
            // The database's clock may have been set back meanwhile.
            finished_at: now.max(lease.claimed_at),
            code: report.map_or_else(expired, |report| report.code.clone()),
            detail: report.and_then(|report| report.detail.clone()),
            result: report.and_then(|report| report.result.clone()),
            next_due_at,
        };
        let previous = self.attempts.insert((entry.id, attempt_no), attempt);
        assert!(previous.is_none(), "attempts are append-only");
    }

    /// Those of the reported messages that this token has settled already.
    fn settled_under(&self, token: Token, reports: &[Report]) -> BTreeSet<MessageId> {
        reports
            .iter()
            .map(|report| report.id)
            .filter(|id| self.attempt_under(token, *id).is_some())
            .collect()
    }

    /// The attempt a token's holder recorded for a message; not one recorded against it.
    fn attempt_under(&self, token: Token, id: MessageId) -> Option<&Attempt> {
        self.attempts
            .range((id, 0)..=(id, u32::MAX))
            .map(|(_, attempt)| attempt)
            .find(|attempt| {
                attempt.token == token && attempt.code.as_deref() != Some(codes::LEASE_EXPIRED)
            })
    }

    fn recorded(&self, token: Token, reports: &[Report]) -> Vec<Recorded> {
        let answer = |report: &Report| {
            let attempt = self
                .attempt_under(token, report.id)
                .expect("invariant: recorded above");
            Recorded {
                id: report.id,
                attempt_no: attempt.attempt_no,
                outcome: attempt.outcome,
                next_due_at: attempt.next_due_at,
                state: self.kind(report.id),
            }
        };
        reports.iter().map(answer).collect()
    }
}

impl LeaseRow {
    fn entry(&self, id: MessageId) -> Entry {
        *self
            .entries
            .iter()
            .find(|entry| entry.id == id)
            .expect("invariant: checked before")
    }
}

pub(super) fn each_once(reports: &[Report]) -> Result<()> {
    let mut seen = BTreeSet::new();
    match reports.iter().find(|report| !seen.insert(report.id)) {
        Some(report) => Err(Error::invalid(
            "reports",
            format!("message {} is reported twice", report.id),
        )),
        None => Ok(()),
    }
}
