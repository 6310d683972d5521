//! Claims, for workers that cannot reach the database.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension, Json as Answer,
    body::{Body, HttpBody},
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use consign_kernel::{Claim, HEADERS_BYTES_MAX, Lease, QueueName};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::{
    extract::Json,
    gate::{
        GateState,
        access::Caller,
        budget::Reservation,
        deadline::{Client, Slot},
    },
    holding::GuardedBody,
    problem::Problem,
    state::AppState,
    wire::leases::{ClaimBody, LeaseBody},
};

/// A claim that waits queries the database no more often than this, however often it is woken.
const PACE: Duration = Duration::from_millis(20);
/// What a message takes at most, headers included, unless its queue allows more. A claim reserves
/// as much for each.
const MESSAGE_BYTES: usize = 1024 * 1024 + HEADERS_BYTES_MAX;

/// Claim messages
///
/// Answers 204 if there are none, after `wait_ms` if that is given. A client that hangs up while
/// it waits gets no lease.
#[utoipa::path(
    post, path = "/v1/claims", operation_id = "claim", tag = "work",
    request_body = ClaimBody,
    responses(
        (status = 200, description = "A lease", body = LeaseBody),
        (status = 204, description = "Nothing to do"),
    ),
)]
pub(crate) async fn claim(
    State(state): State<AppState>,
    Extension(shared): Extension<Arc<GateState>>,
    Extension(caller): Extension<Caller>,
    Extension(slot): Extension<Option<Slot>>,
    Extension(client): Extension<Client>,
    Json(body): Json<ClaimBody>,
) -> Result<Response, Problem> {
    for extension in state.extensions.iter() {
        extension.check_claim(&body.queue)?;
    }
    let wait = Duration::from_millis(body.wait_ms).min(shared.options.wait_max());
    let client_name = caller.client.clone();
    let claim = Claim {
        queue: body.queue,
        owner: body.owner.unwrap_or(caller.client),
        limit: body.limit,
        ttl: body.ttl_ms.map(Duration::from_millis),
        bytes_max: body.bytes_max,
    };
    let claiming = || claim_within(&state, &shared, &client_name, &claim);
    let mut claimed = claiming().await?;
    if claimed.is_none() && !wait.is_zero() {
        slot.iter().for_each(Slot::give_up);
        claimed = wait_for(&state, &shared, (&claim.queue, wait), &client, claiming).await?;
    }
    let Some((lease, reserved)) = claimed else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    if client.is_gone() {
        // The client would not receive the lease, and its messages would wait until it expired.
        state.store.release(lease.token).await?;
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let messages = lease.messages.iter().map(|it| it.message.id.0 as u128);
    state.tally.claimed(lease.token, &claim.queue, messages);
    let answer = Answer(LeaseBody::from(lease)).into_response();
    Ok(answer_within(answer, reserved))
}

/// Claims no more bytes than the memory for answers has left.
async fn claim_within(
    state: &AppState,
    shared: &GateState,
    client: &str,
    claim: &Claim,
) -> Result<Option<(Lease, Reservation)>, Problem> {
    let wanted = MESSAGE_BYTES.saturating_mul(claim.limit.max(1) as usize);
    let requested = claim.bytes_max.unwrap_or(u64::MAX);
    let wanted = wanted.min(usize::try_from(requested).unwrap_or(usize::MAX));
    let reserving = shared.claims.reserve_some(client, (MESSAGE_BYTES, wanted));
    let reserved = reserving.await?;
    let claim = claim.clone().with_bytes_max(reserved.bytes() as u64);
    let lease = state.store.claim(&claim).await?;
    Ok(lease.map(|lease| (lease, reserved)))
}

/// Keeps the memory of an answer reserved until it was sent.
pub fn answer_within(answer: Response, mut reserved: Reservation) -> Response {
    let bytes = answer.body().size_hint().exact();
    let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
    // One message is claimed whatever its size, so it may be more than was reserved.
    reserved.shrink(bytes.unwrap_or(usize::MAX));
    answer.map(|body| Body::new(GuardedBody::new(body, reserved)))
}

/// Claims again whenever the queue may have work, until `wait` is over or the client is gone.
pub async fn wait_for<T, F>(
    state: &AppState,
    shared: &GateState,
    (queue, wait): (&QueueName, Duration),
    client: &Client,
    claim: impl Fn() -> F,
) -> Result<Option<T>, Problem>
where
    F: Future<Output = Result<Option<T>, Problem>>,
{
    let Some(_place) = shared.slots.wait() else {
        return Ok(None);
    };
    let ends = Instant::now() + wait;
    let mut pace = interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        pace.tick().await;
        let left = ends.saturating_duration_since(Instant::now());
        let woken = tokio::select! {
            woken = state.store.wait(queue, left) => woken?,
            () = client.gone() => return Ok(None),
            () = state.drained() => return Ok(None),
        };
        if let Some(lease) = claim().await? {
            return Ok(Some(lease));
        }
        if !woken || left.is_zero() {
            return Ok(None);
        }
    }
}
