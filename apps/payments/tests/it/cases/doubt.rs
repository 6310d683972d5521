//! Payments that the rail may have: what leaves a doubt, who is told, and what ends it.

use consign_conformance::stage::{TTL, by, refused, s};
use consign_kernel::{BeginAnswer, ReleaseAnswer, StateKind};
use consign_payments::{
    AttemptState::{self, Dispatched, Failed, Retryable, ZombieRequeue},
    ClaimedPayments, Completion, OutboxId, PaymentState, RETRY_CEILING_EXCEEDED, RailResult,
};

use super::{
    PaymentsHarness,
    till::{Till, WORKER, dispatched, failed, held_by, payment, retryable},
};

impl Till<'_> {
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
        let said = [completion];
        let answer = self.payments.complete(claimed.lease_token, WORKER, &said);
        super::till::completed(answer.await.expect("complete answers"));
    }

    /// Who claims next, with the kernel's word for it or with the protocol's, is told this; ends with
    /// the payment back where it was.
    async fn next_is_told(&self, id: OutboxId, in_doubt: bool, why: &str) {
        let lease = self.stage.claim(1).await;
        assert_eq!(held_by(&lease), [id], "{why}");
        assert_eq!(lease.messages[0].in_doubt, in_doubt, "{why}");
        self.give_back(lease.token).await;
        let claimed = self.presume(1).await;
        assert_eq!(claimed.payments[0].in_doubt, in_doubt, "{why}");
        self.give_back(claimed.lease_token).await;
    }

    async fn give_back(&self, token: consign_kernel::Token) {
        let released = self.stage.store.release(token).await;
        let released = released.expect("release answers");
        assert!(
            matches!(&released, ReleaseAnswer::Released(ids) if ids.len() == 1),
            "{released:?}"
        );
    }
}

/// What a claim says is what was enqueued, under one lease.
pub(crate) async fn a_claim_tells_what_is_to_be_paid(harness: &dyn PaymentsHarness) {
    let bare = Till::bare(harness);
    assert_eq!(bare.try_presume(5, true).await, None, "no queue, no error");
    let till = Till::new(harness).await;
    let ids = till.enqueue(&[payment(1), payment(2), payment(3)]).await;
    let claimed = till.presume(2).await;
    let now = till.stage.now().await;
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
    let in_flight = till.payments.in_flight(10).await.expect("in flight");
    assert!(in_flight.iter().all(|found| found.fence == claimed.fence));
    for (limit, lease) in [(0, TTL), (1_001, TTL), (1, s(0)), (1, s(3_601))] {
        let answer = till.payments.claim_payments(limit, WORKER, lease, true);
        refused(answer.await, "invalid_input");
    }
    for id in &ids[..2] {
        till.complete_claimed(&claimed, dispatched(*id)).await;
    }
}

/// CP-09: a worker that said nothing may have sent it before it fell silent.
pub(crate) async fn a_claim_presumes_that_the_rail_was_called(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let id = till.enqueue_one(&payment(1)).await;
    till.presume(1).await;
    till.stage.advance(TTL).await;
    till.next_is_told(id, true, "nobody knows").await;
    let attempt = till.attempts(id).await.remove(0);
    assert_eq!((attempt.state, attempt.in_doubt), (ZombieRequeue, true));
    assert_eq!(attempt.error_code.as_deref(), Some("ZOMBIE_REQUEUE"));
    assert_eq!(attempt.rail_reference, None);

    // The doubt lasts over whoever comes and says nothing of it.
    till.try_presume(1, false).await.expect("the payment");
    till.stage.advance(TTL).await;
    till.next_is_told(id, true, "a second silence ends no doubt")
        .await;
    till.work_off(dispatched).await;
    assert_eq!(
        till.story(id).await,
        [ZombieRequeue, ZombieRequeue, Dispatched]
    );
}

/// For workers that say before each call that it begins.
pub(crate) async fn a_claim_that_presumes_nothing_leaves_no_doubt(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let id = till.enqueue_one(&payment(1)).await;
    till.try_presume(1, false).await.expect("the payment");
    till.stage.advance(TTL).await;
    till.next_is_told(id, false, "it had not begun").await;
    assert!(!till.attempts(id).await[0].in_doubt);
    till.work_off(dispatched).await;
}

