//! The operations of the memory gateway. Transports call them through [`crate::tools`].

mod change;
mod evidence;
mod gate;
mod governance;
mod query;
mod read;
mod spaces;
mod store;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use consign_kernel::Error;
use consign_scm::ScmLedger;
use consign_worker::SharedRead;
use serde_json::{Value, json};
use tokio::{sync::Semaphore, time::Instant};
use tracing::warn;

pub(crate) use self::store::DEDUP_HIT;
pub(crate) use self::{
    change::{DeleteRequest, UpdateRequest},
    evidence::{CONTENT_TYPES, EvidenceRead, EvidenceUpload, closed, plain_key},
    governance::GovernanceUpdate,
    query::QueryRequest,
    read::ListRequest,
    spaces::SpacesRequest,
    store::RequestOutline,
};
pub use self::{
    gate::GateRequest,
    store::{StoreAnswer, StoreRequest},
};
use crate::{
    Backend, BackendError, Caller, Logbook, MemoryOptions, Settings, report, space::Spaces,
    tools::Refusal, write_lock::WriteLock,
};

/// The memory gateway. Clones share everything.
#[derive(Clone)]
pub struct MemoryService {
    inner: Arc<Inner>,
    scm: Option<Arc<dyn ScmLedger>>,
}

struct Inner {
    logbook: Arc<dyn Logbook>,
    backend: Arc<dyn Backend>,
    options: MemoryOptions,
    /// A permit for each store request that is not finished.
    in_flight: Arc<Semaphore>,
    /// A permit for each answered request whose result is still being recorded.
    background: Arc<Semaphore>,
    /// The settings as last read. A write decided by them compares them with the database in the
    /// transaction of its audit.
    settings: Mutex<Option<Arc<Settings>>>,
    /// The reliability report scans all audits, so concurrent callers share one scan.
    report: SharedRead<Value>,
    write_lock: WriteLock,
}

/// Above what one server can have in flight.
const IN_FLIGHT_MAX: u32 = 1 << 20;
/// Requests that wait in the background for a hanging database; reconciliation covers the rest.
const BACKGROUND_MAX: usize = 4_096;

impl fmt::Debug for MemoryService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryService")
            .field("backend", &self.inner.backend)
            .finish_non_exhaustive()
    }
}

impl MemoryService {
    /// A gateway over a logbook and a memory server. Gateway and sink of one process should share the
    /// backend.
    pub fn new(
        logbook: Arc<dyn Logbook>,
        backend: Arc<dyn Backend>,
        options: MemoryOptions,
    ) -> Self {
        let inner = Arc::new(Inner {
            write_lock: WriteLock::new(backend.as_ref(), &logbook),
            logbook,
            backend,
            options,
            in_flight: Arc::new(Semaphore::new(IN_FLIGHT_MAX as usize)),
            background: Arc::new(Semaphore::new(BACKGROUND_MAX)),
            settings: Mutex::default(),
            report: SharedRead::default(),
        });
        Self { inner, scm: None }
    }

    /// The same gateway with repositories, whose changes it can consume and read as evidence.
    pub fn with_scm(self, scm: Arc<dyn ScmLedger>) -> Self {
        Self {
            scm: Some(scm),
            ..self
        }
    }

    /// The repositories, if the gateway has any.
    pub fn scm(&self) -> Option<&dyn ScmLedger> {
        self.scm.as_deref()
    }

    /// Waits until every store request is finished, including those whose clients disconnected. For the
    /// shutdown of a process that takes no more requests.
    pub async fn finished(&self) {
        // The semaphore is never closed.
        drop(self.inner.in_flight.acquire_many(IN_FLIGHT_MAX).await);
    }

    /// The logbook.
    pub fn logbook(&self) -> &dyn Logbook {
        self.inner.logbook.as_ref()
    }

    /// The memory server.
    pub fn backend(&self) -> &dyn Backend {
        self.inner.backend.as_ref()
    }

    /// The settings of this process.
    pub fn options(&self) -> &MemoryOptions {
        &self.inner.options
    }

    /// Checks the memory server; returns warnings.
    pub async fn check(&self, budget: Duration) -> Result<Vec<String>, BackendError> {
        let ends = Instant::now() + budget;
        // The check may store and remove a sample.
        let _guard = self.write_lock().take_server(ends).await?;
        let left = ends.saturating_duration_since(Instant::now());
        self.backend().check(left).await
    }

