//! Settling: outcomes under a live lease, fenced.

use std::collections::BTreeSet;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{DeadRow, HeldRow, LeaseRow, Reference};
use crate::{
    Attempt, Fence, MessageId, RecordedOutcome, ReferenceStore, Report, Settle, SettleAnswer,
    Token, after_settle, codes,
    error::Result,
    plan::{self, LeasePlan, NewAttempt, ReportClass, reject_repeats},
};

#[async_trait]
impl Settle for ReferenceStore {
    async fn settle(&self, token: Token, reports: &[Report]) -> Result<SettleAnswer> {
        let chance = self.draw_chance();
        self.at(|reference, now| {
            #[cfg(feature = "twins")]
            let token = reference.effective_token(token, reports);
            reference.settle(now, token, reports, chance)
        })
    }

    async fn record_late(&self, token: Token, reports: &[Report]) -> Result<Vec<MessageId>> {
        self.at(|reference, now| reference.record_late(now, token, reports))
    }
}

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
        reject_repeats(&reports)?;
        let fence = self.live(now, token);
        let held = fence.map(|fence| &self.leases[&fence].entries[..]);
        let is_recorded = |id| self.attempt_under(token, id).is_some();
        let fresh = match plan::classify_reports(held, &reports, is_recorded) {
            ReportClass::New(fresh) => fresh,
            ReportClass::LeaseLost => return Ok(SettleAnswer::LeaseLost),
            ReportClass::NotInLease(strangers) => return Ok(SettleAnswer::NotInLease(strangers)),
            ReportClass::Repeated => {
                return Ok(SettleAnswer::AlreadySettled(self.recorded(token, &reports)));
            }
        };
        let fence = fence.expect("invariant: only a live lease has new reports");
        let lease = self.leases[&fence].clone();
        let policy = self.policy(&lease.queue);
        let plan = plan::settle(now, &lease.entries, &fresh, |entry, report| {
            after_settle(policy, entry.tries, report, chance)
        });
        let settled: BTreeSet<MessageId> = fresh.iter().map(|report| report.id).collect();
        let row = self.lease_mut(fence);
        row.entries.retain(|entry| !settled.contains(&entry.id));
        row.begun.retain(|id| !settled.contains(id));
        if row.entries.is_empty() {
            self.leases.remove(&fence);
        }
        self.apply_lease_plan(now, fence, &lease, plan);
        Ok(SettleAnswer::Settled(self.recorded(token, &reports)))
    }

    /// Writes attempts, moves the messages that leave a lease, and lets their groups move on.
    pub(super) fn apply_lease_plan(
        &mut self,
        now: Timestamp,
        fence: Fence,
        lease: &LeaseRow,
        plan: LeasePlan,
    ) {
        for attempt in plan.attempts {
            self.append_attempt(now, fence, lease, attempt);
        }
        for event in plan::deaths(&lease.queue, &plan.dead, now) {
            self.record_event(event);
        }
        for (id, attempt_no, code, detail) in plan.dead {
            let row = DeadRow {
                queue: lease.queue.clone(),
                at: now,
                attempt_no,
                code,
                detail,
            };
            self.dead.insert(id, row);
        }
        for (entry, reason) in plan.held {
            let row = HeldRow {
                at: now,
                reason: reason.into_owned(),
                entry,
            };
            self.held.insert(entry.id, row);
        }
        for batch in plan.ready {
            self.make_ready(&lease.queue, batch.due_at, &batch.entries, batch.isolated);
        }
        for (id, died) in plan.finished {
            self.promote_next(now, id, died);
        }
    }

    fn append_attempt(
        &mut self,
        now: Timestamp,
        fence: Fence,
        lease: &LeaseRow,
        attempt: NewAttempt,
    ) {
        let (id, attempt_no) = (attempt.entry.id, attempt.attempt_no());
        let attempt = Attempt {
            message_id: id,
            attempt_no,
            outcome: attempt.outcome,
            owner: lease.owner.clone(),
            fence,
            token: lease.token,
            claimed_at: lease.claimed_at,
            // The database's clock may have been set back meanwhile.
            finished_at: now.max(lease.claimed_at),
            code: attempt.code,
            detail: attempt.detail,
            result: attempt.result,
            next_due_at: attempt.next_due_at,
        };
        let previous = self.attempts.insert((id, attempt_no), attempt);
        assert!(previous.is_none(), "attempts are append-only");
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

    fn recorded(&self, token: Token, reports: &[Report]) -> Vec<RecordedOutcome> {
        let answer = |report: &Report| {
            let attempt = self
                .attempt_under(token, report.id)
                .expect("invariant: recorded above");
            RecordedOutcome {
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
