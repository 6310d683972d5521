#![doc = include_str!("../README.md")]

mod arguments;
mod cli;
mod commands;
mod context;
mod database;
mod failure;
mod output;
mod progress;
mod when;

use std::process::ExitCode;

use clap::Parser;

use crate::{cli::Cli, failure::Failure};

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
    runtime.block_on(cli.run())
}
