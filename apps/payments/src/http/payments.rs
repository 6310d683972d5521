//! HTTP handlers of payments. They read the caller and the tenant; the payment service does the
//! rest.

use axum::{
    Extension, Json as Answer,
    extract::{RawQuery, Request, State},
    http::header,
    response::{IntoResponse, Response},
};
use consign_kernel::{By, Move, StateKind};
use consign_server::apps::{
    Caller, Flat, InPath, Json, MaybeJson, Params, Problem, ReasonBody, by, check_type,
    codes::{self, Meaning},
    continue_trace, flat_answer, next_link, page_size, whole,
};
use serde_json::Map;
use uuid::Uuid;

use super::{
    PaymentsHttp, PaymentsState, TENANT_MISMATCH,
    wire::{
        PaymentMoveBody, PaymentPage, PaymentParams, PaymentReceiptBody, PaymentRequest,
        PaymentResolveBody, PaymentWithAttempts, outbox_id,
    },
};
use crate::{OutboxId, PayCall, PaymentState, RailRecord};

/// Accept a payment
///
/// Returns 202 once the payment is durable; it is dispatched afterwards. A repeat of the same
/// request returns the first `outbox_id` and `Idempotency-Replayed: true`, and changes nothing.
/// Errors are flat: `{"error", "message"}`, with every invalid field in `errors`.
#[utoipa::path(
    post, path = "/v1/payments", operation_id = "take_payment", tag = "payments",
    params(
        ("traceparent" = Option<String>, Header, description = "Kept as a header of the message"),
        ("tracestate" = Option<String>, Header, description = "Kept as a header of the message"),
    ),
    request_body = PaymentRequest,
    responses((status = 202, description = "The payment is durable", body = PaymentReceiptBody)),
)]
pub(super) async fn take(
    State(http): State<PaymentsHttp>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Flat> {
    let (headers, body) = whole(request).await?;
    let here = http.here()?;
    check_type(&headers, "application/json")?;
    let mut message_headers = Map::new();
    continue_trace(&headers, &mut message_headers);
    let call = PayCall {
        tenant_id: caller.tenant_id,
        body: &body,
        headers: message_headers,
    };
    Ok(rendered(here.service.pay(call).await))
}

/// Show a payment with its attempts
#[utoipa::path(
    get, path = "/v1/payments/{outbox_id}", operation_id = "show_payment", tag = "payments",
    params(("outbox_id" = String, Path, description = "The payment")),
    responses((status = 200, description = "State and attempts", body = PaymentWithAttempts)),
)]
pub(super) async fn show(
    State(http): State<PaymentsHttp>,
    Extension(caller): Extension<Caller>,
    id: Result<InPath<String>, Problem>,
) -> Result<Response, Flat> {
    let here = http.here()?;
    let tenant_id = whose(&caller)?;
    let InPath(id) = id?;
    Ok(rendered(here.service.look(tenant_id, &id).await))
}

/// List payments, newest first
#[utoipa::path(
    get, path = "/v1/payments", operation_id = "list_payments", tag = "payments",
    params(PaymentParams),
    responses((status = 200, description = "A page; the Link header leads to the next", body = PaymentPage)),
)]
pub(super) async fn list(
    State(http): State<PaymentsHttp>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
    params: Result<Params<PaymentParams>, Problem>,
) -> Result<impl IntoResponse, Flat> {
    let here = http.here()?;
    let own = whose(&caller)?;
    let Params(params) = params?;
    if own.is_some() && params.tenant_id.is_some() && own != params.tenant_id {
        let detail = "the token does not belong to this tenant";
        return Err(Problem::new(TENANT_MISMATCH, detail).into());
    }
    let (before, limit) = (params.before, page_size(params.limit));
    let filter = {
        let tenant_id = own.or(params.tenant_id);
        params.filter(tenant_id)
    };
    let before = before.map(consign_kernel::MessageId);
    let page = here.store.payments(&filter, before, limit).await?;
    let link = page.next.map(|consign_kernel::MessageId(next)| {
        let link = next_link("/v1/payments", query.as_deref(), next);
        [(header::LINK, link)]
    });
    let (payments, next) = (page.items, page.next);
    Ok((link, Answer(PaymentPage { payments, next })))
}

/// The tenant whose payments a caller may read; `None`: all. A producer without a tenant may read
/// none: its payments cannot be told apart from those of others.
pub(super) fn whose(caller: &Caller) -> Result<Option<Uuid>, Problem> {
    if caller.tenant_id.is_some() || caller.is_reader {
        return Ok(caller.tenant_id);
    }
    let detail = "reading payments needs the scope auditor or operator, or a tenant for the token in \
                  payments.tenants";
    Err(Problem::new(codes::SCOPE_MISSING, detail))
}

fn rendered(answer: crate::Answer) -> Response {
    flat_answer(answer.status, answer.headers, answer.body.to_string())
}