    fn write_lock(&self) -> &WriteLock {
        &self.inner.write_lock
    }

    fn cached_settings(&self) -> Option<Arc<Settings>> {
        self.settings_cache().clone()
    }

    fn cache_settings(&self, settings: Settings) -> Arc<Settings> {
        let settings = Arc::new(settings);
        *self.settings_cache() = Some(Arc::clone(&settings));
        settings
    }

    fn settings_cache(&self) -> MutexGuard<'_, Option<Arc<Settings>>> {
        let settings = self.inner.settings.lock();
        settings.unwrap_or_else(PoisonError::into_inner)
    }

    /// The reliability report; `ok` is false if it could not be made. Concurrent callers share one.
    pub async fn report(&self) -> Value {
        let service = self.clone();
        let read = || async move { service.read_report().await };
        self.inner.report.get(read).await
    }

    async fn read_report(&self) -> Value {
        match self.logbook().memory_counts().await {
            Ok(counts) => {
                let report = report::ReliabilityReport::new(
                    &counts,
                    &self.backend().identity(),
                    jiff::Timestamp::now(),
                );
                let mut body = json!(report);
                body["ok"] = json!(true);
                body["message"] = Value::Null;
                body
            }
            Err(error) => {
                warn!(%error, "the reliability report could not be made");
                report::failed(&error)
            }
        }
    }

    /// The owner of a private space; none for any other space.
    pub(crate) fn private_owner<'s>(&self, space: &'s str) -> Option<&'s str> {
        space.strip_prefix(self.options().private_space_prefix.as_str())
    }

    /// Whether the caller may use a space. A token that names an actor closes the private spaces of all
    /// other actors, and spaces of no known kind, which may have been private under another
    /// `private_space_prefix`.
    pub(crate) fn may_use(&self, caller: &Caller, space: &str) -> bool {
        match (self.private_owner(space), caller.actor.as_deref()) {
            (Some(owner), Some(actor)) if caller.is_authenticated => owner == actor,
            (None, Some(_)) if caller.is_authenticated => Spaces::is_shared(space),
            _ => true,
        }
    }

    /// Whether the caller may see what belongs to a space; without a space every caller may.
    pub(crate) fn may_see(&self, caller: &Caller, space: Option<&str>) -> bool {
        space.is_none_or(|space| self.may_use(caller, space))
    }

    /// Refuses an item in a space that the caller may not use; an unknown item passes.
    pub(crate) async fn check_item(&self, caller: &Caller, item_id: i64) -> Result<(), Refusal> {
        if !caller.is_bound() {
            return Ok(());
        }
        let item = self.logbook().item(item_id).await.map_err(refused)?;
        let space = item.and_then(|item| item.space());
        if self.may_see(caller, space.as_deref()) {
            Ok(())
        } else {
            Err(closed())
        }
    }

    /// Refuses a space that the caller may not use.
    pub(crate) fn check_space(&self, caller: &Caller, space: &str) -> Result<(), Refusal> {
        if self.may_use(caller, space) {
            return Ok(());
        }
        let why = match self.private_owner(space) {
            Some(_) => format!("{space} is another user's private space"),
            None => format!(
                "{space} is no shared space, and may have been private under another \
                 memory.private_space_prefix"
            ),
        };
        Err(Refusal::new("SPACE_FORBIDDEN", why))
    }

    /// Refuses a claimed actor that is not the token's.
    pub(crate) fn check_actor(
        &self,
        caller: &Caller,
        claimed: Option<&str>,
    ) -> Result<(), Refusal> {
        match (caller.actor.as_deref(), claimed) {
            (Some(actor), Some(claimed)) if caller.is_authenticated && actor != claimed => {
                let why = format!("the token does not belong to {claimed}");
                Err(Refusal::new("ACTOR_MISMATCH", why))
            }
            _ => Ok(()),
        }
    }
}

/// A failure of the logbook as a tool's refusal.
pub(crate) fn refused(error: Error) -> Refusal {
    match &error {
        Error::InvalidInput { .. } | Error::PayloadTooLarge { .. } => {
            Refusal::new("INVALID_PARAMETER", error.to_string())
        }
        error if error.is_retryable() => {
            warn!(%error, "the logbook is not available");
            Refusal::new("LOGBOOK_UNAVAILABLE", error.to_string()).retryable()
        }
        error => {
            warn!(%error, "the logbook rejected the call");
            Refusal::new("EXECUTION_FAILED", error.to_string())
        }
    }
}
