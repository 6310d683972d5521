//! Calls by the day.

use std::sync::Arc;

use consign_conformance::stage::all;
use jiff::{ToSpan, tz::TimeZone};
use tokio::task::JoinSet;

use super::LedgerHarness;
use super::fixture::{OrdersFixture, client};

async fn take(fixture: &OrdersFixture<'_>, name: &str, want: u32, per_day: u32) -> u32 {
    let got = fixture
        .ledger
        .take_quota(&client(name), want, per_day)
        .await;
    got.expect("take_quota answers")
}

pub(crate) async fn a_quota_is_taken_until_it_is_used_up(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    // Requested calls, the limit, granted calls.
    for (want, per_day, got) in [
        (0, 100, 0),
        (40, 100, 40),
        (40, 100, 40),
        (40, 100, 20),
        (1, 100, 0),
        (1, 101, 1),
        (5, 90, 0),
        (u32::MAX, u32::MAX, u32::MAX - 101),
        (1, u32::MAX, 0),
    ] {
        let answer = take(&fixture, "desk-1", want, per_day).await;
        assert_eq!(answer, got, "{want} of {per_day}");
    }
}

/// Days are UTC's, and the database's.
pub(crate) async fn a_quota_is_of_one_client_and_one_day(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    assert_eq!(take(&fixture, "desk-1", 9, 10).await, 9);
    assert_eq!(take(&fixture, "desk-2", 9, 10).await, 9);
    let now = fixture.stage.now().await;
    let today = now.to_zoned(TimeZone::UTC).date();
    let midnight = today.checked_add(1.day()).expect("a tomorrow");
    let midnight = midnight.to_zoned(TimeZone::UTC).expect("a midnight");
    let until_midnight = midnight.timestamp().duration_since(now);
    let second = jiff::SignedDuration::from_secs(1);
    harness.advance(until_midnight - second).await;
    assert_eq!(take(&fixture, "desk-1", 9, 10).await, 1, "still today");
    harness.advance(second).await;
    assert_eq!(take(&fixture, "desk-1", 9, 10).await, 9, "tomorrow");
    assert_eq!(take(&fixture, "desk-2", 11, 10).await, 10);
}

pub(crate) async fn a_quota_taken_at_once_is_never_exceeded(harness: &dyn LedgerHarness) {
    let fixture = OrdersFixture::new(harness).await;
    let another = harness.another_ledger().await;
    let mut tasks = JoinSet::new();
    for n in 0..20 {
        let ledger = Arc::clone(if n % 2 == 0 {
            &fixture.ledger
        } else {
            &another
        });
        tasks.spawn(async move {
            let got = ledger.take_quota(&client("desk-1"), 7, 100).await;
            got.expect("take_quota answers")
        });
    }
    assert_eq!(all(tasks).await.iter().sum::<u32>(), 100);
}
