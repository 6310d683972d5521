//! Schedules: when the next message comes, what became of the last, and stopping them.

use askama::Template;
use axum::{Extension, Json, extract::State, response::Response};
use consign_kernel::{MissedPolicy, Schedule, ScheduleName};
use jiff::Timestamp;
use serde::Deserialize;

use super::{
    form::Form,
    shell::{Shell, rendered, see_other},
    words::{Moment, count, many},
};
use crate::{
    extract::{InPath, MaybeJson, Params},
    gate::access::Caller,
    problem::Problem,
    routes::schedules as api,
    state::AppState,
    wire::operate::ReasonBody,
};

const ROWS: u32 = 100;

#[derive(Template)]
#[template(path = "schedules.html")]
struct SchedulesPage {
    shell: Shell,
    rows: Vec<ScheduleRow>,
    /// Where the next page is, if there may be one.
    next: Option<String>,
}

#[derive(Template)]
#[template(path = "schedule.html")]
struct SchedulePage {
    shell: Shell,
    it: ScheduleRow,
    headers: Vec<(String, String)>,
    facts: Vec<(&'static str, String)>,
    created: Moment,
    updated: Moment,
}

/// A schedule.
struct ScheduleRow {
    name: String,
    queue: String,
    cron: String,
    time_zone: String,
    paused: Option<Moment>,
    next: Moment,
    last: Option<Moment>,
    last_id: Option<i64>,
    dropped: u64,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct SchedulesQuery {
    /// Schedules whose names come after this one.
    after: Option<ScheduleName>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct DoneParams {
    done: Option<String>,
}

pub(super) async fn list(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Params(query): Params<SchedulesQuery>,
) -> Result<Response, Problem> {
    let schedules = state.store.schedules(query.after.as_ref(), ROWS).await?;
    let last = schedules.last().map(|schedule| schedule.name.clone());
    let next = last.filter(|_| schedules.len() == ROWS as usize);
    let now = (state.clock)();
    let rows = schedules.iter().map(|it| ScheduleRow::new(it, now));
    Ok(rendered(&SchedulesPage {
        shell: Shell::new("Schedules", "/ui/schedules", &caller),
        rows: rows.collect(),
        next: next.map(|next| format!("/ui/schedules?after={next}")),
    }))
}

pub(super) async fn show(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    InPath(name): InPath<ScheduleName>,
    Params(query): Params<DoneParams>,
) -> Result<Response, Problem> {
    let Json(schedule) = api::show(State(state.clone()), InPath(name.clone())).await?;
    let now = (state.clock)();
    let shell = Shell::new(format!("Schedule {name}"), "/ui/schedules", &caller);
    let headers = schedule.plan.headers.iter().map(|(name, value)| {
        let plain = value.as_str().map(str::to_owned);
        (name.clone(), plain.unwrap_or_else(|| value.to_string()))
    });
    Ok(rendered(&SchedulePage {
        shell: shell.with_done(query.done.as_deref()),
        it: ScheduleRow::new(&schedule, now),
        headers: headers.collect(),
        facts: facts(&schedule),
        created: Moment::new(schedule.created_at, now),
        updated: Moment::new(schedule.updated_at, now),
    }))
}

fn facts(schedule: &Schedule) -> Vec<(&'static str, String)> {
    let plan = &schedule.plan;
    let missed = match plan.missed {
        MissedPolicy::Skip => "dropped".to_owned(),
        MissedPolicy::Once => "one message stands for all of them".to_owned(),
        MissedPolicy::All => {
            let last = many(plan.missed_max.into(), "missed tick", "missed ticks");
            format!("a message each, for the last {last}")
        }
    };
    let mut facts = vec![
        ("Missed ticks", missed),
        ("Ticks with a message so far", count(schedule.ticks)),
        ("Ticks dropped so far", count(schedule.dropped)),
    ];
    if let Some(group) = &plan.group {
        facts.push(("Group of its messages", group.clone()));
    }
    facts
}

pub(super) async fn pause(
    state: State<AppState>,
    caller: Extension<Caller>,
    InPath(name): InPath<ScheduleName>,
    form: Form,
) -> Result<Response, Problem> {
    let done = api::pause(state, caller, InPath(name), reason(&form)).await?;
    Ok(acted(&done.0, "pause_schedule"))
}

pub(super) async fn resume(
    state: State<AppState>,
    caller: Extension<Caller>,
    InPath(name): InPath<ScheduleName>,
    form: Form,
) -> Result<Response, Problem> {
    let done = api::resume(state, caller, InPath(name), reason(&form)).await?;
    Ok(acted(&done.0, "resume_schedule"))
}

pub(super) async fn run(
    state: State<AppState>,
    caller: Extension<Caller>,
    InPath(name): InPath<ScheduleName>,
    form: Form,
) -> Result<Response, Problem> {
    let done = api::run(state, caller, InPath(name), reason(&form)).await?;
    Ok(acted(&done.0, "run_schedule"))
}

fn reason(form: &Form) -> MaybeJson<ReasonBody> {
    MaybeJson(ReasonBody {
        reason: form.reason(),
    })
}

fn acted(schedule: &Schedule, word: &str) -> Response {
    see_other(&format!("/ui/schedules/{}?done={word}", schedule.name))
}

impl ScheduleRow {
    fn new(schedule: &Schedule, now: Timestamp) -> Self {
        Self {
            name: schedule.name.to_string(),
            queue: schedule.plan.queue.to_string(),
            cron: schedule.plan.cron.clone(),
            time_zone: schedule.plan.time_zone.clone(),
            paused: schedule.paused_at.map(|at| Moment::new(at, now)),
            next: Moment::new(schedule.next_at, now),
            last: schedule.last_at.map(|at| Moment::new(at, now)),
            last_id: schedule.last_message_id.map(|id| id.0),
            dropped: schedule.dropped,
        }
    }
}