/// P-09, P-10: given up as every other, but not forgotten; and a person's requeue keeps the doubt.
pub(crate) async fn a_presumed_call_on_the_last_try_fails_in_doubt(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let id = till.enqueue_one(&payment(1)).await;
    for _ in 0..3 {
        till.presume(1).await;
        till.stage.advance(TTL).await;
    }
    till.stage.claim_nothing("it was the last try").await;
    assert_eq!(till.story(id).await, [ZombieRequeue, ZombieRequeue, Failed]);
    let last = till.attempts(id).await.remove(2);
    assert_eq!(last.error_code.as_deref(), Some(RETRY_CEILING_EXCEEDED));
    assert!(last.in_doubt);
    let found = till.payments.reconcile_payments(10).await;
    let found = found.expect("reconcile answers").uncertain;
    let found: Vec<_> = found.iter().map(|v| (v.outbox_id, v.state)).collect();
    assert_eq!(found, [(id, PaymentState::Failed)], "to be looked at");

    let moved = till.payments.requeue_payments(&[id], &by()).await;
    moved.expect("requeue answers");
    till.next_is_told(id, true, "a requeue ends no doubt").await;
    till.work_off(dispatched).await;
}

/// Whoever gives back says that it has sent nothing; what it said had begun stays.
pub(crate) async fn what_is_given_back_was_not_sent(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let ids = till.enqueue(&[payment(1), payment(2)]).await;
    let claimed = till.presume(2).await;
    let messages = till.payments.payment_messages(&ids).await;
    let begun = messages.expect("messages answers")[0].expect("a message");
    let store = &till.stage.store;
    let answer = store.begin(claimed.lease_token, &[begun]).await;
    assert_eq!(answer.expect("begin answers"), BeginAnswer::Begun);
    till.give_back(claimed.lease_token).await;
    till.next_is_told(ids[1], false, "not sent").await;
    assert_eq!(till.attempts(ids[1]).await, []);
    till.work_off(dispatched).await;
    till.stage.advance(TTL).await;
    till.next_is_told(ids[0], true, "begun").await;
    till.work_off(dispatched).await;
}

/// Completing a part of a lease changes nothing for the rest.
pub(crate) async fn what_is_left_in_a_lease_is_still_presumed(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let ids = till.enqueue(&[payment(1), payment(2)]).await;
    let claimed = till.presume(2).await;
    till.complete_claimed(&claimed, dispatched(ids[0])).await;
    till.stage.advance(TTL).await;
    till.next_is_told(ids[1], true, "nobody knows").await;
    till.work_off(dispatched).await;
}

/// The word for "nobody knows", and what is understood where it is not said.
pub(crate) async fn a_retryable_payment_is_in_doubt_as_its_worker_says(
    harness: &dyn PaymentsHarness,
) {
    let said = |error: Option<&'static str>, rail: Option<&'static str>, in_doubt| {
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
        (said(Some(down), None, None), false),
        (said(None, Some("R-17"), None), false),
        (said(Some(slow), None, None), true),
        (said(Some(broken), None, None), true),
        (said(Some(slow), Some("R-17"), None), true),
        (said(None, None, None), true),
        (said(Some(" "), Some(""), None), true),
        (said(Some(down), Some("R-17"), yes), true),
        (said(Some(slow), None, no), false),
        (said(None, None, no), false),
    ];
    let till = Till::new(harness).await;
    for (n, (say, in_doubt)) in table.into_iter().enumerate() {
        let id = till.enqueue_one(&payment(n)).await;
        let done = till.work_off(say).await;
        assert_eq!((done.state, done.place), (Retryable, StateKind::Ready));
        let attempt = till.attempts(id).await.remove(0);
        let seen = (attempt.state, attempt.in_doubt);
        assert_eq!(seen, (Retryable, in_doubt), "case {n}");
        till.stage.advance(s(1)).await;
        till.next_is_told(id, in_doubt, &format!("case {n}")).await;
        till.work_off(dispatched).await;
    }
}

