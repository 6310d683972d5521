//! `consign schedules`: messages that are enqueued again and again.

use clap::{Args, Subcommand, ValueEnum};
use consign_kernel::{
    MISSED_MAX, MissedPolicy, PAGE_ENTRIES_MAX, QueueName, Schedule, ScheduleName, SchedulePlan,
    Store,
};
use jiff::{Timestamp, tz::TimeZone};
use serde_json::{Value, json};

use super::enqueue::parse_payload;
use crate::{
    arguments::{ByArgs, header},
    context::{Context, known_queue},
    failure::{Exit, Failure},
    output::{Output, Table, or_dash, plain},
    when::{age, stamp},
};

/// List schedules; add, change, run or preview one.
///
/// A schedule enqueues a message at every tick of a cron expression. Any number of processes that run `consign serve`
/// or `consign work` take its ticks, each tick once.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Schedules {
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
    after: Option<ScheduleName>,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Add a schedule, or replace one; with the same expression and time zone it keeps its next tick
    Add(Box<Add>),
    /// Show a schedule with its last run and its next tick
    Show {
        /// The schedule
        name: ScheduleName,
    },
    /// Stop the ticks of a schedule
    Pause(Named),
    /// Resume the ticks of a schedule; those that passed meanwhile are missed
    Resume(Named),
    /// Remove a schedule; its messages stay
    Remove(Named),
    /// Enqueue the message of a schedule now, beside its ticks
    Run(Named),
    /// Print the next ticks of an expression
    Preview {
        /// Minute, hour, day of month, month, day of week; or six fields with seconds first
        cron: String,
        /// The time zone the expression is read in
        #[arg(long, value_name = "ZONE", default_value = "UTC")]
        time_zone: String,
    },
}

#[derive(Args, Debug)]
struct Add {
    /// The schedule
    name: ScheduleName,
    /// The queue of its messages
    #[arg(long, default_value = "default")]
    queue: QueueName,
    /// Minute, hour, day of month, month, day of week; or six fields with seconds first
    #[arg(long, value_name = "EXPRESSION")]
    cron: String,
    /// The time zone the expression is read in, such as Europe/Berlin
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    time_zone: String,
    /// The message as JSON, or - to read it from standard input
    #[arg(long, value_name = "JSON")]
    payload: String,
    /// Ordering key, honoured in ordered queues
    #[arg(long)]
    group: Option<String>,
    /// A header of the messages; may be repeated
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    headers: Vec<(String, Value)>,
    /// What becomes of ticks that no process took within a minute
    #[arg(long, value_enum, default_value_t = Missed::Once)]
    missed: Missed,
    /// With --missed all: how many of the last missed ticks get a message
    #[arg(long, value_name = "COUNT", default_value_t = MISSED_MAX)]
    missed_max: u32,
    #[command(flatten)]
    by: ByArgs,
}

/// What becomes of missed ticks.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Missed {
    /// They are dropped
    Skip,
    /// One message stands for all of them
    Once,
    /// A message each
    All,
}

impl From<Missed> for MissedPolicy {
    fn from(missed: Missed) -> Self {
        match missed {
            Missed::Skip => Self::Skip,
            Missed::Once => Self::Once,
            Missed::All => Self::All,
        }
    }
}

#[derive(Args, Debug)]
struct Named {
    /// The schedule
    name: ScheduleName,
    #[command(flatten)]
    by: ByArgs,
}

impl Schedules {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let Some(action) = self.action else {
            return list(context, &self.page).await;
        };
        if let Action::Preview { cron, time_zone } = action {
            return preview(context.out, &cron, &time_zone);
        }
        let store = context.store().await?;
        let schedule = match action {
            Action::Add(add) => return add.run(context, &*store).await,
            Action::Preview { .. } => unreachable!("invariant: handled without a store"),
            Action::Show { name } => {
                let found = store.schedule(&name).await?;
                found.ok_or_else(|| consign_kernel::Error::UnknownSchedule { name })?
            }
            Action::Pause(Named { name, by }) => {
                store
                    .pause_schedule(&name, &by.by("paused by hand"))
                    .await?
            }
            Action::Resume(Named { name, by }) => {
                store
                    .resume_schedule(&name, &by.by("resumed by hand"))
                    .await?
            }
            Action::Remove(Named { name, by }) => {
                store
                    .remove_schedule(&name, &by.by("removed by hand"))
                    .await?;
                return done(context.out, &name, "removed");
            }
            Action::Run(Named { name, by }) => {
                let ran = store.run_schedule(&name, &by.by("run by hand")).await?;
                return report_run(context.out, &ran);
            }
        };
        print(context.out, &schedule)
    }
}

impl Add {
    async fn run(self, context: &Context, store: &dyn Store) -> Result<Exit, Failure> {
        let plan = SchedulePlan {
            queue: self.queue,
            cron: self.cron,
            time_zone: self.time_zone,
            payload: parse_payload(self.payload)?,
            headers: self.headers.into_iter().collect(),
            group: self.group,
            missed: self.missed.into(),
            missed_max: self.missed_max,
        };
        known_queue(store, &plan.queue).await?;
        let by = self.by.by("put by hand");
        let put = consign_schedule::put(store, &self.name, &plan, &by).await?;
        print(context.out, &put)?;
        if !context.out.is_json() && put.paused_at.is_none() {
            context
                .out
                .note("`consign serve` or `consign work` runs it")?;
        }
        Ok(Exit::Fine)
    }
}

