//! The loop of one queue: claim, deliver, record, until told to end.
//!
//! One task owns everything a queue knows, so nothing here is locked or shared. Each turn of the
//! loop does all that can be done now (`turn`), then waits for whatever happens next: a delivery
//! ends, the store answers, a lease is lost, the breaker changes, an order comes, or time passes.
//! Deliveries are futures inside this task: a sink that answers at once costs no task switch.

mod claiming;
mod delivering;
mod ending;
mod outliving;
mod recording;

use std::{
    collections::{BTreeMap, VecDeque},
    pin::Pin,
    sync::{
        Arc,
        atomic::Ordering::{Relaxed, Release},
    },
    time::Duration,
};

use consign_kernel::{Fence, Queue, QueuePolicy, Result};
use futures_util::{FutureExt, StreamExt, future::Abortable, stream::FuturesUnordered};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tracing::{error, info};

use self::{claiming::Claiming, delivering::Landed, ending::Ending};
use crate::{
    Summary,
    backoff::Backoff,
    breaker::code,
    bucket::Bucket,
    chance::chance,
    concurrency::Concurrency,
    context::Context,
    handle::Order,
    held::Held,
    keeper::Keeper,
    ops::{self, Event},
    sizing::Speed,
};

/// The loop shows that it lives at least this often.
const TICK: Duration = Duration::from_secs(1);
/// Deliveries looked at in one go before everything else gets a turn.
const LANDINGS_MAX: usize = 64;

/// A delivery as the loop keeps it.
type Flight = Abortable<Pin<Box<dyn Future<Output = Landed> + Send>>>;

/// Everything a queue knows.
pub(crate) struct QueueLoop {
    context: Arc<Context>,
    orders: watch::Receiver<Order>,
    keeper: Keeper,
    /// The queue's policy as last read; none before the first time.
    policy: Option<QueuePolicy>,
    policy_due: Instant,
    policy_backoff: Backoff,
    is_reading_policy: bool,
    leases: BTreeMap<Fence, Held>,
    /// Leases with something waiting, in the order they were claimed.
    startable: VecDeque<Fence>,
    flights: FuturesUnordered<Flight>,
    /// Messages claimed and not started.
    waiting: usize,
    /// Deliveries under way, and those about to be recorded as begun.
    slots_used: usize,
    operations: JoinSet<Event>,
    /// Settles, begins, releases and hand-ins under way.
    recordings: usize,
    /// Leases whose next step is to be looked at.
    queue: VecDeque<Fence>,
    /// When the results of a lease have waited long enough for company.
    windows: VecDeque<(Instant, Fence)>,
    claiming: Claiming,
    speed: Speed,
    concurrency: Concurrency,
    bucket: Option<Bucket>,
    /// Nothing starts before then: the rate, or the sink's own wish.
    start_at: Option<Instant>,
    paced_until: Option<Instant>,
    /// Good deliveries the breaker has not been told of.
    good: u32,
    ticked_at: Instant,
    /// Whether there is more to do right now than one turn allows.
    has_more: bool,
    ending: Option<Ending>,
    summary: Summary,
}

impl QueueLoop {
    pub(crate) fn new(context: Arc<Context>, orders: watch::Receiver<Order>) -> Self {
        let now = Instant::now();
        Self {
            keeper: Keeper::start(Arc::clone(&context)),
            policy: None,
            policy_due: now,
            policy_backoff: Backoff::for_database(),
            is_reading_policy: false,
            leases: BTreeMap::new(),
            startable: VecDeque::new(),
            flights: FuturesUnordered::new(),
            waiting: 0,
            slots_used: 0,
            operations: JoinSet::new(),
            recordings: 0,
            queue: VecDeque::new(),
            windows: VecDeque::new(),
            claiming: Claiming::new(now, &context.options),
            speed: Speed::default(),
            concurrency: Concurrency::new(1),
            bucket: None,
            start_at: None,
            paced_until: None,
            good: 0,
            ticked_at: now,
            has_more: false,
            ending: None,
            summary: Summary::default(),
            context,
            orders,
        }
    }

    /// Works until an order to end has been carried out.
    pub(crate) async fn run(mut self) -> Summary {
        let mut breaker_changes = self.context.breaker.changes();
        loop {
            let now = Instant::now();
            self.turn(now);
            if self.is_over(now) {
                return self.end();
            }
            let wake = self.next_wake(now);
            let has_more = self.has_more;
            tokio::select! {
                biased;
                // The sender lives in the handle and in the supervisor, which waits for this.
                Ok(()) = self.orders.changed() => {}
                Some(fence) = self.keeper.lost() => self.found_lost(fence),
                Some(event) = self.operations.join_next() => match event {
                    Ok(event) => {
                        self.happened(event);
                        // Lets the keeper take note of a new lease before a sink that blocks its
                        // thread gets hold of this one.
                        tokio::task::yield_now().await;
                    }
                    // Only waits are aborted, and what could panic is caught.
                    Err(gone) => assert!(gone.is_cancelled(), "an operation panicked: {gone}"),
                },
                Some(landed) = self.flights.next() => self.landed_all(landed.ok()),
                Ok(()) = breaker_changes.changed() => {}
                () = tokio::task::yield_now(), if has_more => {}
                () = sleep_until(wake), if !has_more => {}
            }
        }
    }

