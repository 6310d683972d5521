//! Starting deliveries, and what their verdicts mean for the queue and its sink.

use std::{
    pin::Pin,
    sync::Arc,
    task::{self, Poll, Waker},
    time::Duration,
};

use consign_kernel::{ClaimedMessage, Fence, MessageId, Outcome, QueuePolicy, Report};
use futures_util::future::{AbortHandle, Abortable};
use tokio::time::Instant;
use tracing::warn;

use super::QueueLoop;
use crate::{
    About, Delivery, Verdict,
    attempt::attempt,
    held::{Flying, Held},
    ops,
};

/// Deliveries started in one turn, so that a sink that always answers at once leaves time for
/// everything else.
const STARTS_MAX: usize = 512;
/// How long to hold back when the sink wants less and does not say for how long.
const PACE_DEFAULT: Duration = Duration::from_secs(1);
/// How long a sink's wish is honoured for the whole queue.
const PACE_MAX: Duration = Duration::from_secs(300);
/// A pause longer than this gives back what waits.
const PACE_HOLD_MAX: Duration = Duration::from_millis(500);

/// A delivery that has ended.
#[derive(Debug)]
pub(crate) struct Landed {
    fence: Fence,
    id: MessageId,
    attempt_no: u32,
    verdict: Verdict,
    took: Duration,
    /// Of the message, which nobody holds any more.
    bytes: usize,
}

impl QueueLoop {
    /// Starts what may start.
    pub(super) fn start_deliveries(&mut self, now: Instant) {
        self.has_more = false;
        self.paced_until = self.paced_until.filter(|until| now < *until);
        self.start_at = self.start_at.filter(|at| now < *at);
        let Some(policy) = self.policy.clone() else {
            return;
        };
        let mut starts_left = STARTS_MAX;
        let mut index = 0;
        while let Some(fence) = self.startable.get(index).copied() {
            if !self.may_start() {
                return;
            }
            if starts_left == 0 {
                self.has_more = true;
                return;
            }
            // Taken out while it is worked on: the loop is changed along with it.
            let Some(mut held) = self.leases.remove(&fence) else {
                self.startable.remove(index);
                continue;
            };
            let is_done = self.start_some(&mut held, &policy, now, &mut starts_left);
            let is_finished = held.is_complete() || held.gives_back;
            self.leases.insert(fence, held);
            if is_finished {
                self.look_at(fence);
            }
            match is_done {
                true => drop(self.startable.remove(index)),
                false => index += 1,
            }
        }
    }

    /// Starts messages of one lease; answers whether none of it is left to start.
    fn start_some(
        &mut self,
        held: &mut Held,
        policy: &QueuePolicy,
        now: Instant,
        starts_left: &mut usize,
    ) -> bool {
        if held.gives_back || held.is_lost {
            return true;
        }
        if !held.clock.is_alive(now) {
            // Somebody else may hold these by now. Giving them back tells.
            held.gives_back = true;
            return true;
        }
        if policy.begins() {
            if !held.is_busy && held.beginning.is_empty() {
                self.begin_some(held, now);
            }
            return held.waiting.is_empty();
        }
        while *starts_left > 0 && !held.waiting.is_empty() && self.may_start_one(held, now) {
            *starts_left -= 1;
            let Some(message) = held.waiting.pop_front() else {
                break;
            };
            self.waiting -= 1;
            self.start(held, message, policy, false);
        }
        held.waiting.is_empty()
    }

    /// Takes messages off the waiting list and has them recorded as begun.
    fn begin_some(&mut self, held: &mut Held, now: Instant) {
        while !held.waiting.is_empty() && self.may_start_one(held, now) {
            if let Some(message) = held.waiting.pop_front() {
                self.waiting -= 1;
                self.slots_used += 1;
                held.beginning.push(message);
            }
        }
        if held.beginning.is_empty() {
            return;
        }
        let ids = held.beginning.iter().map(|message| message.message.id);
        let begin = ops::begin(
            Arc::clone(&self.context),
            held.fence,
            held.token,
            ids.collect(),
        );
        held.is_busy = true;
        self.recordings += 1;
        self.operations.spawn(begin);
    }

    /// Whether anything may start at all.
    fn may_start(&self) -> bool {
        self.slots_used < self.concurrency.now() as usize
            && self.start_at.is_none()
            && self.paced_until.is_none()
    }

    /// Whether one more message of this lease may start; takes its share of the rate if so.
    fn may_start_one(&mut self, held: &Held, now: Instant) -> bool {
        if !self.may_start() || !(held.is_probe || self.context.breaker.is_closed()) {
            return false;
        }
        let Some(bucket) = &mut self.bucket else {
            return true;
        };
        match bucket.take(now) {
            Ok(()) => true,
            Err(wait) => {
                self.start_at = Some(now + wait);
                false
            }
        }
    }

