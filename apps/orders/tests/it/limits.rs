//! Limits per client.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use consign_kernel::ManualClock;
use consign_orders::OrdersOptions;
use jiff::SignedDuration;
use serde_json::json;

use crate::support::{Bench, fixture::Fixture, header, json as body_of, order, place, quick};

/// The first call over the burst is rejected with Retry-After. Invalid calls count too.
#[tokio::test]
async fn a_burst_passes_and_the_next_call_gets_retry_after() {
    let options = OrdersOptions {
        rl_rate_per_min: 1,
        rl_burst: 3,
        ..quick()
    };
    let bench = Bench::new(options).await;
    let first = bench.place("key-0001", &[]).await;
    assert_eq!(first.status, 201);
    assert_eq!(header(&first, "x-ratelimit-limit"), Some("1"));
    assert_eq!(header(&first, "x-ratelimit-remaining"), Some("2"));
    assert_eq!(bench.post("key-0002", "{}").await.status, 422);
    assert_eq!(
        bench.place("key-0001", &[]).await.status,
        200,
        "a repeat counts as well"
    );
    let over = bench.place("key-0003", &[]).await;
    assert_eq!(
        (over.status, &body_of(&over)["error"]),
        (429, &json!("RATE_LIMITED"))
    );
    let retry_after: u64 = header(&over, "retry-after").unwrap().parse().unwrap();
    assert!((50..=60).contains(&retry_after), "{over:?}");
    assert_eq!(body_of(&over)["retry_after"], retry_after);
    assert_eq!(header(&over, "x-ratelimit-remaining"), Some("0"));
    assert_eq!(bench.count("idempo_ledger").await, 1);
}

/// The call after the last of the day, also of another process; refused calls count.
#[tokio::test]
async fn the_daily_quota_is_shared_by_all_processes() {
    let options = OrdersOptions {
        daily_quota: 5,
        ..quick()
    };
    let bench = Bench::new(options).await;
    let other = bench.another_service();
    assert_eq!(bench.place("key-0001", &[]).await.status, 201);
    assert_eq!(bench.post("key-0002", "{}").await.status, 422);
    assert_eq!(
        bench.ledger.quota_calls.load(SeqCst),
        1,
        "a refused call writes nothing"
    );
    assert_eq!(bench.place("key-0003", &[]).await.status, 201);
    let there = place(&other, "key-0004", &order("key-0004", &[]), None).await;
    assert_eq!(there.status, 201);
    assert_eq!(bench.place("key-0005", &[]).await.status, 201, "the fifth");
    for _ in 0..3 {
        let over = bench.place("key-0006", &[]).await;
        assert_eq!(
            (over.status, &body_of(&over)["error"]),
            (429, &json!("RATE_LIMITED"))
        );
        let retry_after: u64 = header(&over, "retry-after").unwrap().parse().unwrap();
        assert!((1..=86_400).contains(&retry_after), "{over:?}");
        let there = place(&other, "key-0007", &order("key-0007", &[]), None).await;
        assert_eq!(there.status, 429);
    }
    assert_eq!(bench.count("idempo_ledger").await, 4);
}

/// Days begin by the ledger's clock. A process whose own is ahead has seen the new day before the
/// ledger had it, and must not take the old one's end for the new one's.
#[tokio::test]
async fn the_daily_quota_starts_anew_with_the_day_of_the_ledger() {
    let clock = ManualClock::at("2026-11-16T23:50:00Z".parse().unwrap());
    let options = OrdersOptions {
        daily_quota: 1,
        ..quick()
    };
    let bench = Bench::with(options, Fixture::default(), Some(clock)).await;
    let other = bench.another_service();
    assert_eq!(bench.place("key-0001", &[]).await.status, 201);
    for _ in 0..3 {
        let over = place(&other, "key-0002", &order("key-0002", &[]), None).await;
        assert_eq!(over.status, 429);
    }
    let clock = bench.clock.as_ref().unwrap();
    clock.advance(SignedDuration::from_mins(20));
    let over = place(&other, "key-0002", &order("key-0002", &[]), None).await;
    assert_eq!(over.status, 429, "the ledger is not read again at once");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(61)).await;
    tokio::time::resume();
    let passed = place(&other, "key-0002", &order("key-0002", &[]), None).await;
    assert_eq!(passed.status, 201);
}

#[tokio::test]
async fn a_large_day_is_taken_in_chunks() {
    let options = OrdersOptions {
        daily_quota: 1_000,
        ..quick()
    };
    let bench = Bench::new(options).await;
    for number in 0..25 {
        let key = format!("key-{number:04}");
        assert_eq!(bench.place(&key, &[]).await.status, 201);
    }
    assert_eq!(bench.ledger.quota_calls.load(SeqCst), 3, "of ten each");
}

#[tokio::test]
async fn an_unavailable_quota_rejects_every_call() {
    let options = OrdersOptions {
        daily_quota: 5,
        ..quick()
    };
    let bench = Bench::new(options).await;
    bench.ledger.fail("take_quota", 1);
    assert_eq!(bench.place("key-0001", &[]).await.status, 503);
    assert_eq!(bench.place("key-0001", &[]).await.status, 201);
}
