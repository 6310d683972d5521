//! Handing payments in.

use std::{collections::BTreeSet, sync::Arc};

use consign_conformance::stage::{all, by, refused, s};
use consign_kernel::{NewMessage, OnUncertain, StateKind};
use consign_payments::{
    EnqueueAnswer, NewPayment, OutboxId, PaymentState, PaymentsOptions, StoredPayment, queue_policy,
};
use serde_json::json;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::{
    PaymentsHarness,
    fixture::{
        PaymentsFixture, dispatched, enqueued, failed, held_by, payment, payment_of, retryable,
        rules,
    },
};

pub(crate) async fn a_payment_is_a_row_and_a_message(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let now = fixture.stage.now().await;
    let new = NewPayment {
        tenant_id: Some(Uuid::from_u128(7)),
        correlation_id: Some(Uuid::from_u128(8)),
        headers: [("traceparent".to_owned(), "00-abc".into())]
            .into_iter()
            .collect(),
        ..payment(1)
    };
    let answer = enqueued(&fixture.try_enqueue(std::slice::from_ref(&new)).await[0]);
    assert_eq!((answer.sequence_id, answer.created_at), (1, now));
    assert_eq!(answer.state, PaymentState::Pending);
    assert!(!answer.duplicate);

    let found = fixture.payments.payment(answer.outbox_id).await;
    let (view, payload) = found.expect("payment answers").expect("a payment");
    assert_eq!(payload, new.payload);
    assert_eq!(view.instruction_id, new.instruction_id);
    assert_eq!(view.idempotency_key, new.idempotency_key);
    assert_eq!(view.participant_id, new.participant_id);
    assert_eq!(view.rail_type, new.rail_type);
    assert_eq!(
        (view.tenant_id, view.correlation_id),
        (new.tenant_id, new.correlation_id)
    );
    assert_eq!((view.sequence_id, view.created_at), (1, now));
    assert_eq!(
        (view.state, view.message_state),
        (PaymentState::Pending, StateKind::Ready)
    );
    assert_eq!((view.attempt_count, view.next_attempt_at), (0, Some(now)));
    assert_eq!(
        (view.claimed_by, view.lease_expires_at, view.reason),
        (None, None, None)
    );

    let lease = fixture.stage.claim(10).await;
    let message = &lease.messages[0].message;
    assert_eq!(message.id, view.message_id);
    assert_eq!(message.key, Some(answer.outbox_id.to_string()));
    assert_eq!(message.group.as_deref(), Some("bank-a"));
    let mut headers = new.headers.clone();
    headers.insert("correlation_id".into(), json!(Uuid::from_u128(8)));
    assert_eq!(message.headers, headers, "so that its case is found");
    let stored = StoredPayment::read(&message.payload).expect("a payment's message");
    assert_eq!(stored, StoredPayment::new(&new, answer.outbox_id, 1));
}

/// The same outbox_id, one pending, no attempts, one number used.
pub(crate) async fn a_repeated_payment_is_the_first(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let first = enqueued(&fixture.try_enqueue(&[payment(1)]).await[0]);
    fixture.stage.advance(s(60)).await;
    let again = NewPayment {
        correlation_id: Some(Uuid::from_u128(9)),
        payload: json!({"destination": "acc-1", "currency_code": "ZMW", "amount_minor": 1001.0})
            .into(),
        ..payment(1)
    };
    let repeated = enqueued(&fixture.try_enqueue(&[again]).await[0]);
    assert!(repeated.duplicate);
    assert_eq!(
        (
            repeated.outbox_id,
            repeated.sequence_id,
            repeated.created_at
        ),
        (first.outbox_id, first.sequence_id, first.created_at)
    );
    assert_eq!(fixture.attempts(first.outbox_id).await, []);
    let next = enqueued(&fixture.try_enqueue(&[payment(2)]).await[0]);
    assert_eq!(next.sequence_id, 2, "a repeat uses no number");
    assert_eq!(fixture.stage.claim(10).await.messages.len(), 2);
}

pub(crate) async fn a_payment_sent_by_ten_at_once_is_one(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let other = harness.another_payments().await;
    let mut tasks = JoinSet::new();
    for n in 0..10 {
        let payments = if n % 2 == 0 {
            &fixture.payments
        } else {
            &other
        };
        let payments = Arc::clone(payments);
        tasks.spawn(async move {
            let answers = payments.enqueue_payments(&[payment(1)]).await;
            enqueued(&answers.expect("enqueue answers")[0])
        });
    }
    let answers = all(tasks).await;
    let ids: BTreeSet<OutboxId> = answers.iter().map(|a| a.outbox_id).collect();
    assert_eq!(ids.len(), 1, "one payment: {answers:?}");
    assert_eq!(answers.iter().filter(|a| !a.duplicate).count(), 1);
    let next = enqueued(&fixture.try_enqueue(&[payment(2)]).await[0]);
    assert_eq!(next.sequence_id, 2, "one number was used");
}

