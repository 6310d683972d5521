//! The questions, one file each.

mod depth;
mod drain;
mod ls;
mod snapshot;
mod sqlite;
mod wal;
mod workers;

use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::{Figure, Scenario, options::Counts, scratch::Scratch};

/// What a scenario answers: figures, and what to know when reading them.
pub(crate) type Answer = (Vec<Figure>, Vec<String>);

/// How the scenarios are to be run.
pub(crate) struct Plan<'p> {
    pub(crate) server: Option<&'p str>,
    pub(crate) counts: Counts,
    pub(crate) rounds: u32,
    pub(crate) directory: PathBuf,
    pub(crate) say: &'p (dyn Fn(&str) + Sync),
}

impl Plan<'_> {
    fn say(&self, text: impl AsRef<str>) {
        (self.say)(&format!("  {}", text.as_ref()));
    }
}

/// Runs one scenario on a database of its own, which is gone afterwards whatever happens.
pub(crate) async fn run(scenario: Scenario, plan: &Plan<'_>) -> Result<Answer> {
    let Some(server) = plan.server.filter(|_| scenario != Scenario::Sqlite) else {
        return match scenario {
            Scenario::Sqlite => Box::pin(sqlite::run(plan)).await,
            _ => Box::pin(ls::run(plan, None)).await,
        };
    };
    let scratch = Scratch::create(server, scenario.as_str()).await?;
    let answer = tokio::select! {
        answer = measure(scenario, plan, &scratch) => answer,
        interrupted = tokio::signal::ctrl_c() => match interrupted {
            Ok(()) => Err(anyhow::anyhow!("interrupted")),
            Err(error) => Err(error.into()),
        },
    };
    // The first error is the one to tell.
    match (answer, scratch.remove().await) {
        (Err(error), _) => Err(error),
        (Ok(_), Err(error)) => Err(error),
        (Ok(answer), Ok(())) => Ok(answer),
    }
}

async fn measure(scenario: Scenario, plan: &Plan<'_>, scratch: &Scratch) -> Result<Answer> {
    scratch.migrate().await?;
    match scenario {
        Scenario::Drain => Box::pin(drain::run(plan, scratch)).await,
        Scenario::Wal => Box::pin(wal::run(plan, scratch)).await,
        Scenario::Workers => Box::pin(workers::run(plan, scratch)).await,
        Scenario::Depth => Box::pin(depth::run(plan, scratch)).await,
        Scenario::Snapshot => Box::pin(snapshot::run(plan, scratch)).await,
        Scenario::Ls => Box::pin(ls::run(plan, Some(scratch))).await,
        Scenario::Sqlite => bail!("invariant: SQLite needs no server"),
    }
}
