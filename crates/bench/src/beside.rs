//! Another build of this program beside it: both run the same scenarios on one server, in turns.

use std::{
    collections::BTreeMap,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use serde::Deserialize;
use tokio::process::Command;

use crate::{Bound, Figure, Measure, Options, Report, Scenario, ScenarioReport, Unit};

/// What both run unless others are named: what a feature that is not used must not slow down.
const SCENARIOS: [Scenario; 2] = [Scenario::Drain, Scenario::Pickup];
/// By how much the builds may differ.
const TOLERANCE: f64 = 0.02;
/// How a figure names the build that it is compared with.
const OTHER: &str = "other build";

/// The report of one build, as far as it is compared.
#[derive(Deserialize)]
struct BuildReport {
    scenarios: Vec<ScenarioFigures>,
}

#[derive(Deserialize)]
struct ScenarioFigures {
    figures: Vec<FigureValue>,
    took_s: f64,
}

#[derive(Deserialize)]
struct FigureValue {
    name: String,
    unit: Unit,
    value: f64,
}

/// What one scenario measured in both builds, round by round.
struct Comparison {
    scenario: Scenario,
    /// By name, in the order of the report; one that is not in every round of both is left out.
    names: Vec<(String, Unit)>,
    rounds: Vec<(BTreeMap<String, f64>, BTreeMap<String, f64>)>,
    took: Duration,
}

/// Runs the scenarios of both builds, each round as a process of its own, and compares them round by round.
pub(crate) async fn measure(
    options: &Options,
    server: Option<&str>,
    (own, other): (&Path, &Path),
    say: &(dyn Fn(&str) + Sync),
    mut report: Report,
) -> Result<Report> {
    let mut scenarios: Vec<Scenario> = options.named().collect();
    if scenarios.is_empty() {
        scenarios = SCENARIOS.to_vec();
    }
    let server = server.context("--beside needs a PostgreSQL server: --database postgres://…")?;
    let build = |program| Build {
        program,
        options,
        server,
    };
    let (own, other) = (build(own), build(other));
    for scenario in scenarios {
        let started = Instant::now();
        let mut comparison = Comparison::new(scenario);
        for round in 0..options.rounds() {
            say(&format!("{}, round {}:", scenario.as_str(), round + 1));
            // Each goes first in every other round.
            if round.is_multiple_of(2) {
                let first = own.run(scenario, say).await?;
                comparison.add(first, other.run(scenario, say).await?);
            } else {
                let first = other.run(scenario, say).await?;
                comparison.add(own.run(scenario, say).await?, first);
            }
        }
        comparison.took = started.elapsed();
        report.scenarios.push(comparison.report(other.program));
    }
    Ok(report)
}

/// A program, and how it is run.
struct Build<'b> {
    program: &'b Path,
    options: &'b Options,
    server: &'b str,
}

impl Build<'_> {
    async fn run(
        &self,
        scenario: Scenario,
        say: &(dyn Fn(&str) + Sync),
    ) -> Result<ScenarioFigures> {
        let scale = self.options.scale.to_possible_value();
        let scale = scale.context("invariant: no scale is hidden")?;
        let mut command = Command::new(self.program);
        command
            .args(["--json", "--rounds", "1", "--scale", scale.get_name()])
            .args(["--scenario", scenario.as_str()])
            .arg("--dir")
            .arg(self.options.directory())
            .env("DATABASE_URL", self.server)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let program = self.program.display();
        let ran = command.output().await;
        let ran = ran.with_context(|| format!("start {program}"))?;
        let log = String::from_utf8_lossy(&ran.stderr);
        ensure!(ran.status.success(), "{program}: {}: {log}", ran.status);
        let report: BuildReport = serde_json::from_slice(&ran.stdout)
            .with_context(|| format!("read the report of {program}"))?;
        let measured = report.scenarios.into_iter().next();
        let measured = measured.with_context(|| format!("{program} measured nothing"))?;
        say(&format!("  {program}: {:.0} s", measured.took_s));
        Ok(measured)
    }
}

impl Comparison {
    fn new(scenario: Scenario) -> Self {
        Self {
            scenario,
            names: Vec::new(),
            rounds: Vec::new(),
            took: Duration::ZERO,
        }
    }