    /// Starts one delivery. One that ends at once costs neither a task nor a place in a list.
    pub(super) fn start(
        &mut self,
        held: &mut Held,
        claimed: ClaimedMessage,
        policy: &QueuePolicy,
        begun: bool,
    ) {
        let delivery = Delivery {
            attempt_no: claimed.attempt_no,
            in_doubt: claimed.in_doubt,
            fence: held.fence,
            timeout: policy.timeout(),
            message: Arc::new(claimed.message),
        };
        let (fence, id) = (held.fence, delivery.message.id);
        let (attempt_no, bytes) = (delivery.attempt_no, delivery.message.bytes());
        let since = Instant::now();
        let work = attempt(Arc::clone(&self.context), delivery, policy.on_uncertain);
        let mut flight: Pin<Box<dyn Future<Output = Landed> + Send>> = Box::pin(async move {
            let verdict = work.await;
            Landed {
                fence,
                id,
                attempt_no,
                verdict,
                took: since.elapsed(),
                bytes,
            }
        });
        // Polled again with a real waker if it is not done.
        let poll = flight
            .as_mut()
            .poll(&mut task::Context::from_waker(Waker::noop()));
        if let Poll::Ready(landed) = poll {
            self.finish(held, landed, since);
            return;
        }
        let (abort, registration) = AbortHandle::new_pair();
        held.flying.push(Flying {
            id,
            since,
            begun,
            abort,
        });
        self.slots_used += 1;
        self.flights.push(Abortable::new(flight, registration));
    }

    /// A delivery that took its time has ended.
    pub(super) fn landed(&mut self, landed: Landed, now: Instant) {
        let fence = landed.fence;
        let Some(mut held) = self.leases.remove(&fence) else {
            return;
        };
        if held.landed(landed.id) {
            self.slots_used -= 1;
            self.finish(&mut held, landed, now);
        }
        let wants_look = held.is_complete() || held.gives_back || held.is_due || held.is_lost;
        self.leases.insert(fence, held);
        if wants_look {
            self.look_at(fence);
        }
    }

    /// Takes note of a verdict.
    fn finish(&mut self, held: &mut Held, landed: Landed, now: Instant) {
        let verdict = landed.verdict;
        held.reserved.give_back(landed.bytes);
        self.speed.observe(landed.took);
        self.context.face.took(landed.took);
        let seconds = self.context.meters.delivery_seconds(verdict.outcome);
        seconds.record(landed.took.as_secs_f64());
        let is_probe = std::mem::take(&mut held.is_probe);
        if verdict.outcome == Outcome::Delivered {
            self.sink_is_well(is_probe, now);
        } else {
            let (queue, id, fence) = (&self.context.queue, landed.id, landed.fence);
            let code = verdict.code.as_deref().unwrap_or("none");
            let detail = verdict.detail.as_deref().unwrap_or("no detail");
            warn!(
                %queue, message_id = %id, %fence, attempt = landed.attempt_no, code,
                outcome = ?verdict.outcome, duration_ms = landed.took.as_millis() as u64,
                "queue {queue}: message {id} was not delivered ({code}): {detail}"
            );
            self.heed(&verdict, is_probe, now);
        }
        if held.finished.is_empty() {
            let window = self.context.options.settle_window;
            self.windows.push_back((now + window, held.fence));
        }
        held.finished.push(Report {
            id: landed.id,
            outcome: verdict.outcome,
            code: verdict.code,
            detail: verdict.detail,
            result: verdict.result,
            retry_in: verdict.retry_in,
        });
    }

    fn sink_is_well(&mut self, is_probe: bool, now: Instant) {
        self.concurrency.succeeded();
        self.good += 1;
        if is_probe {
            self.context.breaker.succeeded(now, 1, true);
        }
    }

    /// What a failure means for the queue and its sink.
    fn heed(&mut self, verdict: &Verdict, is_probe: bool, now: Instant) {
        match verdict.about {
            // A delivery that lacks something waits for it; only what a probe decided gets here.
            About::Message | About::Process => self.sink_is_well(is_probe, now),
            About::Sink => {
                // In order: failures in a row are what counts.
                self.tell_breaker(now);
                self.concurrency.suffered(now);
                self.context.breaker.failed(now, is_probe);
            }
            About::Pace => {
                self.sink_is_well(is_probe, now);
                self.concurrency.suffered(now);
                let pause = verdict.retry_in.unwrap_or(PACE_DEFAULT).min(PACE_MAX);
                let until = now + pause;
                self.paced_until = Some(self.paced_until.map_or(until, |old| old.max(until)));
            }
        }
    }

    /// Tells the breaker of what went well since it was last told.
    pub(super) fn tell_breaker(&mut self, now: Instant) {
        let good = std::mem::take(&mut self.good);
        if good > 0 {
            self.context.breaker.succeeded(now, good, false);
        }
    }

    /// Gives back what waits for a sink that is left alone: its tries are not to be burnt.
    pub(super) fn heed_breaker(&mut self) {
        if self.waiting == 0 {
            return;
        }
        let is_paced = self
            .paced_until
            .is_some_and(|until| until > Instant::now() + PACE_HOLD_MAX);
        if self.context.breaker.is_closed() && !is_paced {
            return;
        }
        let others = self.leases.iter().filter(|(_, held)| !held.is_probe);
        for fence in others.map(|(fence, _)| *fence).collect::<Vec<_>>() {
            self.give_back(fence);
        }
    }
}
