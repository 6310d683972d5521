//! What the handlers share.

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, OnceLock},
    time::Duration,
};

use consign_kernel::{
    Counts, PAGE_ENTRIES_MAX, Queue, QueueName, QueueStats, Situation, Store, Token,
};
use consign_worker::{SharedRead, WorkerStatus};
use jiff::Timestamp;
use tokio::{
    sync::{Mutex, Notify, Semaphore, watch},
    time::Instant,
};
use uuid::Uuid;

use crate::{
    dashboard::live::LiveViews,
    extension::{Extension, QueueProfile},
    options::ServerOptions,
    problem::Problem,
    tally::{Tally, TallyEntry},
};

/// The server's view of the worker in the same process.
pub trait WorkerView: Send + Sync {
    /// Its current status.
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
pub(crate) type DatabaseCheck = (Instant, Option<String>);

/// What the handlers share. Clones share it too.
#[derive(Clone)]
pub struct AppState {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) worker: Option<Arc<dyn WorkerView>>,
    /// What apps add.
    pub(crate) extensions: Arc<Vec<Arc<dyn Extension>>>,
    /// The OpenAPI document, built on first use.
    pub(crate) openapi: Arc<OnceLock<String>>,
    /// The tenants that tokens are bound to, by the tokens' names.
    pub(crate) tenants: Arc<BTreeMap<String, Uuid>>,
    pub(crate) metrics: Metrics,
    pub(crate) schema_check: Option<SchemaCheck>,
    pub(crate) clock: Clock,
    /// A worker whose claim loop was not seen for this long is not ready; the options decide.
    pub(crate) tick_age_max: Duration,
    /// The last check of the database.
    pub(crate) last_check: Arc<Mutex<Option<DatabaseCheck>>>,
    /// Why the process could not write to the database the last time, if it could not.
    failed_write: Arc<watch::Sender<Option<String>>>,
    /// Held while a queue's policy is read, changed and written.
    pub(crate) queue_changes: Arc<Mutex<()>>,
    /// Wakes the stepper of redrives when one is started here.
    pub(crate) redrive_started: Arc<Notify>,
    /// Results of workers over HTTP.
    pub(crate) tally: Arc<Tally>,
    /// Exports that may be under way at once.
    pub(crate) exports: Arc<Semaphore>,
    /// The live views of browsers.
    pub(crate) live: Arc<LiveViews>,
    /// The first page of queues with their counts, which takes long where there are many messages: one
    /// read at a time.
    first_queues: Arc<SharedRead<Result<CountedQueues, Problem>>>,
    /// What problems are computed from: one read at a time.
    situation: Arc<SharedRead<Result<Arc<Situation>, Problem>>>,
    draining: Arc<watch::Sender<bool>>,
}

impl AppState {
    /// A server on a store, without a worker of its own and without metrics.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            worker: None,
            extensions: Arc::default(),
            openapi: Arc::default(),
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
            situation: Arc::default(),
            draining: Arc::new(watch::Sender::new(false)),
        }
    }

    /// The same with the worker of this process, which `/v1/worker`, `/v1/queues` and `/readyz` then
    /// report on.
    #[must_use]
    pub fn with_worker(self, worker: impl WorkerView + 'static) -> Self {
        Self {
            worker: Some(Arc::new(worker)),
            ..self
        }
    }

    /// The same with what an app adds. It replaces an extension of the same name.
    #[must_use]
    pub fn with_extension(self, extension: Arc<dyn Extension>) -> Self {
        let mut extensions = self.extensions.as_ref().clone();
        let same = extensions
            .iter()
            .position(|known| known.name() == extension.name());
        match same {
            Some(index) => extensions[index] = extension,
            None => extensions.push(extension),
        }
        Self {
            extensions: Arc::new(extensions),
            openapi: Arc::default(),
            ..self
        }
    }

    /// The same with tokens that are bound to tenants, by the tokens' names. They are refused wherever
    /// the answer has no tenant filter, whichever apps are on; a token that is
    /// bound to none may act for all.
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

    /// What workers recorded over HTTP since the last call, by queue: for the process's
    /// heartbeat.
    pub fn take_done(&self) -> Vec<QueueStats> {
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

    /// The store that the server works on.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The time by which ages are shown.
    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// The status of this process's worker, if it has one.
    pub fn worker_status(&self) -> Option<WorkerStatus> {
        self.worker.as_ref().map(|worker| worker.status())
    }

    /// Counts a lease that an app gave to a worker over HTTP.
    pub fn count_claim(
        &self,
        token: Token,
        queue: &QueueName,
        messages: impl Iterator<Item = u128>,
    ) {
        self.tally.claimed(token, queue, messages);
    }

    /// Counts results that an app recorded for such a worker. Repeated ones count once.
    pub fn count_results(&self, token: Token, queue: &QueueName, results: &[TallyEntry]) {
        self.tally.recorded(token, queue, results);
    }

    /// Queues with their counts by name, those after `after`; at most `limit`. All callers of the
    /// first page at the same time share one read.
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

    /// What problems are computed from, of the first 1,000 queues. All callers at the same time share
    /// one read.
    pub(crate) async fn situation(&self) -> Result<Arc<Situation>, Problem> {
        let state = self.clone();
        let read = || async move {
            let queues = state.queues(None, PAGE_ENTRIES_MAX).await?;
            let situation = Situation::read(state.store.as_ref(), queues, None).await?;
            Ok(Arc::new(situation))
        };
        self.situation.get(read).await
    }

    /// How a queue is shown, where it belongs to an app.
    pub(crate) fn profile(&self, queue: &QueueName) -> Option<QueueProfile> {
        let mut profiles = self.extensions.iter().filter_map(|it| it.queue());
        profiles.find(|profile| profile.queue == queue.as_str())
    }

    /// Marks the process as shutting down: `/readyz` answers 503, waiting claims return, and what apps let wait.
    pub fn drain(&self) {
        self.draining.send_replace(true);
        for extension in self.extensions.iter() {
            extension.drain();
        }
    }

    /// Returns when accepted work of clients that have hung up is done. Call it
    /// when nothing comes in any more.
    pub async fn finished(&self) {
        for extension in self.extensions.iter() {
            extension.finished().await;
        }
    }

    /// Whether `drain` has been called.
    pub fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Returns once `drain` has been called.
    pub(crate) async fn drained(&self) {
        let mut draining = self.draining.subscribe();
        let changed = draining.wait_for(|draining| *draining).await;
        // The sender lives in `self`, so it cannot be gone.
        drop(changed.expect("invariant: the state outlives its receivers"));
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
