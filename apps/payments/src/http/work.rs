//! Payments for workers without a database connection. The token in the path authorises the
//! request.

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
use consign_server::apps::{
    AppState, BegunBody, Caller, Client, Flat, GateState, InPath, Json, MaybeJson, Problem,
    ReleaseBody, Slot, TallyEntry, answer_within, codes, wait_for,
};
use metrics::counter;
use serde_json::json;

use super::{
    MISSING_RAIL_REFERENCE, PaymentsHttp,
    wire::work::{
        CompleteBody, CompletedBody, LateResultsBody, PaymentBeginBody, PaymentClaimBody,
        PaymentLeaseBody, PaymentReleasedBody, PaymentRenewBody, PaymentRenewedBody, RepairBody,
        RepairedBody, UnreferencedBody,
    },
};
use crate::{AttemptState, CompleteAnswer, Completion, CompletionResult, metrics::ALARMS_TOTAL};

/// Default number of leases that a repair ends.
const REPAIR_BATCH: u32 = 100;
/// Maximum of a repair and of a batch of completions.
const BATCH_MAX: usize = 1_000;
/// Maximum size of a payment in a claim's answer: its texts have 256 bytes each.
const PAYMENT_BYTES: usize = 8 * 1024;
/// The longest lease.
const LEASE_SECONDS_MAX: u64 = 3_600;

/// Claim payments
///
/// Returns 204 if none are due, after `wait_ms` if set. A client that disconnects while it waits
/// gets no lease.
#[utoipa::path(
    post, path = "/v1/payments/claims", operation_id = "claim_payments", tag = "payments",
    request_body = PaymentClaimBody,
    responses(
        (status = 200, description = "A lease", body = PaymentLeaseBody),
        (status = 204, description = "No payment is due"),
    ),
)]
pub(super) async fn claim(
    State(http): State<PaymentsHttp>,
    State(server): State<AppState>,
    Extension(shared): Extension<Arc<GateState>>,
    Extension(caller): Extension<Caller>,
    Extension(slot): Extension<Option<Slot>>,
    Extension(client): Extension<Client>,
    body: Result<Json<PaymentClaimBody>, Problem>,
) -> Result<Response, Flat> {
    let here = http.here()?;
    let Json(body) = body?;
    let wait = Duration::from_millis(body.wait_ms).min(shared.wait_max());
    let client_name = caller.client.clone();
    let worker = body.worker_id.unwrap_or(caller.client);
    let lease = Duration::from_secs(body.lease_seconds);
    let limit = body.batch_size;
    let claim = || async {
        let wanted = PAYMENT_BYTES * limit.min(LEASE_MESSAGES_MAX) as usize;
        let reserved = shared.reserve_claim(&client_name, wanted).await?;
        let claiming = here.store.claim_payments(limit, &worker, lease, body.begin);
        Ok::<_, Problem>(claiming.await?.map(|claimed| (claimed, reserved)))
    };
    let mut claimed = claim().await?;
    if claimed.is_none() && !wait.is_zero() {
        slot.iter().for_each(Slot::give_up);
        let queue = crate::queue();
        claimed = wait_for(&server, &shared, (&queue, wait), &client, claim).await?;
    }
    let Some((claimed, reserved)) = claimed else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    if client.is_gone() {
        // The client is gone, so the rail was not called.
        here.store.release(claimed.lease_token).await?;
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let payments = claimed.payments.iter();
    let payments = payments.map(|payment| payment.outbox_id.0.as_u128());
    let queue = crate::queue();
    server.count_claim(claimed.lease_token, &queue, payments);
    let answer = Answer(PaymentLeaseBody::from(claimed)).into_response();
    Ok(answer_within(answer, reserved))
}

/// Record the rail's answers
///
/// All of them are recorded, or none. A repeat with the same states and references returns what was
/// recorded. If the lease is lost, or its token recorded something else before, the answer is 409
/// and the rail's answers are stored as evidence: `kept_as_evidence` lists the payments.
#[utoipa::path(
    post, path = "/v1/payments/leases/{token}/complete", operation_id = "complete_payments",
    tag = "payments",
    params(("token" = String, Path, description = "The lease's token")),
    request_body = CompleteBody,
    responses((status = 200, description = "Recorded", body = CompletedBody)),
)]
pub(super) async fn complete(
    State(http): State<PaymentsHttp>,
    State(server): State<AppState>,
    Extension(caller): Extension<Caller>,
    token: Result<InPath<Token>, Problem>,
    body: Result<Json<CompleteBody>, Problem>,
) -> Result<Answer<CompletedBody>, Flat> {
    http.here()?;
    let (InPath(token), Json(body)) = (token?, body?);
    let completions = body.completions()?;
    let unnamed = completions
        .iter()
        .find(|completion| completion.lacks_reference());
    if let Some(unnamed) = unnamed {
        let detail = format!(
            "payment {} is DISPATCHED without a rail_reference; nothing was recorded. Hold it with \
             POST /v1/payments/leases/{{token}}/hold before its lease ends",
            unnamed.outbox_id
        );
        return Err(Problem::new(MISSING_RAIL_REFERENCE, detail).into());
    }
    let worker = body.worker_id.unwrap_or(caller.client);
    record(&http, &server, token, &worker, &completions).await
}

