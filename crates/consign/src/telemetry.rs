//! Logs, metrics and traces of `serve` and `work`.

mod growth;
mod logs;
pub(crate) mod metrics;
mod sampler;

use std::sync::Arc;

use async_trait::async_trait;
use axum::extract::Request;
use consign_app::{
    Background, Registry,
    aliases::{MetricAlias, with_aliases},
};
use consign_worker::SpanHook;
use metrics_exporter_prometheus::PrometheusHandle;
use tracing::Span;

pub(crate) use self::{growth::GrowthGauges, sampler::Sampler};
use crate::{
    config::{Config, Settings},
    failure::Failure,
};

/// Starts telemetry for a command that stays.
pub(crate) fn start_for_a_command(config: &Config) -> Result<Box<dyn Background>, Failure> {
    let settings = Settings::of(config)?;
    Ok(Box::new(Telemetry::start(&settings, config.registry())?))
}

#[async_trait]
impl Background for Telemetry {
    fn stop(&self) {}

    async fn ended(self: Box<Self>) {
        self.end().await;
    }
}

/// Makes the span of a request.
pub(crate) type RequestHook = Arc<dyn Fn(&mut Request) -> Span + Send + Sync>;

/// Logs, metrics and traces, to be read and to be shut down.
pub(crate) struct Telemetry {
    prometheus: PrometheusHandle,
    /// The second names of metrics.
    aliases: Vec<MetricAlias>,
    traces: traces::Traces,
}

impl Telemetry {
    /// Sets up logging, metrics and traces for this process. Once.
    pub(crate) fn start(settings: &Settings, registry: &Registry) -> Result<Self, Failure> {
        let traces = traces::Traces::start(settings)?;
        logs::start(settings, &traces)?;
        let prometheus = metrics::install(registry)?;
        let aliases = registry.apps.iter().flat_map(|app| app.metric_aliases());
        Ok(Self {
            prometheus,
            aliases: aliases.copied().collect(),
            traces,
        })
    }

    /// What `/metrics` answers.
    pub(crate) fn renderer(&self) -> impl Fn() -> String + Send + Sync + 'static {
        let prometheus = self.prometheus.clone();
        let aliases = self.aliases.clone();
        move || metrics::with_untyped(with_aliases(&prometheus.render(), &aliases))
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

        pub(super) fn layer(&self) -> Option<super::logs::BoxedLayer> {
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
