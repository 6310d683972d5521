//! Order within a participant, where the queue promises it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use super::{Desk, SOON, claim};

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

/// P-19 with a hold in the middle: whoever is held while it waits keeps its place, whether it was
/// enqueued so or held by a person, and whether it is released or resolved.
#[tokio::test]
async fn a_held_one_in_the_middle_is_passed_by_nobody() {
    let enqueued_held = "SELECT consign.enqueue_payments(array_fill('i'::text, ARRAY[4]), array_fill('p'::text, ARRAY[4]),
        ARRAY['1', '2', '3', '4'], array_fill('R'::text, ARRAY[4]), array_fill('{}'::jsonb, ARRAY[4]),
        p_kyc_holds => ARRAY[false, true, false, true])";
    let enqueued = "SELECT consign.enqueue_payment_outbox('i', 'p', n::text, 'R', '{}') FROM generate_series(1, 4) n";
    let held = "SELECT consign.hold(ARRAY(SELECT message_id FROM consign.payment WHERE sequence_id IN (2, 4)), 'me', 'look')";
    let release =
        "SELECT consign.unhold(ARRAY(SELECT min(message_id) FROM consign.held), 'me', 'fine')";
    let resolve = "SELECT consign.resolve(ARRAY(SELECT min(message_id) FROM consign.held), 'delivered', 'me', 'paid by hand',
        jsonb_build_object('rail_reference', gen_random_uuid()))";
    for (enqueue, hold) in [(enqueued_held, ""), (enqueued, held)] {
        for (ending, is_sent) in [(release, true), (resolve, false)] {
            let mut desk = Desk::frozen().await;
            desk.policy(r#"{"ordered": true}"#).await;
            desk.run(enqueue).await;
            desk.run(hold).await;
            for number in 1..=4 {
                if number % 2 == 0 {
                    assert_eq!(desk.claim(10, "w", 60).await.len(), 0, "{number} is held");
                    desk.run("SELECT consign.enqueue_payment_outbox('i', 'q', gen_random_uuid()::text, 'R', '{}')").await;
                    let other = desk.claim_one("w", 60).await;
                    desk.complete(&other, "w", "DISPATCHED").await.unwrap();
                    desk.run(ending).await;
                }
                if number % 2 == 1 || is_sent {
                    let claimed = desk.claim_one("w", 60).await;
                    assert_eq!(claimed.sequence_id, number);
                    desk.complete(&claimed, "w", "DISPATCHED").await.unwrap();
                }
            }
            assert_eq!(desk.findings().await, Vec::<String>::new());
            desk.enqueue("p", 1).await;
            assert_eq!(desk.claim(10, "w", 60).await.len(), 1, "the turn is free");
        }
    }
}

/// P-19 while people hold, release and resolve at every moment: the order stays, and nobody is
/// forgotten.
#[tokio::test(flavor = "multi_thread")]
async fn order_survives_holds_at_every_moment() {
    let mut desk = Desk::open().await;
    desk.policy(r#"{"ordered": true}"#).await;
    desk.enqueue("p", 120).await;
    let over = Arc::new(AtomicBool::new(false));
    let mut people = Vec::new();
    for person in 0..3_i32 {
        let mut connection = desk.another().await;
        let over = Arc::clone(&over);
        people.push(tokio::spawn(async move {
            let mut round = person;
            while !over.load(Ordering::Relaxed) {
                round += 7;
                let sql = match person {
                    0 => "SELECT consign.hold(ARRAY(SELECT message_id FROM consign.payment WHERE sequence_id % 40 = $1 % 40), 'a', 'b')",
                    1 => "SELECT consign.unhold(ARRAY(SELECT message_id FROM consign.held WHERE message_id % 3 <> $1 % 3), 'a', 'b')",
                    _ => {
                        "SELECT consign.resolve(ARRAY[h.message_id], 'delivered', 'a', 'b', jsonb_build_object('rail_reference', h.message_id::text))
                            FROM (SELECT message_id FROM consign.held WHERE message_id % 20 = $1 % 20) h"
                    }
                };
                sqlx::query(sql)
                    .bind(round)
                    .execute(&mut connection)
                    .await
                    .unwrap();
            }
        }));
    }
    let left = "SELECT count(*) FROM consign.payment_place";
    let deadline = Instant::now() + SOON;
    while desk.count(left).await > 0 {
        assert!(Instant::now() < deadline, "the last ones are forgotten");
        for payment in desk.claim(10, "w", 60).await {
            desk.complete(&payment, "w", "DISPATCHED").await.unwrap();
        }
    }
    over.store(true, Ordering::Relaxed);
    for person in people {
        person.await.unwrap();
    }
    let passed = "SELECT count(*) FROM (SELECT a.claimed_at < max(a.claimed_at) OVER (ORDER BY p.sequence_id) AS passed
                      FROM consign.payment p JOIN consign.attempt a ON a.message_id = p.message_id
                      WHERE a.outcome = 'delivered' AND a.code IS NULL) o WHERE passed";
    assert_eq!(desk.count(passed).await, 0, "nobody was passed");
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
