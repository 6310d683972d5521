//! Figures about payments, and what is to be compared with a rail's books.

use axum::{Extension, Json as Answer, extract::State};
use consign_payments::PaymentsStatus;

use super::{served, whose};
use crate::{
    extract::Params,
    gate::access::Caller,
    problem::{Flat, Problem},
    state::AppState,
    wire::{
        messages::page_size,
        payments::books::{PaymentsStatusShape, ReconcileParams, ReconciliationBody},
    },
};

/// The supervisor's figures
///
/// Of one tenant, if the token is bound to one.
#[utoipa::path(
    get, path = "/v1/payments/status", operation_id = "payments_status", tag = "payments",
    responses((status = 200, description = "How payments stand", body = PaymentsStatusShape)),
)]
pub(crate) async fn status(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
) -> Result<Answer<PaymentsStatus>, Flat> {
    let here = served(&state)?;
    let tenant_id = whose(&caller)?;
    Ok(Answer(here.store.payments_status(tenant_id).await?))
}

/// What to compare with the rail's books
///
/// Looks at all payments: for people, and for a job now and then.
#[utoipa::path(
    get, path = "/v1/payments/reconcile", operation_id = "reconcile_payments", tag = "payments",
    params(ReconcileParams),
    responses((status = 200, description = "What somebody should look at", body = ReconciliationBody)),
)]
pub(crate) async fn reconcile(
    State(state): State<AppState>,
    params: Result<Params<ReconcileParams>, Problem>,
) -> Result<Answer<ReconciliationBody>, Flat> {
    let here = served(&state)?;
    let Params(params) = params?;
    let found = here
        .store
        .reconcile_payments(page_size(params.limit))
        .await?;
    Ok(Answer(ReconciliationBody::from(found)))
}
