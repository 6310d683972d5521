//! `consign scm materialize`: fetches changes.

use clap::Args;
use consign_app::{
    context::Context,
    failure::{Exit, Failure},
    progress::Progress,
};
use serde_json::json;
use tokio::sync::watch;

use super::{selection::RepoSelection, sync::SyncSummary};
use crate::app::service::{Hooks, Repositories};

/// Fetch missing changes: untried ones first, then those with the fewest failures, the oldest first of
/// each.
#[derive(Args, Debug)]
pub(super) struct Materialize {
    #[command(flatten)]
    which: RepoSelection,
    /// Maximum changes per repository
    #[arg(long)]
    limit: Option<u64>,
    /// Skip changes with this many failures
    #[arg(long, value_name = "N")]
    attempts_max: Option<u32>,
}

impl Materialize {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let repositories = Repositories::open(context).await?;
        let limits = (self.limit, self.attempts_max);
        let mut done = SyncSummary::default();
        for repo in self.which.among(repositories.ledger()).await? {
            let progress = Progress::of("diffs", None, context.out.is_json());
            let hooks = Hooks::showing(&progress);
            let (_stay, stop) = watch::channel(false);
            let fetched = repositories.materialize(&repo, limits, &hooks, stop).await;
            progress.clear();
            match fetched {
                Ok(fetched) => {
                    let line = format!(
                        "{} fetched ({} too large, stored as statistics), {} failed",
                        fetched.fetched, fetched.degraded, fetched.failed
                    );
                    done.add(context.out, &repo, json!(fetched), &line)?;
                }
                Err(error) => done.fail(context.out, &repo, super::scm_failure(error))?,
            }
        }
        done.end(context.out)
    }
}
