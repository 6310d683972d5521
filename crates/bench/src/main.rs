//! `consign-bench`: throughput and latency on this machine.

use std::{io::Write as _, path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::Parser;
use consign_bench::{Options, Report};

/// Measure throughput and latency of consign.
///
/// On SQLite, and on the PostgreSQL server named by --database, where it makes databases of its own
/// and drops them afterwards.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    /// The PostgreSQL server, as a URL
    #[arg(long, value_name = "URL", env = "DATABASE_URL")]
    database: Option<String>,

    /// Print the report as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    options: Options,
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut cli = Cli::parse();
    cli.options.program = cli.options.program.or_else(neighbour);
    match measure(&cli).await {
        Ok(report) if cli.options.check && report.missed().next().is_some() => ExitCode::FAILURE,
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(cli: &Cli) -> Result<Report> {
    let is_postgres = |url: &&str| url.starts_with("postgres");
    let server = cli.database.as_deref().filter(is_postgres);
    let progress = |line: &str| {
        // Without standard error the figures are still the result.
        writeln!(std::io::stderr(), "{line}").unwrap_or_default();
    };
    let report = match &cli.options.beside {
        Some(other) => {
            let own = std::env::current_exe()?;
            consign_bench::run_beside(&cli.options, server, (&own, other), &progress).await?
        }
        None => consign_bench::run(&cli.options, server, &progress).await?,
    };
    let mut out = std::io::stdout().lock();
    if cli.json {
        serde_json::to_writer_pretty(&mut out, &report)?;
        writeln!(out)?;
    } else {
        writeln!(out, "{report}")?;
    }
    Ok(report)
}

/// The program `consign` that was built beside this one.
fn neighbour() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?.with_file_name("consign");
    program.is_file().then_some(program)
}
