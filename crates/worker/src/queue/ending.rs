//! How a queue ends: what is under way may finish, the rest is given back.

use std::time::Duration;

use consign_kernel::Fence;
use tokio::time::Instant;
use tracing::{info, warn};

use super::{QueueLoop, recording::cut_off};
use crate::{Summary, handle::Order, held::Held};

/// Kept of the grace period for recording what was cut off.
const RECORDING_RESERVE: Duration = Duration::from_secs(1);

/// An end under way.
#[derive(Debug)]
pub(crate) struct Ending {
    /// When deliveries are cut off.
    cut_at: Instant,
    /// When the queue ends, recorded or not.
    deadline: Instant,
    pub(super) is_cut: bool,
}

impl Ending {
    /// When something is to be done about it next.
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
    pub(super) fn obey(&mut self, order: Order, now: Instant) {
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
        let is_time = |ending: &Ending| !ending.is_cut && ending.cut_at <= now;
        if self.ending.as_ref().is_some_and(is_time) {
            self.cut();
        }
    }

    /// Stops claiming and has everything given back that has not started.
    fn start_ending(&mut self, cut_at: Instant, deadline: Instant) {
        let (queue, flying, waiting) = (&self.context.queue, self.flights.len(), self.waiting);
        info!(
            %queue, flying, waiting,
            "queue {queue} drains: {flying} deliveries under way, {waiting} given back"
        );
        self.ending = Some(Ending {
            cut_at,
            deadline,
            is_cut: false,
        });
        self.claiming.look_soon();
        for fence in self.fences() {
            self.give_back(fence);
            if let Some(held) = self.leases.get_mut(&fence) {
                held.is_due = true;
            }
            self.look_at(fence);
        }
    }

    /// Cuts off what is under way, and says so in its attempts.
    fn cut(&mut self) {
        if let Some(ending) = &mut self.ending {
            ending.is_cut = true;
        }
        for fence in self.fences() {
            let Some(held) = self.leases.get_mut(&fence) else {
                continue;
            };
            let count = held.flying.len();
            for flying in held.flying.drain(..) {
                flying.abort.abort();
                held.finished.push(cut_off(flying.id, flying.since));
            }
            held.is_due = true;
            self.slots_used -= count;
            self.summary.interrupted += count as u64;
            self.look_at(fence);
        }
    }

    fn fences(&self) -> Vec<Fence> {
        self.leases.keys().copied().collect()
    }

    /// Whether the queue has ended.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.ending.as_ref().is_some_and(|ending| {
            let is_clean = self.leases.is_empty() && !self.claiming.is_claiming();
            is_clean || now >= ending.deadline
        })
    }

    /// What it did. What could not be recorded is left to its lease.
    pub(super) fn end(mut self) -> Summary {
        let unrecorded: usize = self.leases.values().map(Held::unrecorded).sum();
        self.summary.unrecorded = unrecorded as u64;
        let queue = &self.context.queue;
        if self.leases.is_empty() {
            info!(%queue, "queue {queue} has ended");
        } else {
            let leases = self.leases.len();
            warn!(
                %queue, unrecorded, leases,
                "queue {queue} has ended with {leases} leases left to run out and {unrecorded} \
                 results unrecorded: the database did not answer in time"
            );
        }
        self.show(Instant::now());
        self.context.meters.in_flight.set(0.0);
        self.summary
    }
}
