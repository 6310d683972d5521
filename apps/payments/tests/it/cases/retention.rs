//! Payments leave with their messages; their keys and numbers stay used.

use consign_conformance::stage::{Maintenance, by, done, s};
use consign_kernel::QueuePolicy;
use consign_payments::{
    Completion, EnqueueAnswer, NewPayment, PaymentFilter, PaymentReceipt, PaymentState,
};
use serde_json::json;

use super::PaymentsHarness;
use super::fixture::{
    PaymentsFixture, WORKER, dispatched, enqueued, failed, held_by, payment, rules,
};

/// Keeps finished payments for a minute, and keys for an hour.
fn keeping() -> QueuePolicy {
    QueuePolicy {
        keep_ms: Some(60_000),
        keep_dead_ms: Some(60_000),
        keep_keys_ms: Some(3_600_000),
        ..rules()
    }
}

async fn examine(fixture: &PaymentsFixture<'_>) {
    let findings = fixture.stage.store.doctor().await;
    assert_eq!(findings.expect("doctor answers"), []);
}

async fn repeat(fixture: &PaymentsFixture<'_>, payment: &NewPayment) -> EnqueueAnswer {
    let mut answers = fixture.try_enqueue(std::slice::from_ref(payment)).await;
    answers.remove(0)
}

/// A payment that is known, with its state.
async fn known(fixture: &PaymentsFixture<'_>, payment: &NewPayment) -> PaymentReceipt {
    let receipt = enqueued(&repeat(fixture, payment).await);
    assert!(receipt.duplicate, "{receipt:?}");
    receipt
}

async fn forget(fixture: &PaymentsFixture<'_>, maintenance: &Maintenance) -> u64 {
    maintenance.renew().await;
    done(
        fixture
            .stage
            .store
            .forget_keys(maintenance.token, 100)
            .await,
    )
}

pub(crate) async fn a_payment_that_left_is_still_known_by_its_key(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::with(harness, keeping()).await;
    let maintenance = Maintenance::lease(&fixture.stage.store).await;
    let sent = [payment(1), payment(2), payment(3)];
    let ids = fixture.enqueue(&sent).await;
    fixture.work_off(dispatched).await;
    fixture.work_off(failed).await;
    let before = [
        known(&fixture, &sent[0]).await,
        known(&fixture, &sent[1]).await,
    ];
    fixture.stage.advance(s(59)).await;
    assert_eq!(maintenance.leave().await, 0, "not before their time");
    fixture.stage.advance(s(1)).await;
    assert_eq!(maintenance.leave().await, 2);
    examine(&fixture).await;
    let after = [
        known(&fixture, &sent[0]).await,
        known(&fixture, &sent[1]).await,
    ];
    assert_eq!(after, before, "number, time and state as before");
    assert_eq!(after[0].state, PaymentState::Dispatched);
    assert_eq!(after[1].state, PaymentState::Failed);
    assert_eq!(forget(&fixture, &maintenance).await, 0, "keys are kept");
    // Gone for every read; the one that is pending stays.
    for id in &ids[..2] {
        let found = fixture.payments.payment(*id).await;
        assert_eq!(found.expect("payment answers"), None);
    }
    let all = PaymentFilter::default();
    let listed = fixture.payments.payments(&all, None, 10).await;
    let listed = listed.expect("payments answers").items;
    let listed: Vec<_> = listed.iter().map(|view| view.outbox_id).collect();
    assert_eq!(listed, ids[2..]);
    fixture.work_off(dispatched).await;
}

pub(crate) async fn a_payment_that_left_still_conflicts(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::with(harness, keeping()).await;
    let maintenance = Maintenance::lease(&fixture.stage.store).await;
    let first = NewPayment {
        tenant_id: Some(uuid::Uuid::from_u128(7)),
        correlation_id: Some(uuid::Uuid::from_u128(8)),
        ..payment(1)
    };
    let id = fixture.enqueue_one(&first).await;
    fixture.work_off(dispatched).await;
    fixture.stage.advance(s(60)).await;
    assert_eq!(maintenance.leave().await, 1);
    let others = [
        (
            "participant_id",
            NewPayment {
                participant_id: "bank-b".into(),
                ..first.clone()
            },
        ),
        (
            "rail_type",
            NewPayment {
                rail_type: "CARD".into(),
                ..first.clone()
            },
        ),
        (
            "payload",
            NewPayment {
                payload: json!({"amount_minor": 1}).into(),
                ..first.clone()
            },
        ),
        (
            "kyc_hold",
            NewPayment {
                kyc_hold: true,
                ..first.clone()
            },
        ),
    ];
    for (field, other) in others {
        let conflict = EnqueueAnswer::Conflict {
            outbox_id: id,
            field,
        };
        assert_eq!(repeat(&fixture, &other).await, conflict);
    }
    // Numbers are compared by value, and another correlation is no other payment.
    let equal = NewPayment {
        payload: r#"{"destination": "acc-1", "currency_code": "ZMW", "amount_minor": 1001.0}"#
            .parse()
            .expect("a document"),
        correlation_id: None,
        ..first.clone()
    };
    assert_eq!(known(&fixture, &equal).await.outbox_id, id);
    let elsewhere = NewPayment {
        tenant_id: None,
        ..first
    };
    let receipt = enqueued(&repeat(&fixture, &elsewhere).await);
    assert!(!receipt.duplicate, "a key belongs to its tenant");
}

