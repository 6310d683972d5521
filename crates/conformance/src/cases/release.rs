//! Releasing: what was not started goes back as if it had never been claimed.

use consign_kernel::{ReleaseAnswer, Report, SettleAnswer, StateKind};

use crate::{
    Harness,
    stage::{Stage, TTL, ids, s, settled, stranger},
};

pub(crate) async fn a_release_gives_back_without_an_attempt(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(3).await;
    let lease = stage.claim(3).await;
    let answer = stage.store.release(lease.token).await;
    assert_eq!(
        answer.expect("release answers"),
        ReleaseAnswer::Released(sent.clone())
    );
    let leases = stage.store.leases(10).await.expect("leases answers");
    assert_eq!(leases, [], "the lease is over");
    for id in &sent {
        assert_eq!(stage.history(*id).await, [], "no attempt is recorded");
    }
    let again = stage.claim(10).await;
    assert_eq!(ids(&again), sent, "claimable at once, in order");
    for claimed in &again.messages {
        assert_eq!(
            (claimed.attempt_no, claimed.tries),
            (1, 0),
            "nothing is counted"
        );
    }
}

pub(crate) async fn a_release_keeps_what_has_begun(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(4).await;
    let lease = stage.claim(4).await;
    let begun = [sent[2], sent[0]];
    stage
        .store
        .begin(lease.token, &begun)
        .await
        .expect("begin answers");
    let answer = stage.store.release(lease.token).await;
    let released = ReleaseAnswer::Released(vec![sent[1], sent[3]]);
    assert_eq!(answer.expect("release answers"), released);
    let views = stage.store.leases(10).await.expect("leases answers");
    assert_eq!(
        views[0].ids,
        [sent[0], sent[2]],
        "in the order of the lease"
    );
    assert_eq!(views[0].begun, [sent[0], sent[2]]);
    let answer = stage.store.release(lease.token).await;
    let nothing = ReleaseAnswer::Released(vec![]);
    assert_eq!(
        answer.expect("release answers"),
        nothing,
        "all that is left has begun"
    );
    let answer = stage.settle(&lease, &[Report::delivered(sent[0])]).await;
    settled(answer);
    let answer = stage.settle(&lease, &[Report::delivered(sent[1])]).await;
    assert_eq!(
        answer,
        SettleAnswer::NotInLease(vec![sent[1]]),
        "it was released"
    );
}

pub(crate) async fn a_lost_lease_cannot_release(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_one().await;
    let lost = |answer| assert_eq!(answer, ReleaseAnswer::LeaseLost);
    lost(
        stage
            .store
            .release(stranger())
            .await
            .expect("release answers"),
    );
    let lease = stage.claim(1).await;
    stage.advance(TTL).await;
    lost(
        stage
            .store
            .release(lease.token)
            .await
            .expect("release answers"),
    );
    assert_eq!(
        stage.kind(id).await,
        StateKind::Leased,
        "nothing was written"
    );
    let next = stage.claim_soon(&stage.store).await;
    lost(
        stage
            .store
            .release(lease.token)
            .await
            .expect("release answers"),
    );
    assert_eq!(ids(&next), [id], "the new holder is undisturbed");
    stage.deliver(&next).await;
}

pub(crate) async fn a_released_lease_is_over(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    stage
        .store
        .release(lease.token)
        .await
        .expect("release answers");
    let again = stage.store.release(lease.token).await;
    assert_eq!(again.expect("release answers"), ReleaseAnswer::LeaseLost);
    let answer = stage.settle(&lease, &[Report::delivered(id)]).await;
    assert_eq!(answer, SettleAnswer::LeaseLost);
    assert_eq!(stage.kind(id).await, StateKind::Ready);
}

pub(crate) async fn released_messages_queue_up_behind_the_due(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(4).await;
    let lease = stage.claim(2).await;
    stage.advance(s(1)).await;
    stage
        .store
        .release(lease.token)
        .await
        .expect("release answers");
    let expected = [sent[2], sent[3], sent[0], sent[1]];
    assert_eq!(ids(&stage.claim(10).await), expected, "due since now");
}
