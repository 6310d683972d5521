//! Recording the outcomes of deliveries, and releasing what was not started.

use std::{mem, sync::Arc};

use consign_kernel::{
    BeginAnswer, ClaimedMessage, Fence, MessageId, Outcome, OutcomeCounts, ReleaseAnswer, Report,
    SettleAnswer, StateKind,
};
use tokio::time::Instant;
use tracing::{info, warn};

use super::QueueLoop;
use crate::{
    attempt::codes,
    ops::{self, Event},
    owned_lease::{OwnedLease, Step},
};

/// Store operations about leases under way at once. Connections are shared with claims, renewals
/// and other queues.
const RECORDINGS_MAX: usize = 4;

impl QueueLoop {
    /// Takes the next step of every lease in the queue, as far as operations are free.
    pub(super) fn advance_leases(&mut self) {
        while self.operations.recordings < RECORDINGS_MAX
            && let Some(fence) = self.leases.next_step()
        {
            let Some(held) = self.leases.held.get_mut(&fence) else {
                continue;
            };
            held.is_queued = false;
            let (context, token) = (Arc::clone(&self.context), held.token);
            let step = held.next_step();
            match &step {
                Step::Rest => continue,
                Step::End => {
                    self.forget(fence);
                    continue;
                }
                Step::Settle | Step::RecordLate => {
                    held.recording = held.finished.len();
                    held.is_due = false;
                }
                Step::Begin(_) | Step::Release => {}
            }
            held.is_busy = true;
            let reports = |held: &mut OwnedLease| mem::take(&mut held.finished);
            let operations = &mut self.operations;
            match step {
                Step::Settle => {
                    operations.record(ops::settle(context, fence, token, reports(held)));
                }
                Step::RecordLate => {
                    operations.record(ops::record_late(context, fence, token, reports(held)));
                }
                Step::Begin(ids) => operations.record(ops::begin(context, fence, token, ids)),
                Step::Release => operations.record(ops::release(context, fence, token)),
                Step::Rest | Step::End => unreachable!("invariant: dealt with above"),
            }
        }
    }

    /// An operation about a lease was answered.
    pub(super) fn recorded(&mut self, event: Event) {
        self.operations.recordings -= 1;
        let fence = match &event {
            Event::Settled { fence, .. }
            | Event::Begun { fence, .. }
            | Event::Released { fence, .. }
            | Event::LateRecorded { fence, .. } => *fence,
            Event::Claimed { .. }
            | Event::Waited { .. }
            | Event::Reserved { .. }
            | Event::Read(_)
            | Event::OpeningRecorded => {
                unreachable!("invariant: not about a lease")
            }
        };
        let Some(mut held) = self.leases.held.remove(&fence) else {
            return;
        };
        held.is_busy = false;
        held.recording = 0;
        match event {
            Event::Settled {
                reports,
                answer,
                took,
                ..
            } => {
                self.context
                    .meters
                    .settle_seconds
                    .record(took.as_secs_f64());
                self.settled(&mut held, reports, answer);
            }
            Event::Begun { answer, .. } => self.begun(&mut held, answer),
            Event::Released { answer, .. } => self.released(&mut held, answer),
            Event::LateRecorded { offered, kept, .. } => self.late_recorded(&held, offered, kept),
            Event::Claimed { .. }
            | Event::Waited { .. }
            | Event::Reserved { .. }
            | Event::Read(_)
            | Event::OpeningRecorded => {}
        }
        // What finished meanwhile has waited for this operation already.
        held.is_due |= !held.finished.is_empty();
        if !held.waiting.is_empty()
            && !held.releases_waiting
            && !self.leases.startable.contains(&fence)
        {
            self.leases.startable.push_back(fence);
        }
        self.leases.held.insert(fence, held);
        self.leases.look_at(fence);
    }

