//! Reading the ledger.

use std::collections::BTreeMap;

use consign_conformance::stage::s;
use consign_orders::{LedgerEntry, LedgerFilter, LedgerStatus, NewOrder};

use super::LedgerHarness;
use super::fixture::{OrdersFixture, client, key, order, order_of};

pub(crate) async fn a_free_key_has_no_row(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    fixture.enter(&order("key-0001")).await;
    for (name, of) in [("desk-1", "key-0002"), ("desk-2", "key-0001")] {
        let (client, key) = (client(name), key(of));
        let entry = fixture.ledger.entry(&client, &key).await;
        assert_eq!(entry.expect("entry answers"), None);
        let verified = fixture.ledger.verify(&client, &key).await;
        assert_eq!(verified.expect("verify answers"), None);
    }
}

/// By the database's clock, to the microsecond of its end.
pub(crate) async fn verify_reports_an_expired_order(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    let brief = NewOrder {
        max_age: Some(s(60)),
        ..order("key-0001")
    };
    let patient = order("key-0002");
    fixture.accept(&[brief.clone(), patient.clone()]).await;
    for (advance, is_expired) in [(0, false), (59, false), (1, true), (3_600, true)] {
        fixture.stage.advance(s(advance)).await;
        for (order, is_expired) in [(&brief, is_expired), (&patient, false)] {
            let verified = fixture.ledger.verify(&order.client, &order.key).await;
            let verified = verified.expect("verify answers").expect("a row");
            assert_eq!(verified.is_expired, is_expired, "{:?}", order.key);
            assert_eq!(verified.entry, fixture.entry(order).await);
        }
    }
}

async fn list(fixture: &OrdersFixture<'_>, filter: &LedgerFilter, limit: u32) -> Vec<LedgerEntry> {
    let mut entries: Vec<LedgerEntry> = Vec::new();
    loop {
        let before = entries.last();
        let before = before.map(|e| (e.first_seen_at, e.client.clone(), e.key.clone()));
        let page = fixture.ledger.entries(filter, before.as_ref(), limit).await;
        let page = page.expect("entries answers");
        assert!(page.len() <= limit as usize);
        if page.is_empty() {
            return entries;
        }
        entries.extend(page);
    }
}

pub(crate) async fn rows_are_listed_newest_first(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    fixture.succeeded("key-0001").await;
    fixture.failed("key-0002").await;
    for n in 3..=9 {
        if n % 3 == 0 {
            fixture.stage.advance(s(1)).await;
        }
        // Upper case and signs: byte order, independent of the database's locale.
        for name in ["desk-1", "Desk-1", "_desk"] {
            let of = format!("key-{n:04}");
            fixture.accept_one(&order_of(name, &of, &of)).await;
        }
    }
    let all = list(&fixture, &LedgerFilter::default(), 4).await;
    assert_eq!(all.len(), 2 + 7 * 3);
    let place = |e: &LedgerEntry| (e.first_seen_at, e.client.clone(), e.key.clone());
    let mut sorted = all.clone();
    sorted.sort_by_key(|entry| std::cmp::Reverse(place(entry)));
    assert_eq!(all, sorted, "newest first, each once");
    for entry in &all {
        let row = fixture.ledger.entry(&entry.client, &entry.key).await;
        assert_eq!(row.expect("entry answers").as_ref(), Some(entry));
    }
    for (name, status, count) in [
        (Some("Desk-1"), None, 7),
        (Some("desk-1"), None, 9),
        (Some("desk-9"), None, 0),
        (None, Some(LedgerStatus::Succeeded), 1),
        (None, Some(LedgerStatus::Failed), 1),
        (Some("desk-1"), Some(LedgerStatus::Accepted), 7),
    ] {
        let filter = LedgerFilter {
            client: name.map(client),
            status,
        };
        let some = list(&fixture, &filter, 3).await;
        assert_eq!(some.len(), count, "{filter:?}");
        let fits = |e: &LedgerEntry| {
            filter.client.as_ref().is_none_or(|c| *c == e.client)
                && status.is_none_or(|status| status == e.status)
        };
        assert!(some.iter().all(fits), "{filter:?}: {some:?}");
    }
}

pub(crate) async fn rows_are_counted_by_status(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    let counts = async || fixture.ledger.count().await.expect("count answers");
    let expected = |accepted, succeeded, failed| {
        BTreeMap::from([
            ("accepted", accepted),
            ("succeeded", succeeded),
            ("failed", failed),
        ])
    };
    assert_eq!(counts().await, expected(0, 0, 0), "a number for each");
    fixture.succeeded("key-0001").await;
    fixture.failed("key-0002").await;
    fixture.enter(&order("key-0003")).await;
    fixture.enter(&order("key-0004")).await;
    assert_eq!(counts().await, expected(2, 1, 1));
}
