//! Order within a participant, where the lane promises it.

use super::{Desk, claim};

/// P-19: across retries and workers; other participants are not held up.
#[tokio::test]
async fn the_second_waits_until_the_first_is_finished() {
    let mut desk = Desk::frozen().await;
    desk.policy(r#"{"ordered": true}"#).await;
    let p = desk.enqueue("p", 3).await;
    let q = desk.enqueue("q", 1).await;
    let mut other = desk.another().await;
    let first = desk.claim(10, "a", 60).await;
    let ids: Vec<_> = first.iter().map(|payment| payment.outbox_id).collect();
    assert_eq!(ids, [p[0], q[0]]);
    assert_eq!(claim(&mut other, 10, "b", 60).await.unwrap().len(), 0);
    desk.complete(&first[0], "a", "RETRYABLE").await.unwrap();
    desk.complete(&first[1], "a", "DISPATCHED").await.unwrap();
    assert_eq!(
        claim(&mut other, 10, "b", 60).await.unwrap().len(),
        0,
        "the first rests, the second waits"
    );
    desk.pass(1.0).await;
    let again = claim(&mut other, 10, "b", 60).await.unwrap();
    assert_eq!((again.len(), again[0].outbox_id), (1, p[0]));
    desk.complete(&again[0], "b", "DISPATCHED").await.unwrap();
    for id in &p[1..] {
        let next = desk.claim_one("a", 60).await;
        assert_eq!(next.outbox_id, *id);
        desk.complete(&next, "a", "DISPATCHED").await.unwrap();
    }
    assert_eq!(desk.findings().await, Vec::<String>::new());
}

/// P-19 with a compliance hold: those after it wait for it.
#[tokio::test]
async fn a_held_first_keeps_the_second_waiting() {
    let mut desk = Desk::frozen().await;
    desk.policy(r#"{"ordered": true}"#).await;
    desk.run(
        "SELECT consign.enqueue_payments(ARRAY['i', 'i'], ARRAY['p', 'p'], ARRAY['1', '2'], ARRAY['R', 'R'],
             ARRAY['{}', '{}']::jsonb[], p_kyc_holds => ARRAY[true, false])",
    )
    .await;
    assert_eq!(desk.claim(10, "w", 60).await.len(), 0);
    desk.run("SELECT consign.unhold(ARRAY(SELECT message_id FROM consign.payment), 'compliance', 'cleared')")
        .await;
    for sequence_id in [1, 2] {
        let claimed = desk.claim_one("w", 60).await;
        assert_eq!(claimed.sequence_id, sequence_id);
        desk.complete(&claimed, "w", "DISPATCHED").await.unwrap();
    }
    assert_eq!(desk.findings().await, Vec::<String>::new());
}

/// Without the promise a payment that rests holds nobody up.
#[tokio::test]
async fn without_the_promise_the_second_goes_first() {
    let mut desk = Desk::frozen().await;
    let ids = desk.enqueue("p", 2).await;
    let first = desk.claim(1, "a", 60).await;
    desk.complete(&first[0], "a", "RETRYABLE").await.unwrap();
    assert_eq!(desk.claim_one("a", 60).await.outbox_id, ids[1]);
}
