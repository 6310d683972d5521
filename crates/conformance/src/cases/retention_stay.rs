//! What stays when others leave: how much of it there is, and what happens to it meanwhile.

use std::sync::Arc;

use consign_kernel::{QueuePolicy, Record, Report, StateKind};

use super::{retention::keeping, retention_steps::record};
use crate::{
    Harness,
    stage::{Stage, by, s},
};

/// Another queue on the stage.
async fn beside<'h>(stage: &Stage<'h>, name: &str, policy: &QueuePolicy) -> Stage<'h> {
    Stage {
        harness: stage.harness,
        store: Arc::clone(&stage.store),
        queue: stage.add_queue(name, policy).await,
    }
}

pub(crate) async fn a_queue_that_keeps_everything_holds_no_other_back(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(60), None)).await;
    let maintenance = stage.maintenance().await;
    let kept = beside(&stage, "kept", &QueuePolicy::default()).await;
    let (mut sent, mut stay) = (Vec::new(), Vec::new());
    for _ in 0..11 {
        stay.extend(kept.delivered(100).await);
        sent.extend(stage.delivered(20).await);
    }
    let unfinished = stage.message(0).with_delay(s(3_600));
    stay.extend(stage.enqueue_all(&[unfinished]).await);
    stage.advance(s(60)).await;
    assert_eq!(maintenance.leave().await, 220);
    assert_eq!(stage.existing(&sent).await, []);
    assert_eq!(stage.existing(&stay).await, stay);
    assert_eq!(kept.history_of(&kept.queue).await.messages, 1_100);
    assert_eq!(stage.history_of(&stage.queue).await.messages, 1);
    let findings = stage.store.doctor().await.expect("doctor answers");
    assert_eq!(findings, []);
    stage.add_queue("kept", &keeping(Some(60), None)).await;
    assert_eq!(maintenance.leave().await, 1_100);
    assert_eq!(stage.existing(&stay).await, stay[1_100..]);
}

pub(crate) async fn what_happens_to_what_stays_meanwhile_is_kept(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(60), Some(6_000))).await;
    let maintenance = stage.maintenance().await;
    let store = &stage.store;
    let sent = stage.delivered(2).await;
    let dead = stage.dead(3).await;
    let lost_one = stage.enqueue_one().await;
    let lost = stage.claim(1).await;
    stage.crash().await;
    let ready = stage.message(0).with_delay(s(30));
    let ready = stage.enqueue_all(&[ready]).await[0];
    stage.advance(s(60)).await;
    let departure = maintenance.begin_of(2).await;
    maintenance.archive(&departure).await;

    let moved = store.requeue(&dead[..1], &by()).await;
    moved.expect("requeue answers");
    let revealed = store.reveal(dead[1], &by()).await;
    assert!(revealed.expect("reveal answers").is_some());
    let late = [Report::delivered(lost_one)];
    let kept = store.record_late(lost.token, &late).await;
    assert_eq!(kept.expect("record_late answers"), [lost_one]);
    let mut drained = stage.drain().await;
    drained.sort_unstable();
    assert_eq!(drained, [dead[0], lost_one, ready]);
    let all = [dead[0], dead[1], dead[2], lost_one, ready];
    let mut before: Vec<Record> = Vec::new();
    for id in all {
        before.push(record(&stage, id).await);
    }
    assert_eq!(before[0].attempts.len(), 2);
    assert_eq!(before[1].audit.len(), 1);
    assert_eq!(before[3].late.len(), 1);

    assert_eq!(maintenance.depart(&departure).await, 2);
    assert_eq!(stage.existing(&sent).await, []);
    use StateKind::{Dead, Delivered};
    let expected = [Delivered, Dead, Dead, Delivered, Delivered];
    assert_eq!(stage.kinds(&all).await, expected);
    for (id, before) in all.into_iter().zip(before) {
        assert_eq!(record(&stage, id).await, before);
    }
    let findings = store.doctor().await.expect("doctor answers");
    assert_eq!(findings, []);
}