    fn settled(&mut self, held: &mut OwnedLease, reports: Vec<Report>, answer: SettleAnswer) {
        match answer {
            SettleAnswer::Settled(recorded) | SettleAnswer::AlreadySettled(recorded) => {
                // What the queue waits for may be due earlier now: a retry, or a group's next message.
                if self.policy.is_ordered()
                    || recorded.iter().any(|one| one.state == StateKind::Ready)
                {
                    self.claiming.wait_anew();
                }
                // An uncertain one may be sent again, held or dead: the store decides.
                let again = recorded.iter().filter(|one| one.next_due_at.is_some());
                self.context.meters.retries.increment(again.count() as u64);
                self.count(&reports);
            }
            SettleAnswer::LeaseLost => {
                held.finished.splice(..0, reports);
                self.lose(held);
            }
            // Only a store that was restored to an earlier time forgets what a lease held. What it still has
            // is recorded; the rest would be rejected.
            SettleAnswer::NotInLease(missing) => {
                let (queue, fence) = (&self.context.queue, held.fence);
                let count = missing.len();
                warn!(%queue, %fence, "queue {queue}: {count} results no longer belong to their lease");
                self.summary.late += count as u64;
                self.context.meters.late_results.increment(count as u64);
                let known = |report: &Report| !missing.contains(&report.id);
                held.finished.splice(..0, reports.into_iter().filter(known));
            }
        }
    }

    fn count(&mut self, reports: &[Report]) {
        let summary = &mut self.summary;
        let before = *summary;
        for (outcome, total) in [
            (Outcome::Delivered, &mut summary.delivered),
            (Outcome::Retry, &mut summary.retried),
            (Outcome::Dead, &mut summary.dead),
            (Outcome::Uncertain, &mut summary.uncertain),
        ] {
            let count = reports.iter().filter(|report| report.outcome == outcome);
            let count = count.count() as u64;
            *total += count;
            if count > 0 {
                self.context.meters.attempts(outcome).increment(count);
            }
        }
        self.context.queue_state.count(OutcomeCounts {
            delivered: summary.delivered - before.delivered,
            retried: summary.retried - before.retried,
            dead: summary.dead - before.dead,
            uncertain: summary.uncertain - before.uncertain,
            ..OutcomeCounts::default()
        });
    }

    fn begun(&mut self, held: &mut OwnedLease, answer: BeginAnswer) {
        match answer {
            BeginAnswer::Begun => {}
            BeginAnswer::LeaseLost => return self.lose(held),
            BeginAnswer::NotInLease(missing) => return self.drop_missing(held, &missing),
        }
        let starting = mem::take(&mut held.beginning);
        if starting.is_empty() {
            held.flying
                .iter_mut()
                .for_each(|flying| flying.begun = true);
            return;
        }
        self.deliveries.slots_used -= starting.len();
        let why = if self.ending.as_ref().is_some_and(|ending| ending.is_cut) {
            Some("the worker stopped before it was sent")
        } else if !held.clock.is_alive(Instant::now()) {
            Some("its lease could not be renewed and may have been over before it was sent")
        } else {
            None
        };
        if let Some(why) = why {
            let reports = starting.iter().map(|claimed| not_sent(claimed, why));
            held.finished.extend(reports);
            return;
        }
        let policy = self.policy.current.clone();
        let policy = policy.expect("invariant: nothing begins without a policy");
        for message in starting {
            self.start(held, message, &policy, true);
        }
    }

    /// Messages the store no longer sees in the lease are not sent.
    fn drop_missing(&mut self, held: &mut OwnedLease, missing: &[MessageId]) {
        let (queue, fence) = (&self.context.queue, held.fence);
        let count = missing.len();
        warn!(%queue, %fence, "queue {queue}: {count} messages no longer belong to their lease");
        let starting = mem::take(&mut held.beginning);
        self.deliveries.slots_used -= starting.len();
        let kept = starting
            .into_iter()
            .filter(|message| !missing.contains(&message.message.id));
        for message in kept.rev() {
            self.leases.waiting += 1;
            held.waiting.push_front(message);
        }
        let is_missing = |id: MessageId| missing.contains(&id);
        for flying in held.flying.extract_if(.., |flying| is_missing(flying.id)) {
            flying.abort.abort();
            self.deliveries.slots_used -= 1;
        }
    }

    fn released(&mut self, held: &mut OwnedLease, answer: ReleaseAnswer) {
        match answer {
            ReleaseAnswer::Released(ids) => {
                self.summary.released += ids.len() as u64;
                self.drop_waiting(held);
            }
            // Perhaps only because the reply to an earlier try of this release was lost.
            ReleaseAnswer::LeaseLost if held.flying.is_empty() && held.finished.is_empty() => {
                self.drop_waiting(held);
            }
            ReleaseAnswer::LeaseLost => self.lose(held),
        }
    }

