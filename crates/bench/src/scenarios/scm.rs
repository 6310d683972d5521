//! A first synchronisation of a large Git repository: how fast beside `git log --raw`, how much
//! memory, and whether it goes on after a kill.

mod peak;
mod repository;

use std::{
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::{process::Command, time::timeout};

use self::{
    peak::{MemoryPeak, watched},
    repository::Repository,
};
use super::{Answer, Plan, sqlite};
use crate::{
    Bound, Figure, Measure, Unit,
    process::{Program, config},
    scratch::Scratch,
};

const LEAST_RATIO: f64 = 0.3;
const MOST_MIB: f64 = 150.0;
const CONTROL: &str = "git log --raw";

pub(super) async fn run(plan: &Plan, scratch: &Scratch) -> Result<Answer> {
    let commits = plan.counts.commits;
    let directory = sqlite::directory(&plan.directory)?;
    let folder = std::path::absolute(directory.path())?;
    plan.say(format!("making a repository of {commits} commits"));
    let repository = Repository::make(&folder, commits).await?;
    let file = format!("sqlite:{}", folder.join("scm.db").display());
    sqlite::open(&folder, "scm.db").await?;
    let mut figures = Vec::new();
    for (database, url) in [("PostgreSQL", scratch.url()), ("SQLite", file.as_str())] {
        let subject = Subject {
            program: plan.program()?,
            config: settings(url, &folder),
            repository: &repository,
            commits,
        };
        figures.extend(subject.measure(plan, database).await?);
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let notes = vec![format!(
        "{commits} commits, every twentieth a merge, 1 to 5 files each of {}; {:.0} MB as one pack, made by fast-import; \
         `consign scm sync` as a process, from its start to its end, with the numbers of lines of every commit, in batches of 1,000; \
         {CONTROL} writes to /dev/null and compares no files; git, consign and the database share {cores} cores",
        repository::FILES,
        repository.megabytes()?,
    )];
    Ok((figures, notes))
}

fn settings(url: &str, folder: &Path) -> String {
    let root = Value::from(folder.join("artifacts").display().to_string());
    config(url, &format!("[memory]\nartifacts_root = {root}\n"))
}

struct Subject<'a> {
    program: Program,
    config: String,
    repository: &'a Repository,
    commits: u32,
}

impl Subject<'_> {
    async fn measure(&self, plan: &Plan, database: &str) -> Result<Vec<Figure>> {
        let (mut rates, mut peaks) = (Vec::new(), Vec::new());
        for round in 0..plan.rounds {
            let control = self.repository.log_raw().await?;
            let repo = self.add(&format!("{database}-{round}")).await?;
            let (took, peak) = self.sync(&repo).await?;
            ensure!(
                self.changes(&repo).await? == i64::from(self.commits),
                "all of them"
            );
            let rate = |took: Duration| f64::from(self.commits) / took.as_secs_f64();
            plan.say(format!(
                "{database}: {:.0}/s beside {:.0}/s, {:.0} MiB, git {:.0} MiB",
                rate(took),
                rate(control),
                peak.own_mib,
                peak.children_mib
            ));
            rates.push((rate(took), rate(control)));
            peaks.push(peak);
        }
        let slowest = rates
            .iter()
            .map(|(rate, _)| *rate)
            .fold(f64::INFINITY, f64::min);
        let whole = Duration::from_secs_f64(f64::from(self.commits) / slowest);
        let wrong = self.killed(plan, database, whole).await?;
        let own: Vec<f64> = peaks.iter().map(|peak| peak.own_mib).collect();
        let children: Vec<f64> = peaks.iter().map(|peak| peak.children_mib).collect();
        Ok(vec![
            Figure::beside(
                format!("{database}, commits"),
                Unit::PerSecond,
                CONTROL,
                &rates,
            )
            .target(Measure::Ratio, Bound::AtLeast, LEAST_RATIO),
            Figure::alone(format!("{database}, peak memory"), Unit::Mebibytes, &own).target(
                Measure::Value,
                Bound::AtMost,
                MOST_MIB,
            ),
            Figure::alone(
                format!("{database}, peak of git's processes together"),
                Unit::Mebibytes,
                &children,
            ),
            Figure::alone(
                format!("{database}, lost or doubled by kill -9"),
                Unit::Count,
                &[wrong],
            )
            .target(Measure::Value, Bound::AtMost, 0.0),
        ])
    }

    /// Kills it in the middle, twice, and lets it go on; answers how many are missing or too many.
    async fn killed(&self, plan: &Plan, database: &str, whole: Duration) -> Result<f64> {
        let repo = self.add(&format!("{database}-killed")).await?;
        for _ in 0..2 {
            let mut child = self.command(&["scm", "sync", &repo])?.spawn()?;
            if timeout(whole / 3, child.wait()).await.is_err() {
                child.kill().await?;
                plan.say(format!(
                    "{database}: killed at {}",
                    self.changes(&repo).await?
                ));
            }
        }
        self.sync(&repo).await?;
        let changes = self.changes(&repo).await?;
        Ok((changes - i64::from(self.commits)).unsigned_abs() as f64)
    }

    /// Makes the repository known under another name; answers its number.
    async fn add(&self, name: &str) -> Result<String> {
        let path = self.repository.alias(name)?;
        let told = self.answer(&["scm", "add", &path]).await?;
        let number = told["repo_id"]
            .as_i64()
            .context("a repository has a number")?;
        Ok(number.to_string())
    }

    async fn sync(&self, repo: &str) -> Result<(Duration, MemoryPeak)> {
        let started = Instant::now();
        let child = self.command(&["scm", "sync", repo])?.spawn()?;
        let peak = watched(child).await?;
        Ok((started.elapsed(), peak))
    }

    /// Commits that are known of a repository.
    async fn changes(&self, repo: &str) -> Result<i64> {
        let told = self.answer(&["scm", "status", repo]).await?;
        let items = told["items"].as_array().cloned().unwrap_or_default();
        let changes = items.first().and_then(|item| item["changes"].as_i64());
        changes.with_context(|| format!("how many there are: {told}"))
    }

    async fn answer(&self, arguments: &[&str]) -> Result<Value> {
        let mut command = self.command(arguments)?;
        let output = command.stdout(Stdio::piped()).output().await?;
        ensure!(
            output.status.success(),
            "consign {arguments:?}: {}",
            self.program.log_text("scm")
        );
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    fn command(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = self.program.command(arguments, "scm", &self.config)?;
        // On PostgreSQL no local repository is read unless a setting permits it.
        command.env("CONSIGN_SCM__LOCAL_ROOTS", "/");
        Ok(command)
    }
}
