//! Starting deliveries, and what their verdicts mean for the queue and its sink.

use std::{
    pin::Pin,
    sync::Arc,
    task::{self, Poll, Waker},
    time::Duration,
};

use consign_kernel::{
    ClaimedMessage, Fence, MessageId, Outcome, QueuePolicy, Report, Result, SendSlots,
};
use futures_util::future::{AbortHandle, Abortable};
use tokio::time::Instant;
use tracing::warn;

use super::QueueLoop;
use crate::{
    About, Delivery, Verdict,
    attempt::attempt,
    ops,
    owned_lease::{OwnedLease, RunningDelivery},
};

/// Deliveries started in one turn, so that a sink that always answers at once leaves time for
/// everything else.
const STARTS_MAX: usize = 512;
/// The pause when the sink is overloaded and names no time.
const PACE_DEFAULT: Duration = Duration::from_secs(1);
/// The longest pause that a sink can request for the whole queue.
const PACE_MAX: Duration = Duration::from_secs(300);
/// A pause longer than this releases waiting messages.
const PACE_HOLD_MAX: Duration = Duration::from_millis(500);

/// A delivery that has ended.
#[derive(Debug)]
pub(crate) struct FinishedDelivery {
    fence: Fence,
    id: MessageId,
    attempt_no: u32,
    verdict: Verdict,
    took: Duration,
    /// Of the message, which has been dropped by then.
    bytes: usize,
}

impl QueueLoop {
    /// Starts what may start.
    pub(super) fn start_deliveries(&mut self, now: Instant) {
        self.ticks.has_more = false;
        self.pace.advance(now);
        let Some(policy) = self.policy.current.clone() else {
            return;
        };
        let mut starts_left = STARTS_MAX;
        let mut index = 0;
        while let Some(fence) = self.leases.startable.get(index).copied() {
            if !self.may_start() {
                return;
            }
            if starts_left == 0 {
                self.ticks.has_more = true;
                return;
            }
            // Taken out while it is worked on: the loop is changed along with it.
            let Some(mut held) = self.leases.held.remove(&fence) else {
                self.leases.startable.remove(index);
                continue;
            };
            let is_done = self.start_some(&mut held, &policy, now, &mut starts_left);
            let is_finished = held.is_complete() || held.releases_waiting;
            self.leases.held.insert(fence, held);
            if is_finished {
                self.leases.look_at(fence);
            }
            if is_done {
                self.leases.startable.remove(index);
            } else {
                index += 1;
            }
        }
    }

    /// Starts messages of one lease; answers whether none of it is left to start.
    fn start_some(
        &mut self,
        held: &mut OwnedLease,
        policy: &QueuePolicy,
        now: Instant,
        starts_left: &mut usize,
    ) -> bool {
        if held.releases_waiting || held.is_lost {
            return true;
        }
        if !held.clock.is_alive(now) {
            // Another worker may hold these by now. The release finds out.
            held.releases_waiting = true;
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
            self.leases.waiting -= 1;
            self.start(held, message, policy, false);
        }
        held.waiting.is_empty()
    }

