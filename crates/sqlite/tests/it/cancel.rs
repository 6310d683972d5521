//! Futures dropped halfway leave neither an open transaction nor half a change.

use std::time::Duration;

use consign_kernel::Counts;
use consign_kernel::prelude::*;
use tokio::time::timeout;

use crate::harness::{claim, drain, fixture, messages};

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_operation_leaves_nothing_half_done() {
    let bench = fixture().await;
    let batch = messages(50);
    // Each operation is dropped a little later than the one before: at every await in turn.
    for step in 0..200 {
        let patience = Duration::from_micros(step * 20);
        drop(timeout(patience, bench.store.enqueue(&batch)).await);
        drop(timeout(patience, bench.store.claim(&claim(10))).await);
        drop(timeout(patience, bench.store.expire(10)).await);
    }
    let counts: Counts = bench.store.queues(None, 1_000).await.unwrap()[0].1;
    assert_eq!(counts.unfinished() % 50, 0, "whole batches: {counts:?}");
    assert_eq!(bench.store.doctor().await.unwrap(), []);

    // Another instance gets the write lock at once.
    let options = bench.options().busy_timeout(Duration::from_millis(500));
    let other = consign_sqlite::SqliteStore::open(&options).await.unwrap();
    other.enqueue(&messages(50)).await.unwrap();

    // What dropped claims had leased comes back, and everything is delivered once.
    bench.clock.advance(jiff::SignedDuration::from_mins(1));
    let total = bench.store.queues(None, 1_000).await.unwrap()[0]
        .1
        .unfinished();
    let mut seen = drain(&bench.store, 100).await;
    assert_eq!(seen.len() as u64, total);
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len() as u64, total, "no message twice");
}
