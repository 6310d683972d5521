//! Payments that the rail may have: what leaves a doubt, which claims report it, and what ends it.

use consign_conformance::stage::{TTL, by, refused, s};
use consign_kernel::{BeginAnswer, ReleaseAnswer, StateKind};
use consign_payments::{
    AttemptState::{self, Dispatched, Failed, Retryable, ZombieRequeue},
    ClaimedPayments, Completion, OutboxId, PaymentState, RETRY_CEILING_EXCEEDED, RailResult,
};

use super::{
    PaymentsHarness,
    fixture::{PaymentsFixture, WORKER, dispatched, failed, held_by, payment, retryable},
};

impl PaymentsFixture<'_> {
    /// Claims as a worker does that calls the rail without another word.
    async fn presume(&self, limit: u32) -> ClaimedPayments {
        let claimed = self.try_presume(limit, true).await;
        claimed.expect("something to claim")
    }

    async fn try_presume(&self, limit: u32, begin: bool) -> Option<ClaimedPayments> {
        let claimed = self.payments.claim_payments(limit, WORKER, TTL, begin);
        claimed.await.expect("claim answers")
    }

    async fn complete_claimed(&self, claimed: &ClaimedPayments, completion: Completion) {
        let stated = [completion];
        let answer = self.payments.complete(claimed.lease_token, WORKER, &stated);
        super::fixture::completed(answer.await.expect("complete answers"));
    }

    /// Asserts `in_doubt` of the next claim, by the kernel and by the protocol; releases the payment.
    async fn next_claim_is_in_doubt(&self, id: OutboxId, in_doubt: bool, why: &str) {
        let lease = self.stage.claim(1).await;
        assert_eq!(held_by(&lease), [id], "{why}");
        assert_eq!(lease.messages[0].in_doubt, in_doubt, "{why}");
        self.release(lease.token).await;
        let claimed = self.presume(1).await;
        assert_eq!(claimed.payments[0].in_doubt, in_doubt, "{why}");
        self.release(claimed.lease_token).await;
    }

    async fn release(&self, token: consign_kernel::Token) {
        let released = self.stage.store.release(token).await;
        let released = released.expect("release answers");
        assert!(
            matches!(&released, ReleaseAnswer::Released(ids) if ids.len() == 1),
            "{released:?}"
        );
    }
}

/// A claim returns what was enqueued, under one lease.
pub(crate) async fn a_claim_returns_the_enqueued_payments(harness: &dyn PaymentsHarness) {
    let bare = PaymentsFixture::bare(harness);
    assert_eq!(bare.try_presume(5, true).await, None, "no queue, no error");
    let fixture = PaymentsFixture::new(harness).await;
    let ids = fixture.enqueue(&[payment(1), payment(2), payment(3)]).await;
    let claimed = fixture.presume(2).await;
    let now = fixture.stage.now().await;
    assert_eq!(
        claimed.lease_expires_at,
        consign_conformance::stage::after(now, TTL)
    );
    assert_eq!(claimed.payments.len(), 2);
    for (n, (claimed, id)) in claimed.payments.iter().zip(&ids).enumerate() {
        let asked = payment(n + 1);
        assert_eq!(claimed.outbox_id, *id);
        assert_eq!(claimed.payload, asked.payload);
        assert_eq!(claimed.instruction_id, asked.instruction_id);
        assert_eq!(claimed.idempotency_key, asked.idempotency_key);
        assert_eq!(claimed.participant_id, asked.participant_id);
        assert_eq!(claimed.rail_type, asked.rail_type);
        assert_eq!(claimed.sequence_id, n as i64 + 1);
        assert_eq!((claimed.attempt_count, claimed.in_doubt), (0, false));
    }
    let in_flight = fixture.payments.in_flight(10).await.expect("in flight");
    assert!(in_flight.iter().all(|found| found.fence == claimed.fence));
    for (limit, lease) in [(0, TTL), (1_001, TTL), (1, s(0)), (1, s(3_601))] {
        let answer = fixture.payments.claim_payments(limit, WORKER, lease, true);
        refused(answer.await, "invalid_input");
    }
    for id in &ids[..2] {
        fixture.complete_claimed(&claimed, dispatched(*id)).await;
    }
}

