//! Limits that all processes of a queue share: messages leased at once, and send slots.

use consign_kernel::{Claim, QueuePolicy, SendSlots};
use jiff::SignedDuration;
use tokio::task::JoinSet;

use crate::{
    Harness,
    stage::{Stage, TTL, all, ids, policy, queue, refused, s},
};

fn at_once(most: u32) -> QueuePolicy {
    QueuePolicy {
        total_concurrency: Some(most),
        ..policy()
    }
}

fn at_rate(rate: u32) -> QueuePolicy {
    QueuePolicy {
        total_rate_per_second: Some(rate),
        ..policy()
    }
}

/// Reserves slots of the stage's queue, which must have a rate.
async fn reserve(stage: &Stage<'_>, count: u32) -> SendSlots {
    let slots = stage.store.reserve_slots(&stage.queue, count).await;
    slots
        .expect("reserve_slots answers")
        .expect("the queue has a rate")
}

pub(crate) async fn no_more_messages_are_leased_than_the_queue_allows(harness: &dyn Harness) {
    let stage = Stage::with(harness, at_once(3)).await;
    stage.enqueue(9).await;
    let first = stage.claim(2).await;
    assert_eq!(ids(&first).len(), 2);
    let second = stage.claim(5).await;
    assert_eq!(ids(&second).len(), 1, "one is left of three");
    stage.claim_nothing("three are leased").await;
    stage.deliver(&first).await;
    assert_eq!(ids(&stage.claim(5).await).len(), 2, "two have ended");
    let other = stage.add_queue("other", &at_once(3)).await;
    let message = consign_kernel::NewMessage::new(other.clone(), serde_json::json!(1));
    stage.enqueue_all(&[message]).await;
    let claim = Claim::new(other, "worker-1", 1);
    let lease = stage.store.claim(&claim).await.expect("claim answers");
    assert!(lease.is_some(), "each queue counts for itself");
}

pub(crate) async fn what_expires_or_is_released_counts_no_more(harness: &dyn Harness) {
    let stage = Stage::with(harness, at_once(2)).await;
    stage.enqueue(4).await;
    let lease = stage.claim(2).await;
    let released = stage.store.release(lease.token).await;
    released.expect("release answers");
    stage.claim(2).await;
    stage.claim_nothing("two are leased").await;
    stage.advance(TTL).await;
    // What comes back from an expiry is leased alone.
    assert_eq!(ids(&stage.claim(2).await).len(), 2, "both have expired");
}

pub(crate) async fn a_limit_of_all_processes_follows_the_policy(harness: &dyn Harness) {
    let stage = Stage::with(harness, at_once(1)).await;
    stage.enqueue(6).await;
    stage.claim(5).await;
    stage.claim_nothing("one is leased").await;
    stage.add_queue("mail", &at_once(3)).await;
    assert_eq!(ids(&stage.claim(5).await).len(), 2, "three by now");
    stage.add_queue("mail", &at_once(2)).await;
    stage.claim_nothing("three are leased, one too many").await;
    stage.add_queue("mail", &policy()).await;
    assert_eq!(ids(&stage.claim(5).await).len(), 3, "no limit any more");
}

pub(crate) async fn many_claimers_keep_the_limit_together(harness: &dyn Harness) {
    const MOST: usize = 8;
    let stage = Stage::with(harness, at_once(8)).await;
    stage.enqueue(200).await;
    let mut workers = JoinSet::new();
    for worker in 0..4 {
        let (store, queue) = (harness.another().await, stage.queue.clone());
        workers.spawn(async move {
            let mut leases = Vec::new();
            for _ in 0..10 {
                let claim = Claim::new(queue.clone(), format!("worker-{worker}"), 3);
                leases.extend(store.claim(&claim).await.expect("claim answers"));
            }
            leases
                .iter()
                .map(|lease| lease.messages.len())
                .sum::<usize>()
        });
    }
    let leased: usize = all(workers).await.into_iter().sum();
    assert_eq!(leased, MOST, "nothing was settled meanwhile");
}

pub(crate) async fn send_slots_follow_each_other_at_the_rate(harness: &dyn Harness) {
    let stage = Stage::with(harness, at_rate(10)).await;
    let first = reserve(&stage, 3).await;
    assert_eq!((first.first_at, first.count), (first.now, 3));
    assert!(first.apart_us >= 100_000, "10/s: {}", first.apart_us);
    let second = reserve(&stage, 2).await;
    assert_eq!(second.first_at, first.at(3), "after those of the first");
    assert_eq!(second.now, first.now, "the clock stands still");
    stage.advance(s(60)).await;
    let rested = reserve(&stage, 1).await;
    assert_eq!(rested.first_at, rested.now, "no slots are saved up");
    let hasty = reserve(&stage, 1_000).await;
    assert!(hasty.count <= 5, "half a second's worth: {}", hasty.count);
}

pub(crate) async fn send_slots_follow_the_policy_and_the_clock(harness: &dyn Harness) {
    let stage = Stage::with(harness, at_rate(1)).await;
    let slow = reserve(&stage, 1).await;
    stage.add_queue("mail", &at_rate(1_000)).await;
    let fast = reserve(&stage, 2).await;
    assert_eq!(fast.first_at, slow.at(1), "what was reserved stays");
    assert!(fast.apart_us < 2_000, "1000/s: {}", fast.apart_us);
    stage.harness.advance(SignedDuration::from_hours(-1)).await;
    let earlier = reserve(&stage, 1).await;
    let ahead = fast.at(fast.count).duration_since(fast.now);
    let still = earlier.first_at.duration_since(earlier.now);
    assert_eq!(still, ahead, "the clock was set back, the slots stay used");
    stage.add_queue("mail", &policy()).await;
    let none = stage.store.reserve_slots(&stage.queue, 1).await;
    assert_eq!(none.expect("reserve_slots answers"), None, "no rate");
}

pub(crate) async fn send_slots_of_nothing_are_refused(harness: &dyn Harness) {
    let stage = Stage::with(harness, at_rate(10)).await;
    for count in [0, 1_001] {
        let answer = stage.store.reserve_slots(&stage.queue, count).await;
        let error = refused(answer, "invalid_input");
        assert!(error.to_string().contains("1 to 1000"), "{error}");
    }
    let ghost = stage.store.reserve_slots(&queue("ghost"), 1).await;
    refused(ghost, "unknown_queue");
}

pub(crate) async fn no_slot_is_handed_out_twice(harness: &dyn Harness) {
    let stage = Stage::with(harness, at_rate(1_000)).await;
    let mut workers = JoinSet::new();
    for _ in 0..4 {
        let (store, queue) = (harness.another().await, stage.queue.clone());
        workers.spawn(async move {
            let mut times = Vec::new();
            for _ in 0..20 {
                let slots = store.reserve_slots(&queue, 7).await;
                let slots = slots.expect("reserve_slots answers").expect("a rate");
                times.extend((0..slots.count).map(|nth| slots.at(nth)));
            }
            times
        });
    }
    let mut times: Vec<_> = all(workers).await.into_iter().flatten().collect();
    times.sort();
    assert_eq!(times.len(), 4 * 20 * 7);
    let apart = times.windows(2).map(|two| two[1].duration_since(two[0]));
    let least = apart.min().expect("many slots");
    assert!(least >= SignedDuration::from_micros(1_000), "{least}");
}