    /// Does all that can be done now.
    fn turn(&mut self, now: Instant) {
        assert!(
            !self.keeper.has_ended(),
            "the task that renews leases ended"
        );
        let order = *self.orders.borrow_and_update();
        self.obey(order, now);
        self.tick(now);
        self.cut_outlived(now);
        self.heed_breaker();
        self.close_windows(now);
        self.start_deliveries(now);
        self.tell_breaker(now);
        self.advance_leases();
        self.look_for_work(now);
        self.show(now);
    }

    fn landed_all(&mut self, first: Option<Landed>) {
        let now = Instant::now();
        let mut next = Some(first);
        for _ in 0..LANDINGS_MAX {
            let Some(landed) = next else { return };
            // A cancelled delivery was taken off the list when it was cancelled.
            if let Some(landed) = landed {
                self.landed(landed, now);
            }
            next = self
                .flights
                .next()
                .now_or_never()
                .flatten()
                .map(|landed| landed.ok());
        }
        if let Some(Some(landed)) = next {
            self.landed(landed, now);
        }
    }

    fn happened(&mut self, event: Event) {
        match event {
            Event::Claimed { sent, answer } => self.claimed(sent, answer),
            Event::Waited {
                asked,
                took,
                answer,
            } => self.waited(asked, took, answer),
            Event::Read(answer) => self.read_policy(answer),
            event => self.recorded(event),
        }
    }

    /// Once a second: shows life, reads the policy again, gives back what has become too much.
    fn tick(&mut self, now: Instant) {
        if now >= self.policy_due && !self.is_reading_policy && self.ending.is_none() {
            self.is_reading_policy = true;
            self.operations.spawn(ops::read(Arc::clone(&self.context)));
        }
        if now.duration_since(self.ticked_at) >= TICK {
            self.ticked_at = now;
            self.give_back_surplus(now);
        }
    }

    fn read_policy(&mut self, answer: Result<Option<Queue>>) {
        self.is_reading_policy = false;
        let queue = match answer {
            Ok(Some(queue)) => queue,
            Ok(None) => {
                let name = &self.context.queue;
                if self.policy_backoff.steps() == 0 {
                    error!(queue = %name, "queue {name} does not exist; waiting until it is created");
                }
                self.policy_due = Instant::now() + self.policy_backoff.next(chance());
                return;
            }
            Err(_) => {
                self.policy_due = Instant::now() + self.policy_backoff.next(chance());
                return;
            }
        };
        let now = Instant::now();
        self.policy_backoff.reset();
        self.policy_due = now + self.context.options.policy_refresh;
        self.resumed_or_paused(queue.paused_at.is_some());
        if self.policy.as_ref() != Some(&queue.policy) {
            self.follow(queue.policy, now);
        }
    }

    fn resumed_or_paused(&mut self, is_paused: bool) {
        let was_paused = self.context.face.paused.swap(is_paused, Relaxed);
        if was_paused != is_paused {
            let queue = &self.context.queue;
            let verb = if is_paused { "paused" } else { "resumed" };
            info!(%queue, "queue {queue} was {verb}");
            self.claiming.look_soon();
        }
    }

    fn follow(&mut self, policy: QueuePolicy, now: Instant) {
        if self.policy.is_some() {
            let queue = &self.context.queue;
            info!(%queue, "queue {queue}: its policy has changed and holds from now on");
            self.concurrency.set_max(policy.concurrency);
        } else {
            self.concurrency = Concurrency::new(policy.concurrency);
        }
        self.context.set_lease_ttl(policy.lease_ttl_ms);
        match policy.rate_per_second {
            Some(rate) if self.bucket.is_some_and(|bucket| bucket.keeps(rate)) => {}
            rate => {
                self.bucket = rate.map(|rate| Bucket::new(now, rate));
                self.start_at = None;
            }
        }
        self.policy = Some(policy);
    }

    /// When to look again if nothing happens before.
    fn next_wake(&self, now: Instant) -> Instant {
        let policy_due = (!self.is_reading_policy).then_some(self.policy_due);
        let window = self.windows.front().map(|(at, _)| *at);
        let start_at = self.start_at.filter(|_| self.waiting > 0);
        let flying = self.leases.values().filter(|held| !held.flying.is_empty());
        let times = [
            flying.map(|held| held.clock.ends_at()).min(),
            policy_due.filter(|_| self.ending.is_none()),
            window,
            start_at,
            self.paced_until,
            self.claiming.wake_at(),
            self.ending.as_ref().map(Ending::wake_at),
        ];
        let next = times.into_iter().flatten().min();
        let tick = self.ticked_at + TICK;
        next.map_or(tick, |next| next.min(tick)).max(now)
    }

    fn show(&self, now: Instant) {
        let face = &self.context.face;
        face.tick(now);
        let in_flight = self.flights.len();
        if face.in_flight.swap(in_flight, Relaxed) != in_flight {
            self.context.meters.in_flight.set(in_flight as f64);
        }
        face.prefetched.store(self.waiting, Relaxed);
        face.concurrency.store(self.concurrency.max(), Relaxed);
        face.concurrency_now.store(self.concurrency.now(), Relaxed);
        let unrecorded = self.leases.values().map(Held::unrecorded).sum();
        face.unrecorded.store(unrecorded, Relaxed);
        face.claiming.store(self.claiming.is_claiming(), Release);
        let state = code(self.context.breaker.state());
        self.context.meters.breaker_state.set(f64::from(state));
    }
}
