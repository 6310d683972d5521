//! Payments for workers that cannot reach the database. The token in the path is the permission.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension, Json as Answer,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use consign_kernel::{
    AttemptOutcome::{Dead, Delivered, Expired, Retry, Uncertain},
    BeginAnswer, LEASE_MESSAGES_MAX, ReleaseAnswer, RenewAnswer, StateKind, Token,
};
use consign_payments::{
    AttemptState, CompleteAnswer, Completed, Completion, metrics::ALARMS_TOTAL,
};
use metrics::counter;
use serde_json::json;

use super::served;
use crate::{
    extract::{InPath, Json, MaybeJson},
    gate::{Shared, access::Caller, deadline::Client, slots::Slot},
    problem::{Flat, Problem, codes},
    routes::claims::{answer_within, wait_for},
    state::AppState,
    tally::Told,
    wire::{
        leases::{BegunBody, ReleaseBody},
        payments::work::{
            CompleteBody, CompletedBody, PaymentBeginBody, PaymentClaimBody, PaymentLeaseBody,
            PaymentReleasedBody, PaymentRenewBody, PaymentRenewedBody, RepairBody, RepairedBody,
            UnreferencedBody, WitnessedBody,
        },
    },
};

/// Leases that a repair ends at once, unless said.
const REPAIR_BATCH: u32 = 100;
/// What a repair, and a batch of completions, may have at most.
const BATCH_MAX: usize = 1_000;
/// What a payment takes in the answer of a claim, at most: its texts have 256 bytes each.
const PAYMENT_BYTES: usize = 8 * 1024;
/// The longest lease.
const LEASE_SECONDS_MAX: u64 = 3_600;

/// Claim payments
///
/// Answers 204 if none are due, after `wait_ms` if that is given. A client that hangs up while it
/// waits gets no lease.
#[utoipa::path(
    post, path = "/v1/payments/claims", operation_id = "claim_payments", tag = "payments",
    request_body = PaymentClaimBody,
    responses(
        (status = 200, description = "A lease", body = PaymentLeaseBody),
        (status = 204, description = "Nothing to do"),
    ),
)]
pub(crate) async fn claim(
    State(state): State<AppState>,
    Extension(shared): Extension<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Extension(slot): Extension<Option<Slot>>,
    Extension(client): Extension<Client>,
    body: Result<Json<PaymentClaimBody>, Problem>,
) -> Result<Response, Flat> {
    let here = served(&state)?;
    let Json(body) = body?;
    let wait = Duration::from_millis(body.wait_ms).min(shared.options.wait_max());
    let client_name = caller.client.clone();
    let worker = body.worker_id.unwrap_or(caller.client);
    let lease = Duration::from_secs(body.lease_seconds);
    let limit = body.batch_size;
    let claim = || async {
        let wanted = PAYMENT_BYTES * limit.min(LEASE_MESSAGES_MAX) as usize;
        let reserving = shared.claims.reserve_some(&client_name, (wanted, wanted));
        let reserved = reserving.await?;
        let claiming = here.store.claim_payments(limit, &worker, lease, body.begin);
        Ok::<_, Problem>(claiming.await?.map(|claimed| (claimed, reserved)))
    };
    let mut claimed = claim().await?;
    if claimed.is_none() && !wait.is_zero() {
        slot.iter().for_each(Slot::give_up);
        let queue = consign_payments::queue();
        claimed = wait_for(&state, &shared, (&queue, wait), &client, claim).await?;
    }
    let Some((claimed, reserved)) = claimed else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    if client.is_gone() {
        // Nobody would hear of it, so nobody has called the rail.
        here.store.release(claimed.lease_token).await?;
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let payments = claimed.payments.iter();
    let payments = payments.map(|payment| payment.outbox_id.0.as_u128());
    let queue = consign_payments::queue();
    state.tally.claimed(claimed.lease_token, &queue, payments);
    let answer = Answer(PaymentLeaseBody::from(claimed)).into_response();
    Ok(answer_within(answer, reserved))
}

/// Record what the rail said
///
/// All of it is recorded, or nothing. Repeating it with the same states and references answers with
/// what was recorded. Where the lease is lost, or its token has recorded something else before, the
/// answer is 409 and what the rail said is kept as evidence: `kept_as_evidence` names the payments.
#[utoipa::path(
    post, path = "/v1/payments/leases/{token}/complete", operation_id = "complete_payments",
    tag = "payments",
    params(("token" = String, Path, description = "The lease's token")),
    request_body = CompleteBody,
    responses((status = 200, description = "Recorded", body = CompletedBody)),
)]
pub(crate) async fn complete(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    token: Result<InPath<Token>, Problem>,
    body: Result<Json<CompleteBody>, Problem>,
) -> Result<Answer<CompletedBody>, Flat> {
    served(&state)?;
    let (InPath(token), Json(body)) = (token?, body?);
    let completions = body.completions()?;
    let unnamed = completions.iter().find(|said| said.lacks_reference());
    if let Some(unnamed) = unnamed {
        let detail = format!(
            "payment {} was dispatched under no rail_reference; nothing was recorded. Hold it with \
             POST /v1/payments/leases/{{token}}/hold before its lease ends",
            unnamed.outbox_id
        );
        return Err(Problem::new(codes::MISSING_RAIL_REFERENCE, detail).into());
    }
    let worker = body.worker_id.unwrap_or(caller.client);
    record(&state, token, &worker, &completions).await
}

