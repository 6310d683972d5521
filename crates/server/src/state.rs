//! What the handlers share.

use std::{collections::BTreeMap, fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use consign_kernel::{Counts, PAGE_ENTRIES_MAX, Queue, QueueName, QueuePulse, Store};
use consign_memory::{GatewayToken, MemoryOptions, MemoryService, Secret};
use consign_orders::OrderService;
use consign_payments::{PaymentService, Payments};
use consign_worker::{SharedRead, WorkerStatus};
use jiff::Timestamp;
use tokio::{
    sync::{Mutex, Notify, Semaphore, watch},
    time::Instant,
};
use uuid::Uuid;

use crate::{
    dashboard::{live::Live, memory::Watch},
    mcp::Mcp,
    options::ServerOptions,
    problem::Problem,
    tally::Tally,
};

/// What the server knows of a worker in the same process.
pub trait WorkerView: Send + Sync {
    /// How it is doing.
    fn status(&self) -> WorkerStatus;
}

impl<F> WorkerView for F
where
    F: Fn() -> WorkerStatus + Send + Sync,
{
    fn status(&self) -> WorkerStatus {
        self()
    }
}

type Metrics = Arc<dyn Fn() -> String + Send + Sync>;
pub(crate) type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;
type SchemaCheck =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = consign_kernel::Result<()>> + Send>> + Send + Sync>;

/// Exports of the audit under way at once, at most: each reads for as long as its reader takes it.
const EXPORTS_MAX: usize = 2;

/// Queues with what is in them.
pub(crate) type CountedQueues = Vec<(Queue, Counts)>;

/// When the database was checked, and what was wrong with it.
pub(crate) type Checked = (Instant, Option<String>);

/// Payments, where they are taken.
pub struct PaymentsHere {
    /// Who takes and shows them.
    pub service: PaymentService,
    /// Where they are kept.
    pub store: Arc<dyn Payments>,
}

impl fmt::Debug for PaymentsHere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PaymentsHere").finish_non_exhaustive()
    }
}

/// The gateway of memories, where there is one.
pub struct MemoryHere {
    /// Who does what agents ask.
    pub service: Arc<MemoryService>,
    /// Whom it serves.
    pub options: MemoryOptions,
}

impl fmt::Debug for MemoryHere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryHere").finish_non_exhaustive()
    }
}

/// The gateway of memories with the protocol it is called by.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) here: MemoryHere,
    pub(crate) mcp: Mcp,
    /// What is found out of it once for all who look.
    pub(crate) watch: Watch,
}

/// What the handlers share. Clones share it too.
#[derive(Clone)]
pub struct AppState {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) worker: Option<Arc<dyn WorkerView>>,
    /// Who takes orders, where orders are taken.
    pub(crate) orders: Option<Arc<OrderService>>,
    /// The longest wait for the result of one.
    pub(crate) order_wait_max: Duration,
    /// Who takes payments, where payments are taken.
    pub(crate) payments: Option<Arc<PaymentsHere>>,
    /// Who serves agents, where agents are served.
    pub(crate) memory: Option<Arc<Gateway>>,
    /// The tenants that tokens are bound to, by the tokens' names.
    pub(crate) tenants: Arc<BTreeMap<String, Uuid>>,
    pub(crate) metrics: Metrics,
    pub(crate) schema_check: Option<SchemaCheck>,
    pub(crate) clock: Clock,
    /// A worker whose claim loop was not seen for this long is not ready; the options decide.
    pub(crate) tick_age_max: Duration,
    /// The last check of the database.
    pub(crate) last_check: Arc<Mutex<Option<Checked>>>,
    /// Why the process could not write to the database the last time, if it could not.
    failed_write: Arc<watch::Sender<Option<String>>>,
    /// Held while a queue's policy is read, changed and written.
    pub(crate) queue_changes: Arc<Mutex<()>>,
    /// Wakes the stepper of redrives when one is started here.
    pub(crate) redrive_started: Arc<Notify>,
    /// What workers get done by HTTP.
    pub(crate) tally: Arc<Tally>,
    /// Exports that may be under way at once.
    pub(crate) exports: Arc<Semaphore>,
    /// What is being looked at in browsers.
    pub(crate) live: Arc<Live>,
    /// The first page of queues with their counts, which takes long where there are many messages: one
    /// read at a time.
    first_queues: Arc<SharedRead<Result<CountedQueues, Problem>>>,
    draining: Arc<watch::Sender<bool>>,
}

