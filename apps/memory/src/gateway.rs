//! The operations that agents call.
//!
//! Thin transports come in through [`crate::tools`]; everything a tool does is here.

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
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout_at},
};
use tracing::warn;

pub(crate) use self::store::DEDUP_HIT;
pub(crate) use self::{
    change::{DeleteRequest, UpdateRequest},
    evidence::{CONTENT_TYPES, EvidenceRead, EvidenceUpload, closed, plain_key},
    governance::GovernanceUpdate,
    query::QueryRequest,
    read::ListRequest,
    spaces::SpacesRequest,
    store::Sketch,
};
pub use self::{
    gate::GateRequest,
    store::{StoreAnswer, StoreRequest},
};
use crate::{
    Action, Backend, BackendError, Caller, Logbook, MemoryOptions, Settings,
    policy::{self, Decision, PolicyInput},
    report,
    space::Spaces,
    tools::Refusal,
    turn::Turns,
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
    /// A place for each memory that is being stored.
    places: Arc<Semaphore>,
    /// A place for each request that is answered and not yet written down.
    lingering: Arc<Semaphore>,
    /// The settings as they were read last. Whatever is decided by them is compared with the
    /// database before it is written.
    settings: Mutex<Option<Arc<Settings>>>,
    /// The reliability report, which walks all audits: one at a time.
    report: SharedRead<Value>,
    turns: Turns,
}

/// More requests than a server takes at once.
const PLACES: u32 = 1 << 20;
/// Requests that wait for a database that hangs; what is more is left to reconciling.
const LINGERING_MAX: usize = 4_096;

impl fmt::Debug for MemoryService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryService")
            .field("backend", &self.inner.backend)
            .finish_non_exhaustive()
    }
}

impl MemoryService {
    /// A gateway over a logbook and a memory server. The sink of the same process should be given
    /// the same backend.
    pub fn new(
        logbook: Arc<dyn Logbook>,
        backend: Arc<dyn Backend>,
        options: MemoryOptions,
    ) -> Self {
        let turns = Turns::at(backend.as_ref(), &logbook);
        let inner = Arc::new(Inner {
            turns,
            logbook,
            backend,
            options,
            places: Arc::new(Semaphore::new(PLACES as usize)),
            lingering: Arc::new(Semaphore::new(LINGERING_MAX)),
            settings: Mutex::default(),
            report: SharedRead::default(),
        });
        Self { inner, scm: None }
    }

    /// The same gateway, which knows repositories as well: it can consume their changes, and read
    /// them as evidence.
    pub fn with_scm(self, scm: Arc<dyn ScmLedger>) -> Self {
        Self {
            scm: Some(scm),
            ..self
        }
    }

    /// What is known of repositories.
    pub fn scm(&self) -> Option<&dyn ScmLedger> {
        self.scm.as_deref()
    }

    /// Returns when every memory that was being stored has come to its end, also those whose clients
    /// have hung up. For a process that is about to end and takes no more.
    pub async fn finished(&self) {
        // Never closed, so there is always an answer.
        drop(self.inner.places.acquire_many(PLACES).await);
    }

    /// What it remembers with.
    pub fn logbook(&self) -> &dyn Logbook {
        self.inner.logbook.as_ref()
    }

    /// Where memories go.
    pub fn backend(&self) -> &dyn Backend {
        self.inner.backend.as_ref()
    }

    /// How it is set up.
    pub fn options(&self) -> &MemoryOptions {
        &self.inner.options
    }

    /// Whether the memory server can be used now; what is wrong with it, if anything, in sentences.
    pub async fn check(&self, budget: Duration) -> Result<Vec<String>, BackendError> {
        let ends = Instant::now() + budget;
        // It may have to write something to find out.
        let turn = match timeout_at(ends, self.turns().take_all()).await {
            Ok(Ok(turn)) => turn,
            Ok(Err(error)) => return Err(BackendError::Unreachable(error.to_string())),
            Err(_) => return Err(BackendError::Unreachable("others are still writing".into())),
        };
        let left = ends.saturating_duration_since(Instant::now());
        let checked = self.backend().check(left).await;
        drop(turn);
        checked
    }

    /// Whose turn it is to write there.
    fn turns(&self) -> &Turns {
        &self.inner.turns
    }

    fn settings_seen(&self) -> Option<Arc<Settings>> {
        self.settings_kept().clone()
    }

    fn saw_settings(&self, settings: Settings) -> Arc<Settings> {
        let settings = Arc::new(settings);
        *self.settings_kept() = Some(Arc::clone(&settings));
        settings
    }