/// Hold payments that the rail took without a reference
///
/// Somebody has to ask the rail under which name it knows them; until then nobody sends them again.
#[utoipa::path(
    post, path = "/v1/payments/leases/{token}/hold", operation_id = "hold_leased_payments",
    tag = "payments",
    params(("token" = String, Path, description = "The lease's token")),
    request_body = UnreferencedBody,
    responses((status = 200, description = "Recorded and held", body = CompletedBody)),
)]
pub(crate) async fn hold(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    token: Result<InPath<Token>, Problem>,
    body: Result<Json<UnreferencedBody>, Problem>,
) -> Result<Answer<CompletedBody>, Flat> {
    served(&state)?;
    let (InPath(token), Json(body)) = (token?, body?);
    let completions = body.completions();
    let worker = body.worker_id.unwrap_or(caller.client);
    let recorded = record(&state, token, &worker, &completions).await?;
    for completion in &completions {
        let outbox_id = completion.outbox_id;
        tracing::error!(
            %outbox_id, worker,
            "payment {outbox_id}: the rail accepted it without a reference; it is held until \
             somebody has looked at the rail's books"
        );
        counter!(ALARMS_TOTAL, "kind" => "missing_reference").increment(1);
    }
    Ok(recorded)
}

/// Records under a live lease, or keeps what is said too late.
async fn record(
    state: &AppState,
    token: Token,
    worker: &str,
    completions: &[Completion],
) -> Result<Answer<CompletedBody>, Flat> {
    check_batch(completions.len())?;
    let here = served(state)?;
    let reason = match here.store.complete(token, worker, completions).await? {
        CompleteAnswer::Completed(completed) => {
            let told: Vec<_> = completed.iter().map(told).collect();
            state
                .tally
                .recorded(token, &consign_payments::queue(), &told);
            return Ok(Answer(completed.into()));
        }
        CompleteAnswer::LeaseLost => "unknown_or_expired",
        CompleteAnswer::RecordedOtherwise => "recorded_otherwise",
    };
    let witness = here.store.witness_payments(token, worker, completions);
    let kept = witness.await?;
    Err(lost(reason).with("kept_as_evidence", json!(kept)).into())
}

/// A completion in the kernel's words, to be counted.
fn told(completed: &Completed) -> Told {
    let outcome = match completed.state {
        // Without a reference nobody can say under which name.
        AttemptState::Dispatched if completed.place == StateKind::Held => Uncertain,
        AttemptState::Dispatched => Delivered,
        AttemptState::Retryable => Retry,
        AttemptState::Failed => Dead,
        AttemptState::ZombieRequeue => Expired,
    };
    (completed.outbox_id.0.as_u128(), outcome)
}

/// Keep what a rail said too late
///
/// As evidence, never as an outcome; a refused completion does the same by itself. A success makes
/// the next claim of its payment `in_doubt`.
#[utoipa::path(
    post, path = "/v1/payments/leases/{token}/witness", operation_id = "witness_payments",
    tag = "payments",
    params(("token" = String, Path, description = "The token of the lease that was lost")),
    request_body = CompleteBody,
    responses((status = 200, description = "Which are on record now", body = WitnessedBody)),
)]
pub(crate) async fn witness(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    token: Result<InPath<Token>, Problem>,
    body: Result<Json<CompleteBody>, Problem>,
) -> Result<Answer<WitnessedBody>, Flat> {
    let here = served(&state)?;
    let (InPath(token), Json(body)) = (token?, body?);
    let completions = body.completions()?;
    check_batch(completions.len())?;
    let worker = body.worker_id.unwrap_or(caller.client);
    let kept = here
        .store
        .witness_payments(token, &worker, &completions)
        .await?;
    Ok(Answer(WitnessedBody { kept }))
}

/// Prolong a lease of payments
#[utoipa::path(
    post, path = "/v1/payments/leases/{token}/renew", operation_id = "renew_payment_lease",
    tag = "payments",
    params(("token" = String, Path, description = "The lease's token")),
    request_body = PaymentRenewBody,
    responses((status = 200, description = "Prolonged", body = PaymentRenewedBody)),
)]
pub(crate) async fn renew(
    State(state): State<AppState>,
    token: Result<InPath<Token>, Problem>,
    body: Result<Json<PaymentRenewBody>, Problem>,
) -> Result<Answer<PaymentRenewedBody>, Flat> {
    let here = served(&state)?;
    let (InPath(token), Json(body)) = (token?, body?);
    if !(1..=LEASE_SECONDS_MAX).contains(&body.lease_seconds) {
        let why = format!("must be from 1 to {LEASE_SECONDS_MAX}");
        return Err(Problem::invalid("lease_seconds", &why).into());
    }
    let ttl = Duration::from_secs(body.lease_seconds);
    match here.store.renew(token, ttl).await? {
        RenewAnswer::Renewed { expires_at } => Ok(Answer(PaymentRenewedBody {
            lease_expires_at: expires_at,
        })),
        RenewAnswer::LeaseLost => Err(lost("unknown_or_expired").into()),
    }
}

