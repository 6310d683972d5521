//! Recording what came of deliveries, and giving back what was not started.

use std::{mem, sync::Arc};

use consign_kernel::{
    BeginAnswer, ClaimedMessage, Done, Fence, MessageId, Outcome, ReleaseAnswer, Report,
    SettleAnswer, StateKind,
};
use tokio::time::Instant;
use tracing::{info, warn};

use super::QueueLoop;
use crate::{
    attempt::codes,
    held::{Held, Step},
    ops::{self, Event},
};

/// Store operations about leases under way at once. Connections are shared with claims, renewals
/// and other queues.
const RECORDINGS_MAX: usize = 4;

impl QueueLoop {
    /// Puts a lease in the queue for its next step.
    pub(super) fn look_at(&mut self, fence: Fence) {
        if let Some(held) = self.leases.get_mut(&fence)
            && !mem::replace(&mut held.is_queued, true)
        {
            self.queue.push_back(fence);
        }
    }

    /// Results that have waited long enough are recorded without their neighbours.
    pub(super) fn close_windows(&mut self, now: Instant) {
        while let Some((at, fence)) = self.windows.front().copied()
            && at <= now
        {
            self.windows.pop_front();
            if let Some(held) = self.leases.get_mut(&fence) {
                held.is_due = true;
                self.look_at(fence);
            }
        }
    }

    /// Takes the next step of every lease in the queue, as far as operations are free.
    pub(super) fn advance_leases(&mut self) {
        while self.recordings < RECORDINGS_MAX
            && let Some(fence) = self.queue.pop_front()
        {
            let Some(held) = self.leases.get_mut(&fence) else {
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
                Step::Settle | Step::Witness => {
                    held.recording = held.finished.len();
                    held.is_due = false;
                }
                Step::Begin(_) | Step::Release => {}
            }
            held.is_busy = true;
            self.recordings += 1;
            let reports = |held: &mut Held| mem::take(&mut held.finished);
            let operations = &mut self.operations;
            match step {
                Step::Settle => operations.spawn(ops::settle(context, fence, token, reports(held))),
                Step::Witness => {
                    operations.spawn(ops::witness(context, fence, token, reports(held)))
                }
                Step::Begin(ids) => operations.spawn(ops::begin(context, fence, token, ids)),
                Step::Release => operations.spawn(ops::release(context, fence, token)),
                Step::Rest | Step::End => unreachable!("invariant: dealt with above"),
            };
        }
    }

    /// Has what waits in a lease given back; answers how many that is.
    pub(super) fn give_back(&mut self, fence: Fence) -> usize {
        let Some(held) = self.leases.get_mut(&fence) else {
            return 0;
        };
        let count = held.waiting.len();
        if count == 0 || mem::replace(&mut held.gives_back, true) {
            return 0;
        }
        self.look_at(fence);
        count
    }

    /// An operation about a lease was answered.
    pub(super) fn recorded(&mut self, event: Event) {
        self.recordings -= 1;
        let fence = match &event {
            Event::Settled { fence, .. }
            | Event::Begun { fence, .. }
            | Event::Released { fence, .. }
            | Event::Witnessed { fence, .. } => *fence,
            Event::Claimed { .. } | Event::Waited { .. } | Event::Read(_) => {
                unreachable!("invariant: not about a lease")
            }
        };
        let Some(mut held) = self.leases.remove(&fence) else {
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
            Event::Witnessed { offered, kept, .. } => self.witnessed(&held, offered, kept),
            Event::Claimed { .. } | Event::Waited { .. } | Event::Read(_) => {}
        }
        // What finished meanwhile has waited for this operation already.
        held.is_due |= !held.finished.is_empty();
        if !held.waiting.is_empty() && !held.gives_back && !self.startable.contains(&fence) {
            self.startable.push_back(fence);
        }
        self.leases.insert(fence, held);
        self.look_at(fence);
    }

