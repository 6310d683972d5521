//! When to claim, how much, and how to wait when there is nothing.

use std::{sync::Arc, time::Duration};

use consign_kernel::{Bucket, Lease, Rate, Result};
use tokio::{task::AbortHandle, time::Instant};
use tracing::debug;

use super::QueueLoop;
use crate::{
    WorkerOptions,
    backoff::{Backoff, chance},
    breaker::Admission,
    budget::Reservation,
    ops,
    owned_lease::{LeaseClock, OwnedLease},
    sizing::Demand,
};

/// Claims that may find nothing before the queue slows down: wake-ups that others were faster at.
const IN_VAIN_PER_SECOND: u32 = 5;
const IN_VAIN_BURST: u32 = 20;
/// Look all the same after this long without a wake-up.
const QUIET_MAX: Duration = Duration::from_secs(10);
/// How long to wait for a paused queue to be resumed.
const PAUSED_WAIT: Duration = Duration::from_secs(1);
/// Messages held in all, in parts of the largest claim: results pile up while the database is
/// gone, and must not pile up for ever.
const HELD_CLAIMS_MAX: usize = 4;

/// No message is expected to be smaller. A claim that expects too little brings fewer messages, and the
/// next one expects more.
const MESSAGE_BYTES_MIN: usize = 4 * 1024;
/// The part of the requested bytes that is worth a claim, while the queue has other work.
const BYTES_WORTH: usize = 4;

/// The state of the search for work.
#[derive(Debug)]
pub(crate) struct ClaimState {
    phase: Phase,
    /// How long to rest between polls without wake-ups.
    poll: Backoff,
    /// How long to rest while the database does not answer.
    outage: Backoff,
    in_vain: Bucket,
    /// Whether the last claim found something. The one after it, which finds the end, is not in
    /// vain: a queue with a message now and then must not be slowed down by them.
    found: bool,
    /// When a claim last searched the queue.
    claimed_at: Instant,
    /// When the breaker lets something through again.
    breaker_at: Option<Instant>,
    /// Whether the claim under way is for the breaker's probe.
    is_probe: bool,
    /// The bytes the claim under way may bring.
    reserved: Option<Reservation>,
    /// The expected size of a message of the queue, from the last claim.
    message_bytes: usize,
}

#[derive(Debug)]
enum Phase {
    /// Nothing under way.
    Idle,
    Claiming,
    Waiting(AbortHandle),
    /// Nothing before then, then a claim.
    Resting(Instant),
    /// The queue was empty: wait for work.
    Empty,
}

impl ClaimState {
    pub(crate) fn new(now: Instant, options: &WorkerOptions) -> Self {
        let in_vain = Rate::new(IN_VAIN_PER_SECOND, Duration::from_secs(1), IN_VAIN_BURST);
        Self {
            phase: Phase::Idle,
            poll: Backoff::new(options.poll_min, options.poll_max),
            outage: Backoff::for_database(),
            in_vain: Bucket::new(in_vain, now.into_std()),
            found: false,
            claimed_at: now,
            breaker_at: None,
            is_probe: false,
            reserved: None,
            message_bytes: MESSAGE_BYTES_MIN,
        }
    }

    /// Whether a claim was sent and is not answered yet.
    pub(crate) fn is_claiming(&self) -> bool {
        matches!(self.phase, Phase::Claiming)
    }

    pub(crate) fn wake_at(&self) -> Option<Instant> {
        match self.phase {
            Phase::Resting(until) => Some(until),
            _ => self.breaker_at,
        }
    }

    /// Ends a wait or a rest; the next turn claims.
    pub(crate) fn look_soon(&mut self) {
        if let Phase::Waiting(wait) = &self.phase {
            wait.abort();
        }
        if !self.is_claiming() {
            self.phase = Phase::Idle;
        }
    }

    /// Has the store look again for how long to wait.
    pub(super) fn wait_anew(&mut self) {
        if let Phase::Waiting(wait) = &self.phase {
            wait.abort();
            self.poll.reset();
            self.phase = Phase::Empty;
        }
    }

    /// Looks again after `pause`.
    fn rest(&mut self, pause: Duration) {
        self.phase = Phase::Resting(Instant::now() + pause);
    }
}

