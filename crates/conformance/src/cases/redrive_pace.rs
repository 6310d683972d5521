//! How fast a redrive goes, and when it rests.

use std::time::Duration;

use consign_kernel::{QueueName, Redrive, RedrivePlan, RedriveState};
use jiff::SignedDuration;

use super::redrive::{at_rate, everything};
use crate::{
    Harness,
    stage::{Stage, by, policy, s},
};

use RedriveState::{Done, Running, Stopped};

pub(crate) async fn a_redrive_keeps_its_rate(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    stage.dead(100).await;
    let started = stage.start(&at_rate(10)).await;
    stage
        .step_nothing("its allowance grows from the start")
        .await;
    stage.advance(Duration::from_millis(99)).await;
    stage.step_nothing("not yet one").await;
    stage.advance(Duration::from_millis(1)).await;
    let r = stage.step_moving(&started, 1_000, 1).await;
    stage.step_nothing("used up").await;
    stage.advance(Duration::from_millis(450)).await;
    let r = stage.step_moving(&r, 3, 3).await;
    let r = stage.step_moving(&r, 1_000, 1).await;
    stage.step_nothing("half a message").await;
    stage.advance(Duration::from_millis(50)).await;
    let r = stage.step_moving(&r, 1_000, 1).await;
    stage.advance(s(3_600)).await;
    let r = stage.step_moving(&r, 1_000, 10).await;
    stage
        .step_nothing("one second's worth is kept at most")
        .await;
    stage.advance(s(1)).await;
    stage.step_moving(&r, 1_000, 10).await;
}

pub(crate) async fn a_rate_that_divides_unevenly_is_kept(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    stage.dead(40).await;
    let mut redrive = stage.start(&at_rate(7)).await;
    for ms in (10..=4_000).step_by(190) {
        stage.advance(Duration::from_millis(190)).await;
        if let Some(after) = stage.step(1_000).await {
            redrive = after;
        }
        let most = 7 * (ms + 180) / 1_000;
        assert!(redrive.moved <= most, "{redrive:?} after {ms} ms");
        assert!(redrive.moved + 1 >= most, "{redrive:?} after {ms} ms");
    }
}

pub(crate) async fn a_rate_is_kept_to_the_microsecond(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    stage.dead(4).await;
    let started = stage.start(&at_rate(3)).await;
    let us = Duration::from_micros;
    stage.advance(us(333_333)).await;
    stage
        .step_nothing("a third of a second is a little longer")
        .await;
    stage.advance(us(1)).await;
    let r = stage.step_moving(&started, 1, 1).await;
    stage.advance(us(333_333)).await;
    stage.step_nothing("what was used is rounded up").await;
    stage.advance(us(1)).await;
    stage.step_moving(&r, 1, 1).await;
}

pub(crate) async fn a_clock_set_back_does_not_stall_a_redrive(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    stage.dead(4).await;
    let started = stage.start(&at_rate(2)).await;
    stage.advance(s(1)).await;
    let r = stage.step_moving(&started, 1_000, 2).await;
    harness.advance(SignedDuration::from_hours(-2)).await;
    stage.step_nothing("no time has passed").await;
    stage.advance(s(1)).await;
    let r = stage.step_moving(&r, 1_000, 2).await;
    assert_eq!(r.state, Done);
}

pub(crate) async fn a_stopped_redrive_waits_until_it_is_resumed(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let dead = stage.dead(30).await;
    let started = stage.start(&at_rate(10)).await;
    stage.advance(s(1)).await;
    let r = stage.step_moving(&started, 4, 4).await;
    stage.advance(s(1)).await;
    let stopped = stage.store.stop_redrive(r.id, &by()).await;
    let stopped = stopped.expect("stop_redrive answers");
    let expected = Redrive {
        state: Stopped,
        updated_at: stage.now().await,
        ..r
    };
    assert_eq!(stopped, expected);
    stage.advance(s(60)).await;
    stage.step_nothing("it is stopped").await;
    let again = stage.store.stop_redrive(stopped.id, &by()).await;
    assert_eq!(again.expect("stop_redrive answers"), stopped, "no change");
    let resumed = stage.store.resume_redrive(stopped.id, &by()).await;
    let resumed = resumed.expect("resume_redrive answers");
    assert_eq!((resumed.state, resumed.moved), (Running, 4));
    stage.step_nothing("its allowance grows from here").await;
    stage.advance(s(1)).await;
    let r = stage.step_moving(&resumed, 1_000, 10).await;
    assert_eq!(r.cursor, Some(dead[13]), "from where it was");
    stage.advance(s(1)).await;
    let again = stage.store.resume_redrive(r.id, &by()).await;
    assert_eq!(again.expect("resume_redrive answers"), r, "it runs already");
    let r = stage.step_moving(&r, 1_000, 10).await;
    stage.advance(s(1)).await;
    let done = stage.step_moving(&r, 1_000, 6).await;
    assert_eq!(done.state, Done);
    for answer in [
        stage.store.stop_redrive(done.id, &by()).await,
        stage.store.resume_redrive(done.id, &by()).await,
    ] {
        assert_eq!(answer.expect("an answer"), done, "done is done");
    }
}

pub(crate) async fn a_slow_redrive_does_not_hold_up_another(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let other = stage.add_queue("other", &policy()).await;
    stage.dead(3).await;
    stage.dead_in(&other, 3, "gone").await;
    let of = |queue: &QueueName, plan: RedrivePlan| RedrivePlan {
        queue: Some(queue.clone()),
        ..plan
    };
    let slow = stage.start(&of(&stage.queue, at_rate(1))).await;
    let quick = stage.start(&of(&other, everything())).await;
    let quick = stage.step_moving(&quick, 2, 2).await;
    stage.advance(s(1)).await;
    // Who has waited longest comes first.
    let slow = stage.step_moving(&slow, 1_000, 1).await;
    let quick = stage.step_moving(&quick, 1_000, 1).await;
    assert_eq!((slow.state, quick.state), (Running, Done));
    stage.step_nothing("the slow one rests").await;
}