/// Manual operations on a payment.
enum Action {
    Requeue,
    Hold,
    Release,
    Resolve(RailRecord),
}

impl Action {
    async fn run(
        self,
        http: &PaymentsHttp,
        caller: &Caller,
        id: Result<InPath<String>, Problem>,
        reason: Option<String>,
    ) -> Result<Answer<PaymentMoveBody>, Flat> {
        let here = http.here()?;
        let InPath(id) = id?;
        let id = outbox_id(&id)?;
        let by = by(caller, reason)?;
        if let Some(tenant_id) = caller.tenant_id {
            let found = here.store.payment(id).await?;
            // A payment of another tenant is reported as missing.
            let is_own = |found: &_| {
                let (view, _): &(crate::PaymentView, _) = found;
                view.tenant_id == Some(tenant_id)
            };
            found.filter(is_own).ok_or_else(|| missing(id))?;
        }
        let answer = self.moved(here, id, &by).await?;
        let elsewhere = |meaning: &'static Meaning, state| {
            let detail = format!("payment {id} is {state}; {}", meaning.title);
            Err(Problem::new(meaning, detail).into())
        };
        match answer {
            Move::Moved { state } => Ok(Answer(PaymentMoveBody {
                outbox_id: id,
                state: PaymentState::from(state),
            })),
            Move::NoSuchMessage => Err(missing(id).into()),
            Move::NotDead { state } => elsewhere(codes::NOT_DEAD, state),
            Move::NotHeld { state } => elsewhere(codes::NOT_HELD, state),
            Move::NotHoldable { state } => elsewhere(codes::NOT_HOLDABLE, state),
            Move::NotDiscardable { state } => elsewhere(codes::NOT_DISCARDABLE, state),
            Move::NotCancellable { state } => elsewhere(codes::NOT_CANCELLABLE, state),
            // Messages of apps are not erased.
            Move::AppQueue | Move::Erased => elsewhere(codes::ERASED, StateKind::Dead),
        }
    }

    async fn moved(self, here: &PaymentsState, id: OutboxId, by: &By) -> Result<Move, Flat> {
        let (store, ids) = (&here.store, [id]);
        let moved = match self {
            Self::Requeue => store.requeue_payments(&ids, by).await?,
            Self::Hold => store.hold_payments(&ids, by).await?,
            Self::Release => store.release_payments(&ids, by).await?,
            Self::Resolve(found) => vec![store.resolve_payment(id, &found, by).await?],
        };
        let first = moved.first().map(|moved| moved.answer);
        Ok(first.unwrap_or(Move::NoSuchMessage))
    }
}

fn missing(id: OutboxId) -> Problem {
    Problem::new(codes::NOT_FOUND, format!("payment {id} does not exist"))
}

macro_rules! action {
    ($action:ident $name:ident $path:literal $operation:literal $does:literal) => {
        #[utoipa::path(
            post, path = $path, operation_id = $operation, summary = $does, tag = "payments",
            params(("outbox_id" = String, Path, description = "The payment")),
            request_body = ReasonBody,
            responses((status = 200, description = "Done", body = PaymentMoveBody)),
        )]
        pub(super) async fn $name(
            State(http): State<PaymentsHttp>,
            Extension(caller): Extension<Caller>,
            id: Result<InPath<String>, Problem>,
            body: Result<MaybeJson<ReasonBody>, Problem>,
        ) -> Result<Answer<PaymentMoveBody>, Flat> {
            let MaybeJson(body) = body?;
            Action::$action.run(&http, &caller, id, body.reason).await
        }
    };
}

action!(Requeue requeue "/v1/payments/{outbox_id}/requeue" "requeue_payment"
    "Requeue a failed payment with its full number of attempts");
action!(Hold hold "/v1/payments/{outbox_id}/hold" "hold_payment"
    "Hold a pending payment");
action!(Release release "/v1/payments/{outbox_id}/release" "release_payment"
    "Release a held payment");

/// Resolve a held payment
///
/// For a dispatch with an uncertain outcome, after an operator checked the rail's records. Nothing
/// is sent. `dispatched` requires the rail's reference.
#[utoipa::path(
    post, path = "/v1/payments/{outbox_id}/resolve", operation_id = "resolve_payment",
    tag = "payments",
    params(("outbox_id" = String, Path, description = "The payment")),
    request_body = PaymentResolveBody,
    responses((status = 200, description = "Done", body = PaymentMoveBody)),
)]
pub(super) async fn resolve(
    State(http): State<PaymentsHttp>,
    Extension(caller): Extension<Caller>,
    id: Result<InPath<String>, Problem>,
    body: Result<Json<PaymentResolveBody>, Problem>,
) -> Result<Answer<PaymentMoveBody>, Flat> {
    let Json(body) = body?;
    let action = Action::Resolve(body.found()?);
    action.run(&http, &caller, id, body.reason).await
}
