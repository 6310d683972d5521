//! Logs, metrics and traces of `serve` and `work`.

mod aliases;
mod logs;
pub(crate) mod metrics;
mod sampler;

use std::sync::Arc;

use axum::extract::Request;
use consign_worker::SpanHook;
use metrics_exporter_prometheus::PrometheusHandle;
use tracing::Span;

pub(crate) use self::sampler::{Sampled, Sampler};
use crate::{config::Settings, failure::Failure};

/// Makes the span of a request.
pub(crate) type RequestHook = Arc<dyn Fn(&mut Request) -> Span + Send + Sync>;

/// What was set up, to be asked and to be ended.
pub(crate) struct Telemetry {
    prometheus: PrometheusHandle,
    traces: traces::Traces,
}

impl Telemetry {
    /// Sets up logging, metrics and traces for this process. Once.
    pub(crate) fn start(settings: &Settings) -> Result<Self, Failure> {
        let traces = traces::Traces::start(settings)?;
        logs::start(settings, &traces)?;
        let prometheus = metrics::install()?;
        Ok(Self { prometheus, traces })
    }

    /// What `/metrics` answers.
    pub(crate) fn renderer(&self) -> impl Fn() -> String + Send + Sync + 'static {
        let prometheus = self.prometheus.clone();
        move || aliases::with_aliases(&prometheus.render())
    }

    /// Lets what samples the queues keep histograms from growing.
    pub(crate) fn upkeep(&self) -> impl Fn() + Send + Sync + 'static {
        let prometheus = self.prometheus.clone();
        move || prometheus.run_upkeep()
    }

    /// Ties the span of a delivery to the trace its message came with.
    pub(crate) fn span_hook(&self) -> Option<SpanHook> {
        self.traces.span_hook()
    }

    /// Makes the spans of HTTP requests.
    pub(crate) fn request_hook(&self) -> Option<RequestHook> {
        self.traces.request_hook()
    }

    /// Sends what has not been sent.
    pub(crate) async fn end(self) {
        self.traces.end().await;
    }
}

/// Without the feature `otlp` there is nothing to trace to.
#[cfg(not(feature = "otlp"))]
mod traces {
    use consign_worker::SpanHook;

    use crate::{config::Settings, failure::Failure};

    pub(super) struct Traces;

    impl Traces {
        pub(super) fn start(settings: &Settings) -> Result<Self, Failure> {
            if settings.telemetry.otlp_endpoint.is_some() {
                let message = "telemetry.otlp_endpoint: this program was built without traces: \
                               build it with `--features otlp`";
                return Err(Failure::new(crate::failure::Exit::Usage, "config", message));
            }
            Ok(Self)
        }

        pub(super) fn layer(&self) -> Option<super::logs::Boxed> {
            None
        }

        pub(super) fn span_hook(&self) -> Option<SpanHook> {
            None
        }

        pub(super) fn request_hook(&self) -> Option<super::RequestHook> {
            None
        }

        pub(super) async fn end(self) {}
    }
}
#[cfg(feature = "otlp")]
mod traces;
