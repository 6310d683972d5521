//! Forgetting keys whose time is over.

use consign_conformance::stage::{by, refused, s};
use consign_kernel::{By, MessageId, Outcome};
use consign_orders::{ConflictingKey, LedgerStatus, NewOrder, PurgeReport};

use super::LedgerHarness;
use super::fixture::{OrdersFixture, TTL, client, ended, is_new, key, order, twisted};

async fn purge(fixture: &OrdersFixture<'_>, limit: u32) -> PurgeReport {
    let report = fixture.ledger.purge(limit, 3, false, &by()).await;
    report.expect("purge answers")
}

async fn is_in_ledger(fixture: &OrdersFixture<'_>, order: &NewOrder) -> bool {
    let entry = fixture.ledger.entry(&order.client, &order.key).await;
    entry.expect("entry answers").is_some()
}

async fn message_of(fixture: &OrdersFixture<'_>, order: &NewOrder) -> MessageId {
    fixture.entry(order).await.outbox_id.expect("a message")
}

/// Row, message, attempts and late results together; what is younger stays.
pub(crate) async fn what_is_past_its_time_is_removed_with_its_message(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    let succeeded = fixture.succeeded("key-0001").await;
    let failed = fixture.failed("key-0002").await;
    let direct = order("key-0003");
    let opened = fixture.ledger.open_direct(&direct, s(5)).await;
    opened.expect("open_direct answers");
    let ok = ended(200, "ok");
    let closed = fixture
        .ledger
        .close_direct(&direct, LedgerStatus::Succeeded, &ok);
    closed.await.expect("close answers");
    let late = order("key-0004");
    let id = fixture.enter(&late).await;
    let lost = fixture.claim(id).await;
    fixture.stage.crash().await;
    let record_late = super::fixture::report(id, Outcome::Delivered, "EXECUTED", &ok);
    let kept = fixture
        .stage
        .store
        .record_late(lost.token, &[record_late])
        .await;
    assert_eq!(kept.expect("record_late answers"), [id]);
    fixture
        .settle(id, Outcome::Delivered, "EXECUTED", &ok)
        .await;

    fixture.stage.advance(s(60)).await;
    let younger = fixture.succeeded("key-0005").await;
    let gone = [
        message_of(&fixture, &succeeded).await,
        message_of(&fixture, &failed).await,
        id,
    ];
    fixture.stage.advance(TTL - s(11 + 60)).await;
    assert_eq!(
        purge(&fixture, 100).await,
        PurgeReport::default(),
        "too early"
    );
    fixture.stage.advance(s(11)).await;
    let expected = PurgeReport {
        succeeded: 3,
        failed: 1,
        ..PurgeReport::default()
    };
    assert_eq!(purge(&fixture, 100).await, expected);
    for order in [&succeeded, &failed, &direct, &late] {
        assert!(!is_in_ledger(&fixture, order).await, "{:?}", order.key);
    }
    for id in gone {
        let explained = fixture.stage.store.explain(id).await;
        assert_eq!(explained.expect("explain answers"), None);
        assert_eq!(fixture.stage.history(id).await, []);
        let late = fixture.stage.store.late(id).await;
        assert_eq!(late.expect("late answers"), []);
    }
    assert!(is_in_ledger(&fixture, &younger).await);
    assert_eq!(fixture.message_count().await, 1);
    assert_eq!(
        purge(&fixture, 100).await,
        PurgeReport::default(),
        "all done"
    );
}

pub(crate) async fn a_row_whose_message_is_alive_is_kept(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    let held = order("key-0001");
    let id = fixture.enter(&held).await;
    let failpoint = fixture.stage.store.hold(&[id], &by()).await;
    failpoint.expect("hold answers");
    let ready = order("key-0002");
    fixture.enter(&ready).await;
    fixture.stage.advance(TTL + s(1)).await;
    let leased = order("key-0003");
    let brief = NewOrder {
        ttl: s(1),
        ..leased.clone()
    };
    fixture.enter(&brief).await;
    fixture.stage.advance(s(1)).await;
    let _lease = fixture.stage.claim(10).await;
    let kept = PurgeReport {
        kept_alive: 3,
        ..PurgeReport::default()
    };
    assert_eq!(
        purge(&fixture, 1).await,
        kept,
        "they do not use up the limit"
    );
    for order in [&held, &ready, &leased] {
        assert_eq!(fixture.entry(order).await.status, LedgerStatus::Accepted);
    }
    assert_eq!(fixture.message_count().await, 3);
}

