//! Payments. Thin: who calls and for which tenant; taking and showing them is the payment service's.

pub(crate) mod books;
pub(crate) mod work;

use axum::{
    Extension, Json as Answer,
    extract::{RawQuery, Request, State},
    http::header,
    response::{IntoResponse, Response},
};
use consign_kernel::{By, Move};
use consign_payments::{OutboxId, PayCall, PaymentState, RailBooks};
use serde_json::Map;
use uuid::Uuid;

use super::{enqueue::continue_trace, next_link};
use crate::{
    extract::{InPath, Json, MaybeJson, Params, check_type, whole},
    gate::access::Caller,
    problem::{Flat, Problem, codes},
    state::{AppState, PaymentsHere},
    wire::{
        messages::page_size,
        operate::{ReasonBody, by},
        payments::{
            PaymentMoved, PaymentPage, PaymentParams, PaymentRequest, PaymentResolveBody,
            PaymentTaken, PaymentWithAttempts, outbox_id,
        },
    },
};

/// Take a payment
///
/// Answers 202 once the payment is durable; it is dispatched afterwards. A repeat of the same
/// request answers with the first `outbox_id` and `Idempotency-Replayed: true`, and changes nothing.
/// Errors are flat: `{"error", "message"}`, with every wrong field in `errors`.
#[utoipa::path(
    post, path = "/v1/payments", operation_id = "take_payment", tag = "payments",
    params(
        ("traceparent" = Option<String>, Header, description = "Kept as a header of the message"),
        ("tracestate" = Option<String>, Header, description = "Kept as a header of the message"),
    ),
    request_body = PaymentRequest,
    responses((status = 202, description = "It is durable", body = PaymentTaken)),
)]
pub(crate) async fn take(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Flat> {
    let (headers, body) = whole(request).await?;
    let here = served(&state)?;
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

/// A payment with its attempts
#[utoipa::path(
    get, path = "/v1/payments/{outbox_id}", operation_id = "show_payment", tag = "payments",
    params(("outbox_id" = String, Path, description = "The payment")),
    responses((status = 200, description = "How it stands, and why", body = PaymentWithAttempts)),
)]
pub(crate) async fn show(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    id: Result<InPath<String>, Problem>,
) -> Result<Response, Flat> {
    let here = served(&state)?;
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
pub(crate) async fn list(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
    params: Result<Params<PaymentParams>, Problem>,
) -> Result<impl IntoResponse, Flat> {
    let here = served(&state)?;
    let own = whose(&caller)?;
    let Params(params) = params?;
    if own.is_some() && params.tenant_id.is_some() && own != params.tenant_id {
        let detail = "the token does not belong to this tenant";
        return Err(Problem::new(codes::TENANT_MISMATCH, detail).into());
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

fn served(state: &AppState) -> Result<&PaymentsHere, Flat> {
    let here = state.payments.as_deref();
    here.ok_or_else(|| {
        let detail = "this server takes no payments: payments.enabled is false";
        Problem::new(codes::NOT_FOUND, detail).into()
    })
}

/// Whose payments a caller may read; none: all. A producer without a tenant has none: nothing tells
/// its payments from those of others.
fn whose(caller: &Caller) -> Result<Option<Uuid>, Problem> {
    if caller.tenant_id.is_some() || caller.is_reader {
        return Ok(caller.tenant_id);
    }
    let detail = "reading payments needs the scope auditor or operator, or a tenant for the token in \
                  payments.tenants";
    Err(Problem::new(codes::SCOPE_MISSING, detail))
}

fn rendered(answer: consign_payments::Answer) -> Response {
    super::flat_answer(answer.status, answer.headers, answer.body.to_string())
}

/// What can be done to a payment by hand.
enum Action {
    Requeue,
    Hold,
    Release,
    Resolve(RailBooks),
}

impl Action {
    async fn run(
        self,
        state: &AppState,
        caller: &Caller,
        id: Result<InPath<String>, Problem>,
        reason: Option<String>,
    ) -> Result<Answer<PaymentMoved>, Flat> {
        let here = served(state)?;
        let InPath(id) = id?;
        let id = outbox_id(&id)?;
        let by = by(caller, reason)?;
        if let Some(tenant_id) = caller.tenant_id {
            let found = here.store.payment(id).await?;
            // That of another tenant does not exist.
            let is_own = |found: &_| {
                let (view, _): &(consign_payments::PaymentView, _) = found;
                view.tenant_id == Some(tenant_id)
            };
            found.filter(is_own).ok_or_else(|| missing(id))?;
        }
        let answer = self.moved(here, id, &by).await?;
        let elsewhere = |meaning: &'static codes::Meaning, place| {
            let detail = format!("payment {id} is {place}; {}", meaning.title);
            Err(Problem::new(meaning, detail).into())
        };
        match answer {
            Move::Moved { state } => Ok(Answer(PaymentMoved {
                outbox_id: id,
                state: PaymentState::from(state),
            })),
            Move::NoSuchMessage => Err(missing(id).into()),
            Move::NotDead { state } => elsewhere(codes::NOT_DEAD, state),
            Move::NotHeld { state } => elsewhere(codes::NOT_HELD, state),
            Move::NotHoldable { state } => elsewhere(codes::NOT_HOLDABLE, state),
        }
    }

    async fn moved(self, here: &PaymentsHere, id: OutboxId, by: &By) -> Result<Move, Flat> {
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
    Problem::new(codes::NOT_FOUND, format!("there is no payment {id}"))
}

macro_rules! action {
    ($action:ident $name:ident $path:literal $operation:literal $does:literal) => {
        #[utoipa::path(
            post, path = $path, operation_id = $operation, summary = $does, tag = "payments",
            params(("outbox_id" = String, Path, description = "The payment")),
            request_body = ReasonBody,
            responses((status = 200, description = "Done", body = PaymentMoved)),
        )]
        pub(crate) async fn $name(
            State(state): State<AppState>,
            Extension(caller): Extension<Caller>,
            id: Result<InPath<String>, Problem>,
            body: Result<MaybeJson<ReasonBody>, Problem>,
        ) -> Result<Answer<PaymentMoved>, Flat> {
            let MaybeJson(body) = body?;
            Action::$action.run(&state, &caller, id, body.reason).await
        }
    };
}

action!(Requeue requeue "/v1/payments/{outbox_id}/requeue" "requeue_payment"
    "Give a failed payment a fresh set of tries");
action!(Hold hold "/v1/payments/{outbox_id}/hold" "hold_payment"
    "Park a payment that waits");
action!(Release release "/v1/payments/{outbox_id}/release" "release_payment"
    "Put a held payment back");

/// Say what has become of a held payment
///
/// For a dispatch nobody was sure about, once a person has looked into the rail's books. Nothing is
/// sent. `dispatched` needs the rail's reference.
#[utoipa::path(
    post, path = "/v1/payments/{outbox_id}/resolve", operation_id = "resolve_payment",
    tag = "payments",
    params(("outbox_id" = String, Path, description = "The payment")),
    request_body = PaymentResolveBody,
    responses((status = 200, description = "Done", body = PaymentMoved)),
)]
pub(crate) async fn resolve(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    id: Result<InPath<String>, Problem>,
    body: Result<Json<PaymentResolveBody>, Problem>,
) -> Result<Answer<PaymentMoved>, Flat> {
    let Json(body) = body?;
    let action = Action::Resolve(body.found()?);
    action.run(&state, &caller, id, body.reason).await
}
