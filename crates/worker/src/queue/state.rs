//! The state of a queue's loop, by purpose.

use std::{
    collections::{BTreeMap, VecDeque},
    mem,
    pin::Pin,
    time::Duration,
};

use consign_kernel::{Bucket, Fence, QueuePolicy, Rate};
use futures_util::{future::Abortable, stream::FuturesUnordered};
use tokio::{task::JoinSet, time::Instant};

use super::{delivering::FinishedDelivery, slots::Slots};
use crate::{
    backoff::{Backoff, chance},
    concurrency::Concurrency,
    ops::Event,
    owned_lease::OwnedLease,
    sizing::Speed,
};

/// A delivery as the loop keeps it.
pub(super) type Flight = Abortable<Pin<Box<dyn Future<Output = FinishedDelivery> + Send>>>;

/// The queue's policy, and when it is read again.
pub(super) struct PolicyState {
    /// As last read; none before the first time.
    pub(super) current: Option<QueuePolicy>,
    due: Instant,
    backoff: Backoff,
    is_reading: bool,
}

impl PolicyState {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            current: None,
            due: now,
            backoff: Backoff::for_database(),
            is_reading: false,
        }
    }

    /// When it is read next, unless a read is under way.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.is_reading).then_some(self.due)
    }

    pub(super) fn started_reading(&mut self) {
        self.is_reading = true;
    }

    pub(super) fn was_read(&mut self, next: Instant) {
        self.is_reading = false;
        self.backoff.reset();
        self.due = next;
    }

    /// Tries again later; returns whether this is the first failure in a row.
    pub(super) fn was_not_read(&mut self) -> bool {
        self.is_reading = false;
        let is_first = self.backoff.steps() == 0;
        self.due = Instant::now() + self.backoff.next(chance());
        is_first
    }

    pub(super) fn has_alerts(&self) -> bool {
        let policy = self.current.as_ref();
        policy.is_some_and(|policy| policy.alert_queue.is_some())
    }

    pub(super) fn is_ordered(&self) -> bool {
        self.current.as_ref().is_some_and(|policy| policy.ordered)
    }
}

/// The leases the queue holds, and which of them need a step.
#[derive(Default)]
pub(super) struct Leases {
    pub(super) held: BTreeMap<Fence, OwnedLease>,
    /// Those with something waiting, in the order they were claimed.
    pub(super) startable: VecDeque<Fence>,
    /// Those whose next step is due.
    steps: VecDeque<Fence>,
    /// When the results of a lease have waited long enough for company.
    windows: VecDeque<(Instant, Fence)>,
    /// Messages claimed and not started.
    pub(super) waiting: usize,
}

impl Leases {
    pub(super) fn fences(&self) -> Vec<Fence> {
        self.held.keys().copied().collect()
    }

    /// Results not yet recorded.
    pub(super) fn unrecorded(&self) -> usize {
        self.held.values().map(OwnedLease::unrecorded).sum()
    }

    /// Queues a lease for its next step.
    pub(super) fn look_at(&mut self, fence: Fence) {
        if let Some(held) = self.held.get_mut(&fence)
            && !mem::replace(&mut held.is_queued, true)
        {
            self.steps.push_back(fence);
        }
    }

    /// The next lease to be looked at.
    pub(super) fn next_step(&mut self) -> Option<Fence> {
        self.steps.pop_front()
    }

    /// Has the results of a lease wait for company until then.
    pub(super) fn open_window(&mut self, until: Instant, fence: Fence) {
        self.windows.push_back((until, fence));
    }

    /// Results that have waited long enough are recorded without their neighbours.
    pub(super) fn close_windows(&mut self, now: Instant) {
        while let Some((at, fence)) = self.windows.front().copied()
            && at <= now
        {
            self.windows.pop_front();
            if let Some(held) = self.held.get_mut(&fence) {
                held.is_due = true;
                self.look_at(fence);
            }
        }
    }

    /// Marks the waiting messages of a lease for release; returns how many.
    pub(super) fn release_waiting(&mut self, fence: Fence) -> usize {
        let Some(held) = self.held.get_mut(&fence) else {
            return 0;
        };
        let count = held.waiting.len();
        if count == 0 || mem::replace(&mut held.releases_waiting, true) {
            return 0;
        }
        self.look_at(fence);
        count
    }

    /// When a window closes, or a lease with deliveries under way may be over.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        let flying = self.held.values().filter(|held| !held.flying.is_empty());
        let ends_at = flying.map(|held| held.clock.ends_at()).min();
        let window = self.windows.front().map(|(at, _)| *at);
        ends_at.into_iter().chain(window).min()
    }
}

