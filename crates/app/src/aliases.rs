//! Metrics under a second name, for dashboards of other outboxes.

use std::collections::BTreeMap;

/// A metric under another name.
#[derive(Clone, Copy, Debug)]
pub struct MetricAlias {
    from: &'static str,
    to: &'static str,
    /// Samples with this among their labels.
    label: &'static str,
    /// Labels in other words.
    changes: &'static [(&'static str, &'static str)],
    is_recorded: bool,
}

impl MetricAlias {
    /// Every sample of `from` also as `to`.
    pub const fn new(from: &'static str, to: &'static str) -> Self {
        Self {
            from,
            to,
            label: "",
            changes: &[],
            is_recorded: false,
        }
    }

    /// Only samples with a label, such as `queue="mail"`.
    #[must_use]
    pub const fn only(self, label: &'static str) -> Self {
        Self { label, ..self }
    }

    /// Replaces labels.
    #[must_use]
    pub const fn changes(self, changes: &'static [(&'static str, &'static str)]) -> Self {
        Self { changes, ..self }
    }

    /// The app records these samples under the other name itself: they are not copied.
    #[must_use]
    pub const fn recorded(self) -> Self {
        Self {
            is_recorded: true,
            ..self
        }
    }

    /// Whether this alias of an app replaces one of the engine.
    fn replaces(&self, other: &Self, labels: &str) -> bool {
        (self.from, self.to) == (other.from, other.to) && labels.contains(self.label)
    }
}

const ATTEMPTS: &str = "consign_attempts_total";

/// Of every queue.
const ENGINE: &[MetricAlias] = &[
    MetricAlias::new("consign_enqueued_total", "outbox_enqueued_total"),
    MetricAlias::new("consign_claimed_total", "outbox_claimed_total"),
    MetricAlias::new(ATTEMPTS, "outbox_processed_total"),
    MetricAlias::new(ATTEMPTS, "outbox_sent_total").only("outcome=\"delivered\""),
    MetricAlias::new("consign_retries_total", "outbox_retry_total"),
    MetricAlias::new(ATTEMPTS, "outbox_failed_total").only("outcome=\"retry\""),
    MetricAlias::new(ATTEMPTS, "outbox_failed_total").only("outcome=\"uncertain\""),
    MetricAlias::new(ATTEMPTS, "outbox_aborted_total").only("outcome=\"dead\""),
    MetricAlias::new(
        "consign_leases_lost_total",
        "outbox_lock_lease_expired_total",
    ),
    MetricAlias::new("consign_in_flight", "outbox_inflight"),
    MetricAlias::new("consign_oldest_ready_age_seconds", "outbox_age_seconds"),
];

/// What a name has besides what was recorded under it.
#[derive(Default)]
struct ExtraLabels {
    /// The first name that it is an alias of.
    from: &'static str,
    kind: String,
    samples: String,
}

/// The rendered metrics with the aliases of the engine and of apps. All samples of a name are
/// together, as the format requires, also where a name is recorded and an alias at once.
///
/// An alias of an app takes the place of the engine's with the same names.
pub fn with_aliases(rendered: &str, of_apps: &[MetricAlias]) -> String {
    let mut added: BTreeMap<&str, ExtraLabels> = BTreeMap::new();
    let mut text = String::with_capacity(rendered.len() * 2);
    for alias in ENGINE {
        collect(rendered, alias, of_apps, &mut added);
    }
    for alias in of_apps.iter().filter(|alias| !alias.is_recorded) {
        collect(rendered, alias, &[], &mut added);
    }
    for block in blocks(rendered) {
        match added.remove(block.name) {
            Some(more) => {
                text.push_str(block.text.trim_end());
                text.push('\n');
                text.push_str(&more.samples);
                text.push('\n');
            }
            None => text.push_str(block.text),
        }
    }
    for (name, more) in added {
        let ExtraLabels {
            from,
            kind,
            samples,
        } = more;
        text.push_str(&format!(
            "# HELP {name} Made from {from}.\n# TYPE {name} {kind}\n{samples}"
        ));
    }
    text
}

fn collect(
    rendered: &str,
    alias: &MetricAlias,
    replacements: &[MetricAlias],
    added: &mut BTreeMap<&str, ExtraLabels>,
) {
    for block in blocks(rendered).filter(|block| block.name == alias.from) {
        let more = added.entry(alias.to).or_default();
        more.kind = block.kind.to_owned();
        if more.from.is_empty() {
            more.from = alias.from;
        }
        for line in block.text.lines() {
            let Some(labels) = line.strip_prefix(alias.from) else {
                continue;
            };
            let mut replacements = replacements.iter();
            let is_replaced = replacements.any(|other| other.replaces(alias, labels));
            if is_replaced || !labels.contains(alias.label) {
                continue;
            }
            let mut labels = labels.to_owned();
            for (from, to) in alias.changes {
                labels = labels.replace(from, to);
            }
            more.samples.push_str(alias.to);
            more.samples.push_str(&labels);
            more.samples.push('\n');
        }
    }
}

/// The lines of one name, its description first.
struct Block<'t> {
    name: &'t str,
    kind: &'t str,
    text: &'t str,
}