    fn add(&mut self, own: ScenarioFigures, other: ScenarioFigures) {
        let (own, other) = (with_own_names(own.figures), with_own_names(other.figures));
        if self.names.is_empty() {
            let names = own.iter().map(|(name, unit, _)| (name.clone(), *unit));
            self.names = names.collect();
        }
        let values = |figures: Vec<(String, Unit, f64)>| {
            let values = figures.into_iter().map(|(name, _, value)| (name, value));
            values.collect::<BTreeMap<_, _>>()
        };
        self.rounds.push((values(own), values(other)));
    }

    fn report(&self, other: &Path) -> ScenarioReport {
        let figure = |(name, unit): &(String, Unit)| {
            let pairs = self.rounds.iter();
            let pairs = pairs.map(|(own, other)| Some((*own.get(name)?, *other.get(name)?)));
            let pairs = pairs.collect::<Option<Vec<_>>>()?;
            Some(judge(name, *unit, &pairs))
        };
        let note = format!(
            "compared with {}; a process per round and build, in turns",
            other.display()
        );
        ScenarioReport {
            scenario: self.scenario,
            figures: self.names.iter().filter_map(figure).collect(),
            notes: vec![note],
            took_s: self.took.as_secs_f64(),
        }
    }
}

/// Figures with names of their own: an indented one belongs to the one above it.
fn with_own_names(figures: Vec<FigureValue>) -> Vec<(String, Unit, f64)> {
    let mut above = String::new();
    let named = figures.into_iter().map(|figure| {
        let name = match figure.name.strip_prefix("  ") {
            Some(part) => format!("{above}: {}", part.trim_start()),
            None => {
                above.clone_from(&figure.name);
                figure.name
            }
        };
        (name, figure.unit, figure.value)
    });
    named.collect()
}

/// Judges what is steady enough: messages per second, processor time and medians of latencies with wake-ups.
fn judge(name: &str, unit: Unit, pairs: &[(f64, f64)]) -> Figure {
    let figure = Figure::beside(name, unit, OTHER, pairs);
    let bounds = match unit {
        Unit::MessagesPerSecond => Some((Bound::AtLeast, 1.0 - TOLERANCE)),
        Unit::MicrosecondsPerMessage => Some((Bound::AtMost, 1.0 + TOLERANCE)),
        Unit::Milliseconds if is_steady(name) => Some((Bound::AtMost, 1.0 + TOLERANCE)),
        _ => None,
    };
    match bounds {
        Some((bound, limit)) => figure.target(Measure::Ratio, bound, limit),
        None => figure,
    }
}

/// Whether a latency is one: a median, and not of looks that come at any moment of an interval.
fn is_steady(name: &str) -> bool {
    let is_polled = name.contains("polled") || name.contains("alone");
    name.ends_with("p50") && !is_polled
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(figures: &[(&str, Unit, f64)]) -> ScenarioFigures {
        let figure = |(name, unit, value): &(&str, Unit, f64)| FigureValue {
            name: (*name).to_owned(),
            unit: *unit,
            value: *value,
        };
        ScenarioFigures {
            figures: figures.iter().map(figure).collect(),
            took_s: 1.0,
        }
    }

    #[test]
    fn builds_are_compared_figure_by_figure_and_round_by_round() {
        use Unit::{MessagesPerSecond, MicrosecondsPerMessage};
        let mut comparison = Comparison::new(Scenario::Drain);
        for (own, other) in [(990.0, 1_000.0), (97.0, 100.0), (480.0, 500.0)] {
            let new = ("of the new build", MessagesPerSecond, 1.0);
            let cpu = ("  server's processor time", MicrosecondsPerMessage, 10.0);
            comparison.add(
                measured(&[("by 100", MessagesPerSecond, own), cpu, new]),
                measured(&[("by 100", MessagesPerSecond, other), cpu]),
            );
        }
        let report = comparison.report(Path::new("old"));
        let figures = report.figures.iter();
        let figures: Vec<_> = figures
            .map(|it| (it.name.as_str(), it.ratio, it.met))
            .collect();
        let expected = [
            ("by 100", Some(0.97), Some(false)),
            ("by 100: server's processor time", Some(1.0), Some(true)),
        ];
        assert_eq!(figures, expected);
    }
}
