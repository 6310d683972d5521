//! Renewing: longer, never shorter, never back from the dead.

use std::time::Duration;

use consign_kernel::{LEASE_TTL_MAX, QueuePolicy, RenewAnswer, Report};

use crate::{
    Harness,
    stage::{Stage, TTL, after, ids, policy, refused, s, settled, stranger},
};

pub(crate) async fn a_renewal_runs_from_now(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(3).await;
    let lease = stage.claim(3).await;
    stage.advance(s(9)).await;
    let expires_at = after(stage.now().await, TTL);
    let answer = stage.store.renew(lease.token, TTL).await;
    assert_eq!(
        answer.expect("renew answers"),
        RenewAnswer::Renewed { expires_at }
    );
    stage.advance(s(9)).await;
    let views = stage.store.leases(10).await.expect("leases answers");
    assert_eq!(views[0].expires_at, expires_at, "readers see it");
    assert_eq!(
        views[0].claimed_at, lease.claimed_at,
        "it is the same lease"
    );
    assert_eq!(views[0].ids, sent, "with all its messages");
    stage.deliver(&lease).await;
}

pub(crate) async fn a_renewal_never_shortens(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    let answer = stage.store.renew(lease.token, s(1)).await;
    let expires_at = lease.expires_at;
    assert_eq!(
        answer.expect("renew answers"),
        RenewAnswer::Renewed { expires_at }
    );
}

pub(crate) async fn an_expired_lease_cannot_be_renewed(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    stage.advance(TTL).await;
    let answer = stage.store.renew(lease.token, TTL).await;
    assert_eq!(
        answer.expect("renew answers"),
        RenewAnswer::LeaseLost,
        "not ended yet"
    );
    stage.store.expire(1).await.expect("expire answers");
    let answer = stage.store.renew(lease.token, TTL).await;
    assert_eq!(
        answer.expect("renew answers"),
        RenewAnswer::LeaseLost,
        "it was ended"
    );
}

pub(crate) async fn an_unknown_token_cannot_renew(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    stage.enqueue_one().await;
    stage.claim(1).await;
    let answer = stage.store.renew(stranger(), TTL).await;
    assert_eq!(answer.expect("renew answers"), RenewAnswer::LeaseLost);
}

pub(crate) async fn a_settled_lease_cannot_be_renewed(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(2).await;
    let lease = stage.claim(2).await;
    settled(stage.settle(&lease, &[Report::delivered(sent[0])]).await);
    let answer = stage.store.renew(lease.token, TTL).await;
    assert_ne!(
        answer.expect("renew answers"),
        RenewAnswer::LeaseLost,
        "one is left"
    );
    settled(stage.settle(&lease, &[Report::delivered(sent[1])]).await);
    let answer = stage.store.renew(lease.token, TTL).await;
    assert_eq!(
        answer.expect("renew answers"),
        RenewAnswer::LeaseLost,
        "none is left"
    );
}

pub(crate) async fn a_renewed_lease_outlives_its_first_term(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    for _ in 0..20 {
        stage.advance(s(6)).await;
        stage.claim_nothing("the holder keeps renewing").await;
        let answer = stage.store.renew(lease.token, TTL).await;
        assert_ne!(answer.expect("renew answers"), RenewAnswer::LeaseLost);
    }
    assert_eq!(ids(&lease), [id]);
    stage.deliver(&lease).await;
    assert_eq!(stage.history(id).await.len(), 1, "one lease, one attempt");
}

pub(crate) async fn a_renewal_outside_the_limits_is_refused(harness: &dyn Harness) {
    let rules = QueuePolicy {
        lease_ttl_max_ms: LEASE_TTL_MAX.as_millis() as u64,
        ..policy()
    };
    let stage = Stage::with(harness, rules).await;
    stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    for ttl in [
        Duration::ZERO,
        Duration::from_micros(999),
        LEASE_TTL_MAX + Duration::from_millis(1),
    ] {
        refused(stage.store.renew(lease.token, ttl).await, "invalid_input");
    }
    let answer = stage.store.renew(lease.token, LEASE_TTL_MAX).await;
    let expires_at = after(stage.now().await, LEASE_TTL_MAX);
    assert_eq!(
        answer.expect("renew answers"),
        RenewAnswer::Renewed { expires_at }
    );
}
