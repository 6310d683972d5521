//! The handle of a running worker.

use std::sync::Arc;

use consign_kernel::QueueStats;
use serde::Serialize;
use tokio::sync::watch;

use crate::{WorkerStatus, context::Context};

/// What the worker does from now on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Order {
    /// Claim and deliver.
    #[default]
    Work,
    /// Finish what is under way.
    Drain,
    /// Stop at once.
    Stop,
}

/// What a worker did in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Messages recorded as delivered.
    pub delivered: u64,
    /// Messages recorded as failed, to be retried.
    pub retried: u64,
    /// Messages reported dead.
    pub dead: u64,
    /// Messages recorded as uncertain.
    pub uncertain: u64,
    /// Messages released without an attempt.
    pub released: u64,
    /// Results of lost leases, offered as evidence.
    pub late: u64,
    /// Deliveries cut off by the end, or by a lost lease.
    pub interrupted: u64,
    /// Results that could not be recorded before the end. Their leases run out by themselves.
    pub unrecorded: u64,
}

impl Summary {
    pub(crate) fn add(&mut self, other: Self) {
        self.delivered += other.delivered;
        self.retried += other.retried;
        self.dead += other.dead;
        self.uncertain += other.uncertain;
        self.released += other.released;
        self.late += other.late;
        self.interrupted += other.interrupted;
        self.unrecorded += other.unrecorded;
    }
}

/// A handle of a running worker. Clones control the same one; dropping them all does not end it.
#[derive(Clone, Debug)]
pub struct WorkerHandle {
    pub(crate) shared: Arc<WorkerState>,
}

/// What handles and queues share.
pub(crate) struct WorkerState {
    pub(crate) owner: String,
    pub(crate) orders: watch::Sender<Order>,
    pub(crate) ended: watch::Sender<Option<Summary>>,
    pub(crate) queues: Vec<Arc<Context>>,
}

impl std::fmt::Debug for WorkerState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker")
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

impl WorkerHandle {
    /// Its current status.
    pub fn status(&self) -> WorkerStatus {
        WorkerStatus {
            owner: self.shared.owner.clone(),
            draining: *self.shared.orders.borrow() != Order::Work,
            queues: self
                .shared
                .queues
                .iter()
                .map(|queue| queue.status())
                .collect(),
        }
    }

    /// What its queues recorded since the last call: for the process's heartbeat.
    pub fn take_done(&self) -> Vec<QueueStats> {
        let queue = |queue: &Arc<Context>| QueueStats {
            queue: queue.queue.clone(),
            done: queue.queue_state.take_done(),
        };
        self.shared.queues.iter().map(queue).collect()
    }

    /// Stops claiming, releases what has not started, and lets deliveries finish within the
    /// grace period.
    pub fn drain(&self) {
        self.order(Order::Drain);
    }

    /// Cuts deliveries off now. What was under way is recorded as uncertain, if the database
    /// answers at once.
    pub fn stop_now(&self) {
        self.order(Order::Stop);
    }

    /// Returns when the worker has ended; may be called repeatedly.
    pub async fn finished(&self) -> Summary {
        let mut ended = self.shared.ended.subscribe();
        let summary = ended.wait_for(Option::is_some).await;
        summary
            .ok()
            .and_then(|summary| *summary)
            .unwrap_or_default()
    }

    /// Orders only ever get stricter.
    fn order(&self, order: Order) {
        self.shared.orders.send_if_modified(|current| {
            let stricter = order > *current;
            *current = order.max(*current);
            stricter
        });
    }
}
