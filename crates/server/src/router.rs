//! All routes, behind all guards.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::Request,
    http::{HeaderValue, header},
    middleware::{Next, from_fn},
    response::Response,
};

use consign_memory::Correlation;

use crate::{
    dashboard::refusal,
    gate::{Shared, agents, observe},
    options::ServerOptions,
    problem::{Problem, Voice, codes},
    routes::Routes,
    state::AppState,
};

/// How much of a path is repeated in an answer.
const PATH_CHARS_MAX: usize = 100;

/// The whole API. Serve it with [`Server`](crate::Server), which tells it who calls: otherwise
/// nobody counts as being on this machine.
pub fn router(mut state: AppState, options: &ServerOptions) -> Router {
    state.tick_age_max = options.tick_age_max();
    let agents = state.agents();
    let shared = Arc::new(Shared::new(
        options,
        Arc::clone(&state.tenants),
        agents,
        Arc::clone(&state.clock),
    ));
    Routes::new(shared, state.order_wait_max)
        .router
        .fallback(nothing_here)
        .method_not_allowed_fallback(other_methods)
        .layer(from_fn(plainly))
        .with_state(state)
}

async fn nothing_here(request: Request) -> Response {
    let path: String = request.uri().path().chars().take(PATH_CHARS_MAX).collect();
    let detail = format!("there is nothing at {path}; GET /openapi.json lists every path");
    refused(&request, Problem::new(codes::NOT_FOUND, detail))
}

async fn other_methods(request: Request) -> Response {
    let detail = format!("{} is not a method of this path", request.method());
    refused(&request, Problem::new(codes::METHOD_NOT_ALLOWED, detail))
}

pub(crate) fn refused(request: &Request, problem: Problem) -> Response {
    let voice = Voice::of_path(request.uri().path());
    if voice == Voice::Page {
        let response = refusal::Asked::new(request).answered(problem.in_voice(voice));
        observe::answered(request.method(), "none", &response, Duration::ZERO);
        return response;
    }
    let correlation = (voice == Voice::Agents).then(Correlation::new);
    let problem = problem.in_request(correlation.as_ref());
    let mut response = problem.in_voice(voice);
    if let Some(correlation) = &correlation {
        agents::name(response.headers_mut(), correlation);
    }
    observe::answered(request.method(), "none", &response, Duration::ZERO);
    response
}

/// Answers are data about this moment: no browser shall guess their type, and nobody keep them.
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
