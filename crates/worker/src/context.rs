//! What the tasks of one queue have in common.

use std::{
    error::Error as _,
    sync::{
        Arc,
        atomic::{
            AtomicU64,
            Ordering::{Acquire, Relaxed},
        },
    },
    time::Duration,
};

use consign_kernel::{Error, QueueName, QueuePolicy, Store};
use tracing::{info, warn};

use crate::{
    QueueStatus, QueueWork, Sink, WorkerOptions, breaker::SharedBreaker, budget::Budget,
    meters::Meters, queue_state::QueueState,
};

const POLL_MIN: Duration = Duration::from_millis(1);

/// One queue: where it takes from, where it delivers to, and what it shows.
pub(crate) struct Context {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) queue: QueueName,
    pub(crate) sink: Arc<dyn Sink>,
    pub(crate) breaker: Arc<SharedBreaker>,
    pub(crate) options: Arc<WorkerOptions>,
    /// The bytes that all queues of the worker may hold.
    pub(crate) budget: Arc<Budget>,
    pub(crate) only_free_slots: bool,
    pub(crate) whole_batches: bool,
    pub(crate) poll_max: Option<Duration>,
    claim_max: Option<u32>,
    pub(crate) meters: Meters,
    pub(crate) queue_state: QueueState,
    /// What leases are prolonged by: the queue's policy as last read.
    lease_ttl_ms: AtomicU64,
}

impl Context {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        work: QueueWork,
        breaker: Arc<SharedBreaker>,
        options: Arc<WorkerOptions>,
        budget: Arc<Budget>,
    ) -> Self {
        Self {
            store,
            meters: Meters::new(&work.queue, work.sink.kind()),
            queue: work.queue,
            sink: work.sink,
            breaker,
            options,
            budget,
            only_free_slots: work.only_free_slots,
            whole_batches: work.whole_batches,
            // A rest of no length would spin.
            poll_max: work.poll_max.map(|most| most.max(POLL_MIN)),
            claim_max: work.claim_max,
            queue_state: QueueState::new(),
            lease_ttl_ms: AtomicU64::new(QueuePolicy::default().lease_ttl_ms),
        }
    }

    /// Most messages of one claim, and waiting at any time.
    pub(crate) fn claim_max(&self) -> u32 {
        let most = self.options.prefetch_max;
        self.claim_max.map_or(most, |own| own.clamp(1, most))
    }

    pub(crate) fn lease_ttl(&self) -> Duration {
        Duration::from_millis(self.lease_ttl_ms.load(Relaxed))
    }

    pub(crate) fn set_lease_ttl(&self, ttl_ms: u64) {
        self.lease_ttl_ms.store(ttl_ms, Relaxed);
    }

    /// Records that a store operation failed. Logs one line per outage: the operation is retried.
    pub(crate) fn database_failed(&self, error: &Error) {
        self.meters.database_errors.increment(1);
        let cause = error.source().map(|cause| format!(": {cause}"));
        let text = format!("{error}{}", cause.unwrap_or_default());
        if self.queue_state.set_error(text.clone()) {
            let (queue, code) = (&self.queue, error.code());
            warn!(%queue, code, "queue {queue}: {text}; retrying until it answers");
        }
    }

    /// Records that a store operation was answered.
    pub(crate) fn database_answered(&self) {
        if self.queue_state.clear_error() {
            let queue = &self.queue;
            info!(%queue, "queue {queue}: the database answers again");
        }
    }

    pub(crate) fn status(&self) -> QueueStatus {
        // First, so that a reader that sees no claim under way sees the messages of the last one.
        let claiming = self.queue_state.claiming.load(Acquire);
        QueueStatus {
            claiming,
            queue: self.queue.clone(),
            sink: self.sink.kind(),
            destination: self.sink.destination().to_owned(),
            in_flight: self.queue_state.in_flight.load(Relaxed),
            prefetched: self.queue_state.prefetched.load(Relaxed),
            concurrency: self.queue_state.concurrency.load(Relaxed),
            concurrency_now: self.queue_state.concurrency_now.load(Relaxed),
            paused: self.queue_state.paused.load(Relaxed),
            breaker: self.breaker.state(),
            last_tick_age: self.queue_state.last_tick_age(),
            unrecorded: self.queue_state.unrecorded.load(Relaxed),
            database_error: self.queue_state.error(),
        }
    }
}
