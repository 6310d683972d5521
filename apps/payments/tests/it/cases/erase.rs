//! Erased payments: their content goes; what is compared with the rail's records stays.

use consign_conformance::stage::{Maintenance, TTL, by, done, s};
use consign_kernel::{ErasureAnswer, ErasureTarget, Lease, StateKind};
use consign_payments::{
    AttemptState, Completion, EnqueueAnswer, NewPayment, OutboxId, PaymentFilter, PaymentState,
    RailResult,
};
use serde_json::json;

use super::PaymentsHarness;
use super::fixture::{
    PaymentsFixture, WORKER, dispatched, enqueued, failed, paid, payment, retryable, rules,
};

async fn erase(fixture: &PaymentsFixture<'_>, id: OutboxId) -> ErasureAnswer {
    let message = fixture.view(id).await.message_id;
    let target = ErasureTarget::Ids(vec![message]);
    let erased = fixture.stage.store.erase(&target, &by()).await;
    erased.expect("erase answers")[0].answer
}

async fn repeat(fixture: &PaymentsFixture<'_>, payment: &NewPayment) -> EnqueueAnswer {
    let mut answers = fixture.try_enqueue(std::slice::from_ref(payment)).await;
    answers.remove(0)
}

/// A dispatch with all that a rail may answer.
fn answered(id: OutboxId) -> Completion {
    Completion {
        result: RailResult {
            rail_reference: Some("REF-1".into()),
            rail_code: Some("00".into()),
            latency_ms: Some(7),
        },
        error_message: Some("Jane Doe has it".into()),
        ..dispatched(id)
    }
}

pub(crate) async fn an_erased_payment_keeps_what_is_compared_with_the_rail(
    harness: &dyn PaymentsHarness,
) {
    let fixture = PaymentsFixture::new(harness).await;
    let id = fixture.enqueue_one(&payment(1)).await;
    fixture.work_off(retryable).await;
    fixture.stage.advance(s(1)).await;
    fixture.work_off(answered).await;
    let (view, attempts) = (fixture.view(id).await, fixture.attempts(id).await);
    assert_eq!(erase(&fixture, id).await, ErasureAnswer::Erased);
    assert_eq!(erase(&fixture, id).await, ErasureAnswer::AlreadyErased);

    let found = fixture.payments.payment(id).await.expect("payment answers");
    let (after, payload) = found.expect("it is there");
    assert!(after.erased_at.is_some() && view.erased_at.is_none());
    let unchanged = consign_payments::PaymentView {
        erased_at: None,
        ..after.clone()
    };
    assert_eq!(unchanged, view);
    let left = json!({"amount_minor": 1_001, "currency_code": "ZMW"});
    assert_eq!(json!(payload), left);
    let all = PaymentFilter::default();
    let listed = fixture.payments.payments(&all, None, 10).await;
    assert_eq!(
        listed.expect("payments answers").items,
        std::slice::from_ref(&after)
    );
    let by_instruction = PaymentFilter {
        instruction_id: Some(after.instruction_id.clone()),
        ..all
    };
    let listed = fixture.payments.payments(&by_instruction, None, 10).await;
    assert_eq!(listed.expect("payments answers").items, [after]);

    let expected: Vec<_> = attempts
        .into_iter()
        .map(|attempt| consign_payments::AttemptView {
            error_message: None,
            ..attempt
        })
        .collect();
    assert_eq!(fixture.attempts(id).await, expected);
    assert_eq!(expected[1].rail_reference.as_deref(), Some("REF-1"));
    assert_eq!(expected[1].latency_ms, Some(7));
    let doubts = fixture.payments.reconcile_payments(10).await;
    assert!(doubts.expect("reconcile_payments answers").is_clean());
}

pub(crate) async fn the_key_of_an_erased_payment_is_repeated_as_before(
    harness: &dyn PaymentsHarness,
) {
    let fixture = PaymentsFixture::new(harness).await;
    let sent = [payment(1), payment(2)];
    let ids = fixture.enqueue(&sent).await;
    fixture.work_off(dispatched).await;
    fixture.work_off(failed).await;
    for id in &ids {
        assert_eq!(erase(&fixture, *id).await, ErasureAnswer::Erased);
    }
    let states = [PaymentState::Dispatched, PaymentState::Failed];
    for ((payment, id), state) in sent.iter().zip(&ids).zip(states) {
        let again = enqueued(&repeat(&fixture, payment).await);
        assert!(again.duplicate, "{again:?}");
        assert_eq!((again.outbox_id, again.state), (*id, state));
        let others = [
            (
                "payload",
                NewPayment {
                    payload: json!({"amount_minor": 1, "currency_code": "ZMW"}).into(),
                    ..payment.clone()
                },
            ),
            (
                "rail_type",
                NewPayment {
                    rail_type: "REFUND".into(),
                    ..payment.clone()
                },
            ),
            (
                "kyc_hold",
                NewPayment {
                    kyc_hold: true,
                    ..payment.clone()
                },
            ),
        ];
        for (field, other) in others {
            let outbox_id = *id;
            let conflict = EnqueueAnswer::Conflict { outbox_id, field };
            assert_eq!(repeat(&fixture, &other).await, conflict);
        }
    }
    let requeued = fixture.payments.requeue_payments(&ids[1..], &by()).await;
    let requeued = requeued.expect("requeue answers")[0].answer;
    assert_eq!(requeued, consign_kernel::Move::Erased);
}

