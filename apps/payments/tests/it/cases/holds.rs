//! Payments that wait for a person.

use consign_conformance::stage::{TTL, by, refused, s};
use consign_kernel::{Move, Outcome, QueuePolicy, Report, Resolution, StateKind};
use consign_payments::{
    AttemptState::{self, Dispatched, Retryable},
    Completion, MISSING_RAIL_REFERENCE, NewPayment, OutboxId, PaymentState, RailRecord, RailResult,
};
use uuid::Uuid;

use super::{
    PaymentsHarness,
    fixture::{
        PaymentsFixture, dispatched, enqueued, failed, held_by, paid, payment, retryable, rules,
    },
};

pub(crate) async fn a_payment_held_from_the_start_waits_for_its_release(
    harness: &dyn PaymentsHarness,
) {
    let fixture = PaymentsFixture::new(harness).await;
    let held = NewPayment {
        kyc_hold: true,
        ..payment(1)
    };
    let answers = fixture.try_enqueue(&[held, payment(2)]).await;
    let (first, second) = (enqueued(&answers[0]), enqueued(&answers[1]));
    assert_eq!((first.state, first.sequence_id), (PaymentState::Held, 1));
    assert_eq!(
        (second.state, second.sequence_id),
        (PaymentState::Pending, 2)
    );
    let view = fixture.view(first.outbox_id).await;
    assert_eq!(
        (view.state, view.reason.as_deref()),
        (PaymentState::Held, Some("kyc_hold"))
    );

    let lease = fixture.stage.claim(10).await;
    assert_eq!(held_by(&lease), [second.outbox_id]);
    fixture.complete(&lease, dispatched(second.outbox_id)).await;
    fixture.stage.advance(TTL).await;
    fixture.stage.claim_nothing("it is held").await;
    let moved = fixture
        .payments
        .release_payments(&[first.outbox_id], &by())
        .await;
    let answer = Move::Moved {
        state: StateKind::Ready,
    };
    assert_eq!(moved.expect("release answers")[0].answer, answer);
    fixture.work_off(dispatched).await;
    assert_eq!(fixture.story(first.outbox_id).await, [Dispatched]);
}

pub(crate) async fn payments_are_moved_by_their_own_ids(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let waiting = fixture.enqueue_one(&payment(1)).await;
    let moved = fixture.payments.hold_payments(&[waiting], &by()).await;
    let state = StateKind::Held;
    assert_eq!(
        moved.expect("hold answers")[0].answer,
        Move::Moved { state }
    );
    let dead = fixture.enqueue_one(&payment(2)).await;
    fixture.work_off(failed).await;
    let stranger = OutboxId(Uuid::from_u128(1));

    let moved = fixture
        .payments
        .requeue_payments(&[stranger, dead, waiting], &by())
        .await;
    let answers: Vec<(OutboxId, Move)> = moved
        .expect("requeue answers")
        .iter()
        .map(|m| (m.outbox_id, m.answer))
        .collect();
    let (ready, held) = (StateKind::Ready, StateKind::Held);
    assert_eq!(
        answers,
        [
            (stranger, Move::NoSuchMessage),
            (dead, Move::Moved { state: ready }),
            (waiting, Move::NotDead { state: held }),
        ]
    );
    let delivered = StateKind::Delivered;
    for (id, answer) in [
        (stranger, Move::NoSuchMessage),
        (waiting, Move::Moved { state: delivered }),
        (dead, Move::NotHeld { state: ready }),
    ] {
        assert_eq!(fixture.resolve(id, &paid("REF-1")).await, answer);
    }
    let attempts = fixture.payments.payment_attempts(waiting).await;
    let attempts = attempts.expect("attempts answer").expect("a payment");
    let last = attempts.last().expect("an attempt");
    assert_eq!(last.rail_reference.as_deref(), Some("REF-1"));
    assert_eq!(fixture.view(waiting).await.state, PaymentState::Dispatched);
    let reconciled = fixture
        .payments
        .reconcile_payments(10)
        .await
        .expect("reconcile answers");
    assert_eq!(
        reconciled.missing_references,
        [],
        "a person's word comes with the reference"
    );
}

