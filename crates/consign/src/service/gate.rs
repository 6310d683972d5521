//! What is answered before there is a database, and which paths are answered at all.

use std::sync::{Arc, OnceLock};

use axum::{
    Router,
    extract::Request,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use consign_server::Extension;
use serde_json::json;
use tower::ServiceExt;
use tracing::Instrument;

use crate::telemetry::RequestHook;

const HEALTH: &[&str] = &["/health", "/healthz", "/readyz", "/metrics"];

/// Which requests pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RouteFilter {
    Everything,
    /// Health and metrics.
    Health,
}

/// A router that answers for itself until it is opened.
#[derive(Clone)]
pub(super) struct Gate {
    behind: Arc<OnceLock<(Router, RouteFilter)>>,
    /// In whose formats it answers until then.
    extensions: Arc<Vec<Arc<dyn Extension>>>,
    /// Makes the spans of requests, where there are traces.
    spans: Option<RequestHook>,
}

impl Gate {
    pub(super) fn new(spans: Option<RequestHook>, extensions: Vec<Arc<dyn Extension>>) -> Self {
        Self {
            behind: Arc::default(),
            extensions: Arc::new(extensions),
            spans,
        }
    }

    /// Lets requests through to `router` from now on.
    pub(super) fn open(&self, router: Router, admits: RouteFilter) {
        self.behind.get_or_init(|| (router, admits));
    }

    pub(super) fn router(&self) -> Router {
        let gate = self.clone();
        Router::new().fallback(async move |request: Request| gate.pass(request).await)
    }

    async fn pass(&self, request: Request) -> Response {
        let path = request.uri().path();
        match self.behind.get() {
            Some((_, RouteFilter::Health)) if !HEALTH.contains(&path) => {
                problem("this process serves its health only")
            }
            Some((router, _)) => self.traced(router.clone(), request).await,
            None => consign_server::starting(request, &self.extensions).await,
        }
    }

    async fn traced(&self, router: Router, mut request: Request) -> Response {
        let probe = HEALTH.contains(&request.uri().path());
        let Some(hook) = self.spans.as_ref().filter(|_| !probe) else {
            return forward(router, request).await;
        };
        let span = hook(&mut request);
        let response = forward(router, request).instrument(span.clone()).await;
        span.record("http.response.status_code", response.status().as_u16());
        response
    }
}

async fn forward(router: Router, request: Request) -> Response {
    match router.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// Nothing at a path, in the shape of the API's problems.
fn problem(detail: &str) -> Response {
    let body = json!({
        "type": "/problems/not_found",
        "code": "not_found",
        "title": "there is nothing at this path",
        "status": 404,
        "detail": detail,
    });
    let kind = [(header::CONTENT_TYPE, "application/problem+json")];
    (StatusCode::NOT_FOUND, kind, body.to_string()).into_response()
}
