//! Redrives stepped by several at once, beside people who requeue by hand.

use std::sync::Arc;

use consign_kernel::{MessageId, OnDead, Redrive, RedriveState, Store};
use tokio::task::JoinSet;

use super::redrive::{at_rate, everything};
use crate::{
    Harness,
    stage::{PATIENCE, Stage, all, by, ordered, s},
};

use RedriveState::{Done, Running};

pub(crate) async fn another_process_goes_on_where_one_stopped(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let dead = stage.dead(250).await;
    let mut redrive = stage.start(&everything()).await;
    while redrive.state == Running {
        let store = harness.another().await;
        let stepped = store.step_redrive(100).await;
        redrive = stepped.expect("step_redrive answers").expect("a step");
    }
    assert_eq!((redrive.moved, redrive.skipped), (250, 0));
    assert_eq!(stage.drain().await, dead);
}

/// Steps until nothing is left to do; `check` sees every step.
async fn step_on(store: Arc<dyn Store>, limit: u32, check: impl Fn(&Redrive)) {
    loop {
        let stepped = store.step_redrive(limit).await;
        let stepped = stepped.expect("step_redrive answers");
        stepped.iter().for_each(&check);
        let all = store.redrives(10).await.expect("redrives answers");
        if stepped.is_none() && all.iter().all(|redrive| redrive.state == Done) {
            break;
        }
        tokio::task::yield_now().await;
    }
}

/// How often each message was requeued, as recorded.
async fn requeues(stage: &Stage<'_>, id: MessageId) -> usize {
    let audit = stage.store.audit(Some(id), None, 100).await;
    let audit = audit.expect("audit answers");
    audit
        .iter()
        .filter(|entry| entry.action == "requeue")
        .count()
}

pub(crate) async fn many_steppers_move_each_message_once(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let dead = stage.dead(300).await;
    let started = stage.start(&everything()).await;
    let mut tasks = JoinSet::new();
    for n in 0..6 {
        let store = match n % 2 {
            0 => Arc::clone(&stage.store),
            _ => harness.another().await,
        };
        let dead = dead.clone();
        tasks.spawn(step_on(store, 3 + n, move |redrive| {
            let last = dead[redrive.moved as usize - 1];
            assert_eq!(
                redrive.cursor,
                Some(last),
                "one step at a time: {redrive:?}"
            );
        }));
    }
    all(tasks).await;
    let done = stage.store.redrive(started.id).await;
    let done = done.expect("redrive answers").expect("it exists");
    assert_eq!((done.state, done.moved, done.skipped), (Done, 300, 0));
    for id in &dead {
        assert_eq!(requeues(&stage, *id).await, 1, "message {id}");
    }
    assert_eq!(stage.drain().await.len(), 300);
}

pub(crate) async fn many_steppers_keep_the_rate_together(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    stage.dead(60).await;
    let started = stage.start(&at_rate(20)).await;
    for round in 1..=3_u64 {
        stage.advance(s(1)).await;
        let mut tasks = JoinSet::new();
        for n in 0..6 {
            let store = match n % 2 {
                0 => Arc::clone(&stage.store),
                _ => harness.another().await,
            };
            tasks.spawn(async move {
                for _ in 0..8 {
                    store.step_redrive(3).await.expect("step_redrive answers");
                }
            });
        }
        all(tasks).await;
        // A step that meets another one moves nothing, so they may have left something.
        let moved = async || {
            let step = stage.store.step_redrive(3).await;
            step.expect("step_redrive answers");
            let redrive = stage.store.redrive(started.id).await;
            redrive.expect("redrive answers").expect("it exists").moved
        };
        let rest = async { while moved().await < 20 * round {} };
        let in_time = tokio::time::timeout(PATIENCE, rest).await;
        in_time.expect("the rate is reached");
        assert_eq!(moved().await, 20 * round, "exactly the rate");
    }
}

pub(crate) async fn a_redrive_races_people_and_deaths(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Continue)).await;
    let sent = stage.enqueue_groups(&"abcde".repeat(24)).await;
    while let Some(lease) = stage.try_claim(1_000).await {
        stage.bury(&lease, "gone").await;
    }
    let started = stage.start(&everything()).await;
    stage.advance(s(1)).await;
    let mut tasks = JoinSet::new();
    for _ in 0..2 {
        tasks.spawn(step_on(harness.another().await, 5, |_| ()));
    }
    let by_hand = sent.clone();
    let store = harness.another().await;
    tasks.spawn(async move {
        for ids in by_hand.rchunks(6) {
            store.requeue(ids, &by()).await.expect("requeue answers");
        }
    });
    all(tasks).await;
    let done = stage.store.redrive(started.id).await;
    let done = done.expect("redrive answers").expect("it exists");
    assert_eq!(done.moved + done.skipped, 120, "{done:?}");
    for id in &sent {
        assert_eq!(requeues(&stage, *id).await, 1, "message {id}");
    }
    let drained = stage.drain().await;
    assert_eq!(drained.len(), 120);
}