/// A worker may have sent it before it fell silent.
pub(crate) async fn a_claim_presumes_that_the_rail_was_called(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let id = fixture.enqueue_one(&payment(1)).await;
    fixture.presume(1).await;
    fixture.stage.advance(TTL).await;
    fixture
        .next_claim_is_in_doubt(id, true, "the outcome is unknown")
        .await;
    let attempt = fixture.attempts(id).await.remove(0);
    assert_eq!((attempt.state, attempt.in_doubt), (ZombieRequeue, true));
    assert_eq!(attempt.error_code.as_deref(), Some("ZOMBIE_REQUEUE"));
    assert_eq!(attempt.rail_reference, None);

    // The doubt lasts through workers that do not report on it.
    fixture.try_presume(1, false).await.expect("the payment");
    fixture.stage.advance(TTL).await;
    fixture
        .next_claim_is_in_doubt(id, true, "a second silence ends no doubt")
        .await;
    fixture.work_off(dispatched).await;
    assert_eq!(
        fixture.story(id).await,
        [ZombieRequeue, ZombieRequeue, Dispatched]
    );
}

/// For workers that call begin before each dispatch.
pub(crate) async fn a_claim_that_presumes_nothing_leaves_no_doubt(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let id = fixture.enqueue_one(&payment(1)).await;
    fixture.try_presume(1, false).await.expect("the payment");
    fixture.stage.advance(TTL).await;
    fixture
        .next_claim_is_in_doubt(id, false, "it had not begun")
        .await;
    assert!(!fixture.attempts(id).await[0].in_doubt);
    fixture.work_off(dispatched).await;
}

/// Failed like any other, but still in doubt; a requeue keeps the doubt.
pub(crate) async fn a_presumed_call_on_the_last_try_fails_in_doubt(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let id = fixture.enqueue_one(&payment(1)).await;
    for _ in 0..3 {
        fixture.presume(1).await;
        fixture.stage.advance(TTL).await;
    }
    fixture.stage.claim_nothing("it was the last try").await;
    assert_eq!(
        fixture.story(id).await,
        [ZombieRequeue, ZombieRequeue, Failed]
    );
    let last = fixture.attempts(id).await.remove(2);
    assert_eq!(last.error_code.as_deref(), Some(RETRY_CEILING_EXCEEDED));
    assert!(last.in_doubt);
    let found = fixture.payments.reconcile_payments(10).await;
    let found = found.expect("reconcile answers").uncertain;
    let found: Vec<_> = found.iter().map(|v| (v.outbox_id, v.state)).collect();
    assert_eq!(found, [(id, PaymentState::Failed)], "to be looked at");

    let moved = fixture.payments.requeue_payments(&[id], &by()).await;
    moved.expect("requeue answers");
    fixture
        .next_claim_is_in_doubt(id, true, "a requeue ends no doubt")
        .await;
    fixture.work_off(dispatched).await;
}

/// A release states that nothing was sent; begun payments stay in the lease.
pub(crate) async fn a_released_payment_is_not_in_doubt(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let ids = fixture.enqueue(&[payment(1), payment(2)]).await;
    let claimed = fixture.presume(2).await;
    let messages = fixture.payments.payment_messages(&ids).await;
    let begun = messages.expect("messages answers")[0].expect("a message");
    let store = &fixture.stage.store;
    let answer = store.begin(claimed.lease_token, &[begun]).await;
    assert_eq!(answer.expect("begin answers"), BeginAnswer::Begun);
    fixture.release(claimed.lease_token).await;
    fixture
        .next_claim_is_in_doubt(ids[1], false, "not sent")
        .await;
    assert_eq!(fixture.attempts(ids[1]).await, []);
    fixture.work_off(dispatched).await;
    fixture.stage.advance(TTL).await;
    fixture.next_claim_is_in_doubt(ids[0], true, "begun").await;
    fixture.work_off(dispatched).await;
}

