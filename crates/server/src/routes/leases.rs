//! Operations under a lease. The token in the path is the permission.

use std::time::Duration;

use axum::{
    Extension, Json as Answer,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use consign_kernel::{
    BeginAnswer, MessageId, QueueName, RecordedOutcome, ReleaseAnswer, RenewAnswer, Report,
    SettleAnswer, Token, TokenPrefix,
};
use serde_json::json;

use crate::{
    extract::{InPath, Json, MaybeJson, Params},
    gate::access::Caller,
    problem::{Problem, codes},
    state::AppState,
    wire::{
        leases::{
            BeginBody, BegunBody, EndedBody, LeaseList, ReleaseBody, ReleasedBody, RenewBody,
            RenewedBody, ReservedBody, SettleBody, SettledBody, SlotsBody,
        },
        messages::LimitParams,
        operate::{ReasonBody, by},
    },
};

/// List leases, oldest first
#[utoipa::path(
    get, path = "/v1/leases", operation_id = "list_leases", tag = "work",
    params(LimitParams),
    responses((status = 200, description = "Leases, oldest first", body = LeaseList)),
)]
pub(crate) async fn list(
    State(state): State<AppState>,
    Params(params): Params<LimitParams>,
) -> Result<Answer<LeaseList>, Problem> {
    let leases = state.store.leases(params.limit()).await?;
    Ok(Answer(LeaseList { leases }))
}

/// Reserve send slots
///
/// Times at which the caller may send a message of the queue each, so that all workers together keep its
/// `total_rate_per_second`. Answers 204 if the queue has no such rate.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/slots", operation_id = "reserve_slots", tag = "work",
    params(("queue" = String, Path, description = "The queue")),
    request_body = SlotsBody,
    responses(
        (status = 200, description = "Reserved", body = ReservedBody),
        (status = 204, description = "The queue has no rate for all workers"),
    ),
)]
pub(crate) async fn reserve_slots(
    State(state): State<AppState>,
    InPath(queue): InPath<QueueName>,
    Json(body): Json<SlotsBody>,
) -> Result<Response, Problem> {
    let slots = state.store.reserve_slots(&queue, body.count).await?;
    Ok(match slots {
        Some(slots) => Answer(ReservedBody::from(slots)).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

/// Prolong a lease
#[utoipa::path(
    post, path = "/v1/leases/{token}/renew", operation_id = "renew_lease", tag = "work",
    params(("token" = String, Path, description = "The lease's token")),
    request_body = RenewBody,
    responses((status = 200, description = "Prolonged", body = RenewedBody)),
)]
pub(crate) async fn renew(
    State(state): State<AppState>,
    InPath(token): InPath<Token>,
    Json(body): Json<RenewBody>,
) -> Result<Answer<RenewedBody>, Problem> {
    let ttl = Duration::from_millis(body.ttl_ms);
    match state.store.renew(token, ttl).await? {
        RenewAnswer::Renewed { expires_at } => Ok(Answer(RenewedBody { expires_at })),
        RenewAnswer::LeaseLost => Err(lost()),
    }
}

/// Record that transport calls are about to start
#[utoipa::path(
    post, path = "/v1/leases/{token}/begin", operation_id = "begin", tag = "work",
    params(("token" = String, Path, description = "The lease's token")),
    request_body = BeginBody,
    responses((status = 200, description = "Recorded", body = BegunBody)),
)]
pub(crate) async fn begin(
    State(state): State<AppState>,
    InPath(token): InPath<Token>,
    Json(body): Json<BeginBody>,
) -> Result<Answer<BegunBody>, Problem> {
    match state.store.begin(token, &body.ids).await? {
        BeginAnswer::Begun => Ok(Answer(BegunBody { begun: true })),
        BeginAnswer::LeaseLost => Err(lost()),
        BeginAnswer::NotInLease(ids) => Err(not_in_lease(&ids)),
    }
}

