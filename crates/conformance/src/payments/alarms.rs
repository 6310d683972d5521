//! What somebody must look at (P-17): doctor says so too.

use consign_kernel::Finding;
use consign_payments::{Completion, ReusedReference};

use super::till::{Till, WORKER, dispatched, payment, payment_of};
use crate::Harness;

async fn codes(till: &Till<'_>) -> Vec<String> {
    let findings = till.stage.store.doctor().await.expect("doctor answers");
    findings
        .into_iter()
        .map(|Finding { code, .. }| code)
        .collect()
}

/// P-17, CP-12: recorded as told, because the money has moved; of one participant and rail only.
pub(crate) async fn a_reference_given_twice_is_an_alarm(harness: &dyn Harness) {
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
pub(crate) async fn a_second_reference_is_an_alarm(harness: &dyn Harness) {
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
}
