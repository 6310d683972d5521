//! Probes, metrics, and the worker of this process.

use std::time::Duration;

use axum::{
    Json as Answer,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
};
use tokio::time::{Instant, timeout};

use crate::{
    state::AppState,
    wire::{
        health::{Health, HealthBody},
        worker::WorkerBody,
    },
};

/// A database that takes longer to answer is no database to rely on.
const DATABASE_ANSWERS_WITHIN: Duration = Duration::from_secs(3);
/// Probes need no token, so that the database is queried this often at most.
const CHECK_LASTS: Duration = Duration::from_millis(500);

/// That the process is alive
///
/// Does not query the database.
#[utoipa::path(
    get, path = "/healthz", operation_id = "healthz", tag = "health",
    responses((status = 200, description = "Alive", body = HealthBody)),
)]
pub(crate) async fn healthz() -> Answer<HealthBody> {
    Answer(HealthBody { status: "alive" })
}

/// Whether work can be sent here
///
/// The database is reachable and takes writes, its schema fits, the claim loop of the worker ticks, and the process
/// is not shutting down.
#[utoipa::path(
    get, path = "/readyz", operation_id = "readyz", tag = "health",
    responses(
        (status = 200, description = "Ready", body = Health),
        (status = 503, description = "Not ready, with reasons", body = Health),
    ),
)]
pub(crate) async fn readyz(State(state): State<AppState>) -> impl IntoResponse {
    let reasons = reasons(&state).await;
    let (code, status) = if reasons.is_empty() {
        (StatusCode::OK, "ready")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not_ready")
    };
    let health = Health {
        status,
        version: env!("CARGO_PKG_VERSION"),
        reasons,
    };
    (code, Answer(health))
}

/// Metrics in Prometheus' text format
#[utoipa::path(
    get, path = "/metrics", operation_id = "metrics", tag = "health",
    responses((status = 200, description = "Metrics", body = String, content_type = "text/plain")),
)]
pub(crate) async fn metrics(State(state): State<AppState>) -> impl IntoResponse {
    let text = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, text)], (state.metrics)())
}

/// The worker of this process
#[utoipa::path(
    get, path = "/v1/worker", operation_id = "show_worker", tag = "work",
    responses((status = 200, description = "The status of the worker", body = WorkerBody)),
)]
pub(crate) async fn worker(State(state): State<AppState>) -> Answer<WorkerBody> {
    let status = state.worker.as_ref().map(|worker| worker.status());
    Answer(WorkerBody::from(status))
}

async fn reasons(state: &AppState) -> Vec<String> {
    let mut reasons = Vec::new();
    if state.is_draining() {
        reasons.push("the process is shutting down".to_owned());
    }
    reasons.extend(database_reason(state).await);
    let unwritten = state.failed_write();
    reasons.extend(unwritten.map(|why| format!("the last write to the database failed: {why}")));
    let Some(status) = state.worker.as_ref().map(|worker| worker.status()) else {
        return reasons;
    };
    if status.draining {
        reasons.push("the worker is draining".to_owned());
    }
    for queue in status.queues {
        if queue.last_tick_age > state.tick_age_max {
            reasons.push(format!(
                "the claim loop of queue {} last ran {} s ago",
                queue.queue,
                queue.last_tick_age.as_secs()
            ));
        }
    }
    reasons
}

/// What is wrong with the database. One check at a time; all callers share a recent result.
async fn database_reason(state: &AppState) -> Option<String> {
    let mut last = state.last_check.lock().await;
    match &*last {
        Some((at, reason)) if at.elapsed() < CHECK_LASTS => return reason.clone(),
        _ => {}
    }
    let reason = match timeout(DATABASE_ANSWERS_WITHIN, check(state)).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some("the database does not answer".to_owned()),
    };
    *last = Some((Instant::now(), reason.clone()));
    reason
}

async fn check(state: &AppState) -> consign_kernel::Result<()> {
    if let Some(schema_fits) = &state.schema_check {
        schema_fits().await?;
    }
    state.store.probe().await
}