/// Record that the rail is about to be called
///
/// Should the lease end now, whoever claims these payments next is told to ask first, and on their
/// last try they are held rather than failed.
#[utoipa::path(
    post, path = "/v1/payments/leases/{token}/begin", operation_id = "begin_payments",
    tag = "payments",
    params(("token" = String, Path, description = "The lease's token")),
    request_body = PaymentBeginBody,
    responses((status = 200, description = "Recorded", body = BegunBody)),
)]
pub(crate) async fn begin(
    State(state): State<AppState>,
    token: Result<InPath<Token>, Problem>,
    body: Result<Json<PaymentBeginBody>, Problem>,
) -> Result<Answer<BegunBody>, Flat> {
    let here = served(&state)?;
    let (InPath(token), Json(body)) = (token?, body?);
    check_batch(body.outbox_ids.len())?;
    let messages = here.store.payment_messages(&body.outbox_ids).await?;
    let messages: Option<Vec<_>> = messages.into_iter().collect();
    let Some(messages) = messages else {
        return Err(lost("not_in_lease").into());
    };
    match here.store.begin(token, &messages).await? {
        BeginAnswer::Begun => Ok(Answer(BegunBody { begun: true })),
        BeginAnswer::LeaseLost => Err(lost("unknown_or_expired").into()),
        BeginAnswer::NotInLease(_) => Err(lost("not_in_lease").into()),
    }
}

/// Give back what has not begun, uncounted
///
/// Whoever does so says that it has not called the rail for these payments, whatever the claim
/// presumed.
#[utoipa::path(
    post, path = "/v1/payments/leases/{token}/release", operation_id = "release_payment_lease",
    tag = "payments",
    params(("token" = String, Path, description = "The lease's token")),
    request_body = Option<ReleaseBody>,
    responses((status = 200, description = "Given back", body = PaymentReleasedBody)),
)]
pub(crate) async fn release(
    State(state): State<AppState>,
    token: Result<InPath<Token>, Problem>,
    body: Result<MaybeJson<ReleaseBody>, Problem>,
) -> Result<Answer<PaymentReleasedBody>, Flat> {
    let here = served(&state)?;
    let (InPath(token), MaybeJson(ReleaseBody {})) = (token?, body?);
    match here.store.release(token).await? {
        ReleaseAnswer::Released(ids) => Ok(Answer(PaymentReleasedBody {
            released: ids.len(),
        })),
        ReleaseAnswer::LeaseLost => Err(lost("unknown_or_expired").into()),
    }
}

/// Take back what silent workers hold
///
/// Ends leases that have expired, oldest first: each payment gets an attempt and is due again, or
/// has failed on its last try. Claims do the same by themselves.
#[utoipa::path(
    post, path = "/v1/payments/repair", operation_id = "repair_payments", tag = "payments",
    request_body = Option<RepairBody>,
    responses((status = 200, description = "What was taken back", body = RepairedBody)),
)]
pub(crate) async fn repair(
    State(state): State<AppState>,
    body: Result<MaybeJson<RepairBody>, Problem>,
) -> Result<Answer<RepairedBody>, Flat> {
    let here = served(&state)?;
    let MaybeJson(body) = body?;
    let limit = body.batch_size.unwrap_or(REPAIR_BATCH);
    if limit == 0 || limit as usize > BATCH_MAX {
        let why = format!("must be from 1 to {BATCH_MAX}");
        return Err(Problem::invalid("batch_size", &why).into());
    }
    let repaired = here.store.repair(limit).await?;
    Ok(Answer(RepairedBody::from(repaired)))
}

/// No lease holds more.
fn check_batch(count: usize) -> Result<(), Problem> {
    if count <= BATCH_MAX {
        return Ok(());
    }
    let detail = format!("{count} payments at once; {BATCH_MAX} at most");
    Err(Problem::new(codes::BATCH_TOO_LARGE, detail))
}

fn lost(reason: &'static str) -> Problem {
    let detail = match reason {
        "recorded_otherwise" => {
            "this token has recorded something else about these payments; nothing was written"
        }
        "not_in_lease" => "the lease does not hold all of these payments; nothing was written",
        _ => {
            "lease expired, unknown token, or another worker's lease: nothing was written. Stop \
             working on its payments, which another worker may hold, and claim again"
        }
    };
    Problem::new(codes::LEASE_LOST, detail).with("reason", reason)
}
