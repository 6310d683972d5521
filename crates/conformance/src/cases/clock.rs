//! Clocks: leases run on the database's clock and on no other (G5).

use std::time::Duration;

use consign_kernel::{Expiry, Outcome, RenewAnswer, Report, SettleAnswer, State, StateKind};
use jiff::SignedDuration;

use crate::{
    Harness,
    stage::{Stage, TTL, after, ids, s, settled},
};

async fn set_back(harness: &dyn Harness, by_s: i64) {
    harness.advance(SignedDuration::from_secs(-by_s)).await;
}

pub(crate) async fn every_time_is_the_databases(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    for store in [stage.store.clone(), harness.another().await] {
        let now = stage.now().await;
        let id = store
            .enqueue(&[stage.message(1)])
            .await
            .expect("enqueue answers")[0]
            .id;
        let told = store.explain(id).await.expect("explain answers");
        let told = told.expect("the message exists");
        assert_eq!((told.message.created_at, told.now), (now, now));
        let lease = store.claim(&stage.ask(1)).await.expect("claim answers");
        let lease = lease.expect("something is due");
        assert_eq!((lease.claimed_at, lease.expires_at), (now, after(now, TTL)));
        stage.advance(s(1)).await;
        let report = [Report::delivered(id)];
        settled(
            store
                .settle(lease.token, &report)
                .await
                .expect("settle answers"),
        );
        let finished_at = store.history(id).await.expect("history answers")[0].finished_at;
        assert_eq!(finished_at, after(now, s(1)));
    }
}

pub(crate) async fn two_instances_agree_on_when_a_lease_ends(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let another = harness.another().await;
    let id = stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    stage.advance(TTL - Duration::from_micros(1)).await;
    let expired = another.expire(10).await.expect("expire answers");
    assert_eq!(
        expired,
        Expiry::default(),
        "the holder has a microsecond left"
    );
    let stolen = another.claim(&stage.ask(1)).await.expect("claim answers");
    assert_eq!(
        stolen.as_ref().map(ids),
        None,
        "the holder has a microsecond left"
    );
    stage.advance(Duration::from_micros(1)).await;
    let answer = stage.settle(&lease, &[Report::delivered(id)]).await;
    assert_eq!(
        answer,
        SettleAnswer::LeaseLost,
        "now it is over for the holder"
    );
    let taken = stage.claim_soon(&another).await;
    assert_eq!(ids(&taken), [id], "and free for the other");
}

pub(crate) async fn a_clock_set_back_prolongs_a_lease(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_one().await;
    stage.advance(s(100)).await;
    let lease = stage.claim(1).await;
    set_back(harness, 60).await;
    stage.advance(s(30)).await;
    stage
        .claim_nothing("the lease ends later by the new time")
        .await;
    let answer = stage
        .store
        .renew(lease.token, s(5))
        .await
        .expect("renew answers");
    let expires_at = lease.expires_at;
    assert_eq!(answer, RenewAnswer::Renewed { expires_at }, "never shorter");
    let records = settled(stage.settle(&lease, &[Report::delivered(id)]).await);
    assert_eq!(records[0].state, StateKind::Delivered);
    let attempt = stage.history(id).await.remove(0);
    assert_eq!(
        attempt.finished_at, lease.claimed_at,
        "no attempt ends before it began"
    );
    assert_eq!(
        stage.state(id).await,
        State::Delivered {
            at: attempt.finished_at
        }
    );
}

pub(crate) async fn a_clock_set_forward_ends_a_lease(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    stage.advance(s(3600)).await;
    let answer = stage.settle(&lease, &[Report::delivered(id)]).await;
    assert_eq!(answer, SettleAnswer::LeaseLost);
    let next = stage.claim_soon(&stage.store).await;
    assert_eq!(ids(&next), [id], "the next holder's");
    stage.deliver(&next).await;
}

pub(crate) async fn an_expired_lease_lives_again_if_the_clock_is_set_back(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    stage.advance(TTL).await;
    let answer = stage.settle(&lease, &[Report::delivered(id)]).await;
    assert_eq!(answer, SettleAnswer::LeaseLost);
    set_back(harness, 5).await;
    // It was not ended meanwhile, so no other lease can hold the message.
    settled(stage.settle(&lease, &[Report::delivered(id)]).await);
}

pub(crate) async fn an_ended_lease_stays_ended_if_the_clock_is_set_back(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    stage.crash().await;
    set_back(harness, 5).await;
    let answer = stage.settle(&lease, &[Report::delivered(id)]).await;
    assert_eq!(
        answer,
        SettleAnswer::LeaseLost,
        "the message may be elsewhere already"
    );
    stage
        .claim_nothing("due in five seconds by the new time")
        .await;
    stage.advance(s(5)).await;
    assert_eq!(stage.drain().await, [id]);
}

pub(crate) async fn messages_of_the_future_are_not_due(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(2).await;
    let due_at = stage.now().await;
    set_back(harness, 30).await;
    stage
        .claim_nothing("enqueued in what is now the future")
        .await;
    assert_eq!(stage.state(sent[0]).await, State::Ready { due_at });
    let early = stage.enqueue_one().await;
    assert_eq!(ids(&stage.claim(10).await), [early], "the present goes on");
    stage.advance(s(30)).await;
    assert_eq!(ids(&stage.claim(1).await), sent[..1]);
}

pub(crate) async fn a_promotion_never_comes_before_the_message(harness: &dyn Harness) {
    let rules = crate::stage::ordered(consign_kernel::OnDead::Block);
    let stage = Stage::with(harness, rules).await;
    let sent = stage.enqueue_groups("aa").await;
    let enqueued_at = stage.now().await;
    let lease = stage.claim(1).await;
    set_back(harness, 5).await;
    stage.deliver(&lease).await;
    let due_at = enqueued_at;
    assert_eq!(
        stage.state(sent[1]).await,
        State::Ready { due_at },
        "not before it was sent"
    );
    stage.advance(s(5)).await;
    assert_eq!(stage.drain().await, sent[1..]);
}

pub(crate) async fn a_message_leaves_by_its_latest_event(harness: &dyn Harness) {
    let stage = Stage::with(harness, super::retention::keeping(Some(60), None)).await;
    let maintenance = stage.maintenance().await;
    let id = stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    set_back(harness, 5).await;
    stage.report(&lease, id, Outcome::Retry).await;
    stage.advance(s(1)).await;
    assert_eq!(stage.drain().await, [id]);
    let finished_at: Vec<_> = (stage.history(id).await.iter())
        .map(|attempt| attempt.finished_at)
        .collect();
    assert_eq!(finished_at[0], after(finished_at[1], s(4)), "a later first");
    stage.advance(s(60)).await;
    assert_eq!(maintenance.leave().await, 0, "by the second attempt");
    stage.advance(s(4)).await;
    assert_eq!(maintenance.leave().await, 1, "by the first");
}