/// Another payload, participant, rail or hold under the same key.
pub(crate) async fn a_payment_that_differs_under_its_key_is_a_conflict(
    harness: &dyn PaymentsHarness,
) {
    let fixture = PaymentsFixture::new(harness).await;
    let id = fixture.enqueue_one(&payment(1)).await;
    let table = [
        (
            "participant_id",
            NewPayment {
                participant_id: "bank-b".into(),
                ..payment(1)
            },
        ),
        (
            "rail_type",
            NewPayment {
                rail_type: "REFUND".into(),
                ..payment(1)
            },
        ),
        (
            "payload",
            NewPayment {
                payload: json!({"amount_minor": 999}).into(),
                ..payment(1)
            },
        ),
    ];
    let hold = NewPayment {
        kyc_hold: true,
        ..payment(1)
    };
    let both = NewPayment {
        rail_type: "REFUND".into(),
        payload: json!({}).into(),
        ..payment(1)
    };
    for round in ["ready", "leased", "dispatched"] {
        let more = [("rail_type", both.clone()), ("kyc_hold", hold.clone())];
        for (field, differing) in table.iter().chain(&more) {
            let answer = fixture
                .try_enqueue(std::slice::from_ref(differing))
                .await
                .remove(0);
            let conflict = EnqueueAnswer::Conflict {
                outbox_id: id,
                field,
            };
            assert_eq!(answer, conflict, "while {round}");
        }
        match round {
            "ready" => drop(fixture.stage.claim(1).await),
            "leased" => {
                fixture.stage.crash().await;
                fixture.work_off(dispatched).await;
            }
            _ => {}
        }
    }
    let next = enqueued(&fixture.try_enqueue(&[payment_of("bank-b", 1)]).await[0]);
    assert_eq!(next.sequence_id, 1, "a conflict uses no number");
}

/// A tenant that uses the key of another tenant, or of none, makes a payment of its own.
pub(crate) async fn a_key_is_its_tenants_own(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let of = |tenant: Option<u128>, rail: &str| NewPayment {
        tenant_id: tenant.map(Uuid::from_u128),
        rail_type: rail.into(),
        ..payment(1)
    };
    // In one call and in several: without a tenant, two tenants, and one whose id is all zeros.
    let mut made = fixture
        .enqueue(&[of(None, "PAYMENT"), of(Some(1), "REFUND")])
        .await;
    made.push(fixture.enqueue_one(&of(Some(2), "PAYMENT")).await);
    made.push(fixture.enqueue_one(&of(Some(0), "PAYMENT")).await);
    let tenants = [(None, "PAYMENT"), (Some(1), "REFUND"), (Some(2), "PAYMENT")];
    for ((tenant, rail), id) in tenants.into_iter().zip(&made) {
        let again = enqueued(&fixture.try_enqueue(&[of(tenant, rail)]).await[0]);
        assert_eq!((again.outbox_id, again.duplicate), (*id, true));
        assert_eq!(
            fixture.view(*id).await.tenant_id,
            tenant.map(Uuid::from_u128)
        );
        let other = fixture.try_enqueue(&[of(tenant, "OTHER")]).await.remove(0);
        let conflict = EnqueueAnswer::Conflict {
            outbox_id: *id,
            field: "rail_type",
        };
        assert_eq!(other, conflict, "its own payment is named, no other");
    }
    let numbers: BTreeSet<OutboxId> = made.iter().copied().collect();
    assert_eq!(numbers.len(), 4, "four payments: {made:?}");
}

pub(crate) async fn a_conflict_leaves_the_other_payments_of_its_call(
    harness: &dyn PaymentsHarness,
) {
    let fixture = PaymentsFixture::new(harness).await;
    fixture.enqueue_one(&payment(1)).await;
    let differing = NewPayment {
        rail_type: "REFUND".into(),
        ..payment(1)
    };
    let answers = fixture
        .try_enqueue(&[payment(2), differing, payment(3)])
        .await;
    assert!(matches!(
        answers[1],
        EnqueueAnswer::Conflict {
            field: "rail_type",
            ..
        }
    ));
    let numbers = [
        enqueued(&answers[0]).sequence_id,
        enqueued(&answers[2]).sequence_id,
    ];
    assert_eq!(numbers, [2, 3]);
}

