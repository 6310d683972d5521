//! Orders that are not sent because of their state in the ledger.

use consign_kernel::{AttemptOutcome, ManualClock, StateKind, prelude::*};
use consign_orders::{Adapter, LedgerStatus, OrdersOptions};
use consign_testkit::eventually;
use jiff::SignedDuration;

use crate::support::{Bench, SOON, fixture::Fixture, quick};

/// Runs a worker until the only message is finished.
async fn worked_off(bench: &Bench, state: StateKind) {
    let id = consign_kernel::MessageId(1);
    let worker = bench.work();
    eventually("the message ends", SOON, async || {
        let found = bench.store.explain(id).await.unwrap();
        found.is_some_and(|found| found.state.kind() == state)
    })
    .await;
    worker.drain();
    worker.finished().await;
    assert_eq!(bench.fixture.sent(), [], "nothing is sent");
}

async fn last_attempt(bench: &Bench) -> (AttemptOutcome, String) {
    let history = bench.store.history(consign_kernel::MessageId(1)).await;
    let attempt = history.unwrap().pop().unwrap();
    (attempt.outcome, attempt.code.unwrap())
}
#[tokio::test]
async fn an_order_executed_in_the_ledger_is_synced_and_not_sent() {
    let bench = Bench::new(quick()).await;
    bench.place("key-0001", &[]).await;
    let done = "UPDATE idempo_ledger SET status = 'succeeded', http_status = 200, \
                response_payload_json = '{\"status\": \"ok\"}', result_digest = 'sha256:1'";
    assert_eq!(bench.sql(done).await, 1);
    worked_off(&bench, StateKind::Delivered).await;
    let synced = (AttemptOutcome::Delivered, "LEDGER_SYNCED".to_owned());
    assert_eq!(last_attempt(&bench).await, synced);
    let entry = bench.entry("key-0001").await.unwrap();
    assert_eq!(entry.status, LedgerStatus::Succeeded);
    assert_eq!(
        entry.response.as_deref(),
        Some("{\"status\": \"ok\"}"),
        "as it was"
    );
}
#[tokio::test]
async fn an_order_failed_in_the_ledger_is_aborted_and_not_sent() {
    let bench = Bench::new(quick()).await;
    bench.place("key-0001", &[]).await;
    let failed = "UPDATE idempo_ledger SET status = 'failed', http_status = 504, \
                  response_payload_json = '{\"status\": \"error\"}'";
    assert_eq!(bench.sql(failed).await, 1);
    worked_off(&bench, StateKind::Dead).await;
    let synced = (AttemptOutcome::Dead, "LEDGER_SYNCED".to_owned());
    assert_eq!(last_attempt(&bench).await, synced);
    let entry = bench.entry("key-0001").await.unwrap();
    assert_eq!(
        (entry.status, entry.http_status),
        (LedgerStatus::Failed, 504),
        "as it was"
    );
}
#[tokio::test]
async fn another_digest_in_the_ledger_aborts_and_leaves_the_row_alone() {
    let bench = Bench::new(quick()).await;
    bench.place("key-0001", &[]).await;
    let other = "UPDATE idempo_ledger SET request_digest = 'sha256:other'";
    assert_eq!(bench.sql(other).await, 1);
    let before = bench.entry("key-0001").await;
    worked_off(&bench, StateKind::Dead).await;
    let conflict = (AttemptOutcome::Dead, "IDEMPOTENCY_CONFLICT".to_owned());
    assert_eq!(last_attempt(&bench).await, conflict);
    assert_eq!(bench.entry("key-0001").await, before);
}
#[tokio::test]
async fn without_a_row_in_the_ledger_nothing_is_sent() {
    let bench = Bench::new(quick()).await;
    bench.place("key-0001", &[]).await;
    assert_eq!(bench.sql("DELETE FROM idempo_ledger").await, 1);
    worked_off(&bench, StateKind::Dead).await;
    let missing = (AttemptOutcome::Dead, "LEDGER_MISSING".to_owned());
    assert_eq!(last_attempt(&bench).await, missing);
}

