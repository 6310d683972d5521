//! The loop of one queue: claim, deliver, record, until the worker stops.
//!
//! One task owns all state of a queue, so nothing here is locked or shared. Each turn of the
//! loop does all that can be done now (`turn`), then waits for whatever happens next: a delivery
//! ends, the store answers, a lease is lost, the breaker changes, an order comes, or time passes.
//! Deliveries are futures inside this task: a sink that answers at once costs no task switch.

mod claiming;
mod delivering;
mod ending;
mod recording;
mod slots;
mod state;

use std::sync::{
    Arc,
    atomic::Ordering::{Relaxed, Release},
};

use consign_kernel::{Queue, QueuePolicy, Result};
use futures_util::{FutureExt, StreamExt};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tracing::{error, info};

use self::{
    claiming::ClaimState,
    delivering::FinishedDelivery,
    ending::Shutdown,
    state::{Deliveries, Leases, Operations, Pace, PolicyState, Ticks},
};
use crate::{
    Summary,
    breaker::code,
    concurrency::Concurrency,
    context::Context,
    handle::Order,
    keeper::Keeper,
    ops::{self, Event},
};

/// Deliveries looked at in one go before everything else gets a turn.
const LANDINGS_MAX: usize = 64;

/// All state of a queue.
pub(crate) struct QueueLoop {
    context: Arc<Context>,
    orders: watch::Receiver<Order>,
    keeper: Keeper,
    policy: PolicyState,
    claiming: ClaimState,
    leases: Leases,
    deliveries: Deliveries,
    pace: Pace,
    operations: Operations,
    ticks: Ticks,
    ending: Option<Shutdown>,
    summary: Summary,
    /// How often the breaker had opened when that was last looked at.
    openings: u64,
}

