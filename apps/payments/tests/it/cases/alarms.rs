//! What somebody must look at (P-17): doctor says so too.

use consign_conformance::stage::{TTL, by, s};
use consign_kernel::Finding;
use consign_payments::{Completion, ReusedReference};

use super::{
    PaymentsHarness,
    till::{Till, WORKER, dispatched, held_by, paid, payment, payment_of},
};

async fn codes(till: &Till<'_>) -> Vec<String> {
    let findings = till.stage.store.doctor().await.expect("doctor answers");
    findings
        .into_iter()
        .map(|Finding { code, .. }| code)
        .collect()
}

/// P-17, CP-12: recorded as told, because the money has moved; of one participant and rail only.
pub(crate) async fn a_reference_given_twice_is_an_alarm(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let ids = till
        .enqueue(&[payment(1), payment_of("bank-b", 1), payment(2)])
        .await;
    for _ in &ids {
        till.work_off(|id| Completion::dispatched(id, "REF-1"))
            .await;
    }
    let found = till
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
    assert_eq!(codes(&till).await, ["rail_reference_reused"]);
}

/// CP-09: a success under another reference than the one on record: the rail may have paid twice.
pub(crate) async fn a_second_reference_is_an_alarm(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let id = till.enqueue_one(&payment(1)).await;
    let lease = till.stage.claim(1).await;
    till.complete(&lease, dispatched(id)).await;
    let other = [Completion::dispatched(id, "REF-OTHER")];
    let kept = till.payments.witness_payments(lease.token, WORKER, &other);
    assert_eq!(kept.await.expect("witness answers"), [id]);
    let found = till.payments.reconcile_payments(10).await;
    let late = found.expect("reconcile answers").late_successes;
    assert_eq!(late.len(), 1, "{late:?}");
    assert_eq!(late[0].outbox_id, id);
    assert_eq!(codes(&till).await, ["payment_late_unconfirmed"]);
}

/// CP-10: claims take back what they find, so a lease that ended long ago was missed by everybody.
pub(crate) async fn a_lease_nobody_takes_back_is_an_alarm(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    till.enqueue_one(&payment(1)).await;
    till.stage.claim(1).await;
    till.stage.advance(TTL + s(59)).await;
    assert_eq!(codes(&till).await, [""; 0], "the next claim may come");
    till.stage.advance(s(1)).await;
    assert_eq!(codes(&till).await, ["payment_lease_expired"]);
    let repaired = till.payments.repair(10).await.expect("repair answers");
    assert_eq!(repaired.len(), 1);
    assert_eq!(codes(&till).await, [""; 0]);
}

/// CP-09: what a worker says that had lost its lease, until the record says the same or a person
/// has decided.
pub(crate) async fn a_late_success_nobody_confirmed_is_an_alarm(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let alarm = ["payment_late_unconfirmed"];
    let lose = async |n: usize| {
        till.enqueue_one(&payment(n)).await;
        let lease = till.stage.claim(1).await;
        let id = held_by(&lease)[0];
        till.stage.crash().await;
        let said = [dispatched(id)];
        let kept = till.payments.witness_payments(lease.token, WORKER, &said);
        assert_eq!(kept.await.expect("witness answers"), [id]);
        assert_eq!(codes(&till).await, alarm, "nobody has asked yet");
        id
    };
    lose(1).await;
    till.work_off(dispatched).await;
    assert_eq!(
        codes(&till).await,
        [""; 0],
        "the same reference: one payment"
    );

    let id = lose(2).await;
    let held = till.payments.hold_payments(&[id], &by()).await;
    held.expect("a person answers");
    till.resolve(id, &paid("REF-BOOKS")).await;
    assert_eq!(codes(&till).await, [""; 0], "a person has decided");

    lose(3).await;
    till.work_off(|id| Completion::dispatched(id, "REF-OTHER"))
        .await;
    assert_eq!(codes(&till).await, alarm, "paid twice, it seems");
}

/// P-09, P-10: given up at the ceiling, though a worker that fell silent may have called the rail.
pub(crate) async fn a_failure_in_doubt_is_an_alarm(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let ids = till.enqueue(&[payment(1), payment(2)]).await;
    till.work_off(super::till::failed).await;
    for _ in 0..3 {
        let claimed = till.payments.claim_payments(1, WORKER, TTL, true).await;
        claimed.expect("claim answers").expect("the payment");
        till.stage.advance(TTL).await;
    }
    till.stage.claim_nothing("it was the last try").await;
    assert_eq!(codes(&till).await, ["payment_failed_in_doubt"]);
    let moved = till.payments.requeue_payments(&ids[1..], &by()).await;
    moved.expect("requeue answers");
    assert_eq!(codes(&till).await, [""; 0], "the next worker asks");
}