/// Record outcomes
///
/// Repeating a settle that was recorded answers 200 with `repeated`. After the lease has ended, the
/// reports are kept as evidence where this token once held the message, and the answer is 409.
#[utoipa::path(
    post, path = "/v1/leases/{token}/settle", operation_id = "settle", tag = "work",
    params(("token" = String, Path, description = "The lease's token")),
    request_body = SettleBody,
    responses((status = 200, description = "Recorded", body = SettledBody)),
)]
pub(crate) async fn settle(
    State(state): State<AppState>,
    InPath(token): InPath<Token>,
    Json(body): Json<SettleBody>,
) -> Result<Answer<SettledBody>, Problem> {
    let reports: Vec<Report> = body.reports.into_iter().map(Report::from).collect();
    let (recorded, repeated) = match state.store.settle(token, &reports).await? {
        SettleAnswer::Settled(recorded) => {
            count(&state, token, &recorded);
            (recorded, false)
        }
        SettleAnswer::AlreadySettled(recorded) => (recorded, true),
        SettleAnswer::NotInLease(ids) => return Err(not_in_lease(&ids)),
        SettleAnswer::LeaseLost => {
            let kept = state.store.record_late(token, &reports).await?;
            return Err(lost().with("kept_as_evidence", json!(kept)));
        }
    };
    Ok(Answer(SettledBody { recorded, repeated }))
}

/// Counts recorded results for the statistics; the request does not wait for it.
fn count(state: &AppState, token: Token, recorded: &[RecordedOutcome]) {
    let outcomes = recorded.iter().map(|it| (it.id.0 as u128, it.outcome));
    let outcomes: Vec<_> = outcomes.collect();
    if let Some(queue) = state.tally.queue(token) {
        return state.tally.recorded(token, &queue, &outcomes);
    }
    // The lease was taken from another server, so its queue is looked up.
    let Some(first) = recorded.first().map(|first| first.id) else {
        return;
    };
    let Some(turn) = state.tally.look_up() else {
        return;
    };
    let state = state.clone();
    tokio::spawn(async move {
        // Without an answer, the results stay uncounted.
        if let Ok(Some(explanation)) = state.store.explain(first).await {
            let queue = explanation.message.queue;
            state.tally.recorded(token, &queue, &outcomes);
        }
        drop(turn);
    });
}

/// End a lease as an operator
///
/// As if it had expired: its messages come back, and what its holder reports from now on is kept as
/// evidence.
#[utoipa::path(
    post, path = "/v1/leases/{token}/end", operation_id = "end_lease", tag = "work",
    params(("token" = String, Path, description = "The first characters of the lease's token, 4 at least")),
    request_body = ReasonBody,
    responses((status = 200, description = "Ended", body = EndedBody)),
)]
pub(crate) async fn end(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    InPath(prefix): InPath<String>,
    MaybeJson(body): MaybeJson<ReasonBody>,
) -> Result<Answer<EndedBody>, Problem> {
    let by = by(&caller, body.reason)?;
    let prefix: TokenPrefix = prefix.parse()?;
    Ok(Answer(state.store.end_lease(&prefix, &by).await?.into()))
}

/// Release messages that have not begun; no attempt is recorded
#[utoipa::path(
    post, path = "/v1/leases/{token}/release", operation_id = "release_lease", tag = "work",
    params(("token" = String, Path, description = "The lease's token")),
    request_body = Option<ReleaseBody>,
    responses((status = 200, description = "Released", body = ReleasedBody)),
)]
pub(crate) async fn release(
    State(state): State<AppState>,
    InPath(token): InPath<Token>,
    MaybeJson(ReleaseBody {}): MaybeJson<ReleaseBody>,
) -> Result<Answer<ReleasedBody>, Problem> {
    match state.store.release(token).await? {
        ReleaseAnswer::Released(ids) => Ok(Answer(ReleasedBody { ids })),
        ReleaseAnswer::LeaseLost => Err(lost()),
    }
}

fn lost() -> Problem {
    let detail = "lease expired or unknown token: no outcome was recorded. Stop working on its \
                  messages, which another worker may hold, and claim again";
    Problem::new(codes::LEASE_LOST, detail)
}

fn not_in_lease(ids: &[MessageId]) -> Problem {
    let detail = "the lease does not hold some of these messages; nothing was written";
    Problem::new(codes::NOT_IN_LEASE, detail).with("ids", json!(ids))
}
