//! All routes, behind all guards.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderValue, header},
    middleware::{Next, from_fn},
    response::Response,
};

use crate::{
    dashboard::refusal,
    extension::Extension,
    gate::{GateState, observe},
    options::ServerOptions,
    problem::{ErrorFormat, Problem, codes},
    routes::Routes,
    state::AppState,
};

/// How much of a path is repeated in an answer.
const PATH_CHARS_MAX: usize = 100;

/// The whole API. Serve it with [`Server`](crate::Server), which adds the peer's address: otherwise
/// no caller counts as local.
pub fn router(mut state: AppState, options: &ServerOptions) -> Router {
    state.tick_age_max = options.tick_age_max();
    let shared = Arc::new(GateState::new(
        options,
        Arc::clone(&state.tenants),
        Arc::clone(&state.extensions),
        Arc::clone(&state.clock),
    ));
    Routes::new(shared, &state)
        .router
        .fallback(nothing_here)
        .method_not_allowed_fallback(other_methods)
        .layer(from_fn(plainly))
        .with_state(state)
}

async fn nothing_here(State(state): State<AppState>, request: Request) -> Response {
    let path: String = request.uri().path().chars().take(PATH_CHARS_MAX).collect();
    let detail = format!("there is nothing at {path}; GET /openapi.json lists every path");
    let problem = Problem::new(codes::NOT_FOUND, detail);
    refused(&request, &state.extensions, problem)
}

async fn other_methods(State(state): State<AppState>, request: Request) -> Response {
    let detail = format!("{} is not a method of this path", request.method());
    let problem = Problem::new(codes::METHOD_NOT_ALLOWED, detail);
    refused(&request, &state.extensions, problem)
}

pub(crate) fn refused(
    request: &Request,
    extensions: &[Arc<dyn Extension>],
    problem: Problem,
) -> Response {
    let format = ErrorFormat::of_path(request.uri().path(), extensions);
    if format.is_page() {
        let response = refusal::RequestInfo::new(request).answered(problem.render(format));
        observe::answered(request.method(), "none", &response, Duration::ZERO);
        return response;
    }
    let response = problem.render(format);
    observe::answered(request.method(), "none", &response, Duration::ZERO);
    response
}

/// Answers describe the current state: browsers must not guess their type, and caches not keep them.
async fn plainly(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    let nosniff = HeaderValue::from_static("nosniff");
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}
