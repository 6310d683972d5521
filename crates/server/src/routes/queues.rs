//! Queues: reading, creating, changing, pausing.

use axum::{Extension, Json as Answer, extract::State};
use consign_kernel::{Counts, Error, PAGE_ENTRIES_MAX, Queue, QueueName, QueuePolicy, nearest};
use serde_json::Value;

use crate::{
    extract::{InPath, Json, MaybeJson, Params, parse},
    gate::access::Caller,
    problem::Problem,
    state::AppState,
    wire::{
        operate::{ReasonBody, by},
        queues::{PatchQueueBody, PutQueueBody, QueueBody, QueueList, QueueParams, QueueView},
        worker::QueueWorkerView,
    },
};

/// List queues with their counts and ages
#[utoipa::path(
    get, path = "/v1/queues", operation_id = "list_queues", tag = "queues",
    params(QueueParams),
    responses((status = 200, description = "Queues by name", body = QueueList)),
)]
pub(crate) async fn list(
    State(state): State<AppState>,
    Params(params): Params<QueueParams>,
) -> Result<Answer<QueueList>, Problem> {
    let limit = params.limit();
    let queues = state.queues(params.after.as_ref(), limit).await?;
    let last = queues.last().map(|(queue, _)| queue.name.clone());
    let next = last.filter(|_| queues.len() == limit as usize);
    let queues = views(&state, queues);
    Ok(Answer(QueueList { queues, next }))
}

/// One queue with its counts and ages
#[utoipa::path(
    get, path = "/v1/queues/{queue}", operation_id = "show_queue", tag = "queues",
    params(("queue" = String, Path, description = "The queue")),
    responses((status = 200, description = "The queue", body = QueueView)),
)]
pub(crate) async fn show(
    State(state): State<AppState>,
    InPath(queue): InPath<QueueName>,
) -> Result<Answer<QueueView>, Problem> {
    let Some(counted) = state.store.queue_counts(&queue).await? else {
        let queues = state.store.queues(None, PAGE_ENTRIES_MAX).await?;
        let names = queues.iter().map(|(queue, _)| queue.name.as_str());
        return Err(unknown(&queue, nearest(queue.as_str(), names)));
    };
    let mut views = views(&state, vec![counted]);
    Ok(Answer(views.swap_remove(0)))
}

/// Create a queue, or give it another policy
#[utoipa::path(
    put, path = "/v1/queues/{queue}", operation_id = "put_queue", tag = "queues",
    params(("queue" = String, Path, description = "The queue")),
    request_body = PutQueueBody,
    responses((status = 200, description = "The current queue", body = QueueBody)),
)]
pub(crate) async fn put(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    InPath(queue): InPath<QueueName>,
    Json(body): Json<PutQueueBody>,
) -> Result<Answer<QueueBody>, Problem> {
    let by = by(&caller, body.reason)?;
    let queue = state.store.put_queue(&queue, &body.policy, &by).await?;
    Ok(Answer(queue.into()))
}

/// Change some of a queue's policy
///
/// Reads the policy, changes what is named, and writes it: of two changes at the same moment
/// through different servers, the later one may undo the earlier one's.
#[utoipa::path(
    patch, path = "/v1/queues/{queue}", operation_id = "patch_queue", tag = "queues",
    params(("queue" = String, Path, description = "The queue")),
    request_body = PatchQueueBody,
    responses((status = 200, description = "The current queue", body = QueueBody)),
)]
pub(crate) async fn patch(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    InPath(name): InPath<QueueName>,
    Json(body): Json<PatchQueueBody>,
) -> Result<Answer<QueueBody>, Problem> {
    let by = by(&caller, body.reason)?;
    let _alone = state.queue_changes.lock().await;
    let Some(queue) = state.store.queue(&name).await? else {
        return Err(unknown(&name, None));
    };
    let policy = merged(&queue.policy, body.policy)?;
    let queue = state.store.put_queue(&name, &policy, &by).await?;
    Ok(Answer(queue.into()))
}

/// Pause a queue: nothing is claimed from it
#[utoipa::path(
    post, path = "/v1/queues/{queue}/pause", operation_id = "pause_queue", tag = "queues",
    params(("queue" = String, Path, description = "The queue")),
    request_body = ReasonBody,
    responses((status = 200, description = "The current queue", body = QueueBody)),
)]
pub(crate) async fn pause(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    InPath(queue): InPath<QueueName>,
    MaybeJson(body): MaybeJson<ReasonBody>,
) -> Result<Answer<QueueBody>, Problem> {
    let by = by(&caller, body.reason)?;
    Ok(Answer(state.store.pause(&queue, &by).await?.into()))
}

/// Resume a paused queue
#[utoipa::path(
    post, path = "/v1/queues/{queue}/resume", operation_id = "resume_queue", tag = "queues",
    params(("queue" = String, Path, description = "The queue")),
    request_body = ReasonBody,
    responses((status = 200, description = "The current queue", body = QueueBody)),
)]
pub(crate) async fn resume(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    InPath(queue): InPath<QueueName>,
    MaybeJson(body): MaybeJson<ReasonBody>,
) -> Result<Answer<QueueBody>, Problem> {
    let by = by(&caller, body.reason)?;
    Ok(Answer(state.store.resume(&queue, &by).await?.into()))
}

fn views(state: &AppState, queues: Vec<(Queue, Counts)>) -> Vec<QueueView> {
    let now = (state.clock)();
    let status = state.worker.as_ref().map(|worker| worker.status());
    let mut working: Vec<QueueWorkerView> = status
        .map(|status| {
            status
                .queues
                .into_iter()
                .map(QueueWorkerView::from)
                .collect()
        })
        .unwrap_or_default();
    let views = queues.into_iter().map(|(queue, counts)| {
        let worker = working.iter().position(|view| view.queue == queue.name);
        let worker = worker.map(|found| working.swap_remove(found));
        QueueView::new((queue, counts), worker, now)
    });
    views.collect()
}

pub(super) fn unknown(queue: &QueueName, suggestion: Option<&str>) -> Problem {
    Problem::from(Error::UnknownQueue {
        queue: queue.to_string(),
        suggestion: suggestion.map(str::to_owned),
    })
}

/// A policy with some of its fields replaced.
fn merged(
    policy: &QueuePolicy,
    changes: serde_json::Map<String, Value>,
) -> Result<QueuePolicy, Problem> {
    let mut whole = serde_json::to_value(policy).expect("invariant: policies serialise");
    let fields = whole.as_object_mut();
    fields
        .expect("invariant: a policy is an object")
        .extend(changes);
    parse(whole.to_string().as_bytes())
}