pub(crate) async fn a_forgotten_payment_leaves_its_number_used(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::with(harness, keeping()).await;
    let maintenance = Maintenance::lease(&fixture.stage.store).await;
    let sent = [payment(1), payment(2)];
    let ids = fixture.enqueue(&sent).await;
    fixture.work_off(dispatched).await;
    fixture.work_off(dispatched).await;
    fixture.stage.advance(s(60)).await;
    assert_eq!(maintenance.leave().await, 2);
    fixture.stage.advance(s(3_600 - 60)).await;
    assert_eq!(forget(&fixture, &maintenance).await, 2);
    examine(&fixture).await;
    let again = enqueued(&repeat(&fixture, &sent[0]).await);
    assert!(!again.duplicate, "its key is free: {again:?}");
    assert!(!ids.contains(&again.outbox_id));
    assert_eq!(again.sequence_id, 3, "no number is given twice");
    let next = enqueued(&repeat(&fixture, &payment(3)).await);
    assert_eq!(next.sequence_id, 4);
}

/// What must be compared with the rail's books stays until it was.
pub(crate) async fn a_payment_to_be_reconciled_stays(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::with(harness, keeping()).await;
    let maintenance = Maintenance::lease(&fixture.stage.store).await;
    // Failed, though a silent worker may have called the rail.
    let doubtful = fixture.enqueue_one(&payment(1)).await;
    for _ in 0..3 {
        let claimed = fixture
            .payments
            .claim_payments(1, WORKER, s(10), true)
            .await;
        claimed.expect("claim answers").expect("the payment");
        fixture.stage.advance(s(10)).await;
    }
    fixture.stage.claim_nothing("it was the last try").await;
    // Failed, and a lost worker had paid it.
    fixture.enqueue_one(&payment(2)).await;
    let lost = fixture.stage.claim(1).await;
    let late = held_by(&lost)[0];
    fixture.stage.crash().await;
    let stated = [dispatched(late)];
    let kept = (fixture.payments).record_late_payments(lost.token, WORKER, &stated);
    assert_eq!(kept.await.expect("record_late answers"), [late]);
    fixture.work_off(failed).await;
    let plain = fixture.enqueue_one(&payment(3)).await;
    fixture.work_off(dispatched).await;
    fixture.stage.advance(s(3_600)).await;
    assert_eq!(maintenance.leave().await, 1, "{plain} only");
    assert_eq!(fixture.view(doubtful).await.state, PaymentState::Failed);
    // Both are found paid.
    for id in [doubtful, late] {
        let moved = fixture.payments.requeue_payments(&[id], &by()).await;
        moved.expect("requeue answers");
    }
    for _ in 0..2 {
        fixture
            .work_off(|id| Completion::dispatched(id, format!("REF-{id}")))
            .await;
    }
    fixture.stage.advance(s(60)).await;
    assert_eq!(maintenance.leave().await, 2);
    examine(&fixture).await;
}

/// A process may end after each step; payments are enqueued meanwhile.
pub(crate) async fn a_departure_of_payments_is_finished_step_by_step(
    harness: &dyn PaymentsHarness,
) {
    let fixture = PaymentsFixture::with(harness, keeping()).await;
    let maintenance = Maintenance::lease(&fixture.stage.store).await;
    let sent = payment(1);
    let id = fixture.enqueue_one(&sent).await;
    fixture.work_off(dispatched).await;
    fixture.stage.advance(s(60)).await;
    let departure = maintenance.begin_of(1).await;
    maintenance.archive(&departure).await;
    for n in 2.. {
        let progress = done(Ok(maintenance.step(&departure).await));
        examine(&fixture).await;
        let receipt = known(&fixture, &sent).await;
        assert_eq!(receipt.outbox_id, id);
        assert_eq!(receipt.state, PaymentState::Dispatched);
        let next = enqueued(&repeat(&fixture, &payment(n)).await);
        assert_eq!(next.sequence_id, n as i64, "without gaps");
        if progress.is_over {
            break;
        }
    }
}