    fn settled(&mut self, held: &mut Held, reports: Vec<Report>, answer: SettleAnswer) {
        match answer {
            SettleAnswer::Settled(recorded) | SettleAnswer::AlreadySettled(recorded) => {
                // What the queue waits for may be due earlier now: a retry, or a group's next message.
                if self.policy.as_ref().is_some_and(|policy| policy.ordered)
                    || recorded.iter().any(|one| one.state == StateKind::Ready)
                {
                    self.claiming.wait_anew();
                }
                // An uncertain one may be sent again, held or dead: only the store knows.
                let again = recorded.iter().filter(|one| one.next_due_at.is_some());
                self.context.meters.retries.increment(again.count() as u64);
                self.count(&reports);
            }
            SettleAnswer::LeaseLost => {
                held.finished.splice(..0, reports);
                self.lose(held);
            }
            // Only a store that went back in time forgets what a lease held. What it still knows
            // is recorded; about the rest nobody would listen.
            SettleAnswer::NotInLease(strangers) => {
                let (queue, fence) = (&self.context.queue, held.fence);
                let count = strangers.len();
                warn!(%queue, %fence, "queue {queue}: {count} results no longer belong to their lease");
                self.summary.late += count as u64;
                self.context.meters.late_results.increment(count as u64);
                let known = |report: &Report| !strangers.contains(&report.id);
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
        self.context.face.count(Done {
            delivered: summary.delivered - before.delivered,
            retried: summary.retried - before.retried,
            dead: summary.dead - before.dead,
            uncertain: summary.uncertain - before.uncertain,
            took_ms: 0,
        });
    }

    fn begun(&mut self, held: &mut Held, answer: BeginAnswer) {
        match answer {
            BeginAnswer::Begun => {}
            BeginAnswer::LeaseLost => return self.lose(held),
            BeginAnswer::NotInLease(strangers) => return self.disown(held, &strangers),
        }
        let starting = mem::take(&mut held.beginning);
        if starting.is_empty() {
            held.flying
                .iter_mut()
                .for_each(|flying| flying.begun = true);
            return;
        }
        self.slots_used -= starting.len();
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
        let policy = self.policy.clone();
        let policy = policy.expect("invariant: nothing begins without a policy");
        for message in starting {
            self.start(held, message, &policy, true);
        }
    }

    /// Messages the store no longer sees in the lease are not sent.
    fn disown(&mut self, held: &mut Held, strangers: &[MessageId]) {
        let (queue, fence) = (&self.context.queue, held.fence);
        let count = strangers.len();
        warn!(%queue, %fence, "queue {queue}: {count} messages no longer belong to their lease");
        let starting = mem::take(&mut held.beginning);
        self.slots_used -= starting.len();
        let kept = starting
            .into_iter()
            .filter(|message| !strangers.contains(&message.message.id));
        for message in kept.rev() {
            self.waiting += 1;
            held.waiting.push_front(message);
        }
        let disowned = |id: MessageId| strangers.contains(&id);
        for flying in held.flying.extract_if(.., |flying| disowned(flying.id)) {
            flying.abort.abort();
            self.slots_used -= 1;
        }
    }

    fn released(&mut self, held: &mut Held, answer: ReleaseAnswer) {
        match answer {
            ReleaseAnswer::Released(ids) => {
                self.summary.released += ids.len() as u64;
                self.drop_waiting(held);
            }
            // Perhaps only because an earlier try of this release had succeeded unheard.
            ReleaseAnswer::LeaseLost if held.flying.is_empty() && held.finished.is_empty() => {
                self.drop_waiting(held);
            }
            ReleaseAnswer::LeaseLost => self.lose(held),
        }
    }

    fn witnessed(&mut self, held: &Held, offered: usize, kept: usize) {
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
        let Some(mut held) = self.leases.remove(&fence) else {
            return;
        };
        // With everything finished, its settle is about to tell; it may have ended the lease.
        if !held.is_complete() {
            self.lose(&mut held);
        }
        self.leases.insert(fence, held);
        self.look_at(fence);
    }

    /// Stops working for a lease that somebody else may hold by now.
    fn lose(&mut self, held: &mut Held) {
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
        self.slots_used -= cancelled + held.beginning.len();
        held.beginning.clear();
        held.flying
            .drain(..)
            .for_each(|flying| flying.abort.abort());
        self.drop_waiting(held);
    }

    fn drop_waiting(&mut self, held: &mut Held) {
        self.waiting -= held.waiting.len();
        held.waiting.clear();
    }

    fn forget(&mut self, fence: Fence) {
        let Some(held) = self.leases.remove(&fence) else {
            return;
        };
        self.keeper.forget(fence);
        if held.is_probe {
            self.context.breaker.give_probe_back();
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
    let outcome = match claimed.in_doubt {
        true => Outcome::Uncertain,
        false => Outcome::Retry,
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
                },
                attempt_no: 2,
                tries: 1,
                in_doubt,
            };
            assert_eq!(not_sent(&claimed, "stopped").outcome, outcome);
        }
    }
}
