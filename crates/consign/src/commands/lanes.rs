//! `consign lanes`: streams of messages and their policies.

mod set;

use clap::{Args, Subcommand};
use consign_kernel::{Counts, Lane, LaneName, PAGE_ENTRIES_MAX};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    config::Flags,
    context::{Context, known_lane},
    failure::{Exit, Failure},
    output::{Output, Table},
    when::{age, stamp},
};

/// List lanes with their counts; show or set one.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Lanes {
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
    after: Option<LaneName>,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Show a lane with its policy and counts
    Show {
        /// The lane
        name: LaneName,
    },
    /// Create a lane or change its policy
    Set(Box<set::Set>),
}

impl Lanes {
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
    let lanes = store.lanes(page.after.as_ref(), page.limit).await?;
    let last = lanes.last().map(|(lane, _)| &lane.name);
    let next = last.filter(|_| lanes.len() == page.limit as usize);
    if context.out.is_json() {
        let items: Vec<Value> = lanes.iter().map(lane_json).collect();
        context.out.json(&json!({"items": items, "next": next}))?;
        return Ok(Exit::Fine);
    }
    let now = Timestamp::now();
    let mut table = Table::new([
        "lane",
        "status",
        ">ready",
        ">scheduled",
        ">waiting",
        ">leased",
        ">held",
        ">dead",
        "oldest",
    ]);
    for (lane, counts) in &lanes {
        let status = if lane.paused_at.is_some() {
            "paused"
        } else {
            "running"
        };
        let oldest = counts.oldest_due_at.map(|at| age(at, now));
        table.row([
            lane.name.to_string(),
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
        None if page.after.is_none() => note_missing(context, &lanes)?,
        None => {}
    }
    Ok(Exit::Fine)
}

/// A lane of the file that was never served is not in the list; without a word it would look like a
/// mistake in the file.
fn note_missing(context: &Context, lanes: &[(Lane, Counts)]) -> Result<(), Failure> {
    let config = context.config(Flags::new())?;
    if config.file.is_none() {
        return Ok(());
    }
    let is_known = |name: &LaneName| lanes.iter().any(|(known, _)| known.name == *name);
    for lane in &config.settings.lanes {
        let name = &lane.name;
        if let Some(told) = context
            .lane_of_file(name.as_str())
            .filter(|_| !is_known(name))
        {
            context.out.note(format_args!(
                "lane {name} is not in the database yet; {told}"
            ))?;
        }
    }
    Ok(())
}

async fn show(context: &Context, name: &LaneName) -> Result<Exit, Failure> {
    let store = context.store().await?;
    let lane = known_lane(&*store, name).await?;
    let counted = store.lane_counts(name).await?;
    let counts = counted.map(|(_, counts)| counts).unwrap_or_default();
    if context.out.is_json() {
        context.out.json(&lane_json(&(lane, counts)))?;
    } else {
        print_lane(context.out, &lane)?;
        print_counts(context.out, &counts)?;
    }
    Ok(Exit::Fine)
}

/// One shape for every place that prints a lane.
fn lane_json((lane, counts): &(Lane, Counts)) -> Value {
    json!({
        "name": lane.name,
        "policy": lane.policy,
        "paused_at": lane.paused_at,
        "counts": counts,
    })
}

fn print_lane(out: Output, lane: &Lane) -> Result<(), Failure> {
    let now = Timestamp::now();
    let status = match lane.paused_at {
        Some(at) => format!("paused since {}", stamp(at, now)),
        None => "running".to_owned(),
    };
    out.line(format_args!("{:<19}{}", "lane", lane.name))?;
    out.line(format_args!("{:<19}{status}", "status"))?;
    let Value::Object(policy) = json!(lane.policy) else {
        unreachable!("invariant: a policy is an object");
    };
    for (name, value) in policy {
        let value = value.as_str().map_or(value.to_string(), str::to_owned);
        out.line(format_args!("{name:<19}{value}"))?;
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
        "{:<19}{ready} ready, {scheduled} scheduled, {waiting} waiting, {leased} leased, \
         {held} held, {dead} dead",
        "messages"
    ))?;
    if let Some(at) = oldest_due_at {
        let oldest = stamp(*at, Timestamp::now());
        out.line(format_args!("{:<19}due {oldest}", "oldest"))?;
    }
    Ok(())
}
