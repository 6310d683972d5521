//! Expiry: what happens to the messages of a lease that was not renewed.

use std::time::Duration;

use consign_kernel::{
    Attempt, AttemptOutcome, Claim, Expiry, NewMessage, Report, State, StateKind,
};
use serde_json::json;

use crate::{
    Harness,
    stage::{Stage, TTL, ids, policy, s, settled},
};

pub(crate) async fn a_lease_that_ends_now_has_ended(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_one().await;
    stage.claim(1).await;
    stage.advance(TTL - Duration::from_micros(1)).await;
    let expired = stage.store.expire(10).await.expect("expire answers");
    assert_eq!(expired, Expiry::default(), "a microsecond is left");
    stage.claim_nothing("a microsecond is left").await;
    stage.advance(Duration::from_micros(1)).await;
    let expired = stage.store.expire(10).await.expect("expire answers");
    assert_eq!((expired.leases, expired.messages), (1, 1));
    assert_eq!(stage.kind(id).await, StateKind::Ready);
}

pub(crate) async fn a_lost_lease_is_recorded_in_full(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    stage.advance(s(12)).await;
    stage.store.expire(10).await.expect("expire answers");
    let now = stage.now().await;
    let expected = Attempt {
        message_id: id,
        attempt_no: 1,
        outcome: AttemptOutcome::Expired,
        owner: "worker-1".into(),
        fence: lease.fence,
        token: lease.token,
        claimed_at: lease.claimed_at,
        finished_at: now,
        code: Some("lease_expired".into()),
        detail: None,
        result: None,
        next_due_at: Some(now),
    };
    assert_eq!(stage.history(id).await, [expected]);
    assert_eq!(
        stage.state(id).await,
        State::Ready { due_at: now },
        "due at once"
    );
}

pub(crate) async fn an_expiry_ends_the_oldest_leases_first(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(6).await;
    for limit in [1, 2, 3] {
        stage.claim(limit).await;
    }
    stage.advance(TTL).await;
    let expired = stage.store.expire(0).await.expect("expire answers");
    assert_eq!(expired, Expiry::default(), "the limit was zero");
    let expired = stage.store.expire(2).await.expect("expire answers");
    assert_eq!((expired.leases, expired.messages), (2, 3));
    use StateKind::{Leased, Ready};
    let kinds = [Ready, Ready, Ready, Leased, Leased, Leased];
    assert_eq!(stage.kinds(&sent).await, kinds);
    let expired = stage.store.expire(2).await.expect("expire answers");
    assert_eq!((expired.leases, expired.messages), (1, 3));
}

pub(crate) async fn an_expiry_reaches_every_queue(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let other = stage.add_queue("other", &policy()).await;
    let there = NewMessage::new(other.clone(), json!(1));
    stage.enqueue_all(&[stage.message(1), there]).await;
    stage.claim(1).await;
    let claim = Claim::new(other, "worker-2", 1);
    stage.store.claim(&claim).await.expect("claim answers");
    stage.advance(TTL).await;
    let expired = stage.store.expire(10).await.expect("expire answers");
    assert_eq!((expired.leases, expired.messages), (2, 2));
}

pub(crate) async fn an_expiry_with_nothing_to_do_does_nothing(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let expired = stage.store.expire(10).await.expect("expire answers");
    assert_eq!(expired, Expiry::default());
    stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    stage.deliver(&lease).await;
    stage.advance(TTL).await;
    let expired = stage.store.expire(10).await.expect("expire answers");
    assert_eq!(expired, Expiry::default(), "a settled lease is gone");
}

pub(crate) async fn an_expiry_counts_against_a_message_alone(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    stage.enqueue_one().await;
    stage.claim(1).await;
    stage.crash().await;
    let claimed = &stage.claim(1).await.messages[0];
    assert_eq!((claimed.attempt_no, claimed.tries), (2, 1));
}

pub(crate) async fn an_expiry_does_not_count_for_messages_that_share_a_lease(
    harness: &dyn Harness,
) {
    let stage = Stage::new(harness).await;
    stage.enqueue(2).await;
    stage.claim(2).await;
    stage.crash().await;
    for _ in 0..2 {
        let lease = stage.claim(2).await;
        assert_eq!(lease.messages.len(), 1, "each comes back alone");
        let claimed = &lease.messages[0];
        assert_eq!((claimed.attempt_no, claimed.tries), (2, 0));
    }
}

pub(crate) async fn the_last_of_a_partly_settled_lease_is_alone(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(3).await;
    let lease = stage.claim(3).await;
    let done = [Report::delivered(sent[0]), Report::delivered(sent[2])];
    settled(stage.settle(&lease, &done).await);
    stage.advance(TTL).await;
    let expired = stage.store.expire(10).await.expect("expire answers");
    assert_eq!((expired.leases, expired.messages), (1, 1));
    let again = stage.claim(3).await;
    assert_eq!(ids(&again), [sent[1]]);
    assert_eq!(again.messages[0].tries, 1, "the others had been settled");
    assert_eq!(
        stage.history(sent[0]).await.len(),
        1,
        "the settled ones are untouched"
    );
}

pub(crate) async fn a_message_that_keeps_killing_its_worker_ends_dead(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_one().await;
    for _ in 0..3 {
        stage.claim(1).await;
        stage.crash().await;
    }
    let dead = State::Dead {
        at: stage.now().await,
        code: "lease_expired".into(),
        detail: None,
    };
    assert_eq!(stage.state(id).await, dead, "three tries were allowed");
    let history = stage.history(id).await;
    let dues: Vec<bool> = history.iter().map(|a| a.next_due_at.is_some()).collect();
    assert_eq!(dues, [true, true, false], "the last did not send it back");
    stage.claim_nothing("dead is dead").await;
}

pub(crate) async fn tries_and_losses_count_together(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    stage
        .report(&lease, id, consign_kernel::Outcome::Retry)
        .await;
    stage.advance(s(1)).await;
    stage.claim(1).await;
    stage.crash().await;
    let lease = stage.claim(1).await;
    let claimed = &lease.messages[0];
    assert_eq!((claimed.attempt_no, claimed.tries), (3, 2));
    let record = stage
        .report(&lease, id, consign_kernel::Outcome::Retry)
        .await;
    assert_eq!(record.state, StateKind::Dead, "the third try");
}
