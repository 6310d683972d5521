//! Handing payments in (P-01, P-02, P-18).

use std::{collections::BTreeSet, sync::Arc};

use consign_conformance::stage::{all, by, refused, s};
use consign_kernel::{NewMessage, OnUncertain, StateKind};
use consign_payments::{
    EnqueueAnswer, NewPayment, OutboxId, PaymentState, PaymentsOptions, Stored, queue_policy,
};
use serde_json::json;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::{
    PaymentsHarness,
    till::{Till, dispatched, enqueued, failed, held_by, payment, payment_of, retryable, rules},
};

pub(crate) async fn a_payment_is_a_row_and_a_message(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let now = till.stage.now().await;
    let new = NewPayment {
        tenant_id: Some(Uuid::from_u128(7)),
        correlation_id: Some(Uuid::from_u128(8)),
        headers: [("traceparent".to_owned(), "00-abc".into())]
            .into_iter()
            .collect(),
        ..payment(1)
    };
    let answer = enqueued(&till.try_enqueue(std::slice::from_ref(&new)).await[0]);
    assert_eq!((answer.sequence_id, answer.created_at), (1, now));
    assert_eq!(answer.state, PaymentState::Pending);
    assert!(!answer.duplicate);

    let found = till.payments.payment(answer.outbox_id).await;
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
        (view.state, view.place),
        (PaymentState::Pending, StateKind::Ready)
    );
    assert_eq!((view.attempt_count, view.next_attempt_at), (0, Some(now)));
    assert_eq!(
        (view.claimed_by, view.lease_expires_at, view.reason),
        (None, None, None)
    );

    let lease = till.stage.claim(10).await;
    let message = &lease.messages[0].message;
    assert_eq!(message.id, view.message_id);
    assert_eq!(message.key, Some(answer.outbox_id.to_string()));
    assert_eq!(message.group.as_deref(), Some("bank-a"));
    let mut headers = new.headers.clone();
    headers.insert("correlation_id".into(), json!(Uuid::from_u128(8)));
    assert_eq!(message.headers, headers, "so that its case is found");
    let stored = Stored::read(&message.payload).expect("a payment's message");
    assert_eq!(stored, Stored::new(&new, answer.outbox_id, 1));
}

/// P-01: the same outbox_id, one pending, no attempts, one number used.
pub(crate) async fn a_repeated_payment_is_the_first(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let first = enqueued(&till.try_enqueue(&[payment(1)]).await[0]);
    till.stage.advance(s(60)).await;
    let again = NewPayment {
        correlation_id: Some(Uuid::from_u128(9)),
        payload: json!({"destination": "acc-1", "currency_code": "ZMW", "amount_minor": 1001.0})
            .into(),
        ..payment(1)
    };
    let repeated = enqueued(&till.try_enqueue(&[again]).await[0]);
    assert!(repeated.duplicate);
    assert_eq!(
        (
            repeated.outbox_id,
            repeated.sequence_id,
            repeated.created_at
        ),
        (first.outbox_id, first.sequence_id, first.created_at)
    );
    assert_eq!(till.attempts(first.outbox_id).await, []);
    let next = enqueued(&till.try_enqueue(&[payment(2)]).await[0]);
    assert_eq!(next.sequence_id, 2, "a repeat uses no number");
    assert_eq!(till.stage.claim(10).await.messages.len(), 2);
}

/// P-01, phase 5.
pub(crate) async fn a_payment_sent_by_ten_at_once_is_one(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let other = harness.another_payments().await;
    let mut tasks = JoinSet::new();
    for n in 0..10 {
        let payments = if n % 2 == 0 { &till.payments } else { &other };
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
    let next = enqueued(&till.try_enqueue(&[payment(2)]).await[0]);
    assert_eq!(next.sequence_id, 2, "one number was used");
}

/// P-01, CP-05: another payload, participant, rail or hold under the same key.
pub(crate) async fn a_payment_that_differs_under_its_key_is_a_conflict(
    harness: &dyn PaymentsHarness,
) {
    let till = Till::new(harness).await;
    let id = till.enqueue_one(&payment(1)).await;
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
            let answer = till
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
            "ready" => drop(till.stage.claim(1).await),
            "leased" => {
                till.stage.crash().await;
                till.work_off(dispatched).await;
            }
            _ => {}
        }
    }
    let next = enqueued(&till.try_enqueue(&[payment_of("bank-b", 1)]).await[0]);
    assert_eq!(next.sequence_id, 1, "a conflict uses no number of anybody");
}

