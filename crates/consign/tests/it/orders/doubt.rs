//! Orders that may have been executed, and whose broker or worker ended before the outcome was recorded.

use consign_testkit::Step;

use super::{
    bench::{Bench, broker_key, on_both, on_one, order, place, post},
    kills::killed_at,
};
use crate::service::Service;

/// A repeat is answered that the outcome is unknown.
async fn told_that_nobody_knows(bench: &Bench, service: &Service, key: &str, steps: &[Step]) {
    bench.becomes(key, "failed", "aborted").await;
    let replay = post(service, key, &order(key, steps)).await;
    assert_eq!(replay.status, 504, "{replay:?}");
    let said = replay.json();
    assert_eq!(said["reason_code"], "BROKER_TIMEOUT", "{said}");
    let message = said["message"].as_str().unwrap();
    assert!(message.contains("may have been executed"), "{said}");
    let tally = bench.broker.journal().tally(&broker_key(key));
    assert_eq!(tally.executions, 1, "it was: {tally:?}");
}

#[test]
fn a_lost_answer_stays_in_doubt_while_the_broker_is_down() {
    on_one(async |mut bench| {
        bench.set(&[
            ("outbox_max_attempts", "3"),
            ("outbox_backoff_sec", "[0.1]"),
        ]);
        let service = bench.serve().await;
        let steps = [Step::ExecuteDrop, Step::Refuse(503), Step::Refuse(503)];
        place(&service, "key-lost", &steps).await;
        told_that_nobody_knows(&bench, &service, "key-lost", &steps).await;
        let row = bench.outbox("key-lost").await;
        assert_eq!(row["last_error_code"], "BROKER_DOWN", "{row}");
        service.stop().await;
        bench.doctor();
    });
}

#[test]
fn a_worker_killed_after_its_only_send_leaves_the_order_in_doubt() {
    on_both(async |mut bench| {
        bench.set(&[("outbox_max_attempts", "1")]);
        killed_at(&bench, "key-kill", "orders.after_send").await;
        let heir = bench.serve().await;
        told_that_nobody_knows(&bench, &heir, "key-kill", &[]).await;
        assert_eq!(bench.broker.send_count(), 1);
        heir.stop().await;
        bench.doctor();
    });
}
