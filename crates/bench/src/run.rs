//! From options to a report.

use std::time::Instant;

use anyhow::{Result, bail};
use clap::ValueEnum;

use crate::{
    Environment, Options, Report, Scenario, ScenarioReport,
    scenarios::{self, Plan},
};

/// Runs the scenarios one after the other.
///
/// `server` is the URL of a PostgreSQL server; without one only SQLite is measured. `say` is told
/// what is going on, a line at a time. Needs a runtime with several threads.
pub async fn run(
    options: &Options,
    server: Option<&str>,
    say: &(dyn Fn(&str) + Sync),
) -> Result<Report> {
    let plan = Plan {
        server,
        counts: options.scale.counts(),
        rounds: options.rounds(),
        directory: options.directory(),
        say,
    };
    let environment = Environment::read(options, &plan).await?;
    let mut report = Report::new(environment);
    for scenario in chosen(options, server, &mut report)? {
        say(&format!("{}:", scenario.as_str()));
        let started = Instant::now();
        let (figures, notes) = scenarios::run(scenario, &plan).await?;
        report.scenarios.push(ScenarioReport {
            scenario,
            figures,
            notes,
            took_s: started.elapsed().as_secs_f64(),
        });
    }
    Ok(report)
}

/// The scenarios that were asked for; by default all that can be run.
fn chosen(options: &Options, server: Option<&str>, report: &mut Report) -> Result<Vec<Scenario>> {
    let mut chosen = options.scenario.clone();
    chosen.dedup();
    if chosen.is_empty() {
        chosen = Scenario::value_variants().to_vec();
        if server.is_none() {
            chosen.retain(|scenario| !scenario.needs_postgres());
            report.environment.warnings.push(
                "no PostgreSQL server given (--database postgres://…): only SQLite was measured"
                    .to_owned(),
            );
        }
    }
    match chosen
        .iter()
        .find(|s| s.needs_postgres() && server.is_none())
    {
        Some(scenario) => bail!(
            "scenario {} needs a PostgreSQL server: --database postgres://…; scripts/bench starts one",
            scenario.as_str()
        ),
        None => Ok(chosen),
    }
}
