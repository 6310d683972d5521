//! Workers that fall silent (P-08 to P-10).

use std::sync::Arc;

use consign_conformance::stage::{TTL, after, all, s};
use consign_kernel::{BeginAnswer, StateKind};
use consign_payments::{
    AttemptState::{self, Dispatched, Failed, ZombieRequeue},
    PaymentState, RETRY_CEILING_EXCEEDED, Repaired,
};
use tokio::task::JoinSet;

use super::{
    PaymentsHarness,
    till::{Till, WORKER, dispatched, held_by, payment, retryable},
};

async fn repair(till: &Till<'_>) -> Vec<Repaired> {
    till.payments.repair(100).await.expect("repair answers")
}

/// P-08.
pub(crate) async fn a_lost_lease_is_repaired_once(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let id = till.enqueue_one(&payment(1)).await;
    let before = till.view(id).await;
    till.work_off(retryable).await;
    till.stage.advance(s(5)).await;
    let lease = till.stage.claim(1).await;
    till.stage.advance(TTL).await;
    let now = till.stage.now().await;
    let repaired = Repaired {
        outbox_id: id,
        attempt_no: 2,
        state: ZombieRequeue,
    };
    assert_eq!(repair(&till).await, [repaired]);
    assert_eq!(repair(&till).await, [], "once");

    let attempt = till.attempts(id).await.remove(1);
    assert_eq!(attempt.state, ZombieRequeue);
    assert_eq!(attempt.error_code.as_deref(), Some("ZOMBIE_REQUEUE"));
    assert_eq!(attempt.worker_id, WORKER, "who fell silent");
    assert_eq!(
        (attempt.claimed_at, attempt.completed_at),
        (lease.claimed_at, now)
    );
    let view = till.view(id).await;
    assert_eq!(
        (view.outbox_id, view.sequence_id),
        (before.outbox_id, before.sequence_id)
    );
    assert_eq!((view.place, view.attempt_count), (StateKind::Ready, 2));
    assert_eq!((view.claimed_by, view.lease_expires_at), (None, None));
    assert_eq!(view.next_attempt_at, Some(after(now, s(1))));
    assert_eq!(attempt.next_attempt_at, view.next_attempt_at);
    till.stage.claim_nothing("it rests").await;
    till.stage.advance(s(1)).await;
    till.work_off(dispatched).await;
}

/// P-08.
pub(crate) async fn a_live_lease_is_not_repaired(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let id = till.enqueue_one(&payment(1)).await;
    let lease = till.stage.claim(1).await;
    till.stage.advance(TTL - s(1)).await;
    assert_eq!(repair(&till).await, []);
    till.complete(&lease, dispatched(id)).await;
    assert_eq!(till.story(id).await, [Dispatched]);
    assert_eq!(repair(&till).await, [], "nothing is left of it");
}

/// P-08.
pub(crate) async fn two_repairers_record_one_attempt(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let ids = till.enqueue(&[payment(1), payment(2), payment(3)]).await;
    for _ in &ids {
        till.stage.claim(1).await;
    }
    till.stage.advance(TTL).await;
    let other = harness.another_payments().await;
    let mut tasks = JoinSet::new();
    for payments in [&till.payments, &other, &till.payments, &other] {
        let payments = Arc::clone(payments);
        tasks.spawn(async move { payments.repair(100).await.expect("repair answers").len() });
    }
    assert_eq!(all(tasks).await.iter().sum::<usize>(), 3);
    for id in ids {
        assert_eq!(till.story(id).await, [ZombieRequeue]);
    }
}

/// P-09, CP-01: one at the ceiling, one that is not, in one repair.
pub(crate) async fn a_repair_at_the_ceiling_stops_nobody(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let old = till.enqueue_one(&payment(1)).await;
    for _ in 0..2 {
        till.work_off(retryable).await;
        till.stage.advance(s(5)).await;
    }
    let young = till.enqueue_one(&payment(2)).await;
    let first = till.stage.claim(1).await;
    assert_eq!(held_by(&first), [old]);
    let second = till.stage.claim(1).await;
    assert_eq!(held_by(&second), [young]);
    till.stage.advance(TTL).await;
    let mut repaired = repair(&till).await;
    repaired.sort_by_key(|repaired| repaired.outbox_id != old);
    let states: Vec<(u32, AttemptState)> =
        repaired.iter().map(|r| (r.attempt_no, r.state)).collect();
    assert_eq!(states, [(3, Failed), (1, ZombieRequeue)]);
    assert_eq!(till.view(old).await.state, PaymentState::Failed);
    let last = till.attempts(old).await.remove(2);
    assert_eq!(last.error_code.as_deref(), Some(RETRY_CEILING_EXCEEDED));
    assert_eq!(till.view(young).await.state, PaymentState::Pending);
}

/// P-10, CP-02: a payment that kills its worker each time does not loop for ever, or unseen.
pub(crate) async fn every_crash_leaves_a_row_until_the_ceiling(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let id = till.enqueue_one(&payment(1)).await;
    for _ in 0..3 {
        let lease = till.stage.claim(1).await;
        assert_eq!(held_by(&lease), [id]);
        till.stage.advance(TTL).await;
    }
    till.stage.claim_nothing("it was the last try").await;
    assert_eq!(till.story(id).await, [ZombieRequeue, ZombieRequeue, Failed]);
    assert_eq!(till.view(id).await.state, PaymentState::Failed);
}

/// P-03, CP-02: nothing is stolen in silence.
pub(crate) async fn a_claim_repairs_what_it_finds_expired(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let id = till.enqueue_one(&payment(1)).await;
    till.stage.claim(1).await;
    till.stage.claim_nothing("somebody holds it").await;
    till.stage.advance(TTL).await;
    let lease = till.stage.claim(1).await;
    assert_eq!(lease.messages[0].attempt_no, 2);
    assert_eq!(till.story(id).await, [ZombieRequeue]);
    assert_eq!(repair(&till).await, [], "the claim has done it");
}

/// CP-09: whether the rail has it is not known, and the next worker is told.
pub(crate) async fn a_begun_payment_comes_back_in_doubt(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let id = till.enqueue_one(&payment(1)).await;
    let lease = till.stage.claim(1).await;
    let ids = [lease.messages[0].message.id];
    let begun = till.stage.store.begin(lease.token, &ids).await;
    assert_eq!(begun.expect("begin answers"), BeginAnswer::Begun);
    till.stage.advance(TTL).await;
    assert_eq!(repair(&till).await.len(), 1);
    assert_eq!(till.story(id).await, [ZombieRequeue]);
    till.stage.advance(s(1)).await;
    let next = till.stage.claim(1).await;
    assert!(next.messages[0].in_doubt, "ask before sending");
    till.complete(&next, dispatched(id)).await;
}
