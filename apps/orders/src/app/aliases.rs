//! Metrics of the queue `orders` in the words of its document: its five states, its phases.

use consign_app::aliases::MetricAlias;

use crate::metrics::{BROKER_LATENCY_SECONDS, IDEMPOTENCY_CONFLICTS_TOTAL, OUTBOX_LATENCY_SECONDS};

const ORDERS: &str = "queue=\"orders\"";

pub(super) const ALIASES: &[MetricAlias] = &[
    MetricAlias::new("consign_attempts_total", "outbox_processed_total")
        .only(ORDERS)
        .changes(&[
            ("outcome=\"delivered\"", "outcome=\"succeeded\""),
            ("outcome=\"retry\"", "outcome=\"failed\""),
            ("outcome=\"dead\"", "outcome=\"aborted\""),
        ]),
    // Counted by the worker that takes over: the one that was killed cannot.
    MetricAlias::new(
        "consign_leases_lost_total",
        "outbox_lock_lease_expired_total",
    )
    .only(ORDERS)
    .recorded(),
    MetricAlias::new("consign_claim_seconds", OUTBOX_LATENCY_SECONDS)
        .only(ORDERS)
        .changes(&[(ORDERS, "phase=\"claim\"")]),
    MetricAlias::new("consign_settle_seconds", OUTBOX_LATENCY_SECONDS)
        .only(ORDERS)
        .changes(&[(ORDERS, "phase=\"commit\"")]),
    MetricAlias::new(
        IDEMPOTENCY_CONFLICTS_TOTAL,
        "order_idempotency_conflicts_total",
    ),
    MetricAlias::new(BROKER_LATENCY_SECONDS, "order_broker_latency_seconds"),
];

#[cfg(test)]
mod tests {
    use consign_app::aliases::with_aliases;

    use super::*;

    #[test]
    fn orders_have_the_names_of_their_document() {
        let rendered = "# TYPE consign_attempts_total counter\n\
                        consign_attempts_total{queue=\"orders\",outcome=\"delivered\"} 3\n\
                        consign_attempts_total{queue=\"orders\",outcome=\"retry\"} 2\n\
                        consign_attempts_total{queue=\"orders\",outcome=\"dead\"} 1\n\
                        \n\
                        # TYPE consign_claim_seconds histogram\n\
                        consign_claim_seconds_count{queue=\"a\"} 9\n\
                        consign_claim_seconds_count{queue=\"orders\"} 2\n\
                        \n\
                        # TYPE consign_leases_lost_total counter\n\
                        consign_leases_lost_total{queue=\"a\"} 4\n\
                        consign_leases_lost_total{queue=\"orders\"} 5\n";
        let text = with_aliases(rendered, ALIASES);
        for line in [
            "outbox_processed_total{queue=\"orders\",outcome=\"succeeded\"} 3",
            "outbox_processed_total{queue=\"orders\",outcome=\"failed\"} 2",
            "outbox_processed_total{queue=\"orders\",outcome=\"aborted\"} 1",
            "outbox_latency_seconds_count{phase=\"claim\"} 2",
            "outbox_lock_lease_expired_total{queue=\"a\"} 4",
        ] {
            assert_eq!(text.matches(line).count(), 1, "{line}\n{text}");
        }
        assert_eq!(text.matches("outbox_latency_seconds_count").count(), 1);
        assert!(
            !text.contains("lock_lease_expired_total{queue=\"orders\"}"),
            "{text}"
        );
    }
}
