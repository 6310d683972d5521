//! `consign bench`: throughput and latency on this machine.

use clap::Args;
use consign_kernel::Error;

use crate::{
    context::Context,
    database::Address,
    failure::{Exit, Failure},
    output::plain,
};

/// Measure throughput and latency.
///
/// On SQLite, and on the PostgreSQL server named by --database, where it makes a database of its
/// own and drops it afterwards.
#[derive(Args, Debug)]
pub(crate) struct Bench {
    #[command(flatten)]
    options: consign_bench::Options,
}

impl Bench {
    pub(crate) async fn run(mut self, context: &Context) -> Result<Exit, Failure> {
        let out = context.out;
        // Some scenarios measure processes of this very program.
        self.options.program = self.options.program.or(std::env::current_exe().ok());
        let server = match context.address()? {
            Address::Postgres { url } => Some(url),
            Address::Sqlite { .. } => None,
        };
        let say = |text: &str| {
            // Whoever closed standard error does not want to know; the figures are the result.
            out.note(plain(text)).unwrap_or_default();
        };
        let report = consign_bench::run(&self.options, server.as_deref(), &say)
            .await
            .map_err(failure)?;
        if out.is_json() {
            out.json(&report)?;
        } else {
            out.line(&report)?;
        }
        let missed = self.options.check && report.missed().next().is_some();
        Ok(match missed {
            true => Exit::Wrong,
            false => Exit::Fine,
        })
    }
}

fn failure(error: anyhow::Error) -> Failure {
    match error.downcast::<Error>() {
        Ok(error) => error.into(),
        Err(error) => Failure::new(Exit::Wrong, "bench_failed", format!("{error:#}")),
    }
}
