//! Listens to metrics and spans. One per process: each test runs in its own.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use tracing::{
    Event, Id, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Record},
};

/// What was recorded under each name and its labels, as `name{label=value}`.
#[derive(Clone, Debug, Default)]
pub(crate) struct MetricValues(Arc<Mutex<BTreeMap<String, Arc<Value>>>>);

/// The total of a counter, the last value of a gauge, the number of samples of a histogram.
#[derive(Debug, Default)]
struct Value(AtomicU64);

impl CounterFn for Value {
    fn increment(&self, by: u64) {
        self.0.fetch_add(by, SeqCst);
    }
    fn absolute(&self, value: u64) {
        self.0.store(value, SeqCst);
    }
}

impl GaugeFn for Value {
    fn increment(&self, by: f64) {
        self.0.fetch_add(by as u64, SeqCst);
    }
    fn decrement(&self, by: f64) {
        self.0.fetch_sub(by as u64, SeqCst);
    }
    fn set(&self, value: f64) {
        self.0.store(value as u64, SeqCst);
    }
}

impl HistogramFn for Value {
    fn record(&self, _value: f64) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl MetricValues {
    /// Listens from now on.
    pub(crate) fn install() -> Self {
        let recorded = Self::default();
        metrics::set_global_recorder(recorded.clone()).unwrap();
        recorded
    }

    pub(crate) fn of(&self, name: &str) -> u64 {
        let values = self.0.lock().unwrap();
        let value = values.get(name);
        value.map_or(0, |value| value.0.load(SeqCst))
    }

    fn value(&self, key: &Key) -> Arc<Value> {
        let labels = key.labels().map(|l| format!("{}={}", l.key(), l.value()));
        let labels: Vec<String> = labels.collect();
        let name = format!("{}{{{}}}", key.name(), labels.join(","));
        Arc::clone(self.0.lock().unwrap().entry(name).or_default())
    }
}

impl Recorder for MetricValues {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.value(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.value(key))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.value(key))
    }
}

/// The spans that were opened and the lines that were logged, as text.
#[derive(Clone, Debug, Default)]
pub(crate) struct TraceLog {
    pub(crate) spans: Arc<Mutex<Vec<String>>>,
    pub(crate) lines: Arc<Mutex<Vec<String>>>,
    ids: Arc<AtomicU64>,
}

impl TraceLog {
    pub(crate) fn install() -> Self {
        let traced = Self::default();
        tracing::subscriber::set_global_default(traced.clone()).unwrap();
        traced
    }
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push_str(&format!(" {}={value:?}", field.name()));
    }
}

impl Subscriber for TraceLog {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("consign_worker")
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields(span.metadata().name().to_owned());
        span.record(&mut fields);
        self.spans.lock().unwrap().push(fields.0);
        Id::from_u64(self.ids.fetch_add(1, SeqCst) + 1)
    }
    fn record(&self, _: &Id, values: &Record<'_>) {
        let mut fields = Fields("recorded".to_owned());
        values.record(&mut fields);
        self.spans.lock().unwrap().push(fields.0);
    }
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(event.metadata().level().to_string());
        event.record(&mut fields);
        self.lines.lock().unwrap().push(fields.0);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