/// A lease of the payment that ends without a result.
async fn lost(fixture: &PaymentsFixture<'_>) -> Lease {
    let lease = fixture.stage.claim(1).await;
    fixture.stage.advance(s(10)).await;
    let repaired = fixture.payments.repair(10).await;
    assert_eq!(repaired.expect("repair answers").len(), 1);
    fixture.stage.advance(s(60)).await;
    lease
}

pub(crate) async fn a_payment_that_must_be_compared_is_not_erased(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let id = fixture.enqueue_one(&payment(1)).await;
    let state = StateKind::Ready;
    assert_eq!(erase(&fixture, id).await, ErasureAnswer::NotFinal { state });
    // Every lease ended without a result, and the rail may have been called: it has failed in doubt.
    for _ in 0..3 {
        let claimed = fixture.payments.claim_payments(1, WORKER, TTL, true).await;
        claimed.expect("claim answers").expect("the payment");
        fixture.stage.advance(TTL).await;
    }
    fixture.stage.claim_nothing("it was the last try").await;
    assert_eq!(fixture.view(id).await.state, PaymentState::Failed);
    assert_eq!(erase(&fixture, id).await, ErasureAnswer::Needed);
    let found = fixture.payments.payment(id).await.expect("payment answers");
    let (view, payload) = found.expect("it is there");
    assert_eq!(view.erased_at, None);
    assert_eq!(json!(payload), json!(payment(1).payload));
    // Found in the rail's records and resolved, it can be erased.
    let moved = fixture.payments.requeue_payments(&[id], &by()).await;
    moved.expect("requeue answers");
    let moved = fixture.payments.hold_payments(&[id], &by()).await;
    moved.expect("hold answers");
    fixture.resolve(id, &paid("REF-3")).await;
    assert_eq!(erase(&fixture, id).await, ErasureAnswer::Erased);
    assert_eq!(fixture.view(id).await.state, PaymentState::Dispatched);
}

pub(crate) async fn a_late_success_about_an_erased_payment_keeps_its_reference(
    harness: &dyn PaymentsHarness,
) {
    let fixture = PaymentsFixture::new(harness).await;
    let id = fixture.enqueue_one(&payment(1)).await;
    let lease = lost(&fixture).await;
    fixture.work_off(dispatched).await;
    assert_eq!(erase(&fixture, id).await, ErasureAnswer::Erased);
    let late = Completion {
        error_message: Some("Jane Doe has it".into()),
        ..dispatched(id)
    };
    let late = fixture
        .payments
        .record_late_payments(lease.token, WORKER, &[late])
        .await;
    assert_eq!(late.expect("record_late_payments answers"), [id]);
    let message = fixture.view(id).await.message_id;
    let found = fixture.stage.store.late(message).await;
    let found = found.expect("late answers");
    let reference = format!("REF-{id}");
    let result = found[0].result.as_ref().expect("a result");
    assert_eq!(result["rail_reference"], reference.as_str());
    assert_eq!(found[0].detail, None);
    assert_eq!(
        fixture.story(id).await,
        [AttemptState::ZombieRequeue, AttemptState::Dispatched]
    );
}

pub(crate) async fn an_erased_payment_leaves_and_is_forgotten(harness: &dyn PaymentsHarness) {
    let keeping = consign_kernel::QueuePolicy {
        keep_ms: Some(60_000),
        keep_keys_ms: Some(3_600_000),
        ..rules()
    };
    let fixture = PaymentsFixture::with(harness, keeping).await;
    let maintenance = Maintenance::lease(&fixture.stage.store).await;
    let id = fixture.enqueue_one(&payment(1)).await;
    fixture.work_off(dispatched).await;
    assert_eq!(erase(&fixture, id).await, ErasureAnswer::Erased);
    fixture.stage.advance(s(60)).await;
    assert_eq!(maintenance.leave().await, 1);
    let again = enqueued(&repeat(&fixture, &payment(1)).await);
    assert_eq!((again.outbox_id, again.duplicate), (id, true));
    fixture.stage.advance(s(3_600)).await;
    maintenance.renew().await;
    let forgotten = fixture.stage.store.forget_keys(maintenance.token, 10).await;
    assert_eq!(done(forgotten), 1);
    let new = enqueued(&repeat(&fixture, &payment(1)).await);
    assert!(!new.duplicate, "{new:?}");
    fixture.work_off(dispatched).await;
}
