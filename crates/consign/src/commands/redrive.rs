//! `consign redrive`: moving messages by filter, at a limited rate, by any process that runs `serve` or
//! `work`.

use clap::{Args, Subcommand};
use consign_kernel::{QueueName, Redrive, RedriveAction, RedriveId, RedrivePlan, RedriveState};
use jiff::Timestamp;
use serde_json::json;

use super::preview::preview;
use crate::{
    arguments::ByArgs,
    context::{Context, known_queue},
    failure::{Exit, Failure},
    output::{Output, Table, or_dash, plain},
    when::{age, stamp},
};

/// Requeue, discard or cancel messages by filter, at a limited rate.
///
/// It is stored in the database and run by `consign serve` and `consign work`, within its
/// rate; it survives their restarts and can be stopped and resumed. `consign requeue`, `discard` and
/// `cancel` do the same at once in this process.
#[derive(Args, Debug)]
pub(crate) struct RedriveCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Show what would be moved; with --yes, start
    Start(Start),
    /// List redrives, newest first
    Ls {
        /// At most this many
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000), allow_negative_numbers = true)]
        limit: u32,
    },
    /// Show the progress of a redrive
    Show {
        /// The redrive
        #[arg(value_parser = redrive_id)]
        id: RedriveId,
    },
    /// Stop a redrive; messages it moved stay moved
    Stop(RedriveArgs),
    /// Resume a stopped redrive
    Resume(RedriveArgs),
}

#[derive(Args, Debug)]
struct Start {
    /// requeue or discard dead messages, or cancel the ready and waiting ones of a queue
    #[arg(long, default_value = "requeue", value_parser = action)]
    action: RedriveAction,
    /// Only this queue
    #[arg(long)]
    queue: Option<QueueName>,
    /// Only messages dead with this code
    #[arg(long)]
    code: Option<String>,
    /// At most this many a second
    #[arg(long, value_name = "PER_SECOND")]
    rate: Option<u32>,
    /// At most this many in all, oldest first
    #[arg(long)]
    limit: Option<u64>,
    /// Only preview, also with --yes
    #[arg(long)]
    dry_run: bool,
    /// Start it, instead of a preview
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    by: ByArgs,
}

#[derive(Args, Debug)]
struct RedriveArgs {
    /// The redrive
    #[arg(value_parser = redrive_id)]
    id: RedriveId,
    #[command(flatten)]
    by: ByArgs,
}

fn action(text: &str) -> Result<RedriveAction, String> {
    text.parse()
        .map_err(|error: consign_kernel::Error| error.to_string())
}

fn redrive_id(text: &str) -> Result<RedriveId, String> {
    let parsed = text.parse().map(RedriveId);
    parsed.map_err(|_| "a redrive's id is a whole number, as `consign redrive ls` prints it".into())
}

impl RedriveCommand {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        match self.action {
            Action::Start(start) => start.run(context).await,
            Action::Ls { limit } => list(context, limit).await,
            Action::Show { id } => {
                let found = context.store().await?.redrive(id).await?;
                let missing = || Failure::new(Exit::NotFound, "unknown_redrive", unknown(id));
                print(context.out, &found.ok_or_else(missing)?)
            }
            Action::Stop(RedriveArgs { id, by }) => {
                let by = by.by("stopped by hand");
                print(
                    context.out,
                    &context.store().await?.stop_redrive(id, &by).await?,
                )
            }
            Action::Resume(RedriveArgs { id, by }) => {
                let by = by.by("resumed by hand");
                let resumed = context.store().await?.resume_redrive(id, &by).await?;
                print(context.out, &resumed)
            }
        }
    }
}

fn unknown(id: RedriveId) -> String {
    format!("redrive {id} does not exist; `consign redrive ls` lists existing ones")
}

impl Start {
    async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let store = context.store().await?;
        if let Some(queue) = &self.queue {
            known_queue(&*store, queue).await?;
        }
        let plan = RedrivePlan {
            action: self.action,
            queue: self.queue.clone(),
            code: self.code.clone(),
            rate_per_second: self.rate,
            limit: self.limit,
        };
        plan.validate()?;
        if self.yes && !self.dry_run {
            let by = match self.action {
                RedriveAction::Requeue => self.by.by("redriven by hand"),
                RedriveAction::Discard | RedriveAction::Cancel => self.by.by_with_reason()?,
            };
            let started = store.start_redrive(&plan, &by).await?;
            return print(context.out, &started);
        }
        preview(context.out, &*store, &plan).await
    }
}

async fn list(context: &Context, limit: u32) -> Result<Exit, Failure> {
    let redrives = context.store().await?.redrives(limit).await?;
    if context.out.is_json() {
        context.out.json(&json!({"items": redrives}))?;
        return Ok(Exit::Fine);
    }
    if redrives.is_empty() {
        context.out.note("there has been no redrive")?;
        return Ok(Exit::Fine);
    }
    let now = Timestamp::now();
    let mut table = Table::new([
        ">id", "action", "state", "queue", "code", ">moved", ">skipped", ">of", "started", "by",
        "reason",
    ]);
    for redrive in &redrives {
        table.row([
            redrive.id.to_string(),
            redrive.plan.action.as_str().to_owned(),
            redrive.state.as_str().to_owned(),
            or_dash(redrive.plan.queue.as_ref().map(QueueName::as_str)),
            or_dash(redrive.plan.code.as_deref()),
            redrive.moved.to_string(),
            redrive.skipped.to_string(),
            redrive.total.to_string(),
            stamp(redrive.started_at, now),
            redrive.by.actor.clone(),
            redrive.by.reason.clone(),
        ]);
    }
    context.out.table(&table)?;
    Ok(Exit::Fine)
}

pub(super) fn print(out: Output, redrive: &Redrive) -> Result<Exit, Failure> {
    if out.is_json() {
        out.json(redrive)?;
        return Ok(Exit::Fine);
    }
    let now = Timestamp::now();
    let field = |name: &str, value: &str| out.line(format_args!("{name:<10}{}", plain(value)));
    let plan = &redrive.plan;
    let limit = |number: Option<String>| number.unwrap_or("-".into());
    field("redrive", &redrive.id.to_string())?;
    field("action", plan.action.as_str())?;
    field("state", redrive.state.as_str())?;
    field(
        "queue",
        &or_dash(plan.queue.as_ref().map(QueueName::as_str)),
    )?;
    field("code", &or_dash(plan.code.as_deref()))?;
    field(
        "rate",
        &limit(plan.rate_per_second.map(|rate| format!("{rate} a second"))),
    )?;
    field("limit", &limit(plan.limit.map(|limit| limit.to_string())))?;
    let moved = format!(
        "{} of {}, {} no longer there",
        redrive.moved, redrive.total, redrive.skipped
    );
    field("moved", &moved)?;
    field("started", &stamp(redrive.started_at, now))?;
    match redrive.finished_at {
        Some(at) => field("finished", &stamp(at, now))?,
        None => field("updated", &age(redrive.updated_at, now))?,
    }
    field(
        "by",
        &format!("{}: {}", redrive.by.actor, redrive.by.reason),
    )?;
    if redrive.state == RedriveState::Running {
        out.note("`consign serve` or `consign work` runs it")?;
    }
    Ok(Exit::Fine)
}
