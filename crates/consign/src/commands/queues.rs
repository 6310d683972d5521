//! `consign queues`: streams of messages and their policies.

mod set;

use clap::{Args, Subcommand};
use consign_kernel::{Counts, PAGE_ENTRIES_MAX, Queue, QueueName};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    config::{Flags, Settings},
    context::{Context, known_queue},
    failure::{Exit, Failure},
    output::{Output, Table},
    when::{age, stamp},
};

/// List queues with their counts; show or set one.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Queues {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    page: Page,
}

#[derive(Args, Debug)]
struct Page {
    /// At most this many, by name
    #[arg(long, default_value_t = PAGE_ENTRIES_MAX, value_parser = clap::value_parser!(u32).range(1..=1_000), allow_negative_numbers = true)]
    limit: u32,
    /// Only those whose names come after this one: the last of the page before
    #[arg(long, value_name = "NAME")]
    after: Option<QueueName>,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Show a queue with its policy and counts
    Show {
        /// The queue
        name: QueueName,
    },
    /// Create a queue or change its policy
    Set(Box<set::Set>),
}

impl Queues {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        match self.action {
            None => list(context, &self.page).await,
            Some(Action::Show { name }) => show(context, &name).await,
            Some(Action::Set(set)) => set.run(context).await,
        }
    }
}

async fn list(context: &Context, page: &Page) -> Result<Exit, Failure> {
    let store = context.store().await?;
    let queues = store.queues(page.after.as_ref(), page.limit).await?;
    let last = queues.last().map(|(queue, _)| &queue.name);
    let next = last.filter(|_| queues.len() == page.limit as usize);
    if context.out.is_json() {
        let items: Vec<Value> = queues.iter().map(queue_json).collect();
        context.out.json(&json!({"items": items, "next": next}))?;
        return Ok(Exit::Fine);
    }
    let now = Timestamp::now();
    let mut table = Table::new([
        "queue",
        "status",
        ">ready",
        ">scheduled",
        ">waiting",
        ">leased",
        ">held",
        ">dead",
        "oldest",
    ]);
    for (queue, counts) in &queues {
        let status = if queue.paused_at.is_some() {
            "paused"
        } else {
            "running"
        };
        let oldest = counts.oldest_due_at.map(|at| age(at, now));
        table.row([
            queue.name.to_string(),
            status.to_owned(),
            counts.ready.to_string(),
            counts.scheduled.to_string(),
            counts.waiting.to_string(),
            counts.leased.to_string(),
            counts.held.to_string(),
            counts.dead.to_string(),
            oldest.unwrap_or("-".into()),
        ]);
    }
    context.out.table(&table)?;
    match next {
        Some(next) => context
            .out
            .note(format_args!("there may be more: --after {next}"))?,
        None if page.after.is_none() => note_missing(context, &queues)?,
        None => {}
    }
    Ok(Exit::Fine)
}

/// A queue of the file that was never served is not in the list; without a hint it would look like a
/// mistake in the file.
fn note_missing(context: &Context, queues: &[(Queue, Counts)]) -> Result<(), Failure> {
    let config = context.config(Flags::new())?;
    if config.file.is_none() {
        return Ok(());
    }
    let is_known = |name: &QueueName| queues.iter().any(|(known, _)| known.name == *name);
    for queue in &Settings::of(&config)?.queues {
        let name = &queue.name;
        if let Some(hint) = context
            .queue_of_file(name.as_str())
            .filter(|_| !is_known(name))
        {
            context.out.note(format_args!(
                "queue {name} is not in the database yet; {hint}"
            ))?;
        }
    }
    Ok(())
}

async fn show(context: &Context, name: &QueueName) -> Result<Exit, Failure> {
    let store = context.store().await?;
    let queue = known_queue(&*store, name).await?;
    let counted = store.queue_counts(name).await?;
    let counts = counted.map(|(_, counts)| counts).unwrap_or_default();
    if context.out.is_json() {
        context.out.json(&queue_json(&(queue, counts)))?;
    } else {
        print_queue(context.out, &queue)?;
        print_counts(context.out, &counts)?;
    }
    Ok(Exit::Fine)
}

/// One shape for every place that prints a queue.
fn queue_json((queue, counts): &(Queue, Counts)) -> Value {
    json!({
        "name": queue.name,
        "policy": queue.policy,
        "paused_at": queue.paused_at,
        "counts": counts,
    })
}

fn print_queue(out: Output, queue: &Queue) -> Result<(), Failure> {
    let now = Timestamp::now();
    let status = match queue.paused_at {
        Some(at) => format!("paused since {}", stamp(at, now)),
        None => "running".to_owned(),
    };
    out.line(format_args!("{:<23}{}", "queue", queue.name))?;
    out.line(format_args!("{:<23}{status}", "status"))?;
    let Value::Object(policy) = json!(queue.policy) else {
        unreachable!("invariant: a policy is an object");
    };
    for (name, value) in policy {
        let value = value.as_str().map_or(value.to_string(), str::to_owned);
        out.line(format_args!("{name:<23}{value}"))?;
    }
    Ok(())
}

fn print_counts(out: Output, counts: &Counts) -> Result<(), Failure> {
    let Counts {
        waiting,
        ready,
        scheduled,
        leased,
        held,
        dead,
        oldest_due_at,
    } = counts;
    out.line(format_args!(
        "{:<23}{ready} ready, {scheduled} scheduled, {waiting} waiting, {leased} leased, \
         {held} held, {dead} dead",
        "messages"
    ))?;
    if let Some(at) = oldest_due_at {
        let oldest = stamp(*at, Timestamp::now());
        out.line(format_args!("{:<23}due {oldest}", "oldest"))?;
    }
    Ok(())
}
