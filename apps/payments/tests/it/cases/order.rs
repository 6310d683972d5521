//! One after the other, by participant.

use consign_conformance::stage::{by, s};
use consign_kernel::{OnDead, QueuePolicy, StateKind};
use consign_payments::{NewPayment, OutboxId, PaymentState};

use super::{
    PaymentsHarness,
    fixture::{
        PaymentsFixture, dispatched, enqueued, failed, held_by, payment, payment_of, retryable,
        rules,
    },
};

fn ordered() -> QueuePolicy {
    QueuePolicy {
        ordered: true,
        on_dead: OnDead::Continue,
        ..rules()
    }
}

async fn claim_all(fixture: &PaymentsFixture<'_>) -> Vec<OutboxId> {
    match fixture.stage.try_claim(100).await {
        Some(lease) => {
            let ids = held_by(&lease);
            fixture
                .stage
                .store
                .release(lease.token)
                .await
                .expect("release answers");
            ids
        }
        None => Vec::new(),
    }
}

/// Across retries and workers; a failed one is finished.
pub(crate) async fn the_next_of_a_participant_waits(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::with(harness, ordered()).await;
    let a = fixture.enqueue(&[payment(1), payment(2), payment(3)]).await;
    let b = fixture.enqueue_one(&payment_of("bank-b", 1)).await;
    assert_eq!(claim_all(&fixture).await, [a[0], b]);
    assert_eq!(fixture.view(a[1]).await.message_state, StateKind::Waiting);
    assert_eq!(fixture.view(a[1]).await.state, PaymentState::Pending);
    assert_eq!(fixture.view(a[1]).await.next_attempt_at, None);

    fixture.work_off(retryable).await;
    fixture.work_off(dispatched).await;
    assert_eq!(claim_all(&fixture).await, [], "1 rests, and 2 waits for it");
    fixture.stage.advance(s(1)).await;
    fixture.work_off(failed).await;
    assert_eq!(
        claim_all(&fixture).await,
        [a[1]],
        "1 has failed, which is an end"
    );
    let done = fixture.work_off(dispatched).await;
    assert_eq!(done.outbox_id, a[1]);
    assert_eq!(claim_all(&fixture).await, [a[2]]);
}

pub(crate) async fn a_held_payment_keeps_its_participant_waiting(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::with(harness, ordered()).await;
    let held = NewPayment {
        kyc_hold: true,
        ..payment(1)
    };
    let answers = fixture.try_enqueue(&[held, payment(2)]).await;
    let ids: Vec<OutboxId> = answers.iter().map(|a| enqueued(a).outbox_id).collect();
    fixture
        .stage
        .claim_nothing("2 waits for 1, which is held")
        .await;
    fixture
        .payments
        .release_payments(&ids[..1], &by())
        .await
        .expect("release answers");
    assert_eq!(fixture.work_off(dispatched).await.outbox_id, ids[0]);
    assert_eq!(fixture.work_off(dispatched).await.outbox_id, ids[1]);
}

/// With a hold in the middle, from the start or later.
pub(crate) async fn a_payment_held_while_it_waits_keeps_its_place(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::with(harness, ordered()).await;
    let held = NewPayment {
        kyc_hold: true,
        ..payment(2)
    };
    let ids = fixture
        .enqueue(&[payment(1), held, payment(3), payment(4)])
        .await;
    let failpoint = fixture.payments.hold_payments(&ids[2..3], &by()).await;
    failpoint.expect("hold answers");
    assert_eq!(fixture.work_off(dispatched).await.outbox_id, ids[0]);
    for n in [1, 2] {
        assert_eq!(fixture.view(ids[n]).await.state, PaymentState::Held);
        fixture
            .stage
            .claim_nothing("a held payment blocks the next ones")
            .await;
        let released = fixture.payments.release_payments(&ids[n..=n], &by()).await;
        released.expect("release answers");
        assert_eq!(fixture.work_off(dispatched).await.outbox_id, ids[n]);
    }
    assert_eq!(fixture.work_off(dispatched).await.outbox_id, ids[3]);
}
