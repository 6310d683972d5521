//! Repositories in commands and long-running processes: synchronise, fetch, consume.

mod hooks;
pub(super) mod metrics;
mod rounds;
mod sample;

use std::{path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use consign_app::{
    AppService, Background, ServiceBanner, ServiceKind, Task,
    config::{Config, Flags, failure},
    context::Context,
    database::Database,
    failure::{Failure, with_causes},
};
use consign_artifacts::Artifacts;
use consign_memory::{
    MemoryAppService, MemoryService,
    consume::{self, ConsumeOptions, ConsumeReport, Watch},
};
use consign_scm::{
    End, LedgerError, MaterializeReport, Repo, ScmError, ScmLedger, Step, SyncHooks, SyncOptions,
    SyncReport, Synchronizer,
};
use tokio::sync::watch;

pub(crate) use self::hooks::Hooks;
use self::{rounds::Rounds, sample::sample};
use super::{
    ledger,
    options::{self, ScmSettings},
};

/// The ledger and the sources of repositories.
#[derive(Clone)]
pub(crate) struct Repositories {
    ledger: Arc<dyn ScmLedger>,
    /// `None` where the app `memory` is off.
    gateway: Option<Arc<MemoryService>>,
    settings: ScmSettings,
    artifacts_root: PathBuf,
    /// Whether database roles can add repositories.
    roles_can_add: bool,
}

impl Repositories {
    /// For a command.
    pub(crate) async fn open(context: &Context) -> Result<Self, Failure> {
        let config = context.config(Flags::new())?;
        let prepared = ScmService::prepare(&config)?;
        Ok(prepared.repositories(&context.open_with(&config).await?))
    }

    /// For a command that may defer memories: their queue must exist.
    pub(crate) async fn open_with_queue(context: &Context) -> Result<Self, Failure> {
        let config = context.config(Flags::new())?;
        let prepared = ScmService::prepare(&config)?;
        let database = context.open_with(&config).await?;
        MemoryAppService::create_queue(&*database.store, &config).await?;
        Ok(prepared.repositories(&database))
    }

    pub(crate) fn ledger(&self) -> &dyn ScmLedger {
        &*self.ledger
    }

    pub(crate) fn settings(&self) -> &ScmSettings {
        &self.settings
    }

    /// The memory gateway.
    pub(crate) fn gateway(&self) -> Result<&MemoryService, Failure> {
        let gateway = self.gateway.as_deref();
        gateway.ok_or_else(|| {
            Failure::usage(
                "the app memory is off: add it to apps in consign.toml, or use --app memory",
            )
        })
    }

    /// Synchronises a repository.
    pub(crate) async fn sync(
        &self,
        repo: &Repo,
        options: SyncOptions,
        hooks: &dyn SyncHooks,
        stop: watch::Receiver<bool>,
    ) -> Result<SyncReport, ScmError> {
        let synced = self.with(repo, options, hooks, stop, async |it| it.sync().await);
        let synced = synced.await;
        metrics::synced(
            repo.repo_id,
            synced.as_ref().map_or_else(ScmError::code, |_| "ok"),
        );
        self.note_sync(repo, &synced).await;
        synced
    }

    /// Records the end of a synchronisation for the status.
    async fn note_sync(&self, repo: &Repo, synced: &Result<SyncReport, ScmError>) {
        let end = match synced {
            Ok(_) => End::Complete,
            // The other process records its end.
            Err(ScmError::Ledger(LedgerError::Moved { .. })) => return,
            // Stopped without a failure; an earlier failure may persist.
            Err(ScmError::Stopped) => return,
            Err(error) => End::stopped(error.code(), &with_causes(error)),
        };
        let repo_id = repo.repo_id;
        if let Err(error) = self.ledger.ended(repo_id, Step::Sync, &end).await {
            tracing::info!(repo_id, %error, "recording the end of a synchronisation failed");
        }
    }

    /// Fetches missing changes, at most `limit`, and none with too many failures.
    pub(crate) async fn materialize(
        &self,
        repo: &Repo,
        limits: (Option<u64>, Option<u32>),
        hooks: &dyn SyncHooks,
        stop: watch::Receiver<bool>,
    ) -> Result<MaterializeReport, ScmError> {
        let (limit, attempts_max) = limits;
        let options = self.settings.sync();
        self.with(repo, options, hooks, stop, async |it| {
            it.materialize(limit, attempts_max).await
        })
        .await
    }

    async fn with<T>(
        &self,
        repo: &Repo,
        options: SyncOptions,
        hooks: &dyn SyncHooks,
        stop: watch::Receiver<bool>,
        work: impl AsyncFnOnce(Synchronizer<'_>) -> Result<T, ScmError>,
    ) -> Result<T, ScmError> {
        let source_options =
            self.settings
                .source(&repo.url, &self.artifacts_root, self.roles_can_add);
        let source = consign_scm::open(repo, &source_options)?;
        let artifacts = Artifacts::new(&self.artifacts_root);
        work(Synchronizer {
            ledger: self.ledger(),
            source: &*source,
            repo,
            artifacts: &artifacts,
            options,
            retry: &source_options.retry,
            hooks,
            stop,
        })
        .await
    }

    /// Makes memories of new changes.
    pub(crate) async fn consume(
        &self,
        repo: &Repo,
        cards_max: Option<u64>,
        watch: Watch<'_>,
    ) -> Result<ConsumeReport, Failure> {
        let options = ConsumeOptions {
            card_kind: self.settings.card_kind,
            actor_user_id: self.settings.actor_user_id.clone(),
            cards_max,
        };
        Ok(consume::run(self.gateway()?, repo, &options, watch).await)
    }
}

/// Repositories in a long-running process.
#[derive(Debug)]
pub(super) struct ScmService {
    settings: ScmSettings,
    artifacts_root: PathBuf,
    roles_can_add: bool,
    /// `None` where the app `memory` is off.
    memory: Option<MemoryAppService>,
    every: Duration,
}

impl ScmService {
    /// Validates the settings without side effects.
    pub(super) fn prepare(config: &Config) -> Result<Self, Failure> {
        let is_on = config.is_on(consign_memory::QUEUE);
        let memory = is_on.then(|| MemoryAppService::prepare(config));
        let every_ms = config.value("telemetry.sample_interval_ms");
        Ok(Self {
            settings: options::read(config).map_err(|problems| failure(&problems))?,
            artifacts_root: options::artifacts_root(config),
            roles_can_add: config.address().map_or(true, |address| address.has_roles()),
            memory: memory.transpose()?,
            every: Duration::from_millis(every_ms.and_then(|ms| ms.as_u64()).unwrap_or_default()),
        })
    }

    fn repositories(&self, database: &Database) -> Repositories {
        let memory = self.memory.as_ref();
        Repositories {
            ledger: ledger(database),
            gateway: memory.map(|memory| memory.gateway(database)),
            settings: self.settings.clone(),
            artifacts_root: self.artifacts_root.clone(),
            roles_can_add: self.roles_can_add,
        }
    }
}

#[async_trait]
impl AppService for ScmService {
    fn tasks(&self, database: &Database, kind: ServiceKind) -> Vec<Task> {
        if kind != ServiceKind::Serve {
            return Vec::new();
        }
        vec![Box::pin(sample(ledger(database), self.every))]
    }

    fn background(&self, database: &Database) -> Option<Box<dyn Background>> {
        let rounds = Rounds::start(self.repositories(database))?;
        Some(Box::new(rounds))
    }

    fn banner(&self) -> ServiceBanner {
        ServiceBanner::default()
    }
}