    fn forget_settings(&self) {
        *self.settings_kept() = None;
    }

    fn settings_kept(&self) -> MutexGuard<'_, Option<Arc<Settings>>> {
        // Nothing that holds it can panic halfway.
        let kept = self.inner.settings.lock();
        kept.unwrap_or_else(PoisonError::into_inner)
    }

    /// The reliability report; `ok` says whether it could be made. All who ask at the same time share
    /// one.
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

    /// The owner of a private space; none: it is no private space.
    pub(crate) fn private_owner<'s>(&self, space: &'s str) -> Option<&'s str> {
        space.strip_prefix(self.options().private_space_prefix.as_str())
    }

    /// Whether a space is open to the caller: a private one is closed to everybody else whose
    /// token says who they are. So is one of no known kind: it may have been private under another
    /// `private_space_prefix`.
    pub(crate) fn may_use(&self, caller: &Caller, space: &str) -> bool {
        match (self.private_owner(space), caller.actor.as_deref()) {
            (Some(owner), Some(actor)) if caller.is_authenticated => owner == actor,
            (None, Some(_)) if caller.is_authenticated => Spaces::is_shared(space),
            _ => true,
        }
    }

    /// Whether what belongs to a space may be seen by the caller; what belongs to none is everybody's.
    pub(crate) fn may_see(&self, caller: &Caller, space: Option<&str>) -> bool {
        space.is_none_or(|space| self.may_use(caller, space))
    }

    /// Refuses an item whose space is closed to the caller. One that does not exist is none's.
    pub(crate) async fn check_item(&self, caller: &Caller, item_id: i64) -> Result<(), Refusal> {
        if !caller.is_bound() {
            return Ok(());
        }
        let item = self.logbook().item(item_id).await.map_err(refused)?;
        let space = item.and_then(|item| item.space());
        match self.may_see(caller, space.as_deref()) {
            true => Ok(()),
            false => Err(closed()),
        }
    }

    /// What the policy makes of a write by a caller.
    pub(crate) fn decide(&self, caller: &Caller, input: &PolicyInput<'_>) -> Decision {
        let decision = policy::decide(input);
        // Knowing a name on the list is no credential where tokens say who somebody is (T26).
        let is_unproven = caller.is_authenticated && !input.is_actor_bound;
        let is_shared = input.spaces.user_of(input.target_space).is_none();
        let is_listed = input.policy.allowlist_users.is_some();
        if is_unproven && is_shared && is_listed && decision.action == Action::Allow {
            return Decision {
                action: Action::Redirect,
                reason: "user_not_in_allowlist".to_owned(),
                final_space: Some(input.spaces.private_of(input.actor)),
            };
        }
        decision
    }

    /// Refuses spaces that are closed to the caller.
    pub(crate) fn check_space(&self, caller: &Caller, space: &str) -> Result<(), Refusal> {
        match self.may_use(caller, space) {
            true => Ok(()),
            false => {
                let why = match self.private_owner(space) {
                    Some(_) => format!("{space} is somebody else's private space"),
                    None => format!(
                        "{space} is no shared space, and may have been private under another \
                         memory.private_space_prefix"
                    ),
                };
                Err(Refusal::new("SPACE_FORBIDDEN", why))
            }
        }
    }

    /// Refuses callers who say they are somebody else than their token says.
    pub(crate) fn check_actor(
        &self,
        caller: &Caller,
        claimed: Option<&str>,
    ) -> Result<(), Refusal> {
        match (caller.actor.as_deref(), claimed) {
            (Some(actor), Some(claimed)) if caller.is_authenticated && actor != claimed => {
                let why = format!("the token is not {claimed}'s");
                Err(Refusal::new("ACTOR_MISMATCH", why))
            }
            _ => Ok(()),
        }
    }
}

/// A failure of the logbook, as tools tell it.
pub(crate) fn refused(error: Error) -> Refusal {
    match &error {
        Error::InvalidInput { .. } | Error::PayloadTooLarge { .. } => {
            Refusal::new("INVALID_PARAMETER", error.to_string())
        }
        error if error.is_retryable() => {
            warn!(%error, "the logbook could not be used");
            Refusal::new("LOGBOOK_UNAVAILABLE", error.to_string()).retryable()
        }
        error => {
            warn!(%error, "the logbook refused");
            Refusal::new("EXECUTION_FAILED", error.to_string())
        }
    }
}
