//! Order within a participant, where the queue promises it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use super::{Fixture, SOON, claim};

/// Across retries and workers; other participants are not held up.
#[tokio::test]
async fn the_second_waits_until_the_first_is_finished() {
    let mut fixture = Fixture::frozen().await;
    fixture.policy(r#"{"ordered": true}"#).await;
    let p = fixture.enqueue("p", 3).await;
    let q = fixture.enqueue("q", 1).await;
    let mut other = fixture.another().await;
    let first = fixture.claim(10, "a", 60).await;
    let ids: Vec<_> = first.iter().map(|payment| payment.outbox_id).collect();
    assert_eq!(ids, [p[0], q[0]]);
    assert_eq!(claim(&mut other, 10, "b", 60).await.unwrap().len(), 0);
    fixture.complete(&first[0], "a", "RETRYABLE").await.unwrap();
    fixture
        .complete(&first[1], "a", "DISPATCHED")
        .await
        .unwrap();
    assert_eq!(
        claim(&mut other, 10, "b", 60).await.unwrap().len(),
        0,
        "the first rests, the second waits"
    );
    fixture.pass(1.0).await;
    let again = claim(&mut other, 10, "b", 60).await.unwrap();
    assert_eq!((again.len(), again[0].outbox_id), (1, p[0]));
    fixture
        .complete(&again[0], "b", "DISPATCHED")
        .await
        .unwrap();
    for id in &p[1..] {
        let next = fixture.claim_one("a", 60).await;
        assert_eq!(next.outbox_id, *id);
        fixture.complete(&next, "a", "DISPATCHED").await.unwrap();
    }
    assert_eq!(fixture.findings().await, Vec::<String>::new());
}

/// Payments after a compliance hold wait for it.
#[tokio::test]
async fn a_held_first_keeps_the_second_waiting() {
    let mut fixture = Fixture::frozen().await;
    fixture.policy(r#"{"ordered": true}"#).await;
    fixture.run(
        "SELECT consign.enqueue_payments(ARRAY['i', 'i'], ARRAY['p', 'p'], ARRAY['1', '2'], ARRAY['R', 'R'],
             ARRAY['{}', '{}']::jsonb[], p_kyc_holds => ARRAY[true, false])",
    )
    .await;
    assert_eq!(fixture.claim(10, "w", 60).await.len(), 0);
    fixture.run("SELECT consign.unhold(ARRAY(SELECT message_id FROM consign.payment), 'compliance', 'cleared')")
        .await;
    for sequence_id in [1, 2] {
        let claimed = fixture.claim_one("w", 60).await;
        assert_eq!(claimed.sequence_id, sequence_id);
        fixture.complete(&claimed, "w", "DISPATCHED").await.unwrap();
    }
    assert_eq!(fixture.findings().await, Vec::<String>::new());
}

/// A payment held in the middle keeps its place, whether it was enqueued so or held by a person, and
/// whether it is released or resolved.
#[tokio::test]
async fn a_held_payment_blocks_the_next_ones() {
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
            let mut fixture = Fixture::frozen().await;
            fixture.policy(r#"{"ordered": true}"#).await;
            fixture.run(enqueue).await;
            fixture.run(hold).await;
            for number in 1..=4 {
                if number % 2 == 0 {
                    assert_eq!(
                        fixture.claim(10, "w", 60).await.len(),
                        0,
                        "{number} is held"
                    );
                    fixture.run("SELECT consign.enqueue_payment_outbox('i', 'q', gen_random_uuid()::text, 'R', '{}')").await;
                    let other = fixture.claim_one("w", 60).await;
                    fixture.complete(&other, "w", "DISPATCHED").await.unwrap();
                    fixture.run(ending).await;
                }
                if number % 2 == 1 || is_sent {
                    let claimed = fixture.claim_one("w", 60).await;
                    assert_eq!(claimed.sequence_id, number);
                    fixture.complete(&claimed, "w", "DISPATCHED").await.unwrap();
                }
            }
            assert_eq!(fixture.findings().await, Vec::<String>::new());
            fixture.enqueue("p", 1).await;
            assert_eq!(
                fixture.claim(10, "w", 60).await.len(),
                1,
                "the group has no head"
            );
        }
    }
}

/// Holds, releases and resolutions at every moment keep the order, and lose no payment.
#[tokio::test(flavor = "multi_thread")]
async fn order_survives_holds_at_every_moment() {
    let mut fixture = Fixture::open().await;
    fixture.policy(r#"{"ordered": true}"#).await;
    fixture.enqueue("p", 120).await;
    let over = Arc::new(AtomicBool::new(false));
    let mut people = Vec::new();
    for person in 0..3_i32 {
        let mut connection = fixture.another().await;
        let over = Arc::clone(&over);
        people.push(tokio::spawn(async move {
            let mut round = person;
            while !over.load(Ordering::Relaxed) {
                round += 7;
                let sql = match person {
                    // Each call locks in the order of ids. Several calls in one transaction keep that order, or two of
                    // them deadlock.
                    0 => "SELECT consign.hold(ARRAY(SELECT message_id FROM consign.payment WHERE sequence_id % 40 = $1 % 40), 'a', 'b')",
                    1 => "SELECT consign.unhold(ARRAY(SELECT message_id FROM consign.held WHERE message_id % 3 <> $1 % 3), 'a', 'b')",
                    _ => {
                        "SELECT consign.resolve(ARRAY[h.message_id], 'delivered', 'a', 'b', jsonb_build_object('rail_reference', h.message_id::text))
                            FROM (SELECT message_id FROM consign.held WHERE message_id % 20 = $1 % 20 ORDER BY message_id) h"
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
    let left = "SELECT count(*) FROM consign.payment_undelivered";
    let deadline = Instant::now() + SOON;
    while fixture.count(left).await > 0 {
        assert!(Instant::now() < deadline, "the last ones are forgotten");
        for payment in fixture.claim(10, "w", 60).await {
            fixture.complete(&payment, "w", "DISPATCHED").await.unwrap();
        }
    }
    over.store(true, Ordering::Relaxed);
    for person in people {
        person.await.unwrap();
    }
    let passed = "SELECT count(*) FROM (SELECT a.claimed_at < max(a.claimed_at) OVER (ORDER BY p.sequence_id) AS passed
                      FROM consign.payment p JOIN consign.attempt a ON a.message_id = p.message_id
                      WHERE a.outcome = 'delivered' AND a.code IS NULL) o WHERE passed";
    assert_eq!(fixture.count(passed).await, 0, "no payment was overtaken");
    assert_eq!(fixture.findings().await, Vec::<String>::new());
}

/// Without the ordering a delayed payment blocks no other.
#[tokio::test]
async fn without_the_promise_the_second_goes_first() {
    let mut fixture = Fixture::frozen().await;
    let ids = fixture.enqueue("p", 2).await;
    let first = fixture.claim(1, "a", 60).await;
    fixture.complete(&first[0], "a", "RETRYABLE").await.unwrap();
    assert_eq!(fixture.claim_one("a", 60).await.outbox_id, ids[1]);
}
