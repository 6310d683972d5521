//! Waiting: what becomes due earlier than a wait under way knew ends it.

use std::{pin::pin, sync::Arc, time::Duration};

use consign_kernel::{Claim, Lease, OnDead, Outcome, Report, Store};
use tokio::time::timeout;

use crate::{
    Harness,
    stage::{Stage, ids, ordered, s, settled},
};

/// How long the waits last unless something ends them.
const LONG: Duration = Duration::from_secs(60);
/// Far less than that, and far more than a busy machine needs.
const SOON: Duration = Duration::from_secs(20);
/// A wait that has not ended by then has looked, and found nothing.
const BEGUN: Duration = Duration::from_millis(300);

/// Starts a wait, has another instance `act`, then lets `pass` go by; the wait must end.
async fn ended_by(stage: &Stage<'_>, act: impl AsyncFnOnce(), pass: Duration) {
    let mut wait = pin!(stage.store.wait(&stage.queue, LONG));
    // A store that cannot wait answers at once, and its worker polls.
    if timeout(BEGUN, wait.as_mut()).await.is_ok() {
        return;
    }
    act().await;
    stage.advance(pass).await;
    let answer = timeout(SOON, wait).await.expect("the wait ends");
    assert!(answer.expect("wait answers"), "because something is due");
    stage.claim(1).await;
}

async fn claimed_by(other: &Arc<dyn Store>, stage: &Stage<'_>) -> Lease {
    let claim = Claim::new(stage.queue.clone(), "other", 1);
    let lease = other.claim(&claim).await.expect("claim answers");
    lease.expect("something to claim")
}

async fn settle(other: &Arc<dyn Store>, lease: &Lease, outcome: Outcome) {
    let report = Report::new(ids(lease)[0], outcome);
    let answer = other.settle(lease.token, &[report]).await;
    settled(answer.expect("settle answers"));
}

pub(crate) async fn an_enqueue_ends_a_wait(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let other = harness.another().await;
    let act = async || {
        other.enqueue(&[stage.message(0)]).await.expect("enqueued");
    };
    ended_by(&stage, act, s(0)).await;
}

pub(crate) async fn a_delayed_enqueue_ends_a_wait_when_it_is_due(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let other = harness.another().await;
    let delayed = stage.message(0).with_delay(s(1));
    let act = async || {
        other.enqueue(&[delayed]).await.expect("enqueued");
    };
    ended_by(&stage, act, s(1)).await;
}

pub(crate) async fn a_retry_ends_a_wait_when_it_is_due(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let other = harness.another().await;
    stage.enqueue_one().await;
    let lease = claimed_by(&other, &stage).await;
    let act = async || settle(&other, &lease, Outcome::Retry).await;
    ended_by(&stage, act, s(2)).await;
}

pub(crate) async fn a_promotion_ends_a_wait(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    let other = harness.another().await;
    stage.enqueue_groups("aa").await;
    let lease = claimed_by(&other, &stage).await;
    let act = async || settle(&other, &lease, Outcome::Delivered).await;
    ended_by(&stage, act, s(0)).await;
}
