//! Retention: totals that never go backwards, and samples of the history.

use consign_kernel::{Error, Growth, Outcome, Period, QueueHistory, Refusal, Step, Token};
use uuid::Uuid;

use super::retention::keeping;
use crate::{
    Harness,
    stage::{Maintenance, Stage, by, done, s},
};

/// Enqueued, delivered, dead, departed.
fn totals(history: &QueueHistory) -> [u64; 4] {
    [
        history.enqueued,
        history.delivered,
        history.dead,
        history.departed,
    ]
}

impl Stage<'_> {
    async fn totals(&self) -> [u64; 4] {
        totals(&self.history_of(&self.queue).await)
    }

    async fn growth(&self) -> Growth {
        self.store.growth().await.expect("growth answers")
    }
}

impl Maintenance {
    async fn record(&self, end: &str) {
        self.renew().await;
        done(self.store.record_pass(self.token, end).await);
    }
}

pub(crate) async fn totals_count_what_is_there_and_what_has_left(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(0), Some(60))).await;
    let maintenance = stage.maintenance().await;
    assert_eq!(stage.totals().await, [0; 4]);
    stage.delivered(3).await;
    stage.dead(2).await;
    stage.enqueue_one().await;
    stage.claim(1).await;
    stage.enqueue(4).await;
    assert_eq!(stage.totals().await, [10, 3, 2, 0]);
    assert_eq!(maintenance.leave().await, 3);
    assert_eq!(stage.totals().await, [10, 3, 2, 3]);
    stage.advance(s(60)).await;
    assert_eq!(maintenance.leave().await, 2);
    assert_eq!(stage.totals().await, [10, 3, 2, 5]);
    // Closed ranges are counted once, where there are ranges: nothing is counted twice.
    for _ in 0..2 {
        maintenance.record("done").await;
        assert_eq!(stage.totals().await, [10, 3, 2, 5]);
    }
    stage.delivered_after_all().await;
    assert_eq!(stage.totals().await, [10, 8, 2, 5]);
    assert_eq!(maintenance.leave().await, 5);
    assert_eq!(stage.totals().await, [10, 8, 2, 10]);
}

impl Stage<'_> {
    /// Ends the leases and delivers everything.
    async fn delivered_after_all(&self) {
        self.advance(s(1_000)).await;
        self.drain().await;
        self.drain().await;
    }
}

pub(crate) async fn deaths_stay_in_the_totals_after_a_requeue(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(0), Some(0))).await;
    let maintenance = stage.maintenance().await;
    let dead = stage.dead(2).await;
    assert_eq!(stage.totals().await, [2, 0, 2, 0]);
    for _ in 0..2 {
        let requeued = stage.store.requeue(&dead, &by()).await;
        requeued.expect("requeue answers");
    }
    assert_eq!(stage.totals().await, [2, 0, 2, 0], "the second moved none");
    let lease = stage.claim(2).await;
    stage.report(&lease, dead[0], Outcome::Dead).await;
    stage.report(&lease, dead[1], Outcome::Delivered).await;
    assert_eq!(stage.totals().await, [2, 1, 3, 0], "one died twice");
    assert_eq!(maintenance.leave().await, 2);
    assert_eq!(stage.totals().await, [2, 1, 3, 2]);
}

pub(crate) async fn the_totals_of_a_queue_never_go_backwards(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(20), Some(40))).await;
    let maintenance = stage.maintenance().await;
    let mut before = [0; 4];
    for round in 0..5_usize {
        stage.enqueue(6).await;
        let lease = stage.claim(1_000).await;
        for (n, message) in lease.messages.iter().enumerate() {
            let outcome = match (n + round) % 3 {
                0 => Outcome::Dead,
                1 => Outcome::Retry,
                _ => Outcome::Delivered,
            };
            stage.report(&lease, message.message.id, outcome).await;
        }
        before = no_less(before, stage.totals().await);
        let filter = consign_kernel::Filter::default();
        let dead = stage.store.dead(&filter, None, 2).await;
        let dead = dead.expect("dead answers").items;
        let dead: Vec<_> = dead.iter().map(|letter| letter.message_id).collect();
        let requeued = stage.store.requeue(&dead, &by()).await;
        requeued.expect("requeue answers");
        before = no_less(before, stage.totals().await);
        maintenance.leave().await;
        before = no_less(before, stage.totals().await);
        maintenance.record("done").await;
        before = no_less(before, stage.totals().await);
        stage.advance(s(15)).await;
    }
    assert_eq!(before[0], 30);
    assert!(before[3] > 0, "some have left");
}

#[track_caller]
fn no_less(before: [u64; 4], after: [u64; 4]) -> [u64; 4] {
    let is_less = before
        .iter()
        .zip(&after)
        .any(|(before, after)| after < before);
    assert!(!is_less, "{after:?} after {before:?}");
    after
}