/// Deliveries under way, and the concurrency that the sink sustains.
pub(super) struct Deliveries {
    pub(super) running: FuturesUnordered<Flight>,
    /// Those under way, and those about to be recorded as begun.
    pub(super) slots_used: usize,
    pub(super) concurrency: Concurrency,
    pub(super) speed: Speed,
    /// Successes not yet reported to the breaker.
    pub(super) unreported: u32,
}

impl Deliveries {
    pub(super) fn new() -> Self {
        Self {
            running: FuturesUnordered::new(),
            slots_used: 0,
            concurrency: Concurrency::new(1),
            speed: Speed::default(),
            unreported: 0,
        }
    }

    pub(super) fn has_slot(&self) -> bool {
        self.slots_used < self.concurrency.now() as usize
    }
}

/// What delays deliveries: the queue's rate, or a pause that the sink requested.
#[derive(Default)]
pub(super) struct Pace {
    bucket: Option<Bucket>,
    /// Set if the queue has a rate for all processes.
    pub(super) slots: Option<Slots>,
    /// Nothing starts before then, by the rate.
    start_at: Option<Instant>,
    /// Nothing starts before then, at the sink's request.
    paced_until: Option<Instant>,
}

impl Pace {
    /// Keeps another rate from now on.
    pub(super) fn set_rate(&mut self, rate_per_second: Option<u32>, now: Instant) {
        // A tenth of a second's worth at once.
        let rate = rate_per_second.map(|rate| Rate::new(rate, Duration::from_secs(1), rate / 10));
        if rate != self.bucket.map(|bucket| bucket.rate()) {
            self.bucket = rate.map(|rate| Bucket::new(rate, now.into_std()));
            self.start_at = None;
        }
    }

    /// Uses send slots of all processes from now on, or does so no more.
    pub(super) fn share(&mut self, is_shared: bool) {
        if is_shared != self.slots.is_some() {
            self.slots = is_shared.then(Slots::default);
            self.start_at = None;
        }
    }

    /// Forgets times that have come.
    pub(super) fn advance(&mut self, now: Instant) {
        self.paced_until = self.paced_until.filter(|until| now < *until);
        self.start_at = self.start_at.filter(|at| now < *at);
    }

    /// Whether nothing is held back.
    pub(super) fn is_free(&self) -> bool {
        self.start_at.is_none() && self.paced_until.is_none()
    }

    /// Takes the share of one delivery; `false` where the rate is used up.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        if let Some(slots) = &mut self.slots
            && let Err(next) = slots.due(now)
        {
            self.start_at = next;
            return false;
        }
        if let Some(bucket) = &mut self.bucket
            && let Err(wait) = bucket.take(now.into_std())
        {
            self.start_at = Some(now + wait);
            return false;
        }
        if let Some(slots) = &mut self.slots {
            slots.take();
        }
        true
    }

    /// The sink requested a pause.
    pub(super) fn pause_until(&mut self, until: Instant) {
        self.paced_until = Some(self.paced_until.map_or(until, |old| old.max(until)));
    }

    /// Whether the sink requested a pause beyond then.
    pub(super) fn is_paused_at(&self, at: Instant) -> bool {
        self.paced_until.is_some_and(|until| at < until)
    }

    /// When something may start again; the rate counts only where something waits.
    pub(super) fn wake_at(&self, has_waiting: bool) -> Option<Instant> {
        let start_at = self.start_at.filter(|_| has_waiting);
        start_at.into_iter().chain(self.paced_until).min()
    }
}

/// Store operations under way.
#[derive(Default)]
pub(super) struct Operations {
    pub(super) tasks: JoinSet<Event>,
    /// Settles, begins, releases and late results among them.
    pub(super) recordings: usize,
}

impl Operations {
    /// Starts an operation about a lease.
    pub(super) fn record(&mut self, operation: impl Future<Output = Event> + Send + 'static) {
        self.recordings += 1;
        self.tasks.spawn(operation);
    }
}

/// When the loop last showed that it lives, and whether it has more to do than one turn allows.
pub(super) struct Ticks {
    at: Instant,
    pub(super) has_more: bool,
}

impl Ticks {
    /// The loop shows that it lives at least this often.
    const EVERY: Duration = Duration::from_secs(1);

    pub(super) fn new(now: Instant) -> Self {
        Self {
            at: now,
            has_more: false,
        }
    }

    /// Whether a tick is due; records it as done.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = now.duration_since(self.at) >= Self::EVERY;
        if is_due {
            self.at = now;
        }
        is_due
    }

    pub(super) fn next(&self) -> Instant {
        self.at + Self::EVERY
    }
}
