//! All routes, behind all guards.

use axum::{Router, routing::get};

use crate::{options::ServerOptions, state::AppState};

/// The whole API.
pub fn router(state: AppState, _options: &ServerOptions) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .with_state(state)
}
