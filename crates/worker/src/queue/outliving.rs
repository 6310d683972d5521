//! Deliveries do not outlive the lease they were started under.

use std::mem;

use consign_kernel::{Fence, Outcome, Report};
use futures_util::{FutureExt, StreamExt};
use tokio::time::Instant;
use tracing::warn;

use super::QueueLoop;
use crate::{
    attempt::codes,
    owned_lease::{OwnedLease, RunningDelivery},
};

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