/// A row of another message, or of a call that sends its order itself: this message is a copy.
#[tokio::test]
async fn a_message_that_is_not_the_one_of_the_ledger_is_not_sent() {
    for of_another in ["99", "NULL"] {
        let bench = Bench::new(quick()).await;
        bench.place("key-0001", &[]).await;
        let moved = format!("UPDATE idempo_ledger SET outbox_id = {of_another}");
        assert_eq!(bench.sql(&moved).await, 1);
        let before = bench.entry("key-0001").await;
        worked_off(&bench, StateKind::Dead).await;
        let missing = (AttemptOutcome::Dead, "LEDGER_MISSING".to_owned());
        assert_eq!(last_attempt(&bench).await, missing);
        assert_eq!(bench.entry("key-0001").await, before, "not its row");
    }
}

#[tokio::test]
async fn an_order_that_waited_too_long_is_not_sent() {
    let clock = ManualClock::at("2026-11-16T00:00:00Z".parse().unwrap());
    let options = OrdersOptions {
        order_max_age_sec: 60,
        ..quick()
    };
    let bench = Bench::with(options, Fixture::default(), Some(clock)).await;
    bench.place("key-0001", &[]).await;
    let clock = bench.clock.as_ref().unwrap();
    clock.advance(SignedDuration::from_secs(60));
    worked_off(&bench, StateKind::Dead).await;
    let entry = bench.entry("key-0001").await.unwrap();
    assert_eq!(
        (entry.status, entry.http_status),
        (LedgerStatus::Failed, 410)
    );
    let expired = (AttemptOutcome::Dead, "ORDER_EXPIRED".to_owned());
    assert_eq!(last_attempt(&bench).await, expired);
    let replay = bench.place("key-0001", &[]).await;
    assert_eq!(replay.status, 410);
    assert!(replay.body.contains("ORDER_EXPIRED"), "{replay:?}");
}
#[tokio::test]
async fn a_damaged_order_is_aborted_and_recorded_as_422() {
    let damages = [
        "UPDATE message SET payload = json_set(payload, '$.body', 'no order')",
        "UPDATE message SET payload = json_remove(payload, '$.order')",
        "UPDATE message SET payload = json_set(payload, '$.order.qty', '9')",
        "UPDATE message SET payload = json_set(payload, '$.body', \
         replace(json_extract(payload, '$.body'), '0.10', '0.90'))",
    ];
    for damage in damages {
        let bench = Bench::new(quick()).await;
        bench.place("key-0001", &[]).await;
        // Possible only with the triggers disabled.
        let statement = format!("DROP TRIGGER IF EXISTS message_update; {damage}");
        bench.sql(&statement).await;
        worked_off(&bench, StateKind::Dead).await;
        let invalid = (AttemptOutcome::Dead, "VALIDATION_ERROR".to_owned());
        assert_eq!(last_attempt(&bench).await, invalid, "{damage}");
        let entry = bench.entry("key-0001").await.unwrap();
        assert_eq!(
            (entry.status, entry.http_status),
            (LedgerStatus::Failed, 422),
            "{damage}"
        );
    }
}

/// A worker without settings has the paper adapter.
#[tokio::test]
async fn an_order_accepted_for_another_adapter_is_not_sent() {
    let live = OrdersOptions {
        broker_adapter: Adapter::Http,
        broker_url: Some("http://127.0.0.1:9/orders".into()),
        ..quick()
    };
    let mut bench = Bench::new(live).await;
    bench.place("key-0001", &[]).await;
    bench.options = quick();
    let worker = bench.work();
    eventually("the worker has returned it", SOON, async || {
        let history = bench.store.history(consign_kernel::MessageId(1)).await;
        !history.unwrap().is_empty()
    })
    .await;
    worker.drain();
    worker.finished().await;
    let returned = (AttemptOutcome::Retry, "misdirected".to_owned());
    assert_eq!(last_attempt(&bench).await, returned);
    assert_eq!(bench.fixture.sent(), []);
    let entry = bench.entry("key-0001").await.unwrap();
    assert_eq!(entry.status, LedgerStatus::Accepted);
}