pub(crate) async fn a_payment_twice_in_one_call_is_one(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let differing = NewPayment {
        rail_type: "REFUND".into(),
        ..payment(1)
    };
    let answers = fixture
        .try_enqueue(&[payment(1), payment(1), differing, payment(2)])
        .await;
    let (first, second) = (enqueued(&answers[0]), enqueued(&answers[1]));
    assert_eq!(first.outbox_id, second.outbox_id);
    assert_eq!((first.duplicate, second.duplicate), (false, true));
    let conflict = EnqueueAnswer::Conflict {
        outbox_id: first.outbox_id,
        field: "rail_type",
    };
    assert_eq!(answers[2], conflict);
    assert_eq!(enqueued(&answers[3]).sequence_id, 2);
    assert_eq!(fixture.stage.claim(10).await.messages.len(), 2);
}

/// Whatever has become of it, with the time it was first seen.
pub(crate) async fn a_repeated_payment_returns_its_state(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let first = enqueued(&fixture.try_enqueue(&[payment(1)]).await[0]);
    let standing = async |n: usize| enqueued(&fixture.try_enqueue(&[payment(n)]).await[0]);
    fixture.stage.advance(s(1)).await;
    let lease = fixture.stage.claim(1).await;
    assert_eq!(standing(1).await.state, PaymentState::Pending, "leased");
    fixture.complete(&lease, retryable(first.outbox_id)).await;
    assert_eq!(standing(1).await.state, PaymentState::Pending, "resting");
    fixture.stage.advance(s(5)).await;
    fixture.work_off(dispatched).await;
    let last = standing(1).await;
    assert_eq!(last.state, PaymentState::Dispatched);
    assert_eq!(last.created_at, first.created_at);

    let second = fixture.enqueue_one(&payment(2)).await;
    let moved = fixture.payments.hold_payments(&[second], &by()).await;
    assert_eq!(moved.expect("hold answers").len(), 1);
    assert_eq!(standing(2).await.state, PaymentState::Held);
    fixture.enqueue_one(&payment(3)).await;
    fixture.work_off(failed).await;
    assert_eq!(standing(3).await.state, PaymentState::Failed);
}

/// 1, rolled back, 2, repeated, conflicting, refused, 3; others count for themselves.
pub(crate) async fn numbers_run_per_participant_without_gaps(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let number = async |payment: NewPayment| {
        let answers = fixture.try_enqueue(&[payment]).await;
        enqueued(&answers[0]).sequence_id
    };
    assert_eq!(number(payment(1)).await, 1);
    harness
        .enqueue_payments_and_roll_back(&[payment(2), payment_of("bank-b", 1)])
        .await;
    assert_eq!(number(payment(3)).await, 2);
    assert_eq!(number(payment(3)).await, 2);
    let differing = NewPayment {
        rail_type: "REFUND".into(),
        ..payment(3)
    };
    fixture.try_enqueue(&[differing]).await;
    let unfit = NewPayment {
        payload: json!([]).into(),
        ..payment(5)
    };
    let answer = fixture
        .payments
        .enqueue_payments(&[payment(4), unfit])
        .await;
    refused(answer, "invalid_input");
    assert_eq!(number(payment(6)).await, 3);
    assert_eq!(number(payment_of("bank-b", 2)).await, 1);
    let mixed = [
        payment_of("bank-b", 3),
        payment(7),
        payment_of("bank-c", 1),
        payment(8),
    ];
    let answers = fixture.try_enqueue(&mixed).await;
    let numbers: Vec<i64> = answers.iter().map(|a| enqueued(a).sequence_id).collect();
    assert_eq!(numbers, [2, 4, 1, 5], "in input order");
}

/// 100 at once, half of them through another instance, some sent twice.
pub(crate) async fn numbers_have_no_gaps_under_many_producers(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let other = harness.another_payments().await;
    let mut tasks = JoinSet::new();
    for n in 0..100 {
        let payments = if n % 2 == 0 {
            &fixture.payments
        } else {
            &other
        };
        let payments = Arc::clone(payments);
        // Every tenth comes twice, at the same time.
        let n = if n % 10 == 9 { n - 1 } else { n };
        tasks.spawn(async move {
            let answers = payments.enqueue_payments(&[payment(n)]).await;
            enqueued(&answers.expect("enqueue answers")[0])
        });
    }
    let mut numbers: Vec<(i64, OutboxId)> = all(tasks)
        .await
        .iter()
        .map(|a| (a.sequence_id, a.outbox_id))
        .collect();
    numbers.sort();
    numbers.dedup();
    let expected: Vec<i64> = (1..=90).collect();
    let numbers: Vec<i64> = numbers.into_iter().map(|(number, _)| number).collect();
    assert_eq!(numbers, expected, "no gap, no number twice");
}

