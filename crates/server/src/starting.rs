//! The answers of a server that has no database yet.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::Request,
    http::StatusCode,
    response::{IntoResponse, Response},
};

use crate::{
    extension::Extension,
    problem::{Problem, codes},
    router::refused,
    wire::health::{Health, HealthBody},
};

const RETRY_AFTER: Duration = Duration::from_secs(1);
const REASON: &str = "the server waits for its database; its log has the reason";

/// Answers a request while there is no database: 503 in the error format of its path, and to
/// probes that the process lives. Restarting it would not bring the database.
pub async fn starting(mut request: Request, extensions: &[Arc<dyn Extension>]) -> Response {
    match request.uri().path() {
        "/healthz" => return Json(HealthBody { status: "starting" }).into_response(),
        "/readyz" => {
            let health = Health {
                status: "not_ready",
                version: env!("CARGO_PKG_VERSION"),
                reasons: vec![REASON.to_owned()],
            };
            return (StatusCode::SERVICE_UNAVAILABLE, Json(health)).into_response();
        }
        _ => {}
    }
    let problem = waiting();
    for extension in extensions {
        if let Some(response) = extension.starting(&mut request, &problem).await {
            return response;
        }
    }
    refused(&request, extensions, problem)
}

fn waiting() -> Problem {
    Problem::new(
        codes::DATABASE_UNAVAILABLE,
        format!("{REASON}; nothing was written"),
    )
    .with("outcome", "not_done")
    .retry_after(RETRY_AFTER)
}
