//! Orders leave when their key's time is over and their queue keeps them no longer.

use std::time::Duration;

use consign_conformance::stage::{Maintenance, by, done, policy, s};
use consign_kernel::{Outcome, QueuePolicy};
use consign_orders::NewOrder;

use super::LedgerHarness;
use super::fixture::{OrdersFixture, TTL, ended, is_conflict, is_new, is_same, twisted};

/// Keeps finished orders for a while, and keys for ever.
fn keeping(keep: Duration) -> QueuePolicy {
    let keep_ms = Some(keep.as_millis() as u64);
    QueuePolicy {
        keep_ms,
        keep_dead_ms: keep_ms,
        ..policy()
    }
}

async fn is_in_ledger(fixture: &OrdersFixture<'_>, order: &NewOrder) -> bool {
    let entry = fixture.ledger.entry(&order.client, &order.key).await;
    entry.expect("entry answers").is_some()
}

async fn examine(fixture: &OrdersFixture<'_>) {
    let findings = fixture.stage.store.doctor().await;
    assert_eq!(findings.expect("doctor answers"), []);
}

pub(crate) async fn an_order_leaves_when_its_key_is_over(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::with(harness, keeping(s(60))).await;
    let maintenance = Maintenance::lease(&fixture.stage.store).await;
    let succeeded = fixture.succeeded("key-0001").await;
    let failed = fixture.failed("key-0002").await;
    assert!(is_conflict(&fixture.accept_one(&twisted(&failed)).await));
    fixture.stage.advance(TTL - s(1)).await;
    let younger = fixture.succeeded("key-0003").await;
    assert_eq!(maintenance.leave().await, 0, "its key can be repeated");
    fixture.stage.advance(s(1)).await;
    assert_eq!(maintenance.leave().await, 2);
    for order in [&succeeded, &failed] {
        assert!(!is_in_ledger(&fixture, order).await, "{:?}", order.key);
    }
    assert!(is_in_ledger(&fixture, &younger).await);
    assert_eq!(fixture.message_count().await, 1);
    examine(&fixture).await;
    // The keys are free, whatever their body.
    assert!(is_new(&fixture.accept_one(&twisted(&succeeded)).await));
    let again = fixture.accept_one(&failed).await;
    assert!(is_new(&again), "{again:?}");
    assert_eq!(again.entry().conflicts, 0);
}

pub(crate) async fn an_order_is_kept_for_the_time_of_its_queue(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::with(harness, keeping(TTL + s(60))).await;
    let maintenance = Maintenance::lease(&fixture.stage.store).await;
    let order = fixture.succeeded("key-0001").await;
    fixture.stage.advance(TTL + s(59)).await;
    assert_eq!(maintenance.leave().await, 0);
    assert!(is_same(&fixture.accept_one(&order).await), "not purged");
    fixture.stage.advance(s(1)).await;
    assert_eq!(maintenance.leave().await, 1);
    assert!(!is_in_ledger(&fixture, &order).await);
}

/// A requeue begins the times to live of an order anew.
pub(crate) async fn a_requeued_order_stays_until_its_new_time_is_over(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::with(harness, keeping(s(60))).await;
    let maintenance = Maintenance::lease(&fixture.stage.store).await;
    let order = fixture.failed("key-0001").await;
    fixture.stage.advance(TTL - s(1)).await;
    let id = fixture.entry(&order).await.outbox_id.expect("a message");
    let moved = fixture.stage.store.requeue(&[id], &by()).await;
    moved.expect("requeue answers");
    fixture
        .settle(id, Outcome::Delivered, "EXECUTED", &ended(200, "ok"))
        .await;
    fixture.stage.advance(TTL - s(1)).await;
    assert_eq!(maintenance.leave().await, 0);
    assert!(is_same(&fixture.accept_one(&order).await));
    fixture.stage.advance(s(1)).await;
    assert_eq!(maintenance.leave().await, 1);
}

/// A process may end after each step: the next one finishes, and orders are accepted meanwhile.
pub(crate) async fn a_departure_of_orders_is_finished_step_by_step(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::with(harness, keeping(s(60))).await;
    let maintenance = Maintenance::lease(&fixture.stage.store).await;
    let order = fixture.succeeded("key-0001").await;
    fixture.stage.advance(TTL).await;
    let departure = maintenance.begin_of(1).await;
    maintenance.archive(&departure).await;
    let mut is_over = false;
    while is_in_ledger(&fixture, &order).await {
        let again = fixture.accept_one(&twisted(&order)).await;
        assert!(is_conflict(&again), "known until then: {again:?}");
        assert!(!is_over, "its row leaves with the departure");
        is_over = done(Ok(maintenance.step(&departure).await)).is_over;
        examine(&fixture).await;
    }
    let again = fixture.accept_one(&twisted(&order)).await;
    assert!(is_new(&again), "free: {again:?}");
    while !is_over {
        is_over = done(Ok(maintenance.step(&departure).await)).is_over;
        examine(&fixture).await;
    }
}

/// Orders whose queue has a time for them leave by that, into the archive, and not by a purge.
pub(crate) async fn a_purge_leaves_kept_orders_to_their_departure(harness: &dyn LedgerHarness) {
    let only_dead = QueuePolicy {
        keep_ms: None,
        ..keeping(TTL + s(60))
    };
    let fixture = OrdersFixture::with(harness, only_dead).await;
    let maintenance = Maintenance::lease(&fixture.stage.store).await;
    let store = &fixture.stage.store;
    let succeeded = fixture.succeeded("key-0001").await;
    let purged = fixture.entry(&succeeded).await.outbox_id;
    let purged = purged.expect("a message");
    store.reveal(purged, &by()).await.expect("reveal answers");
    let failed = fixture.failed("key-0002").await;
    fixture.stage.advance(TTL).await;
    let report = fixture.ledger.purge(100, 3, false, &by()).await;
    let report = report.expect("purge answers");
    assert_eq!((report.succeeded, report.failed), (1, 0));
    assert!(is_in_ledger(&fixture, &failed).await, "not archived yet");
    examine(&fixture).await;
    fixture.stage.advance(s(60)).await;
    assert_eq!(maintenance.leave().await, 1);
    assert!(!is_in_ledger(&fixture, &failed).await);
    // What was purged is in no archive: what operators did to it stays.
    let audit = store.audit(Some(purged), None, 10).await;
    let audit = audit.expect("audit answers");
    assert_eq!(audit.len(), 1, "{audit:?}");
    assert_eq!(audit[0].message_id, Some(purged));
}

/// A purge between the steps of a departure.
pub(crate) async fn a_purge_and_a_departure_agree(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::with(harness, keeping(s(60))).await;
    let maintenance = Maintenance::lease(&fixture.stage.store).await;
    let order = fixture.succeeded("key-0001").await;
    fixture.stage.advance(TTL).await;
    let departure = maintenance.begin_of(1).await;
    maintenance.archive(&departure).await;
    done(Ok(maintenance.step(&departure).await));
    let report = fixture.ledger.purge(100, 3, false, &by()).await;
    report.expect("purge answers");
    examine(&fixture).await;
    maintenance.depart(&departure).await;
    assert!(!is_in_ledger(&fixture, &order).await);
    let again = fixture.accept_one(&order).await;
    assert!(is_new(&again), "its key is free: {again:?}");
}
