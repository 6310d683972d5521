//! The dashboard, the alerts and the documentation name metrics that exist, and all of them.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// How the names of our metrics begin.
const OURS: &[&str] = &[
    "consign_",
    "outbox_",
    "order_requests",
    "order_idempotency",
    "order_broker",
    "do_order_",
    "idempo_ledger",
    "idempotency_conflicts",
    "broker_requests",
    "broker_latency",
    "broker_queries",
    "broker_fail",
    "rate_limited_total",
    "quota_exceeded",
];

/// The names of metrics in a text: words that begin as ours do.
fn names_in(text: &str) -> BTreeSet<String> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(|c| !word(c))
        .filter(|word| OURS.iter().any(|start| word.starts_with(start)))
        .map(str::to_owned)
        .collect()
}

/// Every metric the code emits, from the files that hold their names.
fn emitted() -> BTreeSet<String> {
    let sources = [
        "crates/worker/src/metrics.rs",
        "crates/retention/src/metrics.rs",
        "crates/schedule/src/metrics.rs",
        "crates/server/src/metrics.rs",
        "apps/orders/src/metrics.rs",
        "apps/payments/src/metrics.rs",
        "apps/memory/src/metrics.rs",
        "apps/scm/app/src/app/service/metrics.rs",
        "crates/consign/src/telemetry/metrics.rs",
        "crates/app/src/aliases.rs",
        "apps/orders/src/app/aliases.rs",
    ];
    let mut names = BTreeSet::new();
    for path in sources {
        let text = read(path);
        let code = text.split("#[cfg(test)]").next().unwrap();
        let quoted = code.split('"').skip(1).step_by(2);
        let is_name = |text: &&str| names_in(text).len() == 1 && names_in(text).contains(*text);
        names.extend(quoted.filter(is_name).map(str::to_owned));
    }
    assert!(names.len() > 20, "{names:?}");
    names
}

/// A histogram is queried by the names of its parts.
fn without_suffix(name: &str) -> &str {
    ["_bucket", "_sum", "_count"]
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix))
        .unwrap_or(name)
}

pub(crate) fn assert_known(path: &str, text: &str) {
    let emitted = emitted();
    let known = |name: &String| emitted.contains(name) || emitted.contains(without_suffix(name));
    // The roles of the database have names like these.
    let unknown: Vec<String> = names_in(text)
        .into_iter()
        .filter(|name| !known(name))
        .collect();
    assert!(unknown.is_empty(), "{path}: no such metrics: {unknown:?}");
}

#[test]
fn the_documentation_explains_every_metric() {
    let text = read("docs/metrics.md");
    let missing: Vec<String> = emitted()
        .into_iter()
        .filter(|name| !text.contains(&format!("| `{name}` |")))
        .collect();
    assert!(missing.is_empty(), "no row in docs/metrics.md: {missing:?}");
    assert_known("docs/metrics.md", &text);
}

#[test]
fn the_dashboard_queries_metrics_that_exist() {
    let text = read("deploy/grafana.json");
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        assert!(
            panel["title"].is_string() && panel["gridPos"].is_object(),
            "{panel}"
        );
        for target in panel["targets"].as_array().unwrap() {
            let asked = target["expr"].as_str().unwrap();
            assert!(!names_in(asked).is_empty(), "{asked}");
        }
    }
    assert_known("deploy/grafana.json", &text);
}

#[test]
fn the_alerts_query_metrics_that_exist() {
    let text = read("deploy/alerts.yaml");
    assert_known("deploy/alerts.yaml", &text);
    let count = |start: &str| {
        text.lines()
            .filter(|line| line.trim_start().starts_with(start))
            .count()
    };
    let alerts = count("- alert:");
    assert!(alerts >= 6, "{alerts}");
    for part in ["expr:", "severity:", "summary:", "description:"] {
        assert_eq!(count(part), alerts, "every alert has its {part}");
    }
}

#[test]
fn the_unit_waits_and_watches_as_the_program_does() {
    let unit = read("deploy/consign.service");
    for line in [
        "Type=notify",
        "WatchdogSec=",
        "ExecStart=",
        "ExecReload=",
        "Restart=",
    ] {
        assert!(unit.lines().any(|said| said.starts_with(line)), "{line}");
    }
}
