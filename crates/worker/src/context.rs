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
    face::Face, meters::Meters,
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
    pub(crate) face: Face,
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
            face: Face::new(),
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

    /// Notes that a store operation failed. One line per outage: it will be tried again.
    pub(crate) fn database_failed(&self, error: &Error) {
        self.meters.database_errors.increment(1);
        let cause = error.source().map(|cause| format!(": {cause}"));
        let text = format!("{error}{}", cause.unwrap_or_default());
        if self.face.set_error(text.clone()) {
            let (queue, code) = (&self.queue, error.code());
            warn!(%queue, code, "queue {queue}: {text}; trying until it answers");
        }
    }

    /// Notes that a store operation was answered.
    pub(crate) fn database_answered(&self) {
        if self.face.clear_error() {
            let queue = &self.queue;
            info!(%queue, "queue {queue}: the database answers again");
        }
    }

    pub(crate) fn status(&self) -> QueueStatus {
        // First, so that whoever reads that no claim is under way reads what the last one brought.
        let claiming = self.face.claiming.load(Acquire);
        QueueStatus {
            claiming,
            queue: self.queue.clone(),
            sink: self.sink.kind(),
            destination: self.sink.destination().to_owned(),
            in_flight: self.face.in_flight.load(Relaxed),
            prefetched: self.face.prefetched.load(Relaxed),
            concurrency: self.face.concurrency.load(Relaxed),
            concurrency_now: self.face.concurrency_now.load(Relaxed),
            paused: self.face.paused.load(Relaxed),
            breaker: self.breaker.state(),
            last_tick_age: self.face.last_tick_age(),
            unrecorded: self.face.unrecorded.load(Relaxed),
            database_error: self.face.error(),
        }
    }
}
