//! From options to a report.

use std::{path::Path, time::Instant};

use anyhow::{Result, bail};
use clap::ValueEnum;
use tokio::{
    sync::mpsc::{self, UnboundedSender},
    task::JoinSet,
};

use crate::{
    Environment, Options, Report, Scenario, ScenarioReport, beside,
    scenarios::{self, Answer, Plan},
};

/// Runs the scenarios one after the other.
///
/// `server` is the URL of a PostgreSQL server; without one only SQLite is measured. `say` gets
/// what is going on, a line at a time. Needs a runtime with several threads.
pub async fn run(
    options: &Options,
    server: Option<&str>,
    say: &(dyn Fn(&str) + Sync),
) -> Result<Report> {
    let (lines, mut heard) = mpsc::unbounded_channel();
    let plan = plan(options, server, lines);
    let environment = Environment::read(options, &plan).await?;
    let mut report = Report::new(environment);
    for scenario in chosen(options, server, &mut report)? {
        say(&format!("{}:", scenario.as_str()));
        let started = Instant::now();
        let mut task = measuring(scenario, plan.clone());
        let (figures, notes) = loop {
            tokio::select! {
                biased;
                Some(line) = heard.recv() => say(&line),
                Some(measured) = task.join_next() => break measured??,
            }
        };
        report.scenarios.push(ScenarioReport {
            scenario,
            figures,
            notes,
            took_s: started.elapsed().as_secs_f64(),
        });
    }
    Ok(report)
}

/// Runs scenarios of two builds of this program, `own` and `other`, in turns; by default drain and pickup.
pub async fn run_beside(
    options: &Options,
    server: Option<&str>,
    (own, other): (&Path, &Path),
    say: &(dyn Fn(&str) + Sync),
) -> Result<Report> {
    // Nothing of the plan is carried out here: it is what the environment is read for.
    let (lines, _) = mpsc::unbounded_channel();
    let environment = Environment::read(options, &plan(options, server, lines)).await?;
    let report = Report::new(environment);
    beside::measure(options, server, (own, other), say, report).await
}

fn plan(options: &Options, server: Option<&str>, lines: UnboundedSender<String>) -> Plan {
    Plan {
        server: server.map(str::to_owned),
        counts: options.scale.counts(),
        rounds: options.rounds(),
        directory: options.directory(),
        program: options.program.clone(),
        openmemory: options.openmemory(),
        attacks: options.attack.clone(),
        lines,
    }
}

/// Measures in a task of its own, as workers run.
///
/// The future a program blocks on is woken from another thread for every few rows, which would be
/// measured too.
fn measuring(scenario: Scenario, plan: Plan) -> JoinSet<Result<Answer>> {
    let mut task = JoinSet::new();
    task.spawn(async move { scenarios::run(scenario, &plan).await });
    task
}

/// The requested scenarios; by default all that can be run.
fn chosen(options: &Options, server: Option<&str>, report: &mut Report) -> Result<Vec<Scenario>> {
    let mut chosen: Vec<Scenario> = options.named().collect();
    chosen.dedup();
    if chosen.is_empty() {
        chosen = Scenario::value_variants().to_vec();
        chosen.retain(|scenario| scenario.is_usual());
        if server.is_none() {
            chosen.retain(|scenario| !scenario.needs_postgres());
            report.environment.warnings.push(
                "no PostgreSQL server given (--database postgres://…): only SQLite was measured"
                    .to_owned(),
            );
        }
    }
    if options.program.is_none()
        && let Some(scenario) = options.named().find(|s| s.needs_program())
    {
        bail!(
            "scenario {} measures processes and needs the program: build consign beside this one, or \
             name it with --program PATH",
            scenario.as_str()
        );
    }
    chosen.retain(|scenario| options.program.is_some() || !scenario.needs_program());
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