/// Held with its reason, not sent again, and cleared up by a person.
pub(crate) async fn a_success_without_a_reference_is_held(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let ids = fixture.enqueue(&[payment(1), payment(2)]).await;
    for (n, id) in ids.iter().enumerate() {
        let lease = fixture.stage.claim(1).await;
        if n == 0 {
            let done = fixture.complete(&lease, unreferenced(*id)).await;
            assert_eq!(
                (done.state, done.message_state),
                (Retryable, StateKind::Held)
            );
        } else {
            // As the worker reports it.
            let message_id = lease.messages[0].message.id;
            let report = Report {
                code: Some(MISSING_RAIL_REFERENCE.to_owned()),
                ..Report::new(message_id, Outcome::Uncertain)
            };
            fixture.stage.settle(&lease, &[report]).await;
        }
    }
    fixture.stage.advance(s(86_400)).await;
    fixture.stage.claim_nothing("they are not sent again").await;
    for id in &ids {
        let view = fixture.view(*id).await;
        assert_eq!(view.state, PaymentState::Held);
        assert_eq!(view.reason.as_deref(), Some(MISSING_RAIL_REFERENCE));
        let attempt = fixture.attempts(*id).await.remove(0);
        assert_eq!(attempt.error_code.as_deref(), Some(MISSING_RAIL_REFERENCE));
        assert_eq!(attempt.rail_reference, None);
    }
    let found = fixture
        .payments
        .reconcile_payments(10)
        .await
        .expect("reconcile answers");
    let uncertain: Vec<OutboxId> = found.uncertain.iter().map(|view| view.outbox_id).collect();
    assert_eq!(uncertain, ids);

    fixture.resolve(ids[0], &paid("REF-1")).await;
    fixture.resolve(ids[1], &RailRecord::Failed).await;
    assert_eq!(fixture.story(ids[0]).await, [Retryable, Dispatched]);
    assert_eq!(
        fixture.story(ids[1]).await,
        [Retryable, AttemptState::Failed]
    );
    let found = fixture
        .payments
        .reconcile_payments(10)
        .await
        .expect("reconcile answers");
    assert!(found.is_clean(), "cleared up: {found:?}");
}

/// Every way to report a payment as dispatched requires its reference.
pub(crate) async fn a_payment_is_resolved_as_dispatched_only_with_a_reference(
    harness: &dyn PaymentsHarness,
) {
    let fixture = PaymentsFixture::new(harness).await;
    let id = fixture.enqueue_one(&payment(1)).await;
    let held = fixture.payments.hold_payments(&[id], &by()).await;
    held.expect("hold answers");
    let messages = fixture.payments.payment_messages(&[id]).await;
    let message = messages.expect("messages answer")[0].expect("a message");
    let stated = |result: &str| Resolution::Delivered {
        result: Some(result.to_owned()),
    };
    let long = format!(r#"{{"rail_reference":"{}"}}"#, "x".repeat(257));
    for resolution in [
        Resolution::DELIVERED,
        Resolution::Unknown,
        stated("{}"),
        stated("7"),
        stated(r#"{"rail_reference":" "}"#),
        stated(r#"{"rail_reference":7}"#),
        stated(r#"{"rail_reference":"a","more":1}"#),
        stated(r#"{"rail_reference":"a","rail_reference":"b"}"#),
        stated(&long),
    ] {
        let answer = fixture
            .stage
            .store
            .resolve(&[message], &resolution, &by())
            .await;
        refused(answer, "invalid_input");
    }
    let nameless = fixture
        .payments
        .resolve_payment(id, &paid(" "), &by())
        .await;
    refused(nameless, "invalid_input");
    assert_eq!(
        fixture.view(id).await.state,
        PaymentState::Held,
        "nothing was written"
    );
    assert_eq!(fixture.story(id).await, []);
}

/// A payment that may have been paid cannot be resolved as failed without a check.
pub(crate) async fn a_success_without_a_reference_is_held_on_the_last_try(
    harness: &dyn PaymentsHarness,
) {
    let fixture = PaymentsFixture::new(harness).await;
    let id = fixture.enqueue_one(&payment(1)).await;
    for _ in 0..2 {
        fixture.work_off(retryable).await;
        fixture.stage.advance(s(5)).await;
    }
    let done = fixture.work_off(unreferenced).await;
    assert_eq!(done.message_state, StateKind::Held);
    assert_eq!(fixture.story(id).await, [Retryable, Retryable, Retryable]);
}

fn unreferenced(id: OutboxId) -> Completion {
    let result = RailResult {
        rail_reference: Some("  ".to_owned()),
        ..RailResult::default()
    };
    Completion {
        result,
        ..dispatched(id)
    }
}

/// Whatever an operator sets.
pub(crate) async fn every_policy_of_the_queue_holds_what_has_no_reference(
    harness: &dyn PaymentsHarness,
) {
    let fixture = PaymentsFixture::bare(harness);
    let set = QueuePolicy {
        hold_codes: vec!["OTHER".to_owned()],
        presume_begun: false,
        ..rules()
    };
    let (store, queue, by) = (&fixture.stage.store, &fixture.stage.queue, by());
    let made = store.put_queue(queue, &set, &by).await;
    let made = made.expect("put_queue answers").policy;
    assert_eq!(made.hold_codes, ["OTHER", MISSING_RAIL_REFERENCE]);
    assert!(made.presume_begun);
    let again = store.put_queue(queue, &made, &by).await;
    assert_eq!(again.expect("put_queue answers").policy, made);
}
