//! Metrics under a second name, for dashboards that know other outboxes.
//!
//! Names and labels of the queue `orders` are those of its document: its five states, its phases.

use std::collections::BTreeMap;

/// A metric under another name.
#[derive(Clone, Copy)]
struct Alias {
    from: &'static str,
    to: &'static str,
    /// Samples with this among their labels.
    with: &'static str,
    /// Samples without this.
    without: Option<&'static str>,
    /// Labels in other words.
    change: &'static [(&'static str, &'static str)],
}

const fn alias(from: &'static str, to: &'static str) -> Alias {
    Alias {
        from,
        to,
        with: "",
        without: None,
        change: &[],
    }
}

const fn only(from: &'static str, with: &'static str, to: &'static str) -> Alias {
    Alias {
        with,
        ..alias(from, to)
    }
}

const ORDERS: &str = "queue=\"orders\"";
const ATTEMPTS: &str = "consign_attempts_total";
const PROCESSED: &str = "outbox_processed_total";
const LATENCY: &str = "outbox_latency_seconds";
const LEASE_EXPIRED: &str = super::metrics::OUTBOX_LOCK_LEASE_EXPIRED_TOTAL;

const ALIASES: &[Alias] = &[
    alias("consign_enqueued_total", "outbox_enqueued_total"),
    alias("consign_claimed_total", "outbox_claimed_total"),
    Alias {
        without: Some(ORDERS),
        ..alias(ATTEMPTS, PROCESSED)
    },
    Alias {
        change: &[
            ("outcome=\"delivered\"", "outcome=\"succeeded\""),
            ("outcome=\"retry\"", "outcome=\"failed\""),
            ("outcome=\"dead\"", "outcome=\"aborted\""),
        ],
        ..only(ATTEMPTS, ORDERS, PROCESSED)
    },
    only(ATTEMPTS, "outcome=\"delivered\"", "outbox_sent_total"),
    alias("consign_retries_total", "outbox_retry_total"),
    only(ATTEMPTS, "outcome=\"retry\"", "outbox_failed_total"),
    only(ATTEMPTS, "outcome=\"uncertain\"", "outbox_failed_total"),
    only(ATTEMPTS, "outcome=\"dead\"", "outbox_aborted_total"),
    // Of orders, whoever takes over counts it: whoever was killed cannot.
    Alias {
        without: Some(ORDERS),
        ..alias("consign_leases_lost_total", LEASE_EXPIRED)
    },
    Alias {
        change: &[(ORDERS, "phase=\"claim\"")],
        ..only("consign_claim_seconds", ORDERS, LATENCY)
    },
    Alias {
        change: &[(ORDERS, "phase=\"commit\"")],
        ..only("consign_settle_seconds", ORDERS, LATENCY)
    },
    alias("consign_in_flight", "outbox_inflight"),
    alias("consign_oldest_ready_age_seconds", "outbox_age_seconds"),
    alias(
        "idempotency_conflicts_total",
        "order_idempotency_conflicts_total",
    ),
    alias("broker_latency_seconds", "order_broker_latency_seconds"),
];

/// What a name has besides what was recorded under it.
#[derive(Default)]
struct Added {
    kind: String,
    samples: String,
}

/// `rendered` with the other names too. All samples of a name stand together, as the format wants
/// it, also where a name is recorded and an alias at once.
pub(super) fn with_aliases(rendered: &str) -> String {
    let mut added: BTreeMap<&str, Added> = BTreeMap::new();
    let mut text = String::with_capacity(rendered.len() * 2);
    for alias in ALIASES {
        collect(rendered, alias, &mut added);
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
        text.push_str(&format!("# TYPE {name} {}\n{}", more.kind, more.samples));
    }
    text
}

fn collect(rendered: &str, alias: &Alias, added: &mut BTreeMap<&str, Added>) {
    for block in blocks(rendered).filter(|block| block.name == alias.from) {
        let more = added.entry(alias.to).or_default();
        more.kind = block.kind.to_owned();
        for line in block.text.lines() {
            let Some(rest) = line.strip_prefix(alias.from) else {
                continue;
            };
            let is_left_out = alias.without.is_some_and(|without| rest.contains(without));
            if is_left_out || !rest.contains(alias.with) {
                continue;
            }
            let mut rest = rest.to_owned();
            for (from, to) in alias.change {
                rest = rest.replace(from, to);
            }
            more.samples.push_str(alias.to);
            more.samples.push_str(&rest);
            more.samples.push('\n');
        }
    }
}

/// All that is said about one name, its description first.
struct Block<'t> {
    name: &'t str,
    kind: &'t str,
    text: &'t str,
}

/// The rendered text cut before each description; what has no type is nobody's.
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

    #[test]
    fn a_metric_appears_under_its_other_names_too() {
        let rendered = "# HELP consign_attempts_total Attempts.\n\
                        # TYPE consign_attempts_total counter\n\
                        consign_attempts_total{queue=\"a-b\",outcome=\"delivered\"} 3\n\
                        consign_attempts_total{queue=\"a-b\",outcome=\"dead\"} 1\n\
                        \n\
                        # TYPE consign_attempts_total_x counter\n\
                        consign_attempts_total_x 9\n";
        let text = with_aliases(rendered);
        let added = text.strip_prefix(rendered).unwrap();
        assert_eq!(
            added,
            "# TYPE outbox_aborted_total counter\n\
             outbox_aborted_total{queue=\"a-b\",outcome=\"dead\"} 1\n\
             # TYPE outbox_failed_total counter\n\
             # TYPE outbox_processed_total counter\n\
             outbox_processed_total{queue=\"a-b\",outcome=\"delivered\"} 3\n\
             outbox_processed_total{queue=\"a-b\",outcome=\"dead\"} 1\n\
             # TYPE outbox_sent_total counter\n\
             outbox_sent_total{queue=\"a-b\",outcome=\"delivered\"} 3\n"
        );
    }

    #[test]
    fn orders_are_told_in_the_words_of_their_document() {
        let rendered = "# TYPE consign_attempts_total counter\n\
                        consign_attempts_total{queue=\"orders\",outcome=\"delivered\"} 3\n\
                        consign_attempts_total{queue=\"orders\",outcome=\"retry\"} 2\n\
                        consign_attempts_total{queue=\"orders\",outcome=\"dead\"} 1\n\
                        \n\
                        # TYPE consign_leases_lost_total counter\n\
                        consign_leases_lost_total{queue=\"a\"} 4\n\
                        consign_leases_lost_total{queue=\"orders\"} 5\n";
        let text = with_aliases(rendered);
        for line in [
            "outbox_processed_total{queue=\"orders\",outcome=\"succeeded\"} 3",
            "outbox_processed_total{queue=\"orders\",outcome=\"failed\"} 2",
            "outbox_processed_total{queue=\"orders\",outcome=\"aborted\"} 1",
            "outbox_lock_lease_expired_total{queue=\"a\"} 4",
        ] {
            assert_eq!(text.matches(line).count(), 1, "{line}\n{text}");
        }
        assert!(
            !text.contains("lock_lease_expired_total{queue=\"orders\"}"),
            "{text}"
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
                        consign_claim_seconds_bucket{queue=\"orders\",le=\"+Inf\"} 2\n\
                        consign_claim_seconds_count{queue=\"orders\"} 2\n";
        let text = with_aliases(rendered);
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