impl QueueLoop {
    /// Starts a claim or a wait, if there is room and nothing forbids it.
    pub(super) fn look_for_work(&mut self, now: Instant) {
        self.claiming.breaker_at = None;
        if self.ending.is_some() {
            return;
        }
        match self.claiming.phase {
            Phase::Claiming | Phase::Waiting(_) => return,
            Phase::Resting(until) if now < until => return,
            Phase::Resting(_) | Phase::Idle | Phase::Empty => {}
        }
        let Some(limit) = self.claim_limit(now) else {
            return;
        };
        if matches!(self.claiming.phase, Phase::Empty) {
            return self.wait_for_work();
        }
        let limit = match self.context.breaker.admit(now) {
            Admission::Free => limit,
            Admission::Probe => {
                self.claiming.is_probe = true;
                1
            }
            Admission::WaitUntil(until) => {
                self.claiming.breaker_at = Some(until);
                return;
            }
            // A change of the breaker wakes the loop.
            Admission::WaitForProbe => return,
        };
        let Some(reserved) = self.reserve(limit) else {
            return;
        };
        self.claiming.phase = Phase::Claiming;
        self.context
            .queue_state
            .claiming
            .store(true, super::Relaxed);
        let claim = ops::claim(Arc::clone(&self.context), limit, reserved.bytes());
        self.claiming.reserved = Some(reserved);
        self.operations.tasks.spawn(claim);
    }

    /// Room for the bytes of a claim; none where it must wait for deliveries to end. A queue that holds
    /// nothing always gets one message, so that no other queue can stop it.
    fn reserve(&self, limit: u32) -> Option<Reservation> {
        let held: usize = self
            .leases
            .held
            .values()
            .map(|held| held.reserved.held())
            .sum();
        let queue_max = self.policy.current.as_ref()?.claim_max_bytes;
        let target = self.claiming.message_bytes.saturating_mul(limit as usize);
        let target = target.min(queue_max);
        let room = target.min(queue_max.saturating_sub(held));
        let reserved = self.context.budget.reserve(room);
        let is_worth_it = reserved.bytes() > 0 && reserved.bytes() >= target / BYTES_WORTH;
        // The breaker's probe is one message too.
        (held == 0 || self.claiming.is_probe || is_worth_it).then_some(reserved)
    }

    /// How many messages there is room for; none if none, or if nothing may start anyway.
    fn claim_limit(&self, now: Instant) -> Option<u32> {
        if self.pace.is_paused_at(now) {
            return None;
        }
        let prefetch_max = self.context.options.prefetch_max;
        let held: usize = self.held_count();
        if held + prefetch_max as usize > HELD_CLAIMS_MAX * prefetch_max as usize
            && self.leases.unrecorded() > 0
        {
            return None;
        }
        let limit = self.demand()?.claim(self.leases.waiting as u32);
        (limit > 0).then_some(limit)
    }

    /// Messages whose lease has not ended: waiting, under way, or not yet recorded.
    fn held_count(&self) -> usize {
        self.leases.waiting + self.deliveries.slots_used + self.leases.unrecorded()
    }

    fn demand(&self) -> Option<Demand> {
        let policy = self.policy.current.as_ref()?;
        let concurrency = self.deliveries.concurrency.now();
        Some(Demand {
            speed: self.deliveries.speed,
            concurrency,
            slots_free: concurrency.saturating_sub(self.deliveries.slots_used as u32),
            rate_per_second: [policy.rate_per_second, policy.total_rate_per_second]
                .into_iter()
                .flatten()
                .min(),
            lease_ttl: policy.lease_ttl(),
            prefetch_max: self.context.claim_max(),
            // What is leased counts, whether it is sent or waits.
            only_free_slots: self.context.only_free_slots || policy.total_concurrency.is_some(),
            whole_batches: self.context.whole_batches,
        })
    }

    fn wait_for_work(&mut self) {
        let options = &self.context.options;
        let is_notified =
            options.notified && self.policy.current.as_ref().is_some_and(|p| p.notify);
        let is_paused = self.context.queue_state.paused.load(super::Relaxed);
        let wait_limit = match (is_paused, is_notified) {
            (true, _) => PAUSED_WAIT,
            (false, true) => options.wait_max,
            // No jitter: workers do not start to wait at the same moment.
            (false, false) => self.claiming.poll.next(0.0),
        };
        let wait_limit = self
            .context
            .poll_max
            .map_or(wait_limit, |most| wait_limit.min(most));
        let wait = ops::wait(Arc::clone(&self.context), wait_limit);
        self.claiming.phase = Phase::Waiting(self.operations.tasks.spawn(wait));
    }

