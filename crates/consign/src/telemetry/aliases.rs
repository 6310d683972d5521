//! Metrics under a second name, for dashboards that know other outboxes.

/// The name here, and the other name; a pair in braces must be among the labels.
const ALIASES: &[(&str, &str, &str)] = &[
    ("consign_enqueued_total", "", "outbox_enqueued_total"),
    ("consign_claimed_total", "", "outbox_claimed_total"),
    ("consign_attempts_total", "", "outbox_processed_total"),
    (
        "consign_attempts_total",
        "outcome=\"delivered\"",
        "outbox_sent_total",
    ),
    (
        "consign_attempts_total",
        "outcome=\"retry\"",
        "outbox_retry_total",
    ),
    (
        "consign_attempts_total",
        "outcome=\"dead\"",
        "outbox_failed_total",
    ),
    (
        "consign_leases_lost_total",
        "",
        "outbox_lock_lease_expired_total",
    ),
    ("consign_in_flight", "", "outbox_inflight"),
    ("consign_oldest_ready_age_seconds", "", "outbox_age_seconds"),
];

/// `rendered` with the lines of the other names after it.
pub(super) fn with_aliases(mut rendered: String) -> String {
    let mut more = String::new();
    for (name, label, alias) in ALIASES {
        let mut typed = false;
        for line in rendered.lines() {
            if let Some(rest) = line
                .strip_prefix("# TYPE ")
                .and_then(|rest| rest.strip_prefix(name))
                && rest.starts_with(' ')
            {
                more.push_str(&format!("# TYPE {alias}{rest}\n"));
                typed = true;
            }
            let sample = line
                .strip_prefix(name)
                .filter(|rest| rest.starts_with(['{', ' ']) && rest.contains(label));
            if let Some(rest) = sample.filter(|_| typed) {
                more.push_str(&format!("{alias}{rest}\n"));
            }
        }
    }
    rendered.push_str(&more);
    rendered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_appears_under_its_other_names_too() {
        let rendered = "# HELP consign_attempts_total Attempts.\n\
                        # TYPE consign_attempts_total counter\n\
                        consign_attempts_total{lane=\"a\",outcome=\"delivered\"} 3\n\
                        consign_attempts_total{lane=\"a\",outcome=\"dead\"} 1\n\
                        # TYPE consign_attempts_total_x counter\n\
                        consign_attempts_total_x 9\n";
        let text = with_aliases(rendered.to_owned());
        let added = text.strip_prefix(rendered).unwrap();
        assert_eq!(
            added,
            "# TYPE outbox_processed_total counter\n\
             outbox_processed_total{lane=\"a\",outcome=\"delivered\"} 3\n\
             outbox_processed_total{lane=\"a\",outcome=\"dead\"} 1\n\
             # TYPE outbox_sent_total counter\n\
             outbox_sent_total{lane=\"a\",outcome=\"delivered\"} 3\n\
             # TYPE outbox_retry_total counter\n\
             # TYPE outbox_failed_total counter\n\
             outbox_failed_total{lane=\"a\",outcome=\"dead\"} 1\n"
        );
    }
}
