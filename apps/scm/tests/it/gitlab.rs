//! Projects of a GitLab server, over a fake that answers as the real one does.

mod commits;
mod diffs;
mod fake;
mod faults;
mod merge_requests;
mod reviews;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use consign_scm::{
    NewRepo, Provider, Repo, ScmError, ScmLedger, Stream, SyncHooks, SyncReport, Watermark,
};

use self::fake::{Gitlab, TOKEN};
use crate::stage::Stage;

/// A ledger, a server, and a repository for its project.
struct Scene {
    stage: Stage,
    gitlab: Gitlab,
    repo: Repo,
    /// Requested waits.
    waits: Arc<Mutex<Vec<Duration>>>,
}

impl Scene {
    async fn new() -> Self {
        Self::of_branch(None).await
    }

    async fn of_branch(branch: Option<&str>) -> Self {
        let mut stage = Stage::new().await;
        let gitlab = Gitlab::start().await;
        let waits: Arc<Mutex<Vec<Duration>>> = Arc::default();
        let waited = Arc::clone(&waits);
        stage.options.retry.wait = Arc::new(move |wait| {
            waited.lock().unwrap().push(wait);
            Box::pin(tokio::task::yield_now())
        });
        stage.token(TOKEN);
        let repo = NewRepo {
            provider: Provider::Gitlab,
            url: gitlab.url(),
            project_key: Some("p".into()),
            default_branch: branch.map(str::to_owned),
        };
        let repo = stage.store.add_repo(&repo).await.unwrap();
        Self {
            stage,
            gitlab,
            repo,
            waits,
        }
    }

    async fn sync(&self) -> Result<SyncReport, ScmError> {
        self.stage.sync(&self.repo).await
    }

    async fn sync_with(&self, hooks: &dyn SyncHooks) -> Result<SyncReport, ScmError> {
        let source = consign_scm::open(&self.repo, &self.stage.options).unwrap();
        self.stage
            .synchronizer(&self.repo, &*source, hooks)
            .sync()
            .await
    }

    /// The stored commits, in the order of their positions.
    async fn names(&self) -> Vec<String> {
        let changes = self.stage.changes(&self.repo).await;
        changes
            .into_iter()
            .map(|change| change.rev_or_sha)
            .collect()
    }

    async fn place(&self, stream: Stream) -> consign_scm::SourcePosition {
        let stored = self.stage.store.watermark(self.repo.repo_id, stream).await;
        Watermark::read(stored.unwrap().as_ref()).place
    }

    fn waits(&self) -> Vec<Duration> {
        std::mem::take(&mut self.waits.lock().unwrap())
    }
}
