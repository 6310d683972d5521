//! `consign scm materialize`: fetches the changes themselves.

use clap::Args;
use serde_json::json;
use tokio::sync::watch;

use super::{sync::Done, which::Which};
use crate::{
    context::Context,
    failure::{Exit, Failure},
    progress::Progress,
    service::{Hooks, Repositories},
};

/// Fetch the changes themselves that are not here yet: what was never tried first, then what failed
/// least often, the oldest first of each.
#[derive(Args, Debug)]
pub(super) struct Materialize {
    #[command(flatten)]
    which: Which,
    /// At most this many of each repository
    #[arg(long)]
    limit: Option<u64>,
    /// Leave out what has failed this often already
    #[arg(long, value_name = "N")]
    attempts_max: Option<u32>,
}

impl Materialize {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let repositories = Repositories::open(context).await?;
        let limits = (self.limit, self.attempts_max);
        let mut done = Done::default();
        for repo in self.which.among(repositories.ledger()).await? {
            let progress = Progress::of("diffs", None, context.out.is_json());
            let hooks = Hooks::showing(&progress);
            let (_stay, stop) = watch::channel(false);
            let fetched = repositories.materialize(&repo, limits, &hooks, stop).await;
            progress.clear();
            match fetched {
                Ok(fetched) => {
                    let told = format!(
                        "{} fetched ({} too large, kept as numbers), {} failed",
                        fetched.fetched, fetched.degraded, fetched.failed
                    );
                    done.add(context.out, &repo, json!(fetched), &told)?;
                }
                Err(error) => done.fail(context.out, &repo, error.into())?,
            }
        }
        done.end(context.out)
    }
}
