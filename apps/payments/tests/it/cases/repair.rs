//! Workers that fall silent.

use std::sync::Arc;

use consign_conformance::stage::{TTL, after, all, s};
use consign_kernel::{BeginAnswer, StateKind};
use consign_payments::{
    AttemptState::{self, Dispatched, Failed, ZombieRequeue},
    PaymentState, RETRY_CEILING_EXCEEDED, RepairResult,
};
use tokio::task::JoinSet;

use super::{
    PaymentsHarness,
    fixture::{PaymentsFixture, WORKER, dispatched, held_by, payment, retryable},
};

async fn repair(fixture: &PaymentsFixture<'_>) -> Vec<RepairResult> {
    fixture.payments.repair(100).await.expect("repair answers")
}

pub(crate) async fn a_lost_lease_is_repaired_once(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let id = fixture.enqueue_one(&payment(1)).await;
    let before = fixture.view(id).await;
    fixture.work_off(retryable).await;
    fixture.stage.advance(s(5)).await;
    let lease = fixture.stage.claim(1).await;
    fixture.stage.advance(TTL).await;
    let now = fixture.stage.now().await;
    let repaired = RepairResult {
        outbox_id: id,
        attempt_no: 2,
        state: ZombieRequeue,
    };
    assert_eq!(repair(&fixture).await, [repaired]);
    assert_eq!(repair(&fixture).await, [], "once");

    let attempt = fixture.attempts(id).await.remove(1);
    assert_eq!(attempt.state, ZombieRequeue);
    assert_eq!(attempt.error_code.as_deref(), Some("ZOMBIE_REQUEUE"));
    assert_eq!(attempt.worker_id, WORKER, "who fell silent");
    assert_eq!(
        (attempt.claimed_at, attempt.completed_at),
        (lease.claimed_at, now)
    );
    let view = fixture.view(id).await;
    assert_eq!(
        (view.outbox_id, view.sequence_id),
        (before.outbox_id, before.sequence_id)
    );
    assert_eq!(
        (view.message_state, view.attempt_count),
        (StateKind::Ready, 2)
    );
    assert_eq!((view.claimed_by, view.lease_expires_at), (None, None));
    assert_eq!(view.next_attempt_at, Some(after(now, s(1))));
    assert_eq!(attempt.next_attempt_at, view.next_attempt_at);
    fixture.stage.claim_nothing("it rests").await;
    fixture.stage.advance(s(1)).await;
    fixture.work_off(dispatched).await;
}

pub(crate) async fn a_live_lease_is_not_repaired(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let id = fixture.enqueue_one(&payment(1)).await;
    let lease = fixture.stage.claim(1).await;
    fixture.stage.advance(TTL - s(1)).await;
    assert_eq!(repair(&fixture).await, []);
    fixture.complete(&lease, dispatched(id)).await;
    assert_eq!(fixture.story(id).await, [Dispatched]);
    assert_eq!(repair(&fixture).await, [], "nothing is left of it");
}

pub(crate) async fn two_repairers_record_one_attempt(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let ids = fixture.enqueue(&[payment(1), payment(2), payment(3)]).await;
    for _ in &ids {
        fixture.stage.claim(1).await;
    }
    fixture.stage.advance(TTL).await;
    let other = harness.another_payments().await;
    let mut tasks = JoinSet::new();
    for payments in [&fixture.payments, &other, &fixture.payments, &other] {
        let payments = Arc::clone(payments);
        tasks.spawn(async move { payments.repair(100).await.expect("repair answers").len() });
    }
    assert_eq!(all(tasks).await.iter().sum::<usize>(), 3);
    for id in ids {
        assert_eq!(fixture.story(id).await, [ZombieRequeue]);
    }
}

/// One at the ceiling, one that is not, in one repair.
pub(crate) async fn a_repair_at_the_ceiling_does_not_block_the_next_ones(
    harness: &dyn PaymentsHarness,
) {
    let fixture = PaymentsFixture::new(harness).await;
    let old = fixture.enqueue_one(&payment(1)).await;
    for _ in 0..2 {
        fixture.work_off(retryable).await;
        fixture.stage.advance(s(5)).await;
    }
    let young = fixture.enqueue_one(&payment(2)).await;
    let first = fixture.stage.claim(1).await;
    assert_eq!(held_by(&first), [old]);
    let second = fixture.stage.claim(1).await;
    assert_eq!(held_by(&second), [young]);
    fixture.stage.advance(TTL).await;
    let mut repaired = repair(&fixture).await;
    repaired.sort_by_key(|repaired| repaired.outbox_id != old);
    let states: Vec<(u32, AttemptState)> =
        repaired.iter().map(|r| (r.attempt_no, r.state)).collect();
    assert_eq!(states, [(3, Failed), (1, ZombieRequeue)]);
    assert_eq!(fixture.view(old).await.state, PaymentState::Failed);
    let last = fixture.attempts(old).await.remove(2);
    assert_eq!(last.error_code.as_deref(), Some(RETRY_CEILING_EXCEEDED));
    assert_eq!(fixture.view(young).await.state, PaymentState::Pending);
}

/// A payment that kills its worker each time does not loop for ever, or unseen.
pub(crate) async fn every_crash_leaves_a_row_until_the_ceiling(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let id = fixture.enqueue_one(&payment(1)).await;
    for _ in 0..3 {
        let lease = fixture.stage.claim(1).await;
        assert_eq!(held_by(&lease), [id]);
        fixture.stage.advance(TTL).await;
    }
    fixture.stage.claim_nothing("it was the last try").await;
    assert_eq!(
        fixture.story(id).await,
        [ZombieRequeue, ZombieRequeue, Failed]
    );
    assert_eq!(fixture.view(id).await.state, PaymentState::Failed);
}

/// Nothing is stolen in silence.
pub(crate) async fn a_claim_repairs_what_it_finds_expired(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let id = fixture.enqueue_one(&payment(1)).await;
    fixture.stage.claim(1).await;
    fixture.stage.claim_nothing("it is leased").await;
    fixture.stage.advance(TTL).await;
    let lease = fixture.stage.claim(1).await;
    assert_eq!(lease.messages[0].attempt_no, 2);
    assert_eq!(fixture.story(id).await, [ZombieRequeue]);
    assert_eq!(repair(&fixture).await, [], "the claim has done it");
}

/// Whether the rail has it is unknown, and the next claim is in doubt.
pub(crate) async fn a_begun_payment_is_due_again_in_doubt(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let id = fixture.enqueue_one(&payment(1)).await;
    let lease = fixture.stage.claim(1).await;
    let ids = [lease.messages[0].message.id];
    let begun = fixture.stage.store.begin(lease.token, &ids).await;
    assert_eq!(begun.expect("begin answers"), BeginAnswer::Begun);
    fixture.stage.advance(TTL).await;
    assert_eq!(repair(&fixture).await.len(), 1);
    assert_eq!(fixture.story(id).await, [ZombieRequeue]);
    fixture.stage.advance(s(1)).await;
    let next = fixture.stage.claim(1).await;
    assert!(next.messages[0].in_doubt, "query before sending");
    fixture.complete(&next, dispatched(id)).await;
}
