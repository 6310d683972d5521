//! Moving messages by filter, as something that runs, can be stopped, and is audited.

use axum::{
    Extension, Json as Answer,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use consign_kernel::{By, Filter, Redrive, RedriveId, RedrivePlan};

use crate::{
    extract::{InPath, Json, MaybeJson, Params, Segment},
    gate::access::Caller,
    problem::Problem,
    state::AppState,
    wire::{
        messages::LimitParams,
        operate::{ReasonBody, by},
        redrives::{RedriveList, RedrivePreview, StartRedriveBody},
        shapes,
    },
};

/// A preview counts no further: more than this is "many" to any reader.
const COUNT_MAX: u64 = 100_000;
const SAMPLES: u32 = 10;

impl Segment for RedriveId {
    fn parse(text: &str) -> Result<Self, Problem> {
        let id = text.parse().map(RedriveId);
        id.map_err(|_| {
            Problem::out_of_bounds("id", consign_kernel::quoted(text), "must be a whole number")
        })
    }
}

/// Start a redrive, or preview one
///
/// Requeues or discards the dead messages the filter covers, or cancels the ready and waiting ones of a
/// queue, in the background and within a rate. With
/// `dry_run` nothing is started: the answer has the number of messages it would take, and the first of them.
#[utoipa::path(
    post, path = "/v1/redrives", operation_id = "start_redrive", tag = "redrives",
    request_body = StartRedriveBody,
    responses(
        (status = 202, description = "Started", body = shapes::Redrive),
        (status = 200, description = "The messages it would take", body = RedrivePreview),
    ),
)]
pub(crate) async fn start(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Json(body): Json<StartRedriveBody>,
) -> Result<Response, Problem> {
    let plan = body.plan();
    plan.validate()?;
    if body.dry_run {
        return Ok(Answer(preview(&state, plan, SAMPLES).await?).into_response());
    }
    let by = by(&caller, body.reason)?;
    let redrive = begin(&state, &plan, &by).await?;
    Ok((StatusCode::ACCEPTED, Answer(redrive)).into_response())
}

/// List redrives, newest first
#[utoipa::path(
    get, path = "/v1/redrives", operation_id = "list_redrives", tag = "redrives",
    params(LimitParams),
    responses((status = 200, description = "Redrives", body = RedriveList)),
)]
pub(crate) async fn list(
    State(state): State<AppState>,
    Params(params): Params<LimitParams>,
) -> Result<Answer<RedriveList>, Problem> {
    let redrives = state.store.redrives(params.limit()).await?;
    Ok(Answer(RedriveList { redrives }))
}

/// Show the progress of a redrive
#[utoipa::path(
    get, path = "/v1/redrives/{id}", operation_id = "show_redrive", tag = "redrives",
    params(("id" = i64, Path, description = "The redrive")),
    responses((status = 200, description = "The redrive", body = shapes::Redrive)),
)]
pub(crate) async fn show(
    State(state): State<AppState>,
    InPath(id): InPath<RedriveId>,
) -> Result<Answer<Redrive>, Problem> {
    let redrive = state.store.redrive(id).await?;
    let unknown = || Problem::from(consign_kernel::Error::UnknownRedrive { id });
    Ok(Answer(redrive.ok_or_else(unknown)?))
}

/// Stop a redrive after the step it is in
#[utoipa::path(
    post, path = "/v1/redrives/{id}/stop", operation_id = "stop_redrive", tag = "redrives",
    params(("id" = i64, Path, description = "The redrive")),
    request_body = ReasonBody,
    responses((status = 200, description = "The current redrive", body = shapes::Redrive)),
)]
pub(crate) async fn stop(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    InPath(id): InPath<RedriveId>,
    MaybeJson(body): MaybeJson<ReasonBody>,
) -> Result<Answer<Redrive>, Problem> {
    let by = by(&caller, body.reason)?;
    Ok(Answer(state.store.stop_redrive(id, &by).await?))
}

/// Resume a stopped redrive
#[utoipa::path(
    post, path = "/v1/redrives/{id}/resume", operation_id = "resume_redrive", tag = "redrives",
    params(("id" = i64, Path, description = "The redrive")),
    request_body = ReasonBody,
    responses((status = 200, description = "The current redrive", body = shapes::Redrive)),
)]
pub(crate) async fn resume(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    InPath(id): InPath<RedriveId>,
    MaybeJson(body): MaybeJson<ReasonBody>,
) -> Result<Answer<Redrive>, Problem> {
    let by = by(&caller, body.reason)?;
    let redrive = state.store.resume_redrive(id, &by).await?;
    state.redrive_started.notify_one();
    Ok(Answer(redrive))
}

/// Starts a redrive, and wakes the task that steps it.
pub(crate) async fn begin(
    state: &AppState,
    plan: &RedrivePlan,
    by: &By,
) -> Result<Redrive, Problem> {
    plan.validate()?;
    let redrive = state.store.start_redrive(plan, by).await?;
    state.redrive_started.notify_one();
    Ok(redrive)
}

/// What a redrive would take if it were started now: how many, and so many of the first.
pub(crate) async fn preview(
    state: &AppState,
    plan: RedrivePlan,
    samples: u32,
) -> Result<RedrivePreview, Problem> {
    let filter = Filter {
        queue: plan.queue.clone(),
        code: plan.code.clone(),
        ..Filter::default()
    };
    let at_most = plan.limit.unwrap_or(COUNT_MAX).min(COUNT_MAX);
    let count = match plan.cancelled_queue() {
        Some(queue) => {
            let counted = state.store.queue_counts(queue).await?;
            let open = counted.map(|(_, counts)| counts.ready + counts.scheduled + counts.waiting);
            open.unwrap_or_default().min(at_most)
        }
        None => state.store.count_dead(&filter, at_most).await?,
    };
    Ok(RedrivePreview {
        or_more: count == COUNT_MAX && plan.limit.is_none_or(|limit| limit > COUNT_MAX),
        count,
        samples: state.store.first_dead(&plan, samples).await?,
        open_samples: state.store.first_open(&plan, samples).await?,
        plan,
    })
}
