#![doc = include_str!("../README.md")]

mod arguments;
mod cli;
mod commands;
mod config;
mod context;
mod database;
mod failure;
mod output;
mod progress;
mod service;
mod telemetry;
mod when;

use std::{process::ExitCode, time::Duration};

use clap::Parser;

use crate::{cli::Cli, failure::Failure};

/// How long threads may take that nobody waits for any more.
const LAST_TASKS: Duration = Duration::from_millis(200);

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return cli::report_usage(&error),
    };
    let json = cli.json;
    match run(cli) {
        Ok(exit) => exit.into(),
        Err(failure) => failure.report(json),
    }
}

fn run(cli: Cli) -> Result<failure::Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let ended = runtime.block_on(async {
        let ended = cli.run().await;
        consign_memory::leave_turns().await;
        ended
    });
    // What was worth waiting for has been waited for.
    runtime.shutdown_timeout(LAST_TASKS);
    ended
}
