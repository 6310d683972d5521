//! Log lines on standard error, for people or for programs.

use std::io;

use tracing_subscriber::{EnvFilter, Layer, Registry, layer::SubscriberExt};

use super::traces::Traces;
use crate::{
    config::{LogFormat, Settings},
    failure::{Exit, Failure},
};

/// One of the listeners to spans and events.
pub(super) type BoxedLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// Spans that are there for traces. Lines carry their own fields, so making these for every
/// delivery only to log would be waste.
const SPANS: &[&str] = &["consign_worker::deliver", "consign::http"];

/// Targets that log several lines per request; off unless the filter names them.
const VERBOSE: &str = "rmcp";

/// Starts logging as the settings say.
pub(super) fn start(settings: &Settings, traces: &Traces) -> Result<(), Failure> {
    let variable = std::env::var("RUST_LOG")
        .ok()
        .filter(|text| !text.is_empty());
    let (text, origin) = match &variable {
        Some(text) => (text.as_str(), "RUST_LOG"),
        None => (settings.log.filter.as_str(), "log.filter"),
    };
    let mut filter = EnvFilter::builder().parse(text).map_err(|error| {
        let message = format!("{origin}: {text:?} is not a filter: {error}");
        Failure::new(Exit::Usage, "config", message)
    })?;
    for spans in SPANS.iter().filter(|spans| !text.contains(**spans)) {
        let off = format!("{spans}=off").parse();
        filter = filter.add_directive(off.expect("invariant: a directive as the crate documents"));
    }
    if !text.contains(VERBOSE) {
        let less = format!("{VERBOSE}=error").parse();
        filter = filter.add_directive(less.expect("invariant: a directive as the crate documents"));
    }
    let lines: BoxedLayer = match settings.log.format {
        LogFormat::Text => tracing_subscriber::fmt::layer()
            .with_writer(io::stderr)
            .with_ansi(false)
            .with_filter(filter)
            .boxed(),
        LogFormat::Json => tracing_subscriber::fmt::layer()
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_writer(io::stderr)
            .with_filter(filter)
            .boxed(),
    };
    let mut layers = vec![lines];
    layers.extend(traces.layer());
    let subscriber = tracing_subscriber::registry().with(layers);
    tracing::subscriber::set_global_default(subscriber)
        .expect("invariant: logging is started once");
    log_panics();
    Ok(())
}

/// A panic is a line of the log like any other failure, also where the log is JSON.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        let place = place.unwrap_or_default();
        // A panic message may quote data; its location is enough to find it.
        tracing::error!(place, "panicked at {place}");
    }));
}
