//! Rounds of `serve` over all repositories: synchronise, fetch changes, consume.

use std::time::Duration;

use async_trait::async_trait;
use consign_app::Background;
use consign_memory::consume::Watch;
use consign_scm::{LedgerError, Repo, ScmError};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{MissedTickBehavior, interval, timeout},
};

use super::{Hooks, Repositories};

/// Changes with more failures are fetched only on request.
const ATTEMPTS_MAX: u32 = 5;
/// Time limit of the current batch or card when the process drains.
const END_MAX: Duration = Duration::from_secs(10);

/// Rounds over all repositories.
pub(super) struct Rounds {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Rounds {
    /// Starts the rounds, unless they are off.
    pub(super) fn start(repositories: Repositories) -> Option<Self> {
        let every = Duration::from_secs(repositories.settings.every_seconds);
        if every.is_zero() {
            return None;
        }
        let (stop, stopping) = watch::channel(false);
        let task = tokio::spawn(run(repositories, every, stopping));
        Some(Self { stop, task })
    }
}

#[async_trait]
impl Background for Rounds {
    fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Waits for the current step, up to the limit. An interrupted step is resumed later.
    async fn ended(self: Box<Self>) {
        let task = self.task.abort_handle();
        if timeout(END_MAX, self.task).await.is_err() {
            tracing::warn!("a repository was interrupted; the next round continues there");
            task.abort();
        }
    }
}

async fn run(repositories: Repositories, every: Duration, mut stopping: watch::Receiver<bool>) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            _ = stopping.wait_for(|is_stopping| *is_stopping) => return,
            _ = ticks.tick() => {}
        }
        match repositories.ledger.repos().await {
            Ok(repos) => {
                for repo in repos {
                    if *stopping.borrow() {
                        return;
                    }
                    look_after(&repositories, &repo, &stopping).await;
                }
            }
            Err(error) => tracing::warn!("listing repositories failed: {error}"),
        }
    }
}

/// One repository. Failures are logged and do not affect the others.
async fn look_after(repositories: &Repositories, repo: &Repo, stopping: &watch::Receiver<bool>) {
    let repo_id = repo.repo_id;
    let hooks = Hooks::default();
    let options = repositories.settings.sync();
    let synced = repositories
        .sync(repo, options, &hooks, stopping.clone())
        .await;
    let is_reached = match synced {
        Ok(synced) => {
            if synced.written > 0 {
                tracing::info!(
                    repo_id,
                    written = synced.written,
                    "a repository was synchronised"
                );
            }
            true
        }
        Err(error) => {
            log_failure(repo, "synchronised", &error);
            false
        }
    };
    let most = repositories.settings.materialize_max;
    if is_reached && most > 0 {
        let limits = (Some(most), Some(ATTEMPTS_MAX));
        let fetched = repositories.materialize(repo, limits, &hooks, stopping.clone());
        if let Err(error) = fetched.await {
            log_failure(repo, "fetched", &error);
        }
    }
    // Stored changes are consumed even if the synchronisation failed.
    if repositories.gateway.is_some() {
        let is_stopping = || *stopping.borrow();
        let watch = Watch {
            is_stopping: &is_stopping,
            progress: &|_| {},
        };
        // Failures are logged by the consumption itself.
        drop(repositories.consume(repo, None, watch).await);
    }
}

fn log_failure(repo: &Repo, what: &str, error: &ScmError) {
    let (repo_id, code) = (repo.repo_id, error.code());
    match error {
        ScmError::Stopped => tracing::info!(repo_id, "a repository was left for the next start"),
        ScmError::Ledger(LedgerError::Moved { .. }) => {
            tracing::info!(repo_id, "another process synchronises this repository");
        }
        error => tracing::warn!(repo_id, code, "a repository could not be {what}: {error}"),
    }
}