/// Hold payments that the rail accepted without a reference
///
/// They are not sent again until an operator finds their references in the rail's records.
#[utoipa::path(
    post, path = "/v1/payments/leases/{token}/hold", operation_id = "hold_leased_payments",
    tag = "payments",
    params(("token" = String, Path, description = "The lease's token")),
    request_body = UnreferencedBody,
    responses((status = 200, description = "Recorded and held", body = CompletedBody)),
)]
pub(super) async fn hold(
    State(http): State<PaymentsHttp>,
    State(server): State<AppState>,
    Extension(caller): Extension<Caller>,
    token: Result<InPath<Token>, Problem>,
    body: Result<Json<UnreferencedBody>, Problem>,
) -> Result<Answer<CompletedBody>, Flat> {
    http.here()?;
    let (InPath(token), Json(body)) = (token?, body?);
    let completions = body.completions();
    let worker = body.worker_id.unwrap_or(caller.client);
    let recorded = record(&http, &server, token, &worker, &completions).await?;
    for completion in &completions {
        let outbox_id = completion.outbox_id;
        tracing::error!(
            %outbox_id, worker,
            "payment {outbox_id}: the rail accepted it without a reference; held until an \
             operator resolves it from the rail's records"
        );
        counter!(ALARMS_TOTAL, "kind" => "missing_reference").increment(1);
    }
    Ok(recorded)
}

/// Records under a live lease; stores late results as evidence.
async fn record(
    http: &PaymentsHttp,
    server: &AppState,
    token: Token,
    worker: &str,
    completions: &[Completion],
) -> Result<Answer<CompletedBody>, Flat> {
    check_batch(completions.len())?;
    let here = http.here()?;
    let reason = match here.store.complete(token, worker, completions).await? {
        CompleteAnswer::Completed(completed) => {
            let entries: Vec<_> = completed.iter().map(tally_entry).collect();
            server.count_results(token, &crate::queue(), &entries);
            return Ok(Answer(completed.into()));
        }
        CompleteAnswer::LeaseLost => "unknown_or_expired",
        CompleteAnswer::RecordedOtherwise => "recorded_otherwise",
    };
    let record_late = here.store.record_late_payments(token, worker, completions);
    let kept = record_late.await?;
    Err(lost(reason).with("kept_as_evidence", json!(kept)).into())
}

/// A completion as a metrics entry.
fn tally_entry(completed: &CompletionResult) -> TallyEntry {
    let outcome = match completed.state {
        // Held, because the reference is missing.
        AttemptState::Dispatched if completed.message_state == StateKind::Held => Uncertain,
        AttemptState::Dispatched => Delivered,
        AttemptState::Retryable => Retry,
        AttemptState::Failed => Dead,
        AttemptState::ZombieRequeue => Expired,
    };
    (completed.outbox_id.0.as_u128(), outcome)
}

/// Store a rail's late answers
///
/// As evidence, never as an outcome; a rejected completion does the same. A late success puts the
/// next claim of its payment `in_doubt`.
#[utoipa::path(
    post, path = "/v1/payments/leases/{token}/late", operation_id = "record_late_payments",
    tag = "payments",
    params(("token" = String, Path, description = "The token of the lease that was lost")),
    request_body = CompleteBody,
    responses((status = 200, description = "The payments whose evidence is stored", body = LateResultsBody)),
)]
pub(super) async fn record_late(
    State(http): State<PaymentsHttp>,
    Extension(caller): Extension<Caller>,
    token: Result<InPath<Token>, Problem>,
    body: Result<Json<CompleteBody>, Problem>,
) -> Result<Answer<LateResultsBody>, Flat> {
    let here = http.here()?;
    let (InPath(token), Json(body)) = (token?, body?);
    let completions = body.completions()?;
    check_batch(completions.len())?;
    let worker = body.worker_id.unwrap_or(caller.client);
    let kept = here
        .store
        .record_late_payments(token, &worker, &completions)
        .await?;
    Ok(Answer(LateResultsBody { kept }))
}