    fn late_recorded(&mut self, held: &OwnedLease, offered: usize, kept: usize) {
        let (queue, fence) = (&self.context.queue, held.fence);
        self.summary.late += offered as u64;
        self.context.meters.late_results.increment(offered as u64);
        info!(
            %queue, %fence, offered, kept,
            "queue {queue}: {offered} results came after their lease was lost; {kept} are kept as \
             evidence"
        );
    }

    /// The keeper found a lease lost.
    pub(super) fn found_lost(&mut self, fence: Fence) {
        let Some(mut held) = self.leases.held.remove(&fence) else {
            return;
        };
        // With everything finished, its settle will show; it may have ended the lease.
        if !held.is_complete() {
            self.lose(&mut held);
        }
        self.leases.held.insert(fence, held);
        self.leases.look_at(fence);
    }

    /// Stops work under a lease whose messages another worker may hold by now.
    fn lose(&mut self, held: &mut OwnedLease) {
        if mem::replace(&mut held.is_lost, true) {
            return;
        }
        let (queue, fence) = (&self.context.queue, held.fence);
        let (cancelled, dropped) = (held.flying.len(), held.waiting.len() + held.beginning.len());
        let late = held.finished.len();
        warn!(
            %queue, %fence, cancelled, dropped, late,
            "queue {queue}: lease {fence} was lost; {cancelled} deliveries are cancelled, \
             {dropped} are not started, {late} results are late"
        );
        self.context.meters.leases_lost.increment(1);
        self.summary.interrupted += cancelled as u64;
        self.deliveries.slots_used -= cancelled + held.beginning.len();
        held.beginning.clear();
        held.flying
            .drain(..)
            .for_each(|flying| flying.abort.abort());
        self.drop_waiting(held);
    }

    fn drop_waiting(&mut self, held: &mut OwnedLease) {
        self.leases.waiting -= held.waiting.len();
        held.waiting.clear();
    }

    fn forget(&mut self, fence: Fence) {
        let Some(held) = self.leases.held.remove(&fence) else {
            return;
        };
        self.keeper.forget(fence);
        if held.is_probe {
            self.context.breaker.return_probe();
        }
    }
}

/// The report on a message that was recorded as begun and then not sent after all.
///
/// It counts as a try: the store cannot take a beginning back, and leaving the message to the end
/// of its lease would count too if it were alone there, and make it wait besides. Where one try is
/// all a queue allows, such a message dies with this report as its reason, and may be requeued
/// without the risk of a duplicate. What an earlier delivery left in doubt stays so.
fn not_sent(claimed: &ClaimedMessage, why: &str) -> Report {
    let outcome = if claimed.in_doubt {
        Outcome::Uncertain
    } else {
        Outcome::Retry
    };
    Report {
        code: Some(codes::INTERRUPTED.to_owned()),
        detail: Some(why.to_owned()),
        retry_in: Some(std::time::Duration::ZERO),
        ..Report::new(claimed.message.id, outcome)
    }
}

/// The report on a delivery that was cut off by the end of its worker.
pub(super) fn cut_off(id: MessageId, since: Instant) -> Report {
    let ms = since.elapsed().as_millis();
    Report {
        code: Some(codes::INTERRUPTED.to_owned()),
        detail: Some(format!(
            "the worker stopped while it was under way for {ms} ms"
        )),
        retry_in: Some(std::time::Duration::ZERO),
        ..Report::new(id, Outcome::Uncertain)
    }
}

#[cfg(test)]
mod tests {
    use consign_kernel::Message;
    use jiff::Timestamp;
    use serde_json::{Map, Value};

    use super::*;

    #[test]
    fn what_was_in_doubt_stays_so_when_it_is_not_sent() {
        for (in_doubt, outcome) in [(true, Outcome::Uncertain), (false, Outcome::Retry)] {
            let claimed = ClaimedMessage {
                message: Message {
                    id: MessageId(7),
                    queue: "a".parse().unwrap(),
                    key: None,
                    group: None,
                    payload: Value::Null.into(),
                    headers: Map::new(),
                    created_at: Timestamp::UNIX_EPOCH,
                    expires_at: None,
                },
                attempt_no: 2,
                tries: 1,
                in_doubt,
            };
            assert_eq!(not_sent(&claimed, "stopped").outcome, outcome);
        }
    }
}