    /// Takes messages off the waiting list and has them recorded as begun.
    fn begin_some(&mut self, held: &mut OwnedLease, now: Instant) {
        while !held.waiting.is_empty() && self.may_start_one(held, now) {
            if let Some(message) = held.waiting.pop_front() {
                self.leases.waiting -= 1;
                self.deliveries.slots_used += 1;
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
        self.operations.record(begin);
    }

    /// Reserves send slots for what could start, where all processes share a rate.
    pub(super) fn reserve_slots(&mut self, now: Instant) {
        let free =
            (self.deliveries.concurrency.now() as usize).saturating_sub(self.deliveries.slots_used);
        let wanted = self.leases.waiting.min(free);
        let Some(slots) = &mut self.pace.slots else {
            return;
        };
        if let Some(count) = slots.missing(wanted, now) {
            slots.started_reserving();
            let reserve = ops::reserve_slots(Arc::clone(&self.context), count);
            self.operations.tasks.spawn(reserve);
        }
    }

    pub(super) fn reserved(&mut self, sent: Instant, answer: Result<Option<SendSlots>>) {
        let now = Instant::now();
        let Some(slots) = &mut self.pace.slots else {
            return;
        };
        match answer {
            Ok(reserved) => slots.reserved(reserved, sent, now),
            Err(_) => slots.were_not_reserved(now),
        }
    }

    /// Whether anything may start at all.
    fn may_start(&self) -> bool {
        self.deliveries.has_slot() && self.pace.is_free()
    }

    /// Whether one more message of this lease may start; takes its share of the rate if so.
    fn may_start_one(&mut self, held: &OwnedLease, now: Instant) -> bool {
        let is_admitted = held.is_probe || self.context.breaker.is_closed();
        self.may_start() && is_admitted && self.pace.take(now)
    }

    /// Starts one delivery. One that ends at once costs neither a task nor a place in a list.
    pub(super) fn start(
        &mut self,
        held: &mut OwnedLease,
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
        let send_until = held.send_until(&delivery.message);
        let (fence, id) = (held.fence, delivery.message.id);
        let (attempt_no, bytes) = (delivery.attempt_no, delivery.message.bytes());
        let since = Instant::now();
        let work = attempt(
            Arc::clone(&self.context),
            delivery,
            policy.on_uncertain,
            send_until,
        );
        let mut flight: Pin<Box<dyn Future<Output = FinishedDelivery> + Send>> =
            Box::pin(async move {
                let verdict = work.await;
                FinishedDelivery {
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
        held.flying.push(RunningDelivery {
            id,
            since,
            begun,
            abort,
        });
        self.deliveries.slots_used += 1;
        self.deliveries
            .running
            .push(Abortable::new(flight, registration));
    }

    /// A delivery that took its time has ended.
    pub(super) fn finish_delivery(&mut self, landed: FinishedDelivery, now: Instant) {
        let fence = landed.fence;
        let Some(mut held) = self.leases.held.remove(&fence) else {
            return;
        };
        if held.finish_delivery(landed.id) {
            self.deliveries.slots_used -= 1;
            self.finish(&mut held, landed, now);
        }
        let wants_look = held.is_complete() || held.releases_waiting || held.is_due || held.is_lost;
        self.leases.held.insert(fence, held);
        if wants_look {
            self.leases.look_at(fence);
        }
    }

    /// Processes a verdict.
    fn finish(&mut self, held: &mut OwnedLease, landed: FinishedDelivery, now: Instant) {
        let verdict = landed.verdict;
        held.reserved.release(landed.bytes);
        self.deliveries.speed.observe(landed.took);
        self.context.queue_state.took(landed.took);
        let seconds = self.context.meters.delivery_seconds(verdict.outcome);
        seconds.record(landed.took.as_secs_f64());
        let is_probe = std::mem::take(&mut held.is_probe);
        if verdict.outcome == Outcome::Delivered {
            self.record_success(is_probe, now);
        } else {
            let (queue, id, fence) = (&self.context.queue, landed.id, landed.fence);
            let code = verdict.code.as_deref().unwrap_or("none");
            let detail = verdict.detail.as_deref().unwrap_or("no detail");
            warn!(
                %queue, message_id = %id, %fence, attempt = landed.attempt_no, code,
                outcome = ?verdict.outcome, duration_ms = landed.took.as_millis() as u64,
                "queue {queue}: message {id} was not delivered ({code}): {detail}"
            );
            self.apply_failure(&verdict, is_probe, now);
        }
        if held.finished.is_empty() {
            let window = self.context.options.settle_window;
            self.leases.open_window(now + window, held.fence);
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

    fn record_success(&mut self, is_probe: bool, now: Instant) {
        self.deliveries.concurrency.succeeded();
        self.deliveries.unreported += 1;
        if is_probe {
            self.context.breaker.succeeded(now, 1, true);
        }
    }

    /// What a failure means for the queue and its sink.
    fn apply_failure(&mut self, verdict: &Verdict, is_probe: bool, now: Instant) {
        match verdict.about {
            // A delivery that lacks something waits for it; only what a probe decided gets here.
            About::Message | About::Process => self.record_success(is_probe, now),
            About::Unsent if is_probe => self.context.breaker.return_probe(),
            About::Unsent => {}
            About::Sink => {
                // In order: failures in a row are what counts.
                self.report_to_breaker(now);
                self.deliveries.concurrency.record_overload(now);
                let code = verdict.code.as_deref();
                self.context.breaker.failed(now, is_probe, code);
            }
            About::Pace => {
                self.record_success(is_probe, now);
                self.deliveries.concurrency.record_overload(now);
                let pause = verdict.retry_in.unwrap_or(PACE_DEFAULT).min(PACE_MAX);
                self.pace.pause_until(now + pause);
            }
        }
    }

    /// Reports the successes since the last call to the breaker.
    pub(super) fn report_to_breaker(&mut self, now: Instant) {
        let good = std::mem::take(&mut self.deliveries.unreported);
        if good > 0 {
            self.context.breaker.succeeded(now, good, false);
        }
    }

    /// Releases messages that wait for a sink behind an open breaker, so that they use up no tries.
    pub(super) fn release_for_breaker(&mut self) {
        if self.leases.waiting == 0 {
            return;
        }
        let is_paced = self.pace.is_paused_at(Instant::now() + PACE_HOLD_MAX);
        if self.context.breaker.is_closed() && !is_paced {
            return;
        }
        let others = self.leases.held.iter().filter(|(_, held)| !held.is_probe);
        for fence in others.map(|(fence, _)| *fence).collect::<Vec<_>>() {
            self.leases.release_waiting(fence);
        }
    }
}
