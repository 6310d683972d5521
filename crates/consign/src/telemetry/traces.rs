//! Traces to a collector, by OTLP over HTTP.
//!
//! The first attempt of a message continues the trace its producer stored in `traceparent`. Later
//! attempts may be hours away: each is a trace of its own, linked to the first.

mod client;
mod context;

use std::{sync::Arc, time::Duration};

use axum::extract::Request;
use consign_worker::{Delivery, SpanHook};
use opentelemetry::{
    propagation::TextMapPropagator, trace::TraceContextExt, trace::TracerProvider,
};
use opentelemetry_http::{HeaderExtractor, HeaderInjector};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::{Resource, propagation::TraceContextPropagator, trace::SdkTracerProvider};
use tracing::{Span, field::Empty, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::{Layer, filter::Targets};

use self::{client::Client, context::Headers};
use super::{RequestHook, logs::BoxedLayer};
use crate::{
    config::Settings,
    failure::{Exit, Failure},
};

/// What a collector that does not answer may cost at the end.
const FLUSH_MAX: Duration = Duration::from_secs(3);

/// Variables that name a collector.
const ENDPOINTS: &[&str] = &[
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
];

/// The way to a collector, if there is one.
pub(super) struct Traces {
    provider: Option<SdkTracerProvider>,
}

impl Traces {
    /// Starts where the settings or the variables name a collector.
    pub(super) fn start(settings: &Settings) -> Result<Self, Failure> {
        let is_set = |name: &&str| std::env::var_os(name).is_some_and(|text| !text.is_empty());
        let disabled = std::env::var("OTEL_SDK_DISABLED").is_ok_and(|word| word == "true");
        let endpoint = settings.telemetry.otlp_endpoint.as_deref();
        if disabled || (endpoint.is_none() && !ENDPOINTS.iter().any(is_set)) {
            return Ok(Self { provider: None });
        }
        let refuse = |error: &dyn std::fmt::Display| {
            let message = format!("telemetry.otlp_endpoint: {error}");
            Failure::new(Exit::Usage, "config", message)
        };
        let client = Client::new().map_err(|error| refuse(&error))?;
        let mut exporter = SpanExporter::builder().with_http().with_http_client(client);
        if let Some(endpoint) = endpoint {
            // As with the variable: the base, to which the path of the signal is added.
            let endpoint = format!("{}/v1/traces", endpoint.trim_end_matches('/'));
            exporter = exporter.with_endpoint(endpoint);
        }
        let exporter = exporter.build().map_err(|error| refuse(&error))?;
        let mut resource = Resource::builder();
        if !is_set(&"OTEL_SERVICE_NAME") {
            resource = resource.with_service_name("consign");
        }
        let provider = SdkTracerProvider::builder()
            .with_resource(resource.build())
            .with_batch_exporter(exporter)
            .build();
        Ok(Self {
            provider: Some(provider),
        })
    }

    /// Hands finished spans to the collector.
    pub(super) fn layer(&self) -> Option<BoxedLayer> {
        let tracer = self.provider.as_ref()?.tracer("consign");
        // A prefix: of the crates of the engine and of every app.
        let ours = Targets::new().with_target("consign", tracing::Level::INFO);
        let layer = tracing_opentelemetry::layer()
            .with_tracer(tracer)
            .with_location(false)
            .with_threads(false);
        Some(layer.with_filter(ours).boxed())
    }

    pub(super) fn span_hook(&self) -> Option<SpanHook> {
        self.provider.as_ref()?;
        Some(Arc::new(tie))
    }

    pub(super) fn request_hook(&self) -> Option<RequestHook> {
        self.provider.as_ref()?;
        Some(Arc::new(request_span))
    }

    /// Sends what has not been sent.
    pub(super) async fn end(self) {
        let Some(provider) = self.provider else {
            return;
        };
        // It blocks, and its client needs this runtime to go on meanwhile.
        let flush = move || provider.shutdown_with_timeout(FLUSH_MAX);
        match tokio::task::spawn_blocking(flush).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!("the last traces were not sent: {error}"),
            Err(error) => tracing::warn!("the last traces were not sent: {error}"),
        }
    }
}

/// Ties a delivery to the trace its message came with.
fn tie(span: &Span, delivery: &Delivery) {
    let headers = Headers(&delivery.message.headers);
    let origin = TraceContextPropagator::new().extract(&headers);
    if !origin.span().span_context().is_valid() {
        return;
    }
    if delivery.attempt_no > 1 {
        span.add_link(origin.span().span_context().clone());
    } else if let Err(error) = span.set_parent(origin) {
        tracing::debug!("a delivery could not join its trace: {error}");
    }
}

/// A span for a request, in the caller's trace. The request goes on with this span as its context,
/// so that a message it enqueues stores it.
fn request_span(request: &mut Request) -> Span {
    let span = info_span!(
        target: "consign::http",
        "request",
        otel.name = format!("{} {}", request.method(), request.uri().path()),
        otel.kind = "server",
        http.request.method = %request.method(),
        url.path = request.uri().path(),
        http.response.status_code = Empty,
    );
    let propagator = TraceContextPropagator::new();
    let caller = propagator.extract(&HeaderExtractor(request.headers()));
    if caller.span().span_context().is_valid()
        && let Err(error) = span.set_parent(caller)
    {
        tracing::debug!("a request could not join its trace: {error}");
    }
    let mut injector = HeaderInjector(request.headers_mut());
    propagator.inject_context(&span.context(), &mut injector);
    span
}
