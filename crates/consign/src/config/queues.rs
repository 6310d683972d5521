//! Queues of the configuration: their policies and sinks.

use consign_kernel::{QueueName, QueuePolicy, RetrySchedule, nearest};
use consign_sinks::SinkConfig;
use serde_json::{Map, Value, json};

use super::{Config, KeyPath, Layer, Problem};

/// One queue of the configuration.
#[derive(Clone, Debug)]
pub(crate) struct QueueConfig {
    pub(crate) name: QueueName,
    /// The fields of the policy that the configuration names; the rest is as the database has it.
    configured: Map<String, Value>,
    /// Where it delivers to; none for a queue that others work.
    pub(crate) sink: Option<SinkConfig>,
}

impl QueueConfig {
    /// The queue that its alerts go to, if the configuration names one.
    pub(crate) fn alert_queue(&self) -> Option<QueueName> {
        self.configured.get("alert_queue")?.as_str()?.parse().ok()
    }

    /// `before` with the configured fields.
    pub(crate) fn policy(&self, before: &QueuePolicy) -> QueuePolicy {
        let mut policy = json!(before);
        if let Some(fields) = policy.as_object_mut() {
            fields.extend(self.configured.clone());
        }
        serde_json::from_value(policy).expect("invariant: tried when the configuration was read")
    }
}

/// All queues, by name.
pub(super) fn read(config: &Config, problems: &mut Vec<Problem>) -> Vec<QueueConfig> {
    let entries = config.entries();
    let root = KeyPath::of("queues");
    let Value::Object(tables) = config.tree("queues") else {
        return Vec::new();
    };
    let mut queues = Vec::new();
    for (name, table) in tables {
        let place = QueueLocation {
            entries,
            path: root.child(&name),
        };
        match queue(&name, table, &place) {
            Ok(queue) => queues.push(queue),
            Err(problem) => problems.push(problem),
        }
    }
    queues
}

fn queue(name: &str, table: Value, place: &QueueLocation<'_>) -> Result<QueueConfig, Problem> {
    let name: QueueName = name
        .parse()
        .map_err(|error: consign_kernel::Error| place.problem(&[], error.to_string()))?;
    let Value::Object(mut configured) = table else {
        return Err(place.problem(&[], "expected a table of settings".into()));
    };
    let sink = configured
        .remove("sink")
        .map(|sink| read_sink(sink, place))
        .transpose()?;
    if let Some(retry) = configured.get_mut("retry") {
        complete(retry);
        serde_json::from_value::<RetrySchedule>(retry.clone())
            .map_err(|error| place.problem(&["retry"], error.to_string()))?;
    }
    let policy: QueuePolicy = serde_json::from_value(Value::Object(configured.clone()))
        .map_err(|error| place.problem(&[], error.to_string()))?;
    policy
        .validate()
        .map_err(|error| place.problem(&[], error.to_string()))?;
    Ok(QueueConfig {
        name,
        configured,
        sink,
    })
}

/// Missing fields of an exponential schedule take their default.
fn complete(retry: &mut Value) {
    let Value::Object(fields) = retry else {
        return;
    };
    let kind = fields.entry("kind").or_insert("exponential".into());
    if kind != "exponential" {
        return;
    }
    if let Value::Object(defaults) = json!(RetrySchedule::default()) {
        for (name, value) in defaults {
            fields.entry(name).or_insert(value);
        }
    }
}

fn read_sink(sink: Value, place: &QueueLocation<'_>) -> Result<SinkConfig, Problem> {
    if !sink.is_object() {
        let name = place.path.last();
        let what = format!("expected a table with a `kind`, as in [queues.{name}.sink]");
        return Err(place.problem(&["sink"], what));
    }
    serde_json::from_value(sink).map_err(|error: serde_json::Error| {
        let cause = error.to_string();
        let Some(field) = quoted(&cause, "unknown field ") else {
            return place.problem(&["sink"], cause.clone());
        };
        let (_, expected) = cause.split_once("expected").unwrap_or_default();
        let known: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
        let hint = match nearest(field, known.iter().copied()) {
            Some(near) => format!("did you mean {near}?"),
            None if known.is_empty() => "this kind of sink has no settings".to_owned(),
            None => format!("there are {}", known.join(", ")),
        };
        place.problem(&["sink", field], format!("unknown setting; {hint}"))
    })
}

/// The word in backticks after `start`.
fn quoted<'t>(text: &'t str, start: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(start)?;
    rest.split('`').nth(1)
}

/// Where in the configuration a queue is.
struct QueueLocation<'a> {
    entries: &'a Layer,
    path: KeyPath,
}

impl QueueLocation<'_> {
    /// A problem at the nearest value that was set.
    fn problem(&self, below: &[&str], what: String) -> Problem {
        let mut path = self.path.clone();
        let mut origin = self.entries.get(&path).map(|entry| entry.origin.clone());
        for segment in below {
            path = path.child(segment);
            let configured = self.entries.get(&path);
            origin = configured.map(|entry| entry.origin.clone()).or(origin);
        }
        Problem { origin, path, what }
    }
}