/// Completing a part of a lease changes nothing for the rest.
pub(crate) async fn what_is_left_in_a_lease_is_still_presumed(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let ids = fixture.enqueue(&[payment(1), payment(2)]).await;
    let claimed = fixture.presume(2).await;
    fixture.complete_claimed(&claimed, dispatched(ids[0])).await;
    fixture.stage.advance(TTL).await;
    fixture
        .next_claim_is_in_doubt(ids[1], true, "the outcome is unknown")
        .await;
    fixture.work_off(dispatched).await;
}

/// An explicit doubt, and the default where it is absent.
pub(crate) async fn a_retryable_payment_is_in_doubt_as_reported(harness: &dyn PaymentsHarness) {
    let stated = |error: Option<&'static str>, rail: Option<&'static str>, in_doubt| {
        move |id| Completion {
            result: RailResult {
                rail_code: rail.map(str::to_owned),
                ..RailResult::default()
            },
            error_code: error.map(str::to_owned),
            in_doubt,
            ..retryable(id)
        }
    };
    let (down, slow, broken) = ("RAIL_DOWN", "DISPATCH_TIMEOUT", "DISPATCH_ERROR");
    let (yes, no) = (Some(true), Some(false));
    let table = [
        (stated(Some(down), None, None), false),
        (stated(None, Some("R-17"), None), false),
        (stated(Some(slow), None, None), true),
        (stated(Some(broken), None, None), true),
        (stated(Some(slow), Some("R-17"), None), true),
        (stated(None, None, None), true),
        (stated(Some(" "), Some(""), None), true),
        (stated(Some(down), Some("R-17"), yes), true),
        (stated(Some(slow), None, no), false),
        (stated(None, None, no), false),
    ];
    let fixture = PaymentsFixture::new(harness).await;
    for (n, (say, in_doubt)) in table.into_iter().enumerate() {
        let id = fixture.enqueue_one(&payment(n)).await;
        let done = fixture.work_off(say).await;
        assert_eq!(
            (done.state, done.message_state),
            (Retryable, StateKind::Ready)
        );
        let attempt = fixture.attempts(id).await.remove(0);
        let seen = (attempt.state, attempt.in_doubt);
        assert_eq!(seen, (Retryable, in_doubt), "case {n}");
        fixture.stage.advance(s(1)).await;
        fixture
            .next_claim_is_in_doubt(id, in_doubt, &format!("case {n}"))
            .await;
        fixture.work_off(dispatched).await;
    }
}

/// Only an explicit `in_doubt: false` ends a doubt.
pub(crate) async fn a_doubt_lasts_until_it_is_ruled_out_explicitly(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let id = fixture.enqueue_one(&payment(1)).await;
    fixture.presume(1).await;
    fixture.stage.advance(TTL).await;
    let done = fixture.work_off(retryable).await;
    assert_eq!(done.state, Retryable);
    assert!(fixture.attempts(id).await[1].in_doubt, "it was so before");
    fixture.stage.advance(s(5)).await;
    fixture
        .next_claim_is_in_doubt(id, true, "a later failure is another call")
        .await;
    let asked = |id| Completion {
        in_doubt: Some(false),
        ..retryable(id)
    };
    let done = fixture.work_off(asked).await;
    assert_eq!((done.state, done.message_state), (Failed, StateKind::Dead));
    assert!(!fixture.attempts(id).await[2].in_doubt);
    let moved = fixture.payments.requeue_payments(&[id], &by()).await;
    moved.expect("requeue answers");
    fixture
        .next_claim_is_in_doubt(id, false, "the rail was queried")
        .await;
    fixture.work_off(dispatched).await;
}

