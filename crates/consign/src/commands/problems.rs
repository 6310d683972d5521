//! `consign problems`: what is wrong now, and acknowledging it.

use std::time::Duration;

use clap::{Args, Subcommand};
use consign_kernel::{
    OpenProblem, PAGE_ENTRIES_MAX, ProblemMark, QueueName, Situation, Store, Trend,
};
use serde_json::json;

use crate::{
    arguments::ByArgs,
    context::Context,
    failure::{Exit, Failure},
    output::{Table, or_dash},
    when::stamp,
};

/// Show what is wrong now, the worst first. Or acknowledge a problem for a time.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ProblemsCommand {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// List a problem last until a time ends, it gets worse in severity, or it begins again
    Acknowledge(Acknowledge),
    /// End the acknowledgement of a problem
    Reopen(Reopen),
}

#[derive(Args, Debug)]
struct Acknowledge {
    /// The problem, as `consign problems` shows it
    #[arg(value_name = "PROBLEM")]
    problem: String,
    /// For how many hours
    #[arg(long, value_name = "HOURS", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=720))]
    hours: u64,
    /// The reason for the audit log
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// The actor for the audit log [default: $USER]
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
}

#[derive(Args, Debug)]
struct Reopen {
    /// The problem, as `consign problems` shows it
    #[arg(value_name = "PROBLEM")]
    problem: String,
    /// The reason for the audit log
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// The actor for the audit log [default: $USER]
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
}

impl ProblemsCommand {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        match self.action {
            None => list(context).await,
            Some(Action::Acknowledge(acknowledge)) => acknowledge.run(context).await,
            Some(Action::Reopen(reopen)) => reopen.run(context).await,
        }
    }
}

impl Acknowledge {
    async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let by = ByArgs {
            actor: self.actor,
            reason: None,
        };
        let by = by.by(&self.reason);
        let store = context.store().await?;
        let situation = situation(store.as_ref()).await?;
        let problems = situation.problems();
        let Some(problem) = problems.into_iter().find(|it| it.key == self.problem) else {
            let text = format!(
                "no problem {:?} is open now; `consign problems` lists them",
                self.problem
            );
            return Err(Failure::refused(text));
        };
        let mark = ProblemMark {
            problem: problem.key,
            severity: problem.severity,
            queue: problem.queue,
            lasts: Duration::from_secs(self.hours * 3_600),
        };
        let known = store.acknowledge(&mark, &by).await?;
        if context.out.is_json() {
            context.out.json(&known)?;
        } else {
            let until = stamp(known.until, known.at);
            context.out.note(format!("acknowledged until {until}"))?;
        }
        Ok(Exit::Fine)
    }
}

impl Reopen {
    async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let by = ByArgs {
            actor: self.actor,
            reason: None,
        };
        let by = by.by(&self.reason);
        let reopened = context.store().await?.reopen(&self.problem, &by).await?;
        if context.out.is_json() {
            context.out.json(&json!({"reopened": reopened}))?;
        } else if reopened {
            context.out.note("reopened")?;
        } else {
            context.out.note("it was not acknowledged")?;
        }
        Ok(Exit::Fine)
    }
}

async fn list(context: &Context) -> Result<Exit, Failure> {
    let store = context.store().await?;
    let situation = situation(store.as_ref()).await?;
    let (problems, now) = (situation.problems(), situation.attention.now);
    if context.out.is_json() {
        context
            .out
            .json(&json!({"now": now, "problems": problems}))?;
        return Ok(Exit::Fine);
    }
    if problems.is_empty() {
        context.out.note("nothing is wrong")?;
        return Ok(Exit::Fine);
    }
    let mut table = Table::new([
        "severity", "queue", "what", "since", "trend", "known", "problem",
    ]);
    for problem in &problems {
        let known = problem.acknowledged.as_ref();
        table.row([
            problem.severity.to_string(),
            or_dash(problem.queue.as_ref().map(QueueName::as_str)),
            problem.text.clone(),
            or_dash(problem.since.map(|since| stamp(since, now)).as_deref()),
            trend(problem).to_owned(),
            or_dash(known.map(|known| known.actor.as_str())),
            problem.key.clone(),
        ]);
    }
    context.out.table(&table)?;
    Ok(Exit::Fine)
}

/// Everything that problems are computed from.
async fn situation(store: &dyn Store) -> Result<Situation, Failure> {
    let mut queues = Vec::new();
    loop {
        let after = queues
            .last()
            .map(|(queue, _): &(consign_kernel::Queue, _)| &queue.name);
        let page = store.queues(after, PAGE_ENTRIES_MAX).await?;
        let is_last = page.len() < PAGE_ENTRIES_MAX as usize;
        queues.extend(page);
        if is_last {
            return Ok(Situation::read(store, queues, None).await?);
        }
    }
}

fn trend(problem: &OpenProblem) -> &'static str {
    match problem.trend {
        Trend::Worse => "worse",
        Trend::Same => "-",
        Trend::Better => "better",
    }
}