/// Only the word of somebody who knows ends a doubt.
pub(crate) async fn a_doubt_lasts_until_somebody_vouches(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let id = till.enqueue_one(&payment(1)).await;
    till.presume(1).await;
    till.stage.advance(TTL).await;
    let done = till.work_off(retryable).await;
    assert_eq!(done.state, Retryable);
    assert!(till.attempts(id).await[1].in_doubt, "it was so before");
    till.stage.advance(s(5)).await;
    till.next_is_told(id, true, "a later failure is another call")
        .await;
    let asked = |id| Completion {
        in_doubt: Some(false),
        ..retryable(id)
    };
    let done = till.work_off(asked).await;
    assert_eq!((done.state, done.place), (Failed, StateKind::Dead));
    assert!(!till.attempts(id).await[2].in_doubt);
    let moved = till.payments.requeue_payments(&[id], &by()).await;
    moved.expect("requeue answers");
    till.next_is_told(id, false, "the rail was asked").await;
    till.work_off(dispatched).await;
}

/// What may have been paid is not given up: it waits for a person.
pub(crate) async fn a_doubt_on_the_last_try_is_held(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let id = till.enqueue_one(&payment(1)).await;
    for _ in 0..2 {
        till.work_off(retryable).await;
        till.stage.advance(s(5)).await;
    }
    let unknown = |id| Completion {
        in_doubt: Some(true),
        ..retryable(id)
    };
    let done = till.work_off(unknown).await;
    assert_eq!((done.state, done.place), (Retryable, StateKind::Held));
    let view = till.view(id).await;
    assert_eq!(view.state, PaymentState::Held);
    assert_eq!(view.reason.as_deref(), Some("uncertain"));
    let moved = till.payments.release_payments(&[id], &by()).await;
    moved.expect("release answers");
    till.next_is_told(id, true, "a release ends no doubt").await;
    till.work_off(dispatched).await;
}

/// Failed is failed for good: nobody can know that of what may have been paid.
pub(crate) async fn a_failure_in_doubt_is_refused(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let ids = till.enqueue(&[payment(1), payment(2)]).await;
    let lease = till.stage.claim(2).await;
    let torn = Completion {
        in_doubt: Some(true),
        ..failed(ids[1])
    };
    let both = [dispatched(ids[0]), torn];
    let answer = till.payments.complete(lease.token, WORKER, &both).await;
    refused(answer, "invalid_input");
    let answer = till.payments.witness_payments(lease.token, WORKER, &both);
    refused(answer.await, "invalid_input");
    for code in ["DISPATCH_TIMEOUT", " DISPATCH_ERROR "] {
        let unanswered = [Completion::failed(ids[1], Failed, code)];
        let answer = till.payments.complete(lease.token, WORKER, &unanswered);
        refused(answer.await, "invalid_input");
    }
    for id in &ids {
        assert_eq!(till.attempts(*id).await, []);
    }
    let sure = Completion {
        in_doubt: Some(false),
        ..failed(ids[1])
    };
    till.complete(&lease, dispatched(ids[0])).await;
    let done = till.complete(&lease, sure).await;
    assert_eq!(done.state, AttemptState::Failed);
}

/// CP-09: the rail said yes to somebody who had lost the lease. Nothing is refused for it, and
/// everybody who claims is told, whatever was recorded since.
pub(crate) async fn a_late_success_leaves_a_doubt_for_good(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let id = till.enqueue_one(&payment(1)).await;
    let stale = till.try_presume(1, false).await.expect("the payment");
    till.stage.advance(TTL).await;
    till.next_is_told(id, false, "nothing was said yet").await;
    let kept = [dispatched(id)];
    let kept = till
        .payments
        .witness_payments(stale.lease_token, WORKER, &kept);
    assert_eq!(kept.await.expect("witness answers"), [id]);
    till.next_is_told(id, true, "the rail has it").await;
    let sure = |id| Completion {
        in_doubt: Some(false),
        ..retryable(id)
    };
    till.work_off(sure).await;
    till.stage.advance(s(5)).await;
    till.next_is_told(id, true, "of this success nobody has spoken")
        .await;
    till.work_off(failed).await;
    let moved = till.payments.requeue_payments(&[id], &by()).await;
    let moved = moved.expect("requeue answers").remove(0).answer;
    let state = StateKind::Ready;
    assert_eq!(moved, consign_kernel::Move::Moved { state });
    till.next_is_told(id, true, "a requeue ends no doubt").await;
    till.work_off(dispatched).await;
}
