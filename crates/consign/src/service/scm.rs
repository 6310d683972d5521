//! Repositories: read, fetched and made memories of, by commands and by processes that stay.

mod hooks;
pub(crate) mod metrics;
mod rounds;
mod sample;

use std::{path::PathBuf, sync::Arc};

use consign_artifacts::Artifacts;
use consign_memory::{
    MemoryService,
    consume::{self, ConsumeOptions, Consumed, Watch},
};
use consign_scm::{
    End, LedgerError, Materialized, Repo, ScmError, ScmLedger, Step, SyncHooks, SyncOptions,
    Synced, Synchronizer,
};
use tokio::sync::watch;

pub(crate) use self::hooks::Hooks;
pub(super) use self::{rounds::Rounds, sample::sample};
use super::Memory;
use crate::{
    config::{Config, Flags, Scm},
    context::{Context, address_of},
    database::Opened,
    failure::{Failure, with_causes},
};

/// What is known of repositories, and what it takes to know more.
#[derive(Clone)]
pub(crate) struct Repositories {
    ledger: Arc<dyn ScmLedger>,
    /// None where there are no memories.
    gateway: Option<Arc<MemoryService>>,
    settings: Scm,
    artifacts_root: PathBuf,
    /// Whether others than this process's user can have added repositories.
    roles_can_add: bool,
}

impl Repositories {
    /// For a command.
    pub(crate) async fn open(context: &Context) -> Result<Self, Failure> {
        let config = context.config(Flags::new())?;
        let memory = Memory::prepare(&config)?;
        let opened = context.open().await?;
        Ok(Self::of(&opened, memory.as_ref(), &config))
    }

    /// For a command that may put memories off: their queue must be there.
    pub(crate) async fn open_with_queue(context: &Context) -> Result<Self, Failure> {
        let config = context.config(Flags::new())?;
        let memory = Memory::prepare(&config)?;
        let opened = context.open().await?;
        Memory::make_queue(&*opened.store, &config).await?;
        Ok(Self::of(&opened, memory.as_ref(), &config))
    }

    pub(super) fn of(opened: &Opened, memory: Option<&Memory>, config: &Config) -> Self {
        Self {
            ledger: Arc::clone(&opened.scm),
            gateway: memory.map(|memory| memory.service(opened)),
            settings: config.settings.scm.clone(),
            roles_can_add: address_of(config).map_or(true, |address| address.has_roles()),
            artifacts_root: config.settings.memory.options.artifacts_root.clone(),
        }
    }

    pub(crate) fn ledger(&self) -> &dyn ScmLedger {
        &*self.ledger
    }

    pub(crate) fn settings(&self) -> &Scm {
        &self.settings
    }

    /// Who stores memories.
    pub(crate) fn gateway(&self) -> Result<&MemoryService, Failure> {
        let gateway = self.gateway.as_deref();
        gateway.ok_or_else(|| Failure::usage("memory.enabled is false"))
    }

    /// Reads what is new.
    pub(crate) async fn sync(
        &self,
        repo: &Repo,
        options: SyncOptions,
        hooks: &dyn SyncHooks,
        stop: watch::Receiver<bool>,
    ) -> Result<Synced, ScmError> {
        let synced = self.with(repo, options, hooks, stop, async |it| it.sync().await);
        let synced = synced.await;
        metrics::synced(
            repo.repo_id,
            synced.as_ref().map_or_else(ScmError::code, |_| "ok"),
        );
        self.note_sync(repo, &synced).await;
        synced
    }

    /// Writes down how a synchronisation ended, for whoever asks how the repository stands.
    async fn note_sync(&self, repo: &Repo, synced: &Result<Synced, ScmError>) {
        let end = match synced {
            Ok(_) => End::Complete,
            // The other one will tell.
            Err(ScmError::Ledger(LedgerError::Moved { .. })) => return,
            // Nothing was in its way, and what was in the way of the one before may still be.
            Err(ScmError::Stopped) => return,
            Err(error) => End::stopped(error.code(), &with_causes(error)),
        };
        let repo_id = repo.repo_id;
        if let Err(error) = self.ledger.ended(repo_id, Step::Sync, &end).await {
            tracing::info!(repo_id, %error, "how a synchronisation ended could not be noted");
        }
    }

    /// Fetches changes that are not here: so many, and none that has failed so often already.
    pub(crate) async fn materialize(
        &self,
        repo: &Repo,
        limits: (Option<u64>, Option<u32>),
        hooks: &dyn SyncHooks,
        stop: watch::Receiver<bool>,
    ) -> Result<Materialized, ScmError> {
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

    /// Makes memories of what is new.
    pub(crate) async fn consume(
        &self,
        repo: &Repo,
        cards_max: Option<u64>,
        watch: Watch<'_>,
    ) -> Result<Consumed, Failure> {
        let options = ConsumeOptions {
            card_kind: self.settings.card_kind,
            actor_user_id: self.settings.actor_user_id.clone(),
            cards_max,
        };
        Ok(consume::run(self.gateway()?, repo, &options, watch).await)
    }
}
