//! Payments that need an operator are findings of doctor too.

use consign_conformance::stage::{TTL, by, s};
use consign_kernel::{ErasureAnswer, ErasureTarget, Finding};
use consign_payments::{Completion, ReusedReference};

use super::{
    PaymentsHarness,
    fixture::{PaymentsFixture, WORKER, dispatched, held_by, paid, payment, payment_of},
};

async fn codes(fixture: &PaymentsFixture<'_>) -> Vec<String> {
    let findings = fixture.stage.store.doctor().await.expect("doctor answers");
    findings
        .into_iter()
        .map(|Finding { code, .. }| code)
        .collect()
}

/// Recorded as reported, because the money has moved; of one participant and rail only.
pub(crate) async fn a_reused_reference_is_an_alarm(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let ids = fixture
        .enqueue(&[payment(1), payment_of("bank-b", 1), payment(2)])
        .await;
    for _ in &ids {
        fixture
            .work_off(|id| Completion::dispatched(id, "REF-1"))
            .await;
    }
    let found = fixture
        .payments
        .reconcile_payments(10)
        .await
        .expect("reconcile answers");
    let reused = ReusedReference {
        participant_id: "bank-a".to_owned(),
        rail_type: "PAYMENT".to_owned(),
        rail_reference: "REF-1".to_owned(),
        outbox_ids: vec![ids[0], ids[2]],
    };
    assert_eq!(found.reused_references, [reused]);
    assert_eq!(codes(&fixture).await, ["rail_reference_reused"]);
}

/// A success under another reference than the one on record: the rail may have paid twice.
pub(crate) async fn a_second_reference_is_an_alarm(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let id = fixture.enqueue_one(&payment(1)).await;
    let lease = fixture.stage.claim(1).await;
    fixture.complete(&lease, dispatched(id)).await;
    let other = [Completion::dispatched(id, "REF-OTHER")];
    let kept = fixture
        .payments
        .record_late_payments(lease.token, WORKER, &other);
    assert_eq!(kept.await.expect("record_late answers"), [id]);
    let found = fixture.payments.reconcile_payments(10).await;
    let late = found.expect("reconcile answers").late_successes;
    assert_eq!(late.len(), 1, "{late:?}");
    assert_eq!(late[0].outbox_id, id);
    assert_eq!(codes(&fixture).await, ["payment_late_unconfirmed"]);
}

/// Claims end expired leases, so a lease that expired long ago means that no worker runs.
pub(crate) async fn a_lease_that_stays_expired_is_an_alarm(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    fixture.enqueue_one(&payment(1)).await;
    fixture.stage.claim(1).await;
    fixture.stage.advance(TTL + s(59)).await;
    assert_eq!(codes(&fixture).await, [""; 0], "the next claim may come");
    fixture.stage.advance(s(1)).await;
    assert_eq!(codes(&fixture).await, ["payment_lease_expired"]);
    let repaired = fixture.payments.repair(10).await.expect("repair answers");
    assert_eq!(repaired.len(), 1);
    assert_eq!(codes(&fixture).await, [""; 0]);
}

/// A late success, until an attempt records the same or an operator
/// has decided.
pub(crate) async fn an_unconfirmed_late_success_is_an_alarm(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let alarm = ["payment_late_unconfirmed"];
    let lose = async |n: usize| {
        fixture.enqueue_one(&payment(n)).await;
        let lease = fixture.stage.claim(1).await;
        let id = held_by(&lease)[0];
        fixture.stage.crash().await;
        let stated = [dispatched(id)];
        let kept = fixture
            .payments
            .record_late_payments(lease.token, WORKER, &stated);
        assert_eq!(kept.await.expect("record_late answers"), [id]);
        assert_eq!(codes(&fixture).await, alarm, "not checked yet");
        id
    };
    lose(1).await;
    fixture.work_off(dispatched).await;
    assert_eq!(
        codes(&fixture).await,
        [""; 0],
        "the same reference: one payment"
    );

    let id = lose(2).await;
    let held = fixture.payments.hold_payments(&[id], &by()).await;
    held.expect("a person answers");
    fixture.resolve(id, &paid("REF-BOOKS")).await;
    assert_eq!(codes(&fixture).await, [""; 0], "a person has decided");

    let id = lose(3).await;
    fixture
        .work_off(|id| Completion::dispatched(id, "REF-OTHER"))
        .await;
    assert_eq!(codes(&fixture).await, alarm, "paid twice, it seems");
    let target = ErasureTarget::Ids(vec![fixture.view(id).await.message_id]);
    let erased = fixture.stage.store.erase(&target, &by()).await;
    let erased = erased.expect("erase answers")[0].answer;
    assert_eq!(erased, ErasureAnswer::Needed);
}

/// Failed at the ceiling, though a silent worker may have called the rail.
pub(crate) async fn a_failure_in_doubt_is_an_alarm(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let ids = fixture.enqueue(&[payment(1), payment(2)]).await;
    fixture.work_off(super::fixture::failed).await;
    for _ in 0..3 {
        let claimed = fixture.payments.claim_payments(1, WORKER, TTL, true).await;
        claimed.expect("claim answers").expect("the payment");
        fixture.stage.advance(TTL).await;
    }
    fixture.stage.claim_nothing("it was the last try").await;
    assert_eq!(codes(&fixture).await, ["payment_failed_in_doubt"]);
    let moved = fixture.payments.requeue_payments(&ids[1..], &by()).await;
    moved.expect("requeue answers");
    assert_eq!(
        codes(&fixture).await,
        [""; 0],
        "the next worker queries the rail"
    );
}