/// Callers list several participants in any order.
pub(crate) async fn producers_of_several_participants_do_not_wait_for_ever(
    harness: &dyn PaymentsHarness,
) {
    let fixture = PaymentsFixture::new(harness).await;
    let other = harness.another_payments().await;
    let mut tasks = JoinSet::new();
    for n in 0..20 {
        let payments = if n % 2 == 0 {
            &fixture.payments
        } else {
            &other
        };
        let payments = Arc::clone(payments);
        tasks.spawn(async move {
            let mut pair = vec![payment_of("bank-a", n), payment_of("bank-b", n)];
            if n % 2 == 1 {
                pair.reverse();
            }
            let answers = payments.enqueue_payments(&pair).await;
            answers.expect("enqueue answers").len()
        });
    }
    assert_eq!(all(tasks).await.iter().sum::<usize>(), 40);
}

/// Neither the business's rows nor the payment.
pub(crate) async fn a_rolled_back_payment_leaves_nothing(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    harness.enqueue_payments_and_roll_back(&[payment(1)]).await;
    fixture.stage.claim_nothing("it was rolled back").await;
    let answer = enqueued(&fixture.try_enqueue(&[payment(1)]).await[0]);
    assert_eq!((answer.duplicate, answer.sequence_id), (false, 1));
}

pub(crate) async fn rejects_payments_that_no_store_can_keep(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    type Change = fn(&mut NewPayment);
    let table: [Change; 8] = [
        |p| p.instruction_id.clear(),
        |p| p.idempotency_key = "  ".into(),
        |p| p.participant_id = "x".repeat(257),
        |p| p.rail_type = "a\0b".into(),
        |p| p.payload = json!([1, 2]).into(),
        |p| p.payload = json!("text").into(),
        |p| p.payload = json!(null).into(),
        |p| p.payload = json!({"x": "\0"}).into(),
    ];
    for (index, change) in table.into_iter().enumerate() {
        let mut unfit = payment(index);
        change(&mut unfit);
        let answer = fixture
            .payments
            .enqueue_payments(&[payment(100), unfit])
            .await;
        refused(answer, "invalid_input");
    }
    let large = NewPayment {
        payload: json!({"x": "y".repeat(rules().payload_max_bytes)}).into(),
        ..payment(1)
    };
    let answer = fixture
        .payments
        .enqueue_payments(&[payment(100), large])
        .await;
    refused(answer, "payload_too_large");
    fixture.stage.claim_nothing("all or none").await;
    let widest = NewPayment {
        participant_id: "x".repeat(256),
        ..payment(1)
    };
    fixture.enqueue_one(&widest).await;
}

pub(crate) async fn the_queue_of_payments_takes_nothing_else(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let stranger = NewMessage::new(fixture.stage.queue.clone(), json!({"amount_minor": 1}));
    refused(
        fixture
            .stage
            .try_enqueue(std::slice::from_ref(&stranger))
            .await,
        "invalid_input",
    );
    let keyed = stranger.with_key(Uuid::from_u128(5).to_string());
    refused(fixture.stage.try_enqueue(&[keyed]).await, "invalid_input");
    fixture.stage.claim_nothing("nothing came in").await;
    let mut careless = rules();
    careless.on_uncertain = OnUncertain::Resend;
    let answer = fixture
        .stage
        .store
        .put_queue(&fixture.stage.queue, &careless, &by())
        .await;
    refused(answer, "invalid_input");
}

pub(crate) async fn the_first_payment_makes_the_queue(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::bare(harness);
    fixture.enqueue_one(&payment(1)).await;
    let queue = fixture.stage.store.queue(&fixture.stage.queue).await;
    let queue = queue.expect("queue answers").expect("a queue");
    assert_eq!(queue.policy, queue_policy(&PaymentsOptions::default()));
    let lease = fixture.stage.claim(1).await;
    fixture
        .complete(&lease, dispatched(held_by(&lease)[0]))
        .await;
}

pub(crate) async fn an_enqueue_of_no_payments_answers_nothing(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    assert_eq!(fixture.try_enqueue(&[]).await, []);
}