fn done(out: Output, name: &ScheduleName, what: &str) -> Result<Exit, Failure> {
    if out.is_json() {
        out.json(&json!({"name": name, what: true}))?;
    } else {
        out.line(format_args!("schedule {name} is {what}; its messages stay"))?;
    }
    Ok(Exit::Fine)
}

fn report_run(out: Output, ran: &Schedule) -> Result<Exit, Failure> {
    if out.is_json() {
        out.json(ran)?;
    } else if let Some(id) = ran.last_message_id {
        out.line(format_args!("schedule {} enqueued message {id}", ran.name))?;
    }
    Ok(Exit::Fine)
}

fn preview(out: Output, cron: &str, time_zone: &str) -> Result<Exit, Failure> {
    let now = Timestamp::now();
    let ticks = consign_schedule::preview(cron, time_zone, now)?;
    if out.is_json() {
        out.json(&json!({"cron": cron, "time_zone": time_zone, "ticks": ticks}))?;
        return Ok(Exit::Fine);
    }
    for tick in ticks {
        let text = format!("{}  {}", local(tick, time_zone), age(tick, now));
        out.line(text)?;
    }
    Ok(Exit::Fine)
}

/// A tick as the clock of its zone shows it, with the offset.
fn local(tick: Timestamp, time_zone: &str) -> String {
    let zone = TimeZone::get(time_zone).unwrap_or(TimeZone::UTC);
    let local = tick.to_zoned(zone);
    local.strftime("%a %Y-%m-%d %H:%M:%S %:z").to_string()
}

async fn list(context: &Context, page: &Page) -> Result<Exit, Failure> {
    let store = context.store().await?;
    let schedules = store.schedules(page.after.as_ref(), page.limit).await?;
    let last = schedules.last().map(|schedule| &schedule.name);
    let next = last.filter(|_| schedules.len() == page.limit as usize);
    if context.out.is_json() {
        context
            .out
            .json(&json!({"items": schedules, "next": next}))?;
        return Ok(Exit::Fine);
    }
    if schedules.is_empty() {
        context
            .out
            .note("there is no schedule; `consign schedules add` adds one")?;
        return Ok(Exit::Fine);
    }
    let now = Timestamp::now();
    let mut table = Table::new([
        "schedule",
        "queue",
        "cron",
        "time zone",
        "missed",
        "next",
        "last",
        ">ticks",
        ">dropped",
    ]);
    for schedule in &schedules {
        let plan = &schedule.plan;
        table.row([
            schedule.name.to_string(),
            plan.queue.to_string(),
            plan.cron.clone(),
            plan.time_zone.clone(),
            plan.missed.as_str().to_owned(),
            match schedule.paused_at {
                Some(_) => "paused".to_owned(),
                None => age(schedule.next_at, now),
            },
            or_dash(schedule.last_at.map(|at| age(at, now)).as_deref()),
            schedule.ticks.to_string(),
            schedule.dropped.to_string(),
        ]);
    }
    context.out.table(&table)?;
    if let Some(next) = next {
        context.out.note(format!("more: --after {next}"))?;
    }
    Ok(Exit::Fine)
}

fn print(out: Output, schedule: &Schedule) -> Result<Exit, Failure> {
    if out.is_json() {
        out.json(schedule)?;
        return Ok(Exit::Fine);
    }
    let now = Timestamp::now();
    let field = |name: &str, value: &str| out.line(format_args!("{name:<10}{}", plain(value)));
    let plan = &schedule.plan;
    field("schedule", schedule.name.as_str())?;
    field("queue", plan.queue.as_str())?;
    field("cron", &format!("{} ({})", plan.cron, plan.time_zone))?;
    field("payload", plan.payload.as_str())?;
    if let Some(group) = &plan.group {
        field("group", group)?;
    }
    if !plan.headers.is_empty() {
        field("headers", &Value::Object(plan.headers.clone()).to_string())?;
    }
    let missed = match plan.missed {
        MissedPolicy::All => format!("all, at most {}", plan.missed_max),
        policy => policy.as_str().to_owned(),
    };
    field("missed", &missed)?;
    let next = format!(
        "{} ({})",
        local(schedule.next_at, &plan.time_zone),
        age(schedule.next_at, now)
    );
    match schedule.paused_at {
        Some(at) => field(
            "paused",
            &format!("{}; its next tick is {next}", age(at, now)),
        )?,
        None => field("next", &next)?,
    }
    let last = schedule.last_at.zip(schedule.last_message_id);
    let last = last.map(|(at, id)| format!("message {id} at {}", stamp(at, now)));
    field("last", &or_dash(last.as_deref()))?;
    let ticks = format!(
        "{} with a message, {} missed without one",
        schedule.ticks, schedule.dropped
    );
    field("ticks", &ticks)?;
    Ok(Exit::Fine)
}
