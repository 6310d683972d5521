//! A lease in its worker, and the next step for it.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use consign_kernel::{ClaimedMessage, Fence, Lease, Message, MessageId, Report, Token};
use futures_util::future::AbortHandle;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::budget::Reservation;

/// Until when a lease lives for certain, by this machine's monotonic clock.
///
/// Only to avoid starting deliveries in vain: the database decides whether a settle is accepted.
#[derive(Debug)]
pub(crate) struct LeaseClock {
    since: Instant,
    alive_us: AtomicU64,
}

impl LeaseClock {
    /// `since` is when the claim was sent: the lease cannot have started earlier.
    pub(crate) fn new(since: Instant, ttl: Duration) -> Self {
        let clock = Self {
            since,
            alive_us: AtomicU64::new(0),
        };
        clock.prolong(since, ttl);
        clock
    }

    /// A renewal sent at `sent` was granted.
    pub(crate) fn prolong(&self, sent: Instant, ttl: Duration) {
        let until = sent.saturating_duration_since(self.since) + ttl;
        self.alive_us.fetch_max(until.as_micros() as u64, Relaxed);
    }

    pub(crate) fn is_alive(&self, now: Instant) -> bool {
        now < self.ends_at()
    }

    /// When it ends, unless it is prolonged before.
    pub(crate) fn ends_at(&self) -> Instant {
        self.since + Duration::from_micros(self.alive_us.load(Relaxed))
    }
}

/// A lease this worker holds.
#[derive(Debug)]
pub(crate) struct OwnedLease {
    pub(crate) token: Token,
    pub(crate) fence: Fence,
    pub(crate) clock: Arc<LeaseClock>,
    /// By the database's clock.
    pub(crate) claimed_at: Timestamp,
    /// The bytes of its messages that have no result yet.
    pub(crate) reserved: Reservation,
    /// Claimed, not started.
    pub(crate) waiting: VecDeque<ClaimedMessage>,
    /// On their way to being recorded as begun; they hold slots.
    pub(crate) beginning: Vec<ClaimedMessage>,
    /// Being delivered.
    pub(crate) flying: Vec<RunningDelivery>,
    /// Delivered or failed, not yet recorded.
    pub(crate) finished: Vec<Report>,
    /// How many results are in the store operation under way.
    pub(crate) recording: usize,
    /// Whether a store operation is under way: there is one at a time, so that a release never
    /// overtakes a settle.
    pub(crate) is_busy: bool,
    /// Whether to release waiting messages.
    pub(crate) releases_waiting: bool,
    /// Whether to record results without waiting for others.
    pub(crate) is_due: bool,
    pub(crate) is_lost: bool,
    /// Whether its one message is the breaker's probe, still without a result.
    pub(crate) is_probe: bool,
    /// Whether it is queued for its next step.
    pub(crate) is_queued: bool,
}

/// A delivery under way.
#[derive(Debug)]
pub(crate) struct RunningDelivery {
    pub(crate) id: MessageId,
    pub(crate) since: Instant,
    /// Whether its start is recorded in the store.
    pub(crate) begun: bool,
    pub(crate) abort: AbortHandle,
}

/// The next step of a lease.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing for now.
    Rest,
    /// Record its results.
    Settle,
    /// Record its results as late: the lease is lost.
    RecordLate,
    /// Record as begun what is under way, so that a release leaves it alone.
    Begin(Vec<MessageId>),
    /// Release waiting messages.
    Release,
    /// Forget it: nothing is left.
    End,
}

impl OwnedLease {
    pub(crate) fn new(lease: Lease, clock: Arc<LeaseClock>, reserved: Reservation) -> Self {
        Self {
            token: lease.token,
            fence: lease.fence,
            clock,
            claimed_at: lease.claimed_at,
            reserved,
            waiting: lease.messages.into(),
            beginning: Vec::new(),
            flying: Vec::new(),
            finished: Vec::new(),
            recording: 0,
            is_busy: false,
            releases_waiting: false,
            is_due: false,
            is_lost: false,
            is_probe: false,
            is_queued: false,
        }
    }

    /// From when on a message must not be sent, by this machine's monotonic clock; never too late: the
    /// lease cannot have started before its claim was sent. Renewals change nothing about it.
    pub(crate) fn send_until(&self, message: &Message) -> Option<Instant> {
        let left = message.expires_at?.duration_since(self.claimed_at);
        let left = Duration::try_from(left).unwrap_or(Duration::ZERO);
        self.clock.since.checked_add(left)
    }

    /// Whether every message of the lease has a result.
    pub(crate) fn is_complete(&self) -> bool {
        self.waiting.is_empty() && self.beginning.is_empty() && self.flying.is_empty()
    }

    /// Results not yet recorded.
    pub(crate) fn unrecorded(&self) -> usize {
        self.finished.len() + self.recording
    }

    /// The next step. Results go before a release: a release returns every message that has not begun,
    /// delivered or not.
    pub(crate) fn next_step(&self) -> Step {
        if self.is_busy {
            return Step::Rest;
        }
        let releases_waiting = self.releases_waiting && !self.waiting.is_empty();
        if !self.finished.is_empty() {
            return if self.is_lost {
                Step::RecordLate
            } else if self.is_due || self.is_complete() || releases_waiting {
                Step::Settle
            } else {
                Step::Rest
            };
        }
        if self.is_complete() {
            return Step::End;
        }
        if !releases_waiting {
            return Step::Rest;
        }
        let unknown: Vec<MessageId> = self
            .flying
            .iter()
            .filter(|flying| !flying.begun)
            .map(|flying| flying.id)
            .collect();
        if unknown.is_empty() {
            Step::Release
        } else {
            Step::Begin(unknown)
        }
    }

    /// Removes a delivery from the list; returns whether it was there.
    pub(crate) fn finish_delivery(&mut self, id: MessageId) -> bool {
        let place = self.flying.iter().position(|flying| flying.id == id);
        place.map(|place| self.flying.swap_remove(place)).is_some()
    }
}

#[cfg(test)]
mod tests;
