//! Send slots: times that all processes together keep a queue's rate by.

use std::{sync::Arc, time::Duration};

use consign_kernel::{QueuePolicy, SendSlots, Store};
use jiff::Timestamp;

use crate::{
    Harness,
    stage::{Stage, policy, s},
};

/// 97 % of one per second.
const APART: Duration = Duration::from_micros(1_030_928);

async fn of_one_per_second<'h>(harness: &'h dyn Harness) -> Stage<'h> {
    let rules = QueuePolicy {
        total_rate_per_second: Some(1),
        ..policy()
    };
    Stage::with(harness, rules).await
}

async fn reserve(stage: &Stage<'_>, store: &Arc<dyn Store>, count: u32) -> SendSlots {
    let slots = store.reserve_slots(&stage.queue, count).await;
    let slots = slots.expect("reserve_slots answers");
    slots.expect("the queue has a rate")
}

/// The times of slots must be in their order and apart.
#[track_caller]
fn are_apart(times: &[Timestamp]) {
    for pair in times.windows(2) {
        let apart = pair[1].duration_since(pair[0]);
        assert!(apart.as_micros() >= 1_030_928, "{apart} between {pair:?}");
    }
}

/// However many are asked for, by however many processes.
pub(crate) async fn slots_stay_apart_however_many_are_asked_for(harness: &dyn Harness) {
    let stage = of_one_per_second(harness).await;
    let stores = [harness.store(), harness.another().await];
    let (mut times, mut calls) = (Vec::new(), 0);
    let began = stage.now().await;
    for round in 0..5 {
        for n in 0..80 {
            let slots = reserve(&stage, &stores[n % 2], 1).await;
            assert_eq!(slots.now, stage.now().await);
            calls += 1;
            if slots.count == 0 {
                assert!(slots.first_at > slots.now, "when to call again: {slots:?}");
                // Nothing is free before then.
                let early = reserve(&stage, &stores[0], 1).await;
                assert_eq!((early.count, early.first_at), (0, slots.first_at));
                break;
            }
            times.push(slots.at(0));
        }
        stage.advance(s(round)).await;
    }
    are_apart(&times);
    assert!(calls > times.len(), "no more than a few seconds ahead");
    let ahead = times.last().expect("some").duration_since(began);
    assert!(ahead.as_secs() <= 6 + 6, "{ahead}: six seconds went by");
}

pub(crate) async fn a_full_reservation_names_when_to_call_again(harness: &dyn Harness) {
    let stage = of_one_per_second(harness).await;
    let mut times = Vec::new();
    while times.len() < 12 {
        let slots = reserve(&stage, &stage.store, 1).await;
        if slots.count == 0 {
            let wait = slots.first_at.duration_since(slots.now);
            stage.advance(wait.unsigned_abs()).await;
        }
        times.extend((0..slots.count).map(|nth| slots.at(nth)));
    }
    are_apart(&times);
    let took = times[11].duration_since(times[0]);
    assert_eq!(took.unsigned_abs(), 11 * APART, "none is left out");
}

/// The slots handed out before are as far ahead as they were, in the new time.
pub(crate) async fn a_clock_set_back_hands_out_no_slot_twice(harness: &dyn Harness) {
    let stage = of_one_per_second(harness).await;
    let first = reserve(&stage, &stage.store, 1).await;
    assert_eq!((first.first_at, first.count), (first.now, 1));
    harness.advance(jiff::SignedDuration::from_hours(-1)).await;
    let second = reserve(&stage, &stage.store, 1).await;
    assert_eq!(second.now, stage.now().await);
    assert_eq!(second.count, 1, "no waiting for an hour");
    let ahead = second.first_at.duration_since(second.now);
    assert_eq!(ahead.unsigned_abs(), APART);
}
