//! Schedules: messages that are enqueued again and again.

use axum::{Extension, Json as Answer, extract::State};
use consign_kernel::{Schedule, ScheduleName};

use crate::{
    extract::{InPath, Json, MaybeJson, Params, Segment},
    gate::{GateState, access::Caller},
    problem::Problem,
    state::AppState,
    wire::{
        operate::{ReasonBody, by},
        schedules::{PutScheduleBody, ScheduleList, ScheduleParams},
        shapes,
    },
};

impl Segment for ScheduleName {
    fn parse(text: &str) -> Result<Self, Problem> {
        Ok(text.parse()?)
    }
}

/// List schedules by name
#[utoipa::path(
    get, path = "/v1/schedules", operation_id = "list_schedules", tag = "schedules",
    params(ScheduleParams),
    responses((status = 200, description = "Schedules", body = ScheduleList)),
)]
pub(crate) async fn list(
    State(state): State<AppState>,
    Params(params): Params<ScheduleParams>,
) -> Result<Answer<ScheduleList>, Problem> {
    let limit = params.limit();
    let schedules = state.store.schedules(params.after.as_ref(), limit).await?;
    let last = schedules.last().map(|schedule| schedule.name.clone());
    let next = last.filter(|_| schedules.len() == limit as usize);
    Ok(Answer(ScheduleList { schedules, next }))
}

/// Show a schedule with its last run and its next tick
#[utoipa::path(
    get, path = "/v1/schedules/{name}", operation_id = "show_schedule", tag = "schedules",
    params(("name" = String, Path, description = "The schedule")),
    responses((status = 200, description = "The schedule", body = shapes::Schedule)),
)]
pub(crate) async fn show(
    State(state): State<AppState>,
    InPath(name): InPath<ScheduleName>,
) -> Result<Answer<Schedule>, Problem> {
    let schedule = state.store.schedule(&name).await?;
    let unknown = || Problem::from(consign_kernel::Error::UnknownSchedule { name });
    Ok(Answer(schedule.ok_or_else(unknown)?))
}

/// Create a schedule, or change one
///
/// A schedule that keeps its expression and time zone keeps its next tick too.
#[utoipa::path(
    put, path = "/v1/schedules/{name}", operation_id = "put_schedule", tag = "schedules",
    params(("name" = String, Path, description = "The schedule")),
    request_body = PutScheduleBody,
    responses((status = 200, description = "The current schedule", body = shapes::Schedule)),
)]
pub(crate) async fn put(
    State(state): State<AppState>,
    Extension(shared): Extension<std::sync::Arc<GateState>>,
    Extension(caller): Extension<Caller>,
    InPath(name): InPath<ScheduleName>,
    Json(body): Json<PutScheduleBody>,
) -> Result<Answer<Schedule>, Problem> {
    let (plan, reason) = body.into_plan(shared.options.body_max_bytes)?;
    let by = by(&caller, reason)?;
    let put = consign_schedule::put(&*state.store, &name, &plan, &by).await?;
    Ok(Answer(put))
}

/// Remove a schedule; its messages stay
#[utoipa::path(
    post, path = "/v1/schedules/{name}/remove", operation_id = "remove_schedule", tag = "schedules",
    params(("name" = String, Path, description = "The schedule")),
    request_body = ReasonBody,
    responses((status = 200, description = "What it was", body = shapes::Schedule)),
)]
pub(crate) async fn remove(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    InPath(name): InPath<ScheduleName>,
    MaybeJson(body): MaybeJson<ReasonBody>,
) -> Result<Answer<Schedule>, Problem> {
    let by = by(&caller, body.reason)?;
    Ok(Answer(state.store.remove_schedule(&name, &by).await?))
}

/// Stop the ticks of a schedule
#[utoipa::path(
    post, path = "/v1/schedules/{name}/pause", operation_id = "pause_schedule", tag = "schedules",
    params(("name" = String, Path, description = "The schedule")),
    request_body = ReasonBody,
    responses((status = 200, description = "The current schedule", body = shapes::Schedule)),
)]
pub(crate) async fn pause(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    InPath(name): InPath<ScheduleName>,
    MaybeJson(body): MaybeJson<ReasonBody>,
) -> Result<Answer<Schedule>, Problem> {
    let by = by(&caller, body.reason)?;
    Ok(Answer(state.store.pause_schedule(&name, &by).await?))
}

/// Resume the ticks of a schedule
///
/// Ticks that passed meanwhile are missed: the schedule's policy decides about them.
#[utoipa::path(
    post, path = "/v1/schedules/{name}/resume", operation_id = "resume_schedule", tag = "schedules",
    params(("name" = String, Path, description = "The schedule")),
    request_body = ReasonBody,
    responses((status = 200, description = "The current schedule", body = shapes::Schedule)),
)]
pub(crate) async fn resume(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    InPath(name): InPath<ScheduleName>,
    MaybeJson(body): MaybeJson<ReasonBody>,
) -> Result<Answer<Schedule>, Problem> {
    let by = by(&caller, body.reason)?;
    Ok(Answer(state.store.resume_schedule(&name, &by).await?))
}

/// Enqueue the message of a schedule now, beside its ticks
#[utoipa::path(
    post, path = "/v1/schedules/{name}/run", operation_id = "run_schedule", tag = "schedules",
    params(("name" = String, Path, description = "The schedule")),
    request_body = ReasonBody,
    responses((status = 200, description = "The schedule; `last_message_id` is the message", body = shapes::Schedule)),
)]
pub(crate) async fn run(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    InPath(name): InPath<ScheduleName>,
    MaybeJson(body): MaybeJson<ReasonBody>,
) -> Result<Answer<Schedule>, Problem> {
    let by = by(&caller, body.reason)?;
    Ok(Answer(state.store.run_schedule(&name, &by).await?))
}
