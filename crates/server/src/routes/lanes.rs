//! Lanes: reading, creating, changing, pausing.

use axum::{Extension, Json as Answer, extract::State};
use consign_kernel::{Counts, Error, Lane, LaneName, LanePolicy, PAGE_ENTRIES_MAX, nearest};
use serde_json::Value;

use crate::{
    extract::{InPath, Json, MaybeJson, Params, parse},
    gate::access::Caller,
    problem::Problem,
    state::AppState,
    wire::{
        lanes::{LaneBody, LaneList, LaneParams, LaneView, PatchLaneBody, PutLaneBody},
        operate::{ReasonBody, by},
        worker::LaneWorkerView,
    },
};

/// List lanes with their counts and ages
#[utoipa::path(
    get, path = "/v1/lanes", operation_id = "list_lanes", tag = "lanes",
    params(LaneParams),
    responses((status = 200, description = "Lanes by name", body = LaneList)),
)]
pub(crate) async fn list(
    State(state): State<AppState>,
    Params(params): Params<LaneParams>,
) -> Result<Answer<LaneList>, Problem> {
    let limit = params.limit();
    let lanes = state.lanes(params.after.as_ref(), limit).await?;
    let last = lanes.last().map(|(lane, _)| lane.name.clone());
    let next = last.filter(|_| lanes.len() == limit as usize);
    let lanes = views(&state, lanes);
    Ok(Answer(LaneList { lanes, next }))
}

/// One lane with its counts and ages
#[utoipa::path(
    get, path = "/v1/lanes/{lane}", operation_id = "show_lane", tag = "lanes",
    params(("lane" = String, Path, description = "The lane")),
    responses((status = 200, description = "The lane", body = LaneView)),
)]
pub(crate) async fn show(
    State(state): State<AppState>,
    InPath(lane): InPath<LaneName>,
) -> Result<Answer<LaneView>, Problem> {
    let Some(counted) = state.store.lane_counts(&lane).await? else {
        let lanes = state.store.lanes(None, PAGE_ENTRIES_MAX).await?;
        let names = lanes.iter().map(|(lane, _)| lane.name.as_str());
        return Err(unknown(&lane, nearest(lane.as_str(), names)));
    };
    let mut views = views(&state, vec![counted]);
    Ok(Answer(views.swap_remove(0)))
}

/// Create a lane, or give it another policy
#[utoipa::path(
    put, path = "/v1/lanes/{lane}", operation_id = "put_lane", tag = "lanes",
    params(("lane" = String, Path, description = "The lane")),
    request_body = PutLaneBody,
    responses((status = 200, description = "The lane as it is now", body = LaneBody)),
)]
pub(crate) async fn put(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    InPath(lane): InPath<LaneName>,
    Json(body): Json<PutLaneBody>,
) -> Result<Answer<LaneBody>, Problem> {
    let by = by(&caller, body.reason)?;
    let lane = state.store.put_lane(&lane, &body.policy, &by).await?;
    Ok(Answer(lane.into()))
}

/// Change some of a lane's policy
///
/// Reads the policy, changes what is named, and writes it: of two changes at the same moment
/// through different servers, the later one may undo the earlier one's.
#[utoipa::path(
    patch, path = "/v1/lanes/{lane}", operation_id = "patch_lane", tag = "lanes",
    params(("lane" = String, Path, description = "The lane")),
    request_body = PatchLaneBody,
    responses((status = 200, description = "The lane as it is now", body = LaneBody)),
)]
pub(crate) async fn patch(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    InPath(name): InPath<LaneName>,
    Json(body): Json<PatchLaneBody>,
) -> Result<Answer<LaneBody>, Problem> {
    let by = by(&caller, body.reason)?;
    let _alone = state.lane_changes.lock().await;
    let Some(lane) = state.store.lane(&name).await? else {
        return Err(unknown(&name, None));
    };
    let policy = merged(&lane.policy, body.policy)?;
    let lane = state.store.put_lane(&name, &policy, &by).await?;
    Ok(Answer(lane.into()))
}

/// Pause a lane: nothing is claimed from it
#[utoipa::path(
    post, path = "/v1/lanes/{lane}/pause", operation_id = "pause_lane", tag = "lanes",
    params(("lane" = String, Path, description = "The lane")),
    request_body = ReasonBody,
    responses((status = 200, description = "The lane as it is now", body = LaneBody)),
)]
pub(crate) async fn pause(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    InPath(lane): InPath<LaneName>,
    MaybeJson(body): MaybeJson<ReasonBody>,
) -> Result<Answer<LaneBody>, Problem> {
    let by = by(&caller, body.reason)?;
    Ok(Answer(state.store.pause(&lane, &by).await?.into()))
}

/// Let a paused lane be claimed again
#[utoipa::path(
    post, path = "/v1/lanes/{lane}/resume", operation_id = "resume_lane", tag = "lanes",
    params(("lane" = String, Path, description = "The lane")),
    request_body = ReasonBody,
    responses((status = 200, description = "The lane as it is now", body = LaneBody)),
)]
pub(crate) async fn resume(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    InPath(lane): InPath<LaneName>,
    MaybeJson(body): MaybeJson<ReasonBody>,
) -> Result<Answer<LaneBody>, Problem> {
    let by = by(&caller, body.reason)?;
    Ok(Answer(state.store.resume(&lane, &by).await?.into()))
}

fn views(state: &AppState, lanes: Vec<(Lane, Counts)>) -> Vec<LaneView> {
    let now = (state.clock)();
    let status = state.worker.as_ref().map(|worker| worker.status());
    let mut working: Vec<LaneWorkerView> = status
        .map(|status| status.lanes.into_iter().map(LaneWorkerView::from).collect())
        .unwrap_or_default();
    let views = lanes.into_iter().map(|(lane, counts)| {
        let worker = working.iter().position(|view| view.lane == lane.name);
        let worker = worker.map(|found| working.swap_remove(found));
        LaneView::new((lane, counts), worker, now)
    });
    views.collect()
}

pub(super) fn unknown(lane: &LaneName, suggestion: Option<&str>) -> Problem {
    Problem::from(Error::UnknownLane {
        lane: lane.to_string(),
        suggestion: suggestion.map(str::to_owned),
    })
}

/// A policy with some of its fields replaced.
fn merged(
    policy: &LanePolicy,
    changes: serde_json::Map<String, Value>,
) -> Result<LanePolicy, Problem> {
    let mut whole = serde_json::to_value(policy).expect("invariant: policies serialise");
    let fields = whole.as_object_mut();
    fields
        .expect("invariant: a policy is an object")
        .extend(changes);
    parse(whole.to_string().as_bytes())
}