/// A payment that may have been paid does not fail: it is held for an operator.
pub(crate) async fn a_doubt_on_the_last_try_is_held(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let id = fixture.enqueue_one(&payment(1)).await;
    for _ in 0..2 {
        fixture.work_off(retryable).await;
        fixture.stage.advance(s(5)).await;
    }
    let unknown = |id| Completion {
        in_doubt: Some(true),
        ..retryable(id)
    };
    let done = fixture.work_off(unknown).await;
    assert_eq!(
        (done.state, done.message_state),
        (Retryable, StateKind::Held)
    );
    let view = fixture.view(id).await;
    assert_eq!(view.state, PaymentState::Held);
    assert_eq!(view.reason.as_deref(), Some("uncertain"));
    let moved = fixture.payments.release_payments(&[id], &by()).await;
    moved.expect("release answers");
    fixture
        .next_claim_is_in_doubt(id, true, "a release ends no doubt")
        .await;
    fixture.work_off(dispatched).await;
}

/// `FAILED` is final, so it is invalid for a payment that may have been paid.
pub(crate) async fn a_failure_in_doubt_is_refused(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let ids = fixture.enqueue(&[payment(1), payment(2)]).await;
    let lease = fixture.stage.claim(2).await;
    let torn = Completion {
        in_doubt: Some(true),
        ..failed(ids[1])
    };
    let both = [dispatched(ids[0]), torn];
    let answer = fixture.payments.complete(lease.token, WORKER, &both).await;
    refused(answer, "invalid_input");
    let answer = fixture
        .payments
        .record_late_payments(lease.token, WORKER, &both);
    refused(answer.await, "invalid_input");
    for code in ["DISPATCH_TIMEOUT", " DISPATCH_ERROR "] {
        let unanswered = [Completion::failed(ids[1], Failed, code)];
        let answer = fixture.payments.complete(lease.token, WORKER, &unanswered);
        refused(answer.await, "invalid_input");
    }
    for id in &ids {
        assert_eq!(fixture.attempts(*id).await, []);
    }
    let sure = Completion {
        in_doubt: Some(false),
        ..failed(ids[1])
    };
    fixture.complete(&lease, dispatched(ids[0])).await;
    let done = fixture.complete(&lease, sure).await;
    assert_eq!(done.state, AttemptState::Failed);
}

/// The rail accepted it under a lost lease. Nothing is rejected, and every later claim is in doubt.
pub(crate) async fn a_late_success_leaves_a_doubt_for_good(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let id = fixture.enqueue_one(&payment(1)).await;
    let stale = fixture.try_presume(1, false).await.expect("the payment");
    fixture.stage.advance(TTL).await;
    fixture
        .next_claim_is_in_doubt(id, false, "nothing was reported yet")
        .await;
    let kept = [dispatched(id)];
    let kept = fixture
        .payments
        .record_late_payments(stale.lease_token, WORKER, &kept);
    assert_eq!(kept.await.expect("record_late answers"), [id]);
    fixture
        .next_claim_is_in_doubt(id, true, "the rail has it")
        .await;
    let sure = |id| Completion {
        in_doubt: Some(false),
        ..retryable(id)
    };
    fixture.work_off(sure).await;
    fixture.stage.advance(s(5)).await;
    fixture
        .next_claim_is_in_doubt(id, true, "this success is not recorded")
        .await;
    fixture.work_off(failed).await;
    let moved = fixture.payments.requeue_payments(&[id], &by()).await;
    let moved = moved.expect("requeue answers").remove(0).answer;
    let state = StateKind::Ready;
    assert_eq!(moved, consign_kernel::Move::Moved { state });
    fixture
        .next_claim_is_in_doubt(id, true, "a requeue ends no doubt")
        .await;
    fixture.work_off(dispatched).await;
}