/// The rendered text cut before each description; lines without a type are dropped.
fn blocks(rendered: &str) -> impl Iterator<Item = Block<'_>> {
    let mut rest = rendered;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = end_of_block(rest);
        let (text, after) = rest.split_at(end);
        rest = after;
        let typed = text.lines().find_map(|line| line.strip_prefix("# TYPE "));
        let (name, kind) = typed
            .and_then(|typed| typed.split_once(' '))
            .unwrap_or_default();
        Some(Block { name, kind, text })
    })
}

/// Where the next name's description begins.
fn end_of_block(text: &str) -> usize {
    let mut has_samples = false;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let is_about = line.starts_with('#');
        if is_about && has_samples {
            return at;
        }
        has_samples |= !is_about && !line.trim().is_empty();
        at += line.len();
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAIL: &str = "queue=\"mail\"";

    const OF_AN_APP: &[MetricAlias] = &[
        MetricAlias::new(ATTEMPTS, "outbox_processed_total")
            .only(MAIL)
            .changes(&[("outcome=\"dead\"", "outcome=\"aborted\"")]),
        MetricAlias::new(
            "consign_leases_lost_total",
            "outbox_lock_lease_expired_total",
        )
        .only(MAIL)
        .recorded(),
        MetricAlias::new("consign_claim_seconds", "outbox_latency_seconds")
            .only(MAIL)
            .changes(&[(MAIL, "phase=\"claim\"")]),
    ];

    #[test]
    fn a_metric_appears_under_its_other_names_too() {
        let rendered = "# HELP consign_attempts_total Attempts.\n\
                        # TYPE consign_attempts_total counter\n\
                        consign_attempts_total{queue=\"a-b\",outcome=\"delivered\"} 3\n\
                        consign_attempts_total{queue=\"a-b\",outcome=\"dead\"} 1\n\
                        \n\
                        # TYPE consign_attempts_total_x counter\n\
                        consign_attempts_total_x 9\n";
        let text = with_aliases(rendered, &[]);
        let added = text.strip_prefix(rendered).unwrap();
        assert_eq!(
            added,
            "# HELP outbox_aborted_total Made from consign_attempts_total.\n\
             # TYPE outbox_aborted_total counter\n\
             outbox_aborted_total{queue=\"a-b\",outcome=\"dead\"} 1\n\
             # HELP outbox_failed_total Made from consign_attempts_total.\n\
             # TYPE outbox_failed_total counter\n\
             # HELP outbox_processed_total Made from consign_attempts_total.\n\
             # TYPE outbox_processed_total counter\n\
             outbox_processed_total{queue=\"a-b\",outcome=\"delivered\"} 3\n\
             outbox_processed_total{queue=\"a-b\",outcome=\"dead\"} 1\n\
             # HELP outbox_sent_total Made from consign_attempts_total.\n\
             # TYPE outbox_sent_total counter\n\
             outbox_sent_total{queue=\"a-b\",outcome=\"delivered\"} 3\n"
        );
    }

    #[test]
    fn an_alias_of_an_app_replaces_that_of_the_engine() {
        let rendered = "# TYPE consign_attempts_total counter\n\
                        consign_attempts_total{queue=\"a\",outcome=\"dead\"} 2\n\
                        consign_attempts_total{queue=\"mail\",outcome=\"dead\"} 1\n\
                        \n\
                        # TYPE consign_leases_lost_total counter\n\
                        consign_leases_lost_total{queue=\"a\"} 4\n\
                        consign_leases_lost_total{queue=\"mail\"} 5\n";
        let text = with_aliases(rendered, OF_AN_APP);
        let samples = |name: &str| -> Vec<String> {
            let lines = text.lines().filter(|line| line.starts_with(name));
            lines.map(str::to_owned).collect()
        };
        assert_eq!(
            samples("outbox_processed_total"),
            [
                "outbox_processed_total{queue=\"a\",outcome=\"dead\"} 2",
                "outbox_processed_total{queue=\"mail\",outcome=\"aborted\"} 1",
            ]
        );
        assert_eq!(
            samples("outbox_lock_lease_expired_total"),
            ["outbox_lock_lease_expired_total{queue=\"a\"} 4"]
        );
    }

    #[test]
    fn what_is_recorded_and_an_alias_stands_together() {
        let rendered = "# TYPE outbox_latency_seconds histogram\n\
                        outbox_latency_seconds_bucket{phase=\"send\",le=\"+Inf\"} 1\n\
                        outbox_latency_seconds_count{phase=\"send\"} 1\n\
                        \n\
                        # TYPE consign_claim_seconds histogram\n\
                        consign_claim_seconds_bucket{queue=\"a\",le=\"+Inf\"} 9\n\
                        consign_claim_seconds_bucket{queue=\"mail\",le=\"+Inf\"} 2\n\
                        consign_claim_seconds_count{queue=\"mail\"} 2\n";
        let text = with_aliases(rendered, OF_AN_APP);
        let (latency, _) = text.split_once("# TYPE consign_claim_seconds").unwrap();
        assert_eq!(
            latency,
            "# TYPE outbox_latency_seconds histogram\n\
             outbox_latency_seconds_bucket{phase=\"send\",le=\"+Inf\"} 1\n\
             outbox_latency_seconds_count{phase=\"send\"} 1\n\
             outbox_latency_seconds_bucket{phase=\"claim\",le=\"+Inf\"} 2\n\
             outbox_latency_seconds_count{phase=\"claim\"} 2\n\
             \n"
        );
        assert_eq!(text.matches("# TYPE outbox_latency_seconds").count(), 1);
    }
}
