#![doc = include_str!("../README.md")]

mod apps;
mod cli;
mod commands;
mod config;
mod room;
mod service;
mod telemetry;

use std::{process::ExitCode, time::Duration};

pub use apps::REGISTRY;
use consign_app::{App, Registry};
pub(crate) use consign_app::{arguments, context, database, failure, output, progress, when};

use crate::{cli::CommandLine, failure::Failure};

/// How long detached threads may take at the end.
const LAST_TASKS: Duration = Duration::from_millis(200);

/// The engine's settings with these apps, for a binary of your own.
pub const fn registry(apps: &'static [&'static dyn App]) -> Registry {
    Registry {
        sections: config::SECTIONS,
        check: config::check,
        apps,
    }
}

/// Runs the command that the process was started with.
pub fn run(registry: &'static Registry) -> ExitCode {
    cli::complete::answer(registry);
    let line = match CommandLine::parse(registry) {
        Ok(line) => line,
        Err(error) => return cli::report_usage(&error),
    };
    let (json, colors) = (line.is_json(), line.colors());
    match run_line(registry, line) {
        Ok(exit) => exit.into(),
        Err(failure) => failure.report(json, colors),
    }
}

fn run_line(registry: &Registry, line: CommandLine) -> Result<failure::Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let ended = runtime.block_on(async {
        let ended = line.run().await;
        for app in registry.apps {
            app.release().await;
        }
        ended
    });
    // Everything that must finish has finished.
    runtime.shutdown_timeout(LAST_TASKS);
    ended
}
