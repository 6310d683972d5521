//! Keys whose time is over.

use std::sync::Arc;

use consign_kernel::ManualClock;
use consign_orders::{Ledger, purge_loop};
use consign_testkit::eventually;
use jiff::SignedDuration;

use crate::support::{Bench, SOON, fixture::Fixture, quick};

/// Row and message go together, and not while the order is alive.
#[tokio::test]
async fn a_purge_removes_expired_final_orders_only() {
    let clock = ManualClock::at("2026-11-16T00:00:00Z".parse().unwrap());
    let bench = Bench::with(quick(), Fixture::default(), Some(clock)).await;
    for number in 0..3 {
        let key = format!("key-{number:04}");
        bench.place(&key, &[]).await;
        bench.work_off(&key).await;
    }
    bench.place("key-live", &[]).await;
    bench
        .clock
        .as_ref()
        .unwrap()
        .advance(SignedDuration::from_hours(49));
    let ledger: Arc<dyn Ledger> = bench.ledger.clone();
    let task = tokio::spawn(purge_loop(ledger, bench.options.clone()));
    eventually("the old ones are gone", SOON, async || {
        bench.count("idempo_ledger").await == 1
    })
    .await;
    task.abort();
    assert!(bench.entry("key-live").await.is_some());
    assert_eq!(bench.count("message").await, 1);
    let again = bench.place("key-0000", &["another body"]).await;
    assert_eq!(again.status, 201, "a forgotten key is new: {again:?}");
    bench.is_sound().await;
}