impl QueueLoop {
    pub(crate) fn new(context: Arc<Context>, orders: watch::Receiver<Order>) -> Self {
        let now = Instant::now();
        Self {
            keeper: Keeper::start(Arc::clone(&context)),
            policy: PolicyState::new(now),
            claiming: ClaimState::new(now, &context.options),
            leases: Leases::default(),
            deliveries: Deliveries::new(),
            pace: Pace::default(),
            operations: Operations::default(),
            ticks: Ticks::new(now),
            ending: None,
            summary: Summary::default(),
            openings: context.breaker.openings(),
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
            let has_more = self.ticks.has_more;
            tokio::select! {
                biased;
                // The sender lives in the handle and in the supervisor, which waits for this.
                Ok(()) = self.orders.changed() => {}
                Some(fence) = self.keeper.lost() => self.found_lost(fence),
                Some(event) = self.operations.tasks.join_next() => match event {
                    Ok(event) => {
                        self.happened(event);
                        // Lets the keeper register a new lease before a sink that blocks its
                        // thread gets hold of this one.
                        tokio::task::yield_now().await;
                    }
                    // Only waits are aborted, and what could panic is caught.
                    Err(gone) => assert!(gone.is_cancelled(), "an operation panicked: {gone}"),
                },
                Some(landed) = self.deliveries.running.next() => self.finish_deliveries(landed.ok()),
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
        self.apply_order(order, now);
        self.tick(now);
        self.cancel_outlived(now);
        self.release_for_breaker();
        self.leases.close_windows(now);
        self.start_deliveries(now);
        self.reserve_slots(now);
        self.report_to_breaker(now);
        self.record_openings();
        self.advance_leases();
        self.look_for_work(now);
        self.show(now);
    }

    fn finish_deliveries(&mut self, first: Option<FinishedDelivery>) {
        let now = Instant::now();
        let mut next = Some(first);
        for _ in 0..LANDINGS_MAX {
            let Some(landed) = next else { return };
            // A cancelled delivery was taken off the list when it was cancelled.
            if let Some(landed) = landed {
                self.finish_delivery(landed, now);
            }
            next = self
                .deliveries
                .running
                .next()
                .now_or_never()
                .flatten()
                .map(|landed| landed.ok());
        }
        if let Some(Some(landed)) = next {
            self.finish_delivery(landed, now);
        }
    }

    fn happened(&mut self, event: Event) {
        match event {
            Event::Claimed { sent, answer } => self.claimed(sent, answer),
            Event::Waited {
                wait_max,
                took,
                answer,
            } => self.waited(wait_max, took, answer),
            Event::Read(answer) => self.read_policy(answer),
            Event::Reserved { sent, answer } => self.reserved(sent, answer),
            // Not repeated: a breaker that stays open opens again after each probe.
            Event::OpeningRecorded => {}
            event => self.recorded(event),
        }
    }

    /// Records that the breaker has opened, by whichever queue of its sink, for the alerts of this queue.
    fn record_openings(&mut self) {
        let openings = self.context.breaker.openings();
        let has_opened = std::mem::replace(&mut self.openings, openings) != openings;
        if has_opened && self.policy.has_alerts() && self.ending.is_none() {
            let recording = ops::record_opening(Arc::clone(&self.context));
            self.operations.tasks.spawn(recording);
        }
    }

    /// Reads the policy again when that is due; once a second releases messages that would wait too long.
    fn tick(&mut self, now: Instant) {
        if self.policy.due().is_some_and(|due| now >= due) && self.ending.is_none() {
            self.policy.started_reading();
            let read = ops::read(Arc::clone(&self.context));
            self.operations.tasks.spawn(read);
        }
        if self.ticks.is_due(now) {
            self.release_surplus(now);
        }
    }

    fn read_policy(&mut self, answer: Result<Option<Queue>>) {
        match answer {
            Ok(Some(queue)) => {
                let now = Instant::now();
                let next = now + self.context.options.policy_refresh;
                self.policy.was_read(next);
                self.resumed_or_paused(queue.paused_at.is_some());
                if self.policy.current.as_ref() != Some(&queue.policy) {
                    self.follow(queue.policy, now);
                }
            }
            Ok(None) => {
                let name = &self.context.queue;
                if self.policy.was_not_read() {
                    error!(queue = %name, "queue {name} does not exist; waiting until it is created");
                }
            }
            Err(_) => {
                self.policy.was_not_read();
            }
        }
    }

    fn resumed_or_paused(&mut self, is_paused: bool) {
        let was_paused = self.context.queue_state.paused.swap(is_paused, Relaxed);
        if was_paused != is_paused {
            let queue = &self.context.queue;
            let verb = if is_paused { "paused" } else { "resumed" };
            info!(%queue, "queue {queue} was {verb}");
            self.claiming.look_soon();
        }
    }

    fn follow(&mut self, policy: QueuePolicy, now: Instant) {
        if self.policy.current.is_some() {
            let queue = &self.context.queue;
            info!(%queue, "queue {queue}: its policy has changed");
            self.deliveries.concurrency.set_max(policy.concurrency);
        } else {
            self.deliveries.concurrency = Concurrency::new(policy.concurrency);
        }
        self.context.set_lease_ttl(policy.lease_ttl_ms);
        self.pace.set_rate(policy.rate_per_second, now);
        self.pace.share(policy.total_rate_per_second.is_some());
        self.policy.current = Some(policy);
    }

    /// When to look again if nothing happens before.
    fn next_wake(&self, now: Instant) -> Instant {
        let times = [
            self.leases.wake_at(),
            self.policy.due().filter(|_| self.ending.is_none()),
            self.pace.wake_at(self.leases.waiting > 0),
            self.claiming.wake_at(),
            self.ending.as_ref().map(Shutdown::wake_at),
        ];
        let next = times.into_iter().flatten().min();
        let tick = self.ticks.next();
        next.map_or(tick, |next| next.min(tick)).max(now)
    }

    fn show(&self, now: Instant) {
        let queue_state = &self.context.queue_state;
        queue_state.tick(now);
        let in_flight = self.deliveries.running.len();
        if queue_state.in_flight.swap(in_flight, Relaxed) != in_flight {
            self.context.meters.in_flight.set(in_flight as f64);
        }
        queue_state.prefetched.store(self.leases.waiting, Relaxed);
        queue_state
            .concurrency
            .store(self.deliveries.concurrency.max(), Relaxed);
        queue_state
            .concurrency_now
            .store(self.deliveries.concurrency.now(), Relaxed);
        let unrecorded = self.leases.unrecorded();
        queue_state.unrecorded.store(unrecorded, Relaxed);
        queue_state
            .claiming
            .store(self.claiming.is_claiming(), Release);
        let state = code(self.context.breaker.state());
        self.context.meters.breaker_state.set(f64::from(state));
    }
}