/// Renew a lease of payments
#[utoipa::path(
    post, path = "/v1/payments/leases/{token}/renew", operation_id = "renew_payment_lease",
    tag = "payments",
    params(("token" = String, Path, description = "The lease's token")),
    request_body = PaymentRenewBody,
    responses((status = 200, description = "Renewed", body = PaymentRenewedBody)),
)]
pub(super) async fn renew(
    State(http): State<PaymentsHttp>,
    token: Result<InPath<Token>, Problem>,
    body: Result<Json<PaymentRenewBody>, Problem>,
) -> Result<Answer<PaymentRenewedBody>, Flat> {
    let here = http.here()?;
    let (InPath(token), Json(body)) = (token?, body?);
    if !(1..=LEASE_SECONDS_MAX).contains(&body.lease_seconds) {
        let why = format!("must be 1 to {LEASE_SECONDS_MAX}");
        return Err(Problem::out_of_bounds("lease_seconds", body.lease_seconds, &why).into());
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
/// If the lease then expires, the next claim of these payments is in doubt, and on their last try
/// they are held, not failed.
#[utoipa::path(
    post, path = "/v1/payments/leases/{token}/begin", operation_id = "begin_payments",
    tag = "payments",
    params(("token" = String, Path, description = "The lease's token")),
    request_body = PaymentBeginBody,
    responses((status = 200, description = "Recorded", body = BegunBody)),
)]
pub(super) async fn begin(
    State(http): State<PaymentsHttp>,
    token: Result<InPath<Token>, Problem>,
    body: Result<Json<PaymentBeginBody>, Problem>,
) -> Result<Answer<BegunBody>, Flat> {
    let here = http.here()?;
    let (InPath(token), Json(body)) = (token?, body?);
    check_batch(body.outbox_ids.len())?;
    let messages = here.store.payment_messages(&body.outbox_ids).await?;
    let messages: Option<Vec<_>> = messages.into_iter().collect();
    let Some(messages) = messages else {
        return Err(lost("not_in_lease").into());
    };
    match here.store.begin(token, &messages).await? {
        BeginAnswer::Begun => Ok(Answer(BegunBody::recorded())),
        BeginAnswer::LeaseLost => Err(lost("unknown_or_expired").into()),
        BeginAnswer::NotInLease(_) => Err(lost("not_in_lease").into()),
    }
}

/// Release payments that were not begun, without an attempt
///
/// The caller states that it did not call the rail for these payments, whatever the claim presumed.
#[utoipa::path(
    post, path = "/v1/payments/leases/{token}/release", operation_id = "release_payment_lease",
    tag = "payments",
    params(("token" = String, Path, description = "The lease's token")),
    request_body = Option<ReleaseBody>,
    responses((status = 200, description = "Released", body = PaymentReleasedBody)),
)]
pub(super) async fn release(
    State(http): State<PaymentsHttp>,
    token: Result<InPath<Token>, Problem>,
    body: Result<MaybeJson<ReleaseBody>, Problem>,
) -> Result<Answer<PaymentReleasedBody>, Flat> {
    let here = http.here()?;
    let (InPath(token), MaybeJson(ReleaseBody {})) = (token?, body?);
    match here.store.release(token).await? {
        ReleaseAnswer::Released(ids) => Ok(Answer(PaymentReleasedBody {
            released: ids.len(),
        })),
        ReleaseAnswer::LeaseLost => Err(lost("unknown_or_expired").into()),
    }
}

/// End expired leases
///
/// Ends expired leases, oldest first: each payment gets an attempt and is due again, or fails on
/// its last try. Claims do the same.
#[utoipa::path(
    post, path = "/v1/payments/repair", operation_id = "repair_payments", tag = "payments",
    request_body = Option<RepairBody>,
    responses((status = 200, description = "The payments of these leases", body = RepairedBody)),
)]
pub(super) async fn repair(
    State(http): State<PaymentsHttp>,
    body: Result<MaybeJson<RepairBody>, Problem>,
) -> Result<Answer<RepairedBody>, Flat> {
    let here = http.here()?;
    let MaybeJson(body) = body?;
    let limit = body.batch_size.unwrap_or(REPAIR_BATCH);
    if limit == 0 || limit as usize > BATCH_MAX {
        let why = format!("must be 1 to {BATCH_MAX}");
        return Err(Problem::out_of_bounds("batch_size", limit, &why).into());
    }
    let repaired = here.store.repair(limit).await?;
    Ok(Answer(RepairedBody::from(repaired)))
}

/// No lease holds more.
fn check_batch(count: usize) -> Result<(), Problem> {
    if count <= BATCH_MAX {
        return Ok(());
    }
    let detail = format!("{count} payments in one request; the maximum is {BATCH_MAX}");
    Err(Problem::new(codes::BATCH_TOO_LARGE, detail))
}

fn lost(reason: &'static str) -> Problem {
    let detail = match reason {
        "recorded_otherwise" => {
            "this token recorded another result for these payments; nothing was written"
        }
        "not_in_lease" => "not all of these payments are in the lease; nothing was written",
        _ => {
            "lease expired, unknown token, or another worker's lease: nothing was written. Stop \
             working on its payments, which another worker may hold, and claim again"
        }
    };
    Problem::new(codes::LEASE_LOST, detail).with("reason", reason)
}