    pub(super) fn waited(&mut self, wait_limit: Duration, took: Duration, answer: Result<bool>) {
        // A wait that was given up while its answer was on the way.
        if !matches!(self.claiming.phase, Phase::Waiting(_)) {
            return;
        }
        match answer {
            Ok(true) => self.claiming.phase = Phase::Idle,
            // A store that cannot wait: poll.
            Ok(false) if took < wait_limit / 2 => {
                let pause = self.claiming.poll.next(0.0);
                self.claiming.rest(pause);
            }
            Ok(false) => {
                // The store looks before it waits, so a quiet wait needs no claim to confirm it.
                self.claiming.phase = if self.claiming.claimed_at.elapsed() > QUIET_MAX {
                    Phase::Idle
                } else {
                    Phase::Empty
                };
            }
            Err(_) => self.back_off(),
        }
    }

    pub(super) fn claimed(&mut self, sent: Instant, answer: Result<Option<Lease>>) {
        let is_probe = std::mem::take(&mut self.claiming.is_probe);
        let reserved = self.claiming.reserved.take();
        let meters = &self.context.meters;
        meters.claim_seconds.record(sent.elapsed().as_secs_f64());
        self.claiming.phase = Phase::Idle;
        self.claiming.claimed_at = Instant::now();
        match answer {
            Ok(Some(lease)) => {
                self.claiming.outage.reset();
                self.claiming.poll.reset();
                self.claiming.found = true;
                let reserved = reserved.expect("invariant: every claim reserves its bytes");
                self.hold(lease, sent, is_probe, reserved);
            }
            Ok(None) => {
                self.claiming.outage.reset();
                self.claiming.phase = Phase::Empty;
                let after_work = std::mem::take(&mut self.claiming.found);
                if !after_work
                    && self
                        .claiming
                        .in_vain
                        .take(Instant::now().into_std())
                        .is_err()
                {
                    // No wake-up is received meanwhile, so the rest must be short.
                    self.claiming.rest(self.context.options.poll_min);
                }
            }
            Err(_) => self.back_off(),
        }
        if is_probe && !self.leases.held.values().any(|held| held.is_probe) {
            self.context.breaker.return_probe();
        }
    }

    fn back_off(&mut self) {
        let pause = self.claiming.outage.next(chance());
        self.claiming.rest(pause);
    }

    /// Takes a lease in.
    fn hold(&mut self, lease: Lease, sent: Instant, is_probe: bool, mut reserved: Reservation) {
        let (fence, count) = (lease.fence, lease.messages.len());
        let bytes = lease.messages.iter().map(|claimed| claimed.message.bytes());
        let bytes: usize = bytes.sum();
        reserved.settle(bytes);
        self.claiming.message_bytes = (2 * bytes / count.max(1)).max(MESSAGE_BYTES_MIN);
        let meters = &self.context.meters;
        meters.claimed.increment(count as u64);
        meters.claim_messages.record(count as f64);
        if let Some(oldest) = lease
            .messages
            .first()
            .filter(|oldest| oldest.attempt_no == 1)
        {
            let pickup = lease.claimed_at.duration_since(oldest.message.created_at);
            meters.pickup_seconds.record(pickup.as_secs_f64().max(0.0));
        }
        // How long it lives is a difference of two times of the database's clock.
        let life = lease.expires_at.duration_since(lease.claimed_at);
        let ttl = Duration::try_from(life).unwrap_or(Duration::ZERO);
        let clock = Arc::new(LeaseClock::new(sent, ttl));
        self.keeper
            .add(fence, lease.token, Arc::clone(&clock), sent, ttl);
        debug!(queue = %self.context.queue, %fence, count, "claimed");
        let mut held = OwnedLease::new(lease, clock, reserved);
        held.is_probe = is_probe;
        held.releases_waiting = self.ending.is_some();
        self.leases.waiting += count;
        self.leases.held.insert(fence, held);
        self.leases.startable.push_back(fence);
        self.leases.look_at(fence);
    }

    /// Releases messages that a slow sink would not reach soon, newest first.
    pub(super) fn release_surplus(&mut self, now: Instant) {
        let flying = self.leases.held.values().flat_map(|held| &held.flying);
        let oldest = flying.map(|flying| flying.since).min();
        if let Some(oldest) = oldest {
            self.deliveries
                .speed
                .observe_pending(now.duration_since(oldest));
        }
        let Some(demand) = self.demand() else { return };
        let mut surplus = demand.surplus(self.leases.waiting as u32) as usize;
        for fence in self.leases.held.keys().rev().copied().collect::<Vec<_>>() {
            if surplus == 0 {
                return;
            }
            surplus = surplus.saturating_sub(self.leases.release_waiting(fence));
        }
    }
}
