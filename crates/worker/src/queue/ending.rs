//! How a queue ends: deliveries under way may finish, the rest is released.

use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};

use super::{QueueLoop, recording::cut_off};
use crate::{Summary, handle::Order};

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