/// Never a stuck `accepted`.
pub(crate) async fn a_purged_key_is_free_again(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    for of in ["key-0001", "key-0002"] {
        let order = match of {
            "key-0001" => fixture.succeeded(of).await,
            _ => fixture.failed(of).await,
        };
        let old = message_of(&fixture, &order).await;
        fixture.accept_one(&twisted(&order)).await;
        fixture.stage.advance(TTL).await;
        purge(&fixture, 100).await;
        let other = twisted(&order);
        let answer = fixture.accept_one(&other).await;
        assert!(is_new(&answer), "{answer:?}");
        assert_eq!(answer.entry().conflicts, 0, "old conflicts are forgotten");
        assert_eq!(fixture.entry(&other).await, *answer.entry());
        let id = answer.entry().outbox_id.expect("a message");
        assert_ne!(id, old);
        fixture
            .settle(id, Outcome::Delivered, "EXECUTED", &ended(200, "ok"))
            .await;
        assert_eq!(fixture.entry(&other).await.status, LedgerStatus::Succeeded);
    }
}

pub(crate) async fn a_purge_is_audited_if_it_removes_something(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    let failed = fixture.failed("key-0001").await;
    let id = message_of(&fixture, &failed).await;
    let moved = fixture.stage.store.requeue(&[id], &by()).await;
    moved.expect("requeue answers");
    fixture
        .settle(id, Outcome::Delivered, "EXECUTED", &ended(200, "ok"))
        .await;
    fixture.failed("key-0002").await;
    let audit = async || fixture.stage.store.audit(None, None, 100).await;
    let before = audit().await.expect("audit answers");
    let why = By::new("grace", "the week is over");
    let report = fixture.ledger.purge(100, 3, false, &why).await;
    report.expect("purge answers");
    assert_eq!(
        audit().await.expect("audit answers"),
        before,
        "nothing done"
    );

    fixture.stage.advance(TTL).await;
    let now = fixture.stage.now().await;
    let report = fixture.ledger.purge(100, 3, false, &why).await;
    let report = report.expect("purge answers");
    assert_eq!((report.succeeded, report.failed), (1, 1));
    let after = audit().await.expect("audit answers");
    let entry = &after[0];
    assert_eq!(after[1..], before, "what people did stays on record");
    assert_eq!(
        (entry.actor.as_str(), entry.action.as_str()),
        ("grace", "purge")
    );
    assert_eq!((entry.at, entry.message_id), (now, None));
    assert_eq!(
        entry.reason,
        "the week is over (1 succeeded and 1 failed orders)"
    );
    let nobody = fixture
        .ledger
        .purge(1, 1, false, &By::new(" ", "why"))
        .await;
    refused(nobody, "invalid_input");
    refused(
        fixture.ledger.purge(0, 1, false, &why).await,
        "invalid_input",
    );
}