impl AppState {
    /// A server on a store, without a worker of its own and without metrics.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            worker: None,
            orders: None,
            order_wait_max: Duration::ZERO,
            payments: None,
            memory: None,
            tenants: Arc::default(),
            metrics: Arc::new(String::new),
            schema_check: None,
            clock: Arc::new(Timestamp::now),
            tick_age_max: ServerOptions::default().tick_age_max(),
            last_check: Arc::default(),
            failed_write: Arc::new(watch::Sender::new(None)),
            queue_changes: Arc::default(),
            redrive_started: Arc::new(Notify::new()),
            tally: Arc::default(),
            exports: Arc::new(Semaphore::new(EXPORTS_MAX)),
            live: Arc::default(),
            first_queues: Arc::default(),
            draining: Arc::new(watch::Sender::new(false)),
        }
    }

    /// The same with the worker of this process, which `/v1/worker`, `/v1/queues` and `/readyz` then
    /// speak of.
    #[must_use]
    pub fn with_worker(self, worker: impl WorkerView + 'static) -> Self {
        Self {
            worker: Some(Arc::new(worker)),
            ..self
        }
    }

    /// The same with a service for the orders of `/do/order`; without one, none are taken.
    /// `wait_max` is how long it waits for a result at most.
    #[must_use]
    pub fn with_orders(self, orders: Arc<OrderService>, wait_max: Duration) -> Self {
        Self {
            orders: Some(orders),
            order_wait_max: wait_max,
            ..self
        }
    }

    /// The same with payments at `/v1/payments`; without, none are taken.
    #[must_use]
    pub fn with_payments(self, payments: PaymentsHere) -> Self {
        Self {
            payments: Some(Arc::new(payments)),
            ..self
        }
    }

    /// The same with a gateway of memories at `/mcp`; without, there is none.
    #[must_use]
    pub fn with_memory(self, memory: MemoryHere) -> Self {
        let gateway = Gateway {
            mcp: Mcp::new(&memory.service),
            watch: Watch::default(),
            here: memory,
        };
        Self {
            memory: Some(Arc::new(gateway)),
            ..self
        }
    }

    /// The same with tokens that are bound to tenants, by the tokens' names. They are refused wherever
    /// the answer is not divided by tenants, whether payments are taken here or not; a token that is
    /// bound to none may speak for all.
    #[must_use]
    pub fn with_tenants(self, tenants: BTreeMap<String, Uuid>) -> Self {
        Self {
            tenants: Arc::new(tenants),
            ..self
        }
    }

    /// The same with what `/metrics` answers, in Prometheus' text format.
    #[must_use]
    pub fn with_metrics(self, render: impl Fn() -> String + Send + Sync + 'static) -> Self {
        Self {
            metrics: Arc::new(render),
            ..self
        }
    }

    /// The same with a check whether the database's schema still fits, for `/readyz`.
    #[must_use]
    pub fn with_schema_check<C, F>(self, check: C) -> Self
    where
        C: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = consign_kernel::Result<()>> + Send + 'static,
    {
        Self {
            schema_check: Some(Arc::new(move || Box::pin(check()))),
            ..self
        }
    }

    /// The same with another clock for ages; tests need it.
    #[must_use]
    pub fn with_clock(self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self {
            clock: Arc::new(clock),
            ..self
        }
    }

    /// What workers have got done by HTTP since this was last asked, queue by queue: for one that
    /// tells of the process.
    pub fn take_done(&self) -> Vec<QueuePulse> {
        self.tally.take()
    }

    /// Takes down whether the last regular write of this process succeeded: `/readyz` answers 503
    /// while it did not, as on a full disk, where reading still works.
    pub fn note_write(&self, failure: Option<String>) {
        self.failed_write.send_replace(failure);
    }

    pub(crate) fn failed_write(&self) -> Option<String> {
        self.failed_write.borrow().clone()
    }

    /// Queues with their counts by name, those after `after`; at most `limit`. All who ask for the
    /// first at the same time share one read.
    pub(crate) async fn queues(
        &self,
        after: Option<&QueueName>,
        limit: u32,
    ) -> Result<CountedQueues, Problem> {
        if after.is_some() {
            return Ok(self.store.queues(after, limit).await?);
        }
        let store = Arc::clone(&self.store);
        let read = || async move { Ok(store.queues(None, PAGE_ENTRIES_MAX).await?) };
        let mut queues = self.first_queues.get(read).await?;
        queues.truncate(limit as usize);
        Ok(queues)
    }

    /// The tokens that only the gateway of memories knows.
    pub(crate) fn agents(&self) -> Vec<GatewayToken> {
        let Some(memory) = &self.memory else {
            return Vec::new();
        };
        memory.here.options.tokens().unwrap_or_else(|error| {
            // Nobody knows an empty token: better nobody gets in than everybody.
            tracing::error!(%error, "the gateway of memories is closed: its tokens cannot be read");
            vec![GatewayToken {
                token: Secret::new(""),
                actor: None,
                admin: false,
            }]
        })
    }

    /// Says that the process is about to end: `/readyz` answers 503, waiting claims and orders return.
    pub fn drain(&self) {
        self.draining.send_replace(true);
        if let Some(orders) = &self.orders {
            orders.drain();
        }
    }

    /// Returns when what was taken from clients that have hung up since has come to its end. Call it
    /// when nothing comes in any more.
    pub async fn finished(&self) {
        if let Some(memory) = &self.memory {
            memory.here.service.finished().await;
        }
    }

    /// Whether `drain` has been called.
    pub fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Returns once `drain` has been called.
    pub(crate) async fn drained(&self) {
        let mut draining = self.draining.subscribe();
        let told = draining.wait_for(|draining| *draining).await;
        // The sender lives in `self`, so it cannot be gone.
        drop(told.expect("invariant: the state outlives its receivers"));
    }
}

impl fmt::Debug for AppState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppState")
            .field("worker", &self.worker.is_some())
            .field("draining", &self.is_draining())
            .finish_non_exhaustive()
    }
}
