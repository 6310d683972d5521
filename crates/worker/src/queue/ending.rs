//! How a queue ends: deliveries under way may finish, the rest is released. And how deliveries end whose lease
//! does.

use std::{mem, time::Duration};

use consign_kernel::{Fence, Outcome, Report};
use futures_util::{FutureExt, StreamExt};
use tokio::time::Instant;
use tracing::{info, warn};

use super::{QueueLoop, recording::cut_off};
use crate::{
    Summary,
    attempt::codes,
    handle::Order,
    owned_lease::{OwnedLease, RunningDelivery},
};

/// Kept of the grace period for recording what was cut off.
const RECORDING_RESERVE: Duration = Duration::from_secs(1);

/// An end under way.
#[derive(Debug)]
pub(crate) struct Shutdown {
    /// When deliveries are cut off.
    cut_at: Instant,
    /// When the queue ends, recorded or not.
    deadline: Instant,
    pub(super) is_cut: bool,
}

impl Shutdown {
    /// When the next step is due.
    pub(super) fn wake_at(&self) -> Instant {
        if self.is_cut {
            self.deadline
        } else {
            self.cut_at
        }
    }
}

impl QueueLoop {
    /// Carries out an order.
    pub(super) fn apply_order(&mut self, order: Order, now: Instant) {
        match order {
            Order::Work => return,
            Order::Drain if self.ending.is_none() => {
                let grace = self.context.options.grace;
                let reserve = RECORDING_RESERVE.min(grace / 4);
                self.start_ending(now + grace - reserve, now + grace);
            }
            Order::Drain => {}
            Order::Stop => {
                let deadline = now + RECORDING_RESERVE;
                match &mut self.ending {
                    None => self.start_ending(now, deadline),
                    Some(ending) if !ending.is_cut => {
                        ending.cut_at = now;
                        ending.deadline = ending.deadline.min(deadline);
                    }
                    Some(_) => {}
                }
            }
        }
        let is_time = |ending: &Shutdown| !ending.is_cut && ending.cut_at <= now;
        if self.ending.as_ref().is_some_and(is_time) {
            self.cut();
        }
    }

    /// Stops claiming and releases everything that has not started.
    fn start_ending(&mut self, cut_at: Instant, deadline: Instant) {
        let (queue, flying, waiting) = (
            &self.context.queue,
            self.deliveries.running.len(),
            self.leases.waiting,
        );
        info!(
            %queue, flying, waiting,
            "queue {queue} drains: {flying} deliveries under way, {waiting} released"
        );
        self.ending = Some(Shutdown {
            cut_at,
            deadline,
            is_cut: false,
        });
        self.claiming.look_soon();
        for fence in self.leases.fences() {
            self.leases.release_waiting(fence);
            if let Some(held) = self.leases.held.get_mut(&fence) {
                held.is_due = true;
            }
            self.leases.look_at(fence);
        }
    }

    /// Cuts off deliveries under way, and records that in their attempts.
    fn cut(&mut self) {
        if let Some(ending) = &mut self.ending {
            ending.is_cut = true;
        }
        for fence in self.leases.fences() {
            let Some(held) = self.leases.held.get_mut(&fence) else {
                continue;
            };
            let count = held.flying.len();
            for flying in held.flying.drain(..) {
                flying.abort.abort();
                held.finished.push(cut_off(flying.id, flying.since));
            }
            held.is_due = true;
            self.deliveries.slots_used -= count;
            self.summary.interrupted += count as u64;
            self.leases.look_at(fence);
        }
    }

    /// Whether the queue has ended.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.ending.as_ref().is_some_and(|ending| {
            let is_clean = self.leases.held.is_empty() && !self.claiming.is_claiming();
            is_clean || now >= ending.deadline
        })
    }

    /// What it did. What could not be recorded is left to its lease.
    pub(super) fn end(mut self) -> Summary {
        let unrecorded = self.leases.unrecorded();
        self.summary.unrecorded = unrecorded as u64;
        let queue = &self.context.queue;
        if self.leases.held.is_empty() {
            info!(%queue, "queue {queue} has ended");
        } else {
            let leases = self.leases.held.len();
            warn!(
                %queue, unrecorded, leases,
                "queue {queue} has ended with {leases} leases left to expire and {unrecorded} \
                 results unrecorded: the database did not answer in time"
            );
        }
        self.show(Instant::now());
        self.context.meters.in_flight.set(0.0);
        self.summary
    }
}

impl QueueLoop {
    /// Cuts off deliveries whose lease may be over, because no renewal was answered in time.
    /// Another worker may be delivering the same messages by now.
    ///
    /// The lease is not treated as lost: the reply to a granted renewal may be lost. Results
    /// are sent to the store, and the store decides.
    pub(super) fn cancel_outlived(&mut self, now: Instant) {
        if self.outlived(now).is_empty() {
            return;
        }
        // A delivery that has ended is a result, even if it was not polled yet.
        while let Some(landed) = self.deliveries.running.next().now_or_never().flatten() {
            if let Ok(landed) = landed {
                self.finish_delivery(landed, now);
            }
        }
        for fence in self.outlived(now) {
            if let Some(mut held) = self.leases.held.remove(&fence) {
                self.cut_off_deliveries(&mut held, now);
                self.leases.held.insert(fence, held);
                self.leases.look_at(fence);
            }
        }
    }

    fn outlived(&self, now: Instant) -> Vec<Fence> {
        let outlived = |held: &OwnedLease| !held.flying.is_empty() && !held.clock.is_alive(now);
        let leases = self.leases.held.iter();
        let fences = leases.filter(|(_, held)| outlived(held));
        fences.map(|(fence, _)| *fence).collect()
    }

    fn cut_off_deliveries(&mut self, held: &mut OwnedLease, now: Instant) {
        let (queue, fence, cancelled) = (&self.context.queue, held.fence, held.flying.len());
        warn!(
            %queue, %fence, cancelled,
            "queue {queue}: lease {fence} could not be renewed and may be over; {cancelled} \
             deliveries are cancelled"
        );
        self.summary.interrupted += cancelled as u64;
        self.deliveries.slots_used -= cancelled;
        for flying in held.flying.drain(..) {
            flying.abort.abort();
            held.finished.push(outlived(&flying, now));
        }
        held.is_due = true;
        held.releases_waiting |= !held.waiting.is_empty();
        if mem::take(&mut held.is_probe) {
            self.context.breaker.return_probe();
        }
    }
}

/// The report on a delivery that was cut off at the end of its lease.
fn outlived(flying: &RunningDelivery, now: Instant) -> Report {
    let ms = now.saturating_duration_since(flying.since).as_millis();
    Report {
        code: Some(codes::INTERRUPTED.to_owned()),
        detail: Some(format!(
            "cut off after {ms} ms: its lease could not be renewed and was about to be over"
        )),
        ..Report::new(flying.id, Outcome::Uncertain)
    }
}
