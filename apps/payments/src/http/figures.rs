//! Status figures, and payments to compare with the rail's records.

use axum::{Extension, Json as Answer, extract::State};
use consign_server::apps::{Caller, Flat, Params, Problem, page_size};

use super::{
    PaymentsHttp,
    payments::whose,
    wire::figures::{PaymentsStatusShape, ReconcileParams, ReconciliationBody},
};
use crate::PaymentsStatus;

/// Show the status of payments
///
/// Of one tenant, if the token is bound to one.
#[utoipa::path(
    get, path = "/v1/payments/status", operation_id = "payments_status", tag = "payments",
    responses((status = 200, description = "Counts by state", body = PaymentsStatusShape)),
)]
pub(super) async fn status(
    State(http): State<PaymentsHttp>,
    Extension(caller): Extension<Caller>,
) -> Result<Answer<PaymentsStatus>, Flat> {
    let here = http.here()?;
    let tenant_id = whose(&caller)?;
    Ok(Answer(here.store.payments_status(tenant_id).await?))
}

/// List payments to compare with the rail's records
///
/// Scans all payments: for operators and occasional jobs.
#[utoipa::path(
    get, path = "/v1/payments/reconcile", operation_id = "reconcile_payments", tag = "payments",
    params(ReconcileParams),
    responses((status = 200, description = "Payments that an operator should check", body = ReconciliationBody)),
)]
pub(super) async fn reconcile(
    State(http): State<PaymentsHttp>,
    params: Result<Params<ReconcileParams>, Problem>,
) -> Result<Answer<ReconciliationBody>, Flat> {
    let here = http.here()?;
    let Params(params) = params?;
    let found = here
        .store
        .reconcile_payments(page_size(params.limit))
        .await?;
    Ok(Answer(ReconciliationBody::from(found)))
}
