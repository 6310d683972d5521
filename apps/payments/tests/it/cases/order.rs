//! One after the other, by participant (P-19).

use consign_conformance::stage::{by, s};
use consign_kernel::{OnDead, QueuePolicy, StateKind};
use consign_payments::{NewPayment, OutboxId, PaymentState};

use super::{
    PaymentsHarness,
    till::{Till, dispatched, enqueued, failed, held_by, payment, payment_of, retryable, rules},
};

fn ordered() -> QueuePolicy {
    QueuePolicy {
        ordered: true,
        on_dead: OnDead::Continue,
        ..rules()
    }
}

async fn claim_all(till: &Till<'_>) -> Vec<OutboxId> {
    match till.stage.try_claim(100).await {
        Some(lease) => {
            let ids = held_by(&lease);
            till.stage
                .store
                .release(lease.token)
                .await
                .expect("release answers");
            ids
        }
        None => Vec::new(),
    }
}

/// P-19: across retries and workers; a failed one is finished.
pub(crate) async fn the_next_of_a_participant_waits_for_its_turn(harness: &dyn PaymentsHarness) {
    let till = Till::with(harness, ordered()).await;
    let a = till.enqueue(&[payment(1), payment(2), payment(3)]).await;
    let b = till.enqueue_one(&payment_of("bank-b", 1)).await;
    assert_eq!(claim_all(&till).await, [a[0], b]);
    assert_eq!(till.view(a[1]).await.place, StateKind::Waiting);
    assert_eq!(till.view(a[1]).await.state, PaymentState::Pending);
    assert_eq!(till.view(a[1]).await.next_attempt_at, None);

    till.work_off(retryable).await;
    till.work_off(dispatched).await;
    assert_eq!(claim_all(&till).await, [], "1 rests, and 2 waits for it");
    till.stage.advance(s(1)).await;
    till.work_off(failed).await;
    assert_eq!(
        claim_all(&till).await,
        [a[1]],
        "1 has failed, which is an end"
    );
    let done = till.work_off(dispatched).await;
    assert_eq!(done.outbox_id, a[1]);
    assert_eq!(claim_all(&till).await, [a[2]]);
}

pub(crate) async fn a_held_payment_keeps_its_participant_waiting(harness: &dyn PaymentsHarness) {
    let till = Till::with(harness, ordered()).await;
    let held = NewPayment {
        kyc_hold: true,
        ..payment(1)
    };
    let answers = till.try_enqueue(&[held, payment(2)]).await;
    let ids: Vec<OutboxId> = answers.iter().map(|a| enqueued(a).outbox_id).collect();
    till.stage
        .claim_nothing("2 waits for 1, which is held")
        .await;
    till.payments
        .release_payments(&ids[..1], &by())
        .await
        .expect("release answers");
    assert_eq!(till.work_off(dispatched).await.outbox_id, ids[0]);
    assert_eq!(till.work_off(dispatched).await.outbox_id, ids[1]);
}

/// P-19: with a hold in the middle, from the start or later.
pub(crate) async fn a_payment_held_while_it_waits_keeps_its_place(harness: &dyn PaymentsHarness) {
    let till = Till::with(harness, ordered()).await;
    let held = NewPayment {
        kyc_hold: true,
        ..payment(2)
    };
    let ids = till
        .enqueue(&[payment(1), held, payment(3), payment(4)])
        .await;
    let parked = till.payments.hold_payments(&ids[2..3], &by()).await;
    parked.expect("hold answers");
    assert_eq!(till.work_off(dispatched).await.outbox_id, ids[0]);
    for n in [1, 2] {
        assert_eq!(till.view(ids[n]).await.state, PaymentState::Held);
        till.stage.claim_nothing("nobody passes a held one").await;
        let released = till.payments.release_payments(&ids[n..=n], &by()).await;
        released.expect("release answers");
        assert_eq!(till.work_off(dispatched).await.outbox_id, ids[n]);
    }
    assert_eq!(till.work_off(dispatched).await.outbox_id, ids[3]);
}