pub(crate) async fn a_pass_is_recorded_with_its_end(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let maintenance = stage.maintenance().await;
    assert_eq!(stage.growth().await, Growth::default());
    let mut since = stage.now().await;
    for (end, passes, ends) in [
        ("done", 1, &["done"][..]),
        ("locked", 1, &["locked"]),
        ("locked", 2, &["locked"]),
        ("changed", 3, &["locked", "changed"]),
        ("locked", 4, &["locked", "changed"]),
        ("done", 1, &["done"]),
        ("done", 2, &["done"]),
    ] {
        stage.advance(s(10)).await;
        maintenance.record(end).await;
        let pass = stage.growth().await.pass.expect("a pass was recorded");
        if passes == 1 {
            since = stage.now().await;
        }
        assert_eq!((pass.end.as_str(), pass.passes), (end, passes));
        assert_eq!(pass.ends, ends);
        assert_eq!((pass.at, pass.since), (stage.now().await, since));
    }
}

pub(crate) async fn only_the_maintenance_records_a_pass(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let stranger = Token(Uuid::from_u64_pair(7, 7));
    let recorded = stage.store.record_pass(stranger, "done").await;
    let recorded = recorded.expect("record_pass answers");
    assert_eq!(recorded, Step::Refused(Refusal::LeaseLost));
    assert_eq!(stage.growth().await, Growth::default());
    let maintenance = stage.maintenance().await;
    for end in [String::new(), "x".repeat(65), "a\nb".to_owned()] {
        let refused = stage.store.record_pass(maintenance.token, &end).await;
        assert!(
            matches!(refused, Err(Error::InvalidInput { .. })),
            "{end:?}"
        );
    }
}

pub(crate) async fn samples_show_how_a_queue_grows(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(0), None)).await;
    let maintenance = stage.maintenance().await;
    stage.delivered(2).await;
    maintenance.record("done").await;
    let growth = stage.growth().await;
    assert_eq!(
        growth.of_queue(&stage.queue, Period::Day),
        None,
        "one sample"
    );
    stage.advance(s(12 * 3_600)).await;
    stage.delivered(10).await;
    assert_eq!(maintenance.leave().await, 12);
    let staying = stage.enqueue(10).await;
    maintenance.record("done").await;
    let growth = stage.growth().await;
    for period in [Period::Day, Period::Week] {
        let of_queue = growth.of_queue(&stage.queue, period).expect("two samples");
        assert_eq!(of_queue.messages, 40, "20 in 12 hours, some of them gone");
        assert!(of_queue.bytes > 0);
        assert!(growth.of_database(period).is_some());
    }
    let sample = growth.now.expect("a sample was taken");
    assert_eq!(sample.at, stage.now().await);
    assert!(sample.size.bytes > 0 && sample.size.history_bytes > 0);
    let queue = sample.queue(&stage.queue).expect("the queue is sampled");
    assert_eq!((queue.messages, queue.oldest_id), (10, Some(staying[0])));
    assert_eq!(queue.oldest_at, Some(stage.now().await));
    assert!(queue.bytes > 0);
    let all = (queue.enqueued, queue.delivered, queue.dead, queue.departed);
    assert_eq!(all, (22, 12, 0, 12));
}

pub(crate) async fn of_an_hour_the_last_sample_stays(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let maintenance = stage.maintenance().await;
    // To the beginning of an hour.
    let into = stage
        .now()
        .await
        .as_second()
        .rem_euclid(3_600)
        .unsigned_abs();
    stage.advance(s(3_600 - into)).await;
    maintenance.record("done").await;
    stage.advance(s(3_599)).await;
    stage.enqueue(3).await;
    maintenance.record("done").await;
    let hour_end = stage.now().await;
    stage.advance(s(3_601)).await;
    maintenance.record("done").await;
    let growth = stage.growth().await;
    assert_eq!(growth.day.map(|sample| sample.at), Some(hour_end));
    // Set back, the clock makes the samples after it those of the future.
    let set_back = jiff::SignedDuration::from_secs(-3_601);
    stage.harness.advance(set_back).await;
    maintenance.record("done").await;
    let growth = stage.growth().await;
    assert_eq!(growth.now.map(|sample| sample.at), Some(hour_end));
}

pub(crate) async fn samples_are_kept_for_a_week(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let maintenance = stage.maintenance().await;
    let mut taken = Vec::new();
    for _ in 0..12 {
        maintenance.record("done").await;
        taken.push(stage.now().await);
        stage.advance(s(20 * 3_600)).await;
    }
    let growth = stage.growth().await;
    let at = [growth.now, growth.day, growth.week].map(|sample| sample.map(|sample| sample.at));
    // 20 hours ago, and 160.
    assert_eq!(at, [Some(taken[11]), Some(taken[10]), Some(taken[3])]);
    stage.advance(s(30 * 24 * 3_600)).await;
    maintenance.record("done").await;
    let growth = stage.growth().await;
    let now = Some(stage.now().await);
    let at = [growth.now, growth.day, growth.week].map(|sample| sample.map(|sample| sample.at));
    assert_eq!(at, [now; 3]);
}
