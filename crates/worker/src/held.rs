//! A lease as its worker sees it, and what is to be done about it next.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use consign_kernel::{ClaimedMessage, Fence, Lease, MessageId, Report, Token};
use futures_util::future::AbortHandle;
use tokio::time::Instant;

use crate::budget::Reserved;

/// Until when a lease lives for certain, by this machine's monotonic clock.
///
/// Only for not starting what is probably in vain: the database decides who may speak.
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
pub(crate) struct Held {
    pub(crate) token: Token,
    pub(crate) fence: Fence,
    pub(crate) clock: Arc<LeaseClock>,
    /// The bytes of its messages that have no result yet.
    pub(crate) reserved: Reserved,
    /// Claimed, not started.
    pub(crate) waiting: VecDeque<ClaimedMessage>,
    /// On their way to being recorded as begun; they hold slots.
    pub(crate) beginning: Vec<ClaimedMessage>,
    /// Being delivered.
    pub(crate) flying: Vec<Flying>,
    /// Delivered or failed, not yet recorded.
    pub(crate) finished: Vec<Report>,
    /// How many results are in the store operation under way.
    pub(crate) recording: usize,
    /// Whether a store operation is under way: there is one at a time, so that a release never
    /// overtakes a settle.
    pub(crate) is_busy: bool,
    /// Whether what waits is to be given back.
    pub(crate) gives_back: bool,
    /// Whether results are to be recorded without waiting for others.
    pub(crate) is_due: bool,
    pub(crate) is_lost: bool,
    /// Whether its one message is the breaker's probe, still without a result.
    pub(crate) is_probe: bool,
    /// Whether it stands in the queue for a look.
    pub(crate) is_queued: bool,
}

/// A delivery under way.
#[derive(Debug)]
pub(crate) struct Flying {
    pub(crate) id: MessageId,
    pub(crate) since: Instant,
    /// Whether the store knows that it was started.
    pub(crate) begun: bool,
    pub(crate) abort: AbortHandle,
}

/// What is to be done about a lease.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing for now.
    Rest,
    /// Record its results.
    Settle,
    /// Offer its results as evidence: the lease is lost.
    Witness,
    /// Record as begun what is under way, so that a release leaves it alone.
    Begin(Vec<MessageId>),
    /// Give back what waits.
    Release,
    /// Forget it: nothing is left.
    End,
}

impl Held {
    pub(crate) fn new(lease: Lease, clock: Arc<LeaseClock>, reserved: Reserved) -> Self {
        Self {
            token: lease.token,
            fence: lease.fence,
            clock,
            reserved,
            waiting: lease.messages.into(),
            beginning: Vec::new(),
            flying: Vec::new(),
            finished: Vec::new(),
            recording: 0,
            is_busy: false,
            gives_back: false,
            is_due: false,
            is_lost: false,
            is_probe: false,
            is_queued: false,
        }
    }

    /// Whether every message of the lease has a result.
    pub(crate) fn is_complete(&self) -> bool {
        self.waiting.is_empty() && self.beginning.is_empty() && self.flying.is_empty()
    }

    /// Results not yet recorded.
    pub(crate) fn unrecorded(&self) -> usize {
        self.finished.len() + self.recording
    }

    /// What to do next. Results go before a release: a release gives back whatever has not begun,
    /// delivered or not.
    pub(crate) fn next_step(&self) -> Step {
        if self.is_busy {
            return Step::Rest;
        }
        let gives_back = self.gives_back && !self.waiting.is_empty();
        if !self.finished.is_empty() {
            return match self.is_lost {
                true => Step::Witness,
                false if self.is_due || self.is_complete() || gives_back => Step::Settle,
                false => Step::Rest,
            };
        }
        if self.is_complete() {
            return Step::End;
        }
        if !gives_back {
            return Step::Rest;
        }
        let unknown: Vec<MessageId> = self
            .flying
            .iter()
            .filter(|flying| !flying.begun)
            .map(|flying| flying.id)
            .collect();
        match unknown.is_empty() {
            true => Step::Release,
            false => Step::Begin(unknown),
        }
    }

    /// Takes a delivery off the list; answers whether it was there.
    pub(crate) fn landed(&mut self, id: MessageId) -> bool {
        let place = self.flying.iter().position(|flying| flying.id == id);
        place.map(|place| self.flying.swap_remove(place)).is_some()
    }
}

#[cfg(test)]
mod tests;
