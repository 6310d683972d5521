//! The questions, one file each.

mod attack;
mod crash;
mod dashboard;
mod depth;
mod drain;
mod http;
mod idle;
mod limits;
mod ls;
mod memory;
mod orders;
mod payments;
mod pickup;
mod retention;
mod scm;
mod snapshot;
mod sqlite;
mod stop;
mod wake;
mod wal;
mod work;
mod workers;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use tokio::sync::mpsc::UnboundedSender;

use crate::{Figure, Scenario, options::Counts, process::Program, scratch::Scratch};

/// The result of a scenario: figures, and notes for the reader.
pub(crate) type Answer = (Vec<Figure>, Vec<String>);

/// The options of a run.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) server: Option<String>,
    pub(crate) counts: Counts,
    pub(crate) rounds: u32,
    pub(crate) directory: PathBuf,
    /// The program whose processes are measured.
    pub(crate) program: Option<PathBuf>,
    /// Where a real OpenMemory is installed.
    pub(crate) openmemory: Option<PathBuf>,
    /// Which attacks; all if none is named.
    pub(crate) attacks: Vec<String>,
    /// Takes a line at a time about what is going on.
    pub(crate) lines: UnboundedSender<String>,
}

impl Plan {
    fn say(&self, text: impl AsRef<str>) {
        // The listener may be gone; the figures are the result.
        self.lines
            .send(format!("  {}", text.as_ref()))
            .unwrap_or_default();
    }

    /// What starts processes of consign.
    fn program(&self) -> Result<Program> {
        let path = self.program.as_deref();
        Program::new(path.context("invariant: scenarios without their program are refused")?)
    }
}

/// Runs one scenario on a database of its own, which is gone afterwards whatever happens.
pub(crate) async fn run(scenario: Scenario, plan: &Plan) -> Result<Answer> {
    let server = plan.server.as_deref();
    let Some(server) = server.filter(|_| scenario != Scenario::Sqlite) else {
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
    // The first error is reported.
    match (answer, scratch.remove().await) {
        (Err(error), _) => Err(error),
        (Ok(_), Err(error)) => Err(error),
        (Ok(answer), Ok(())) => Ok(answer),
    }
}

async fn measure(scenario: Scenario, plan: &Plan, scratch: &Scratch) -> Result<Answer> {
    if scenario == Scenario::Attack {
        return Box::pin(attack::run(plan, scratch)).await;
    }
    scratch.migrate().await?;
    match scenario {
        Scenario::Drain => Box::pin(drain::run(plan, scratch)).await,
        Scenario::Wal => Box::pin(wal::run(plan, scratch)).await,
        Scenario::Workers => Box::pin(workers::run(plan, scratch)).await,
        Scenario::Depth => Box::pin(depth::run(plan, scratch)).await,
        Scenario::Snapshot => Box::pin(snapshot::run(plan, scratch)).await,
        Scenario::Ls => Box::pin(ls::run(plan, Some(scratch))).await,
        Scenario::Work => Box::pin(work::run(plan, scratch)).await,
        Scenario::Pickup => Box::pin(pickup::run(plan, scratch)).await,
        Scenario::Wake => Box::pin(wake::run(plan, scratch)).await,
        Scenario::Crash => Box::pin(crash::run(plan, scratch)).await,
        Scenario::Stop => Box::pin(stop::run(plan, scratch)).await,
        Scenario::Limits => Box::pin(limits::run(plan, scratch)).await,
        Scenario::Idle => Box::pin(idle::run(plan, scratch)).await,
        Scenario::Http => Box::pin(http::run(plan, scratch)).await,
        Scenario::Orders => Box::pin(orders::run(plan, scratch)).await,
        Scenario::Payments => Box::pin(payments::run(plan, scratch)).await,
        Scenario::Memory => Box::pin(memory::run(plan, scratch)).await,
        Scenario::Scm => Box::pin(scm::run(plan, scratch)).await,
        Scenario::Retention => Box::pin(retention::run(plan, scratch)).await,
        Scenario::Dashboard => Box::pin(dashboard::run(plan, scratch)).await,
        Scenario::Attack | Scenario::Sqlite => bail!("invariant: they make their own schema"),
    }
}
