//! What is counted and logged about each request.

use std::time::Duration;

use axum::{http::Method, response::Response};

use crate::{
    metrics::{REQUEST_SECONDS, REQUESTS},
    problem::Failure,
};

/// Marks an answer that reports a failure elsewhere: it is no failure of this request,
/// and the app that reports it has logged it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReportedFailure;

/// Counts an answered request, and logs it if the server failed.
///
/// `route` is the template: paths hold lease tokens, which are permissions.
pub(crate) fn answered(method: &Method, route: &'static str, response: &Response, took: Duration) {
    let method = known(method);
    let status = response.status();
    let labels = [
        ("method", method.to_owned()),
        ("route", route.to_owned()),
        ("status", status.as_str().to_owned()),
    ];
    metrics::counter!(REQUESTS, &labels).increment(1);
    metrics::histogram!(REQUEST_SECONDS, "method" => method, "route" => route)
        .record(took.as_secs_f64());
    let is_known = response.extensions().get::<ReportedFailure>().is_some();
    if !status.is_server_error() || is_known || is_probe(route) {
        return;
    }
    let failure = response.extensions().get::<Failure>();
    tracing::warn!(
        method,
        route,
        status = status.as_u16(),
        code = failure.map(|failure| failure.code),
        duration_ms = took.as_millis() as u64,
        "{method} {route} failed with {status}: {}",
        failure.map_or("no particulars", |failure| failure.cause.as_str()),
    );
}

/// Probes are logged by their callers.
fn is_probe(route: &str) -> bool {
    matches!(route, "/health" | "/healthz" | "/readyz")
}

/// A method as a label: clients may send any method.
fn known(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}