pub(crate) async fn a_dry_run_changes_nothing(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    let succeeded = fixture.succeeded("key-0001").await;
    let failed = fixture.failed("key-0002").await;
    for _ in 0..3 {
        fixture.accept_one(&twisted(&failed)).await;
    }
    let direct = order("key-0003");
    let opened = fixture.ledger.open_direct(&direct, s(5)).await;
    opened.expect("open_direct answers");
    fixture.stage.advance(TTL).await;
    let alive = NewOrder {
        ttl: s(1),
        ..order("key-0004")
    };
    fixture.enter(&alive).await;
    fixture.stage.advance(s(1)).await;
    let audit = async || fixture.stage.store.audit(None, None, 100).await;
    let before = audit().await.expect("audit answers");
    let dry = fixture.ledger.purge(100, 3, true, &by()).await;
    let dry = dry.expect("purge answers");
    assert_eq!(audit().await.expect("audit answers"), before);
    for order in [&succeeded, &failed, &alive] {
        assert!(is_in_ledger(&fixture, order).await, "{:?}", order.key);
    }
    assert_eq!(fixture.message_count().await, 3);
    let wet = purge(&fixture, 100).await;
    assert_eq!(dry, wet, "the purge does what its dry run reports");
    let expected = PurgeReport {
        succeeded: 1,
        failed: 2,
        kept_alive: 1,
        given_up: 1,
        restless: vec![ConflictingKey {
            client: client("desk-1"),
            key: key("key-0002"),
            conflicts: 3,
        }],
        has_more: false,
    };
    assert_eq!(wet, expected);
}

pub(crate) async fn failed_keys_with_many_conflicts_are_reported(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    for (of, conflicts) in [("key-0001", 2), ("key-0002", 3), ("key-0003", 7)] {
        let order = fixture.failed(of).await;
        for _ in 0..conflicts {
            fixture.accept_one(&twisted(&order)).await;
        }
    }
    let succeeded = fixture.succeeded("key-0004").await;
    for _ in 0..9 {
        fixture.accept_one(&twisted(&succeeded)).await;
    }
    fixture.stage.advance(TTL).await;
    let report = purge(&fixture, 100).await;
    let mut restless = report.restless;
    restless.sort_by(|a, b| a.key.cmp(&b.key));
    let expected = [("key-0002", 3), ("key-0003", 7)].map(|(of, conflicts)| ConflictingKey {
        client: client("desk-1"),
        key: key(of),
        conflicts,
    });
    assert_eq!(restless, expected);
}

pub(crate) async fn a_purge_goes_on_where_its_limit_ended(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    let names: Vec<String> = (0..5).map(|n| format!("key-{n:04}")).collect();
    for of in &names {
        fixture.succeeded(of).await;
    }
    fixture.stage.advance(TTL).await;
    for (removed, has_more) in [(2, true), (2, true), (1, false), (0, false)] {
        let report = purge(&fixture, 2).await;
        assert_eq!((report.succeeded, report.has_more), (removed, has_more));
    }
    assert_eq!(fixture.message_count().await, 0);
}

pub(crate) async fn a_purge_gives_up_direct_orders_without_a_result(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    let order = order("key-0001");
    let opened = fixture.ledger.open_direct(&order, s(5)).await;
    opened.expect("open_direct answers");
    fixture.stage.advance(s(4)).await;
    assert_eq!(purge(&fixture, 100).await.given_up, 0);
    fixture.stage.advance(s(1)).await;
    assert_eq!(purge(&fixture, 100).await.given_up, 1);
    assert_eq!(purge(&fixture, 100).await.given_up, 0, "once");
    let entry = fixture.entry(&order).await;
    assert_eq!(
        (entry.status, entry.http_status),
        (LedgerStatus::Failed, 504)
    );
    fixture.stage.advance(TTL).await;
    assert_eq!(purge(&fixture, 100).await.failed, 1);
}

pub(crate) async fn a_requeued_order_outlives_its_first_time_to_live(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    let order = fixture.failed("key-0001").await;
    let id = message_of(&fixture, &order).await;
    fixture.stage.advance(TTL).await;
    let moved = fixture.stage.store.requeue(&[id], &by()).await;
    moved.expect("requeue answers");
    assert_eq!(purge(&fixture, 100).await, PurgeReport::default());
    fixture
        .settle(id, Outcome::Dead, "BROKER_DOWN", &ended(503, "error"))
        .await;
    fixture.stage.advance(TTL - s(1)).await;
    assert_eq!(purge(&fixture, 100).await, PurgeReport::default());
    fixture.stage.advance(s(1)).await;
    assert_eq!(purge(&fixture, 100).await.failed, 1);
    assert_eq!(fixture.message_count().await, 0);
}