/// A tenant that uses another one's key, or nobody's, makes a payment of its own.
pub(crate) async fn a_key_is_its_tenants_own(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let of = |tenant: Option<u128>, rail: &str| NewPayment {
        tenant_id: tenant.map(Uuid::from_u128),
        rail_type: rail.into(),
        ..payment(1)
    };
    // In one call and in several: nobody's, two tenants', and one whose id is all zeros.
    let mut made = till
        .enqueue(&[of(None, "PAYMENT"), of(Some(1), "REFUND")])
        .await;
    made.push(till.enqueue_one(&of(Some(2), "PAYMENT")).await);
    made.push(till.enqueue_one(&of(Some(0), "PAYMENT")).await);
    let tenants = [(None, "PAYMENT"), (Some(1), "REFUND"), (Some(2), "PAYMENT")];
    for ((tenant, rail), id) in tenants.into_iter().zip(&made) {
        let again = enqueued(&till.try_enqueue(&[of(tenant, rail)]).await[0]);
        assert_eq!((again.outbox_id, again.duplicate), (*id, true));
        assert_eq!(till.view(*id).await.tenant_id, tenant.map(Uuid::from_u128));
        let other = till.try_enqueue(&[of(tenant, "OTHER")]).await.remove(0);
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
    let till = Till::new(harness).await;
    till.enqueue_one(&payment(1)).await;
    let differing = NewPayment {
        rail_type: "REFUND".into(),
        ..payment(1)
    };
    let answers = till.try_enqueue(&[payment(2), differing, payment(3)]).await;
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
    let till = Till::new(harness).await;
    let differing = NewPayment {
        rail_type: "REFUND".into(),
        ..payment(1)
    };
    let answers = till
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
    assert_eq!(till.stage.claim(10).await.messages.len(), 2);
}

/// P-04, CP-19, CP-20: whatever has become of it, with the time it was first seen.
pub(crate) async fn a_repeated_payment_tells_how_it_stands(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let first = enqueued(&till.try_enqueue(&[payment(1)]).await[0]);
    let standing = async |n: usize| enqueued(&till.try_enqueue(&[payment(n)]).await[0]);
    till.stage.advance(s(1)).await;
    let lease = till.stage.claim(1).await;
    assert_eq!(standing(1).await.state, PaymentState::Pending, "leased");
    till.complete(&lease, retryable(first.outbox_id)).await;
    assert_eq!(standing(1).await.state, PaymentState::Pending, "resting");
    till.stage.advance(s(5)).await;
    till.work_off(dispatched).await;
    let last = standing(1).await;
    assert_eq!(last.state, PaymentState::Dispatched);
    assert_eq!(last.created_at, first.created_at);

    let second = till.enqueue_one(&payment(2)).await;
    let moved = till.payments.hold_payments(&[second], &by()).await;
    assert_eq!(moved.expect("hold answers").len(), 1);
    assert_eq!(standing(2).await.state, PaymentState::Held);
    till.enqueue_one(&payment(3)).await;
    till.work_off(failed).await;
    assert_eq!(standing(3).await.state, PaymentState::Failed);
}

/// P-02, D4: 1, rolled back, 2, repeated, conflicting, refused, 3; others count for themselves.
pub(crate) async fn numbers_run_per_participant_without_gaps(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let number = async |payment: NewPayment| {
        let answers = till.try_enqueue(&[payment]).await;
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
    till.try_enqueue(&[differing]).await;
    let unfit = NewPayment {
        payload: json!([]).into(),
        ..payment(5)
    };
    let answer = till.payments.enqueue_payments(&[payment(4), unfit]).await;
    refused(answer, "invalid_input");
    assert_eq!(number(payment(6)).await, 3);
    assert_eq!(number(payment_of("bank-b", 2)).await, 1);
    let mixed = [
        payment_of("bank-b", 3),
        payment(7),
        payment_of("bank-c", 1),
        payment(8),
    ];
    let answers = till.try_enqueue(&mixed).await;
    let numbers: Vec<i64> = answers.iter().map(|a| enqueued(a).sequence_id).collect();
    assert_eq!(numbers, [2, 4, 1, 5], "in the order given");
}

/// P-02: 100 at once, half of them through another instance, some sent twice.
pub(crate) async fn numbers_have_no_gaps_under_many_producers(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let other = harness.another_payments().await;
    let mut tasks = JoinSet::new();
    for n in 0..100 {
        let payments = if n % 2 == 0 { &till.payments } else { &other };
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

/// CP-17: whoever enqueues for several participants names them in any order.
pub(crate) async fn producers_of_several_participants_do_not_wait_for_ever(
    harness: &dyn PaymentsHarness,
) {
    let till = Till::new(harness).await;
    let other = harness.another_payments().await;
    let mut tasks = JoinSet::new();
    for n in 0..20 {
        let payments = if n % 2 == 0 { &till.payments } else { &other };
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

/// P-18: neither the business's rows nor the payment.
pub(crate) async fn a_rolled_back_payment_leaves_nothing(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    harness.enqueue_payments_and_roll_back(&[payment(1)]).await;
    till.stage.claim_nothing("it was rolled back").await;
    let answer = enqueued(&till.try_enqueue(&[payment(1)]).await[0]);
    assert_eq!((answer.duplicate, answer.sequence_id), (false, 1));
}

pub(crate) async fn payments_nobody_could_keep_are_refused(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
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
        let answer = till.payments.enqueue_payments(&[payment(100), unfit]).await;
        refused(answer, "invalid_input");
    }
    let large = NewPayment {
        payload: json!({"x": "y".repeat(rules().payload_max_bytes)}).into(),
        ..payment(1)
    };
    let answer = till.payments.enqueue_payments(&[payment(100), large]).await;
    refused(answer, "payload_too_large");
    till.stage.claim_nothing("all or none").await;
    let widest = NewPayment {
        participant_id: "x".repeat(256),
        ..payment(1)
    };
    till.enqueue_one(&widest).await;
}

pub(crate) async fn the_queue_of_payments_takes_nothing_else(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let stranger = NewMessage::new(till.stage.queue.clone(), json!({"amount_minor": 1}));
    refused(
        till.stage
            .try_enqueue(std::slice::from_ref(&stranger))
            .await,
        "invalid_input",
    );
    let keyed = stranger.with_key(Uuid::from_u128(5).to_string());
    refused(till.stage.try_enqueue(&[keyed]).await, "invalid_input");
    till.stage.claim_nothing("nothing came in").await;
    let mut careless = rules();
    careless.on_uncertain = OnUncertain::Resend;
    let answer = till
        .stage
        .store
        .put_queue(&till.stage.queue, &careless, &by())
        .await;
    refused(answer, "invalid_input");
}

pub(crate) async fn the_first_payment_makes_the_queue(harness: &dyn PaymentsHarness) {
    let till = Till::bare(harness);
    till.enqueue_one(&payment(1)).await;
    let queue = till.stage.store.queue(&till.stage.queue).await;
    let queue = queue.expect("queue answers").expect("a queue");
    assert_eq!(queue.policy, queue_policy(&PaymentsOptions::default()));
    let lease = till.stage.claim(1).await;
    till.complete(&lease, dispatched(held_by(&lease)[0])).await;
}

pub(crate) async fn an_enqueue_of_no_payments_answers_nothing(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    assert_eq!(till.try_enqueue(&[]).await, []);
}
