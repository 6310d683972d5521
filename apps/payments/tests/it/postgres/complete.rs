//! Completing: what is recorded, what is refused, and in which order.

use sqlx::Row;
use uuid::Uuid;

use super::{Desk, sqlstate};

/// P-04.
#[tokio::test]
async fn each_outcome_files_the_payment_where_it_belongs() {
    let mut desk = Desk::frozen().await;
    desk.enqueue("p", 3).await;
    let claimed = desk.claim(3, "w", 60).await;
    for (payment, state) in claimed.iter().zip(["DISPATCHED", "FAILED", "RETRYABLE"]) {
        let done = desk.complete(payment, "w", state).await.unwrap();
        assert_eq!(done, (1, state.to_owned()));
    }
    let rows = sqlx::query(
        "SELECT state::text, completed_at IS NOT NULL AS completed, latency_ms IS NULL AS untimed,
                p.outbox_id IS NOT NULL AS pending, p.claimed_by IS NULL AND p.lease_token IS NULL AND p.lease_expires_at IS NULL AS free,
                p.attempt_count, p.next_attempt_at >= consign.clock() + interval '1 second' AS rests
         FROM consign.payment_outbox_attempts a LEFT JOIN consign.payment_outbox_pending p USING (outbox_id)
         ORDER BY a.sequence_id",
    )
    .fetch_all(&mut desk.connection)
    .await
    .unwrap();
    let seen: Vec<(String, bool, bool, bool)> = rows
        .iter()
        .map(|row| (row.get(0), row.get(1), row.get(2), row.get(3)))
        .collect();
    let expected = [
        ("DISPATCHED", false),
        ("FAILED", false),
        ("RETRYABLE", true),
    ];
    let expected = expected.map(|(state, pending)| (state.to_owned(), true, true, pending));
    assert_eq!(seen, expected);
    let back = &rows[2];
    assert!(back.get::<bool, _>("free") && back.get::<bool, _>("rests"));
    assert_eq!(back.get::<i32, _>("attempt_count"), 1);
}

/// P-05, CP-14: the lease comes first, then the state, then the reference.
#[tokio::test]
async fn refusals_come_in_order_and_write_nothing() {
    let mut desk = Desk::frozen().await;
    let id = desk.enqueue("p", 1).await[0];
    let claimed = desk.claim_one("w", 60).await;
    let wrong_token = super::Claimed {
        lease_token: Uuid::nil(),
        ..claimed.clone()
    };
    let unknown = super::Claimed {
        outbox_id: Uuid::nil(),
        ..claimed.clone()
    };
    for (payment, worker, state, code) in [
        (&wrong_token, "w", "DISPATCHED", "P7002"),
        (&wrong_token, "w", "DISPATCHING", "P7002"),
        (&claimed, "another", "DISPATCHED", "P7002"),
        (&claimed, "another", "DISPATCHING", "P7002"),
        (&unknown, "w", "DISPATCHED", "P7002"),
        (&claimed, "w", "DISPATCHING", "P7003"),
        (&claimed, "w", "ZOMBIE_REQUEUE", "P7003"),
    ] {
        let refused = desk.complete(payment, worker, state).await;
        assert_eq!(sqlstate(refused), code, "{worker} {state}");
    }
    for reference in [None, Some(""), Some(" \t")] {
        let refused =
            sqlx::query("SELECT consign.complete_outbox_attempt($1, $2, 'w', 'DISPATCHED', $3)")
                .bind(id)
                .bind(claimed.lease_token)
                .bind(reference)
                .execute(&mut desk.connection)
                .await;
        assert_eq!(sqlstate(refused), "P7005", "{reference:?}");
    }
    assert_eq!(desk.attempts(id).await, []);
    desk.pass(60.0).await;
    let late = desk.complete(&claimed, "w", "DISPATCHED").await;
    assert_eq!(sqlstate(late), "P7002", "expired");
    assert_eq!(desk.attempts(id).await, []);
    let other = desk.claim_one("v", 60).await;
    desk.complete(&other, "v", "DISPATCHED").await.unwrap();
    let done = desk.complete(&claimed, "w", "DISPATCHED").await;
    assert_eq!(sqlstate(done), "P7002", "completed by another");
}

/// CP-08: a lost reply is not a lost lease.
#[tokio::test]
async fn completing_again_under_the_same_lease_answers_what_was_recorded() {
    let mut desk = Desk::frozen().await;
    let ids = desk.enqueue("p", 2).await;
    let claimed = desk.claim(2, "w", 60).await;
    let first = desk.complete(&claimed[0], "w", "RETRYABLE").await.unwrap();
    assert_eq!(
        desk.complete(&claimed[0], "w", "RETRYABLE").await.unwrap(),
        first,
        "while the rest of the lease lives"
    );
    desk.complete(&claimed[1], "w", "DISPATCHED").await.unwrap();
    desk.pass(120.0).await;
    assert_eq!(
        desk.complete(&claimed[0], "w", "RETRYABLE").await.unwrap(),
        first,
        "long after"
    );
    let stranger = desk.complete(&claimed[0], "v", "RETRYABLE").await;
    assert_eq!(sqlstate(stranger), "P7002");
    assert_eq!(desk.attempts(ids[0]).await.len(), 1);
}

/// D4: the ceiling, its word, and the last error beside it.
#[tokio::test]
async fn the_last_try_fails_with_the_ceiling_and_keeps_the_last_error() {
    let mut desk = Desk::frozen().await;
    desk.policy(r#"{"attempts_max": 3}"#).await;
    let id = desk.enqueue("p", 1).await[0];
    for attempt in 1..=3 {
        let claimed = desk.claim_one("w", 60).await;
        let done = desk.complete(&claimed, "w", "RETRYABLE").await.unwrap();
        let effective = if attempt < 3 { "RETRYABLE" } else { "FAILED" };
        assert_eq!(done, (attempt, effective.to_owned()));
        desk.pass(60.0).await;
    }
    let ceiling = (
        3,
        "FAILED".to_owned(),
        Some("RETRY_CEILING_EXCEEDED".to_owned()),
    );
    assert_eq!(desk.attempts(id).await[2], ceiling);
    let message: String = sqlx::query_scalar(
        "SELECT error_message FROM consign.payment_outbox_attempts WHERE attempt_no = 3",
    )
    .fetch_one(&mut desk.connection)
    .await
    .unwrap();
    assert_eq!(message, "RAIL_DOWN: no route to the rail");
    assert_eq!(
        desk.count("SELECT count(*) FROM consign.payment_outbox_pending")
            .await,
        0
    );
    desk.run(
        "SELECT consign.requeue(ARRAY(SELECT message_id FROM consign.payment), 'me', 'again')",
    )
    .await;
    assert_eq!(
        desk.attempts(id).await[2],
        ceiling,
        "a requeue changes no attempt"
    );
}

/// P-11, CP-06.
#[tokio::test]
async fn a_worker_cannot_change_the_ceiling() {
    let mut desk = Desk::frozen().await;
    desk.policy(r#"{"attempts_max": 1}"#).await;
    desk.enqueue("p", 1).await;
    desk.run("SET symphony.outbox_retry_ceiling = '1000'; SET ROLE symphony_executor")
        .await;
    let queue = sqlx::raw_sql("SELECT consign.put_queue('payments', '{}', 'w', 'more tries')");
    assert_eq!(sqlstate(queue.execute(&mut desk.connection).await), "42501");
    desk.run("RESET ROLE").await;
    let claimed = desk.claim_one("w", 60).await;
    let done = desk.complete(&claimed, "w", "RETRYABLE").await.unwrap();
    assert_eq!(done.1, "FAILED");
}

/// D4 backoff: 1, 2, 4, 8, 16, 32, 60, 60 s by the queue, at least a second by the caller.
#[tokio::test]
async fn rests_follow_the_queue_or_the_caller_but_never_less_than_a_second() {
    let mut desk = Desk::frozen().await;
    desk.enqueue("p", 1).await;
    for seconds in [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0] {
        let claimed = desk.claim_one("w", 60).await;
        sqlx::query("SELECT consign.complete_outbox_attempts($1, 'w', ARRAY[$2], '{RETRYABLE}')")
            .bind(claimed.lease_token)
            .bind(claimed.outbox_id)
            .execute(&mut desk.connection)
            .await
            .unwrap();
        assert_eq!(rest(&mut desk).await, seconds);
        desk.pass(seconds).await;
    }
    for (asked, rests) in [(0, 1.0), (-5, 1.0), (7, 7.0)] {
        let claimed = desk.claim_one("w", 60).await;
        sqlx::query("SELECT consign.complete_outbox_attempt($1, $2, 'w', 'RETRYABLE', p_retry_delay_seconds => $3)")
            .bind(claimed.outbox_id)
            .bind(claimed.lease_token)
            .bind(asked)
            .execute(&mut desk.connection)
            .await
            .unwrap();
        assert_eq!(rest(&mut desk).await, rests, "asked for {asked}");
        desk.pass(rests).await;
    }
}

async fn rest(desk: &mut Desk) -> f64 {
    sqlx::query_scalar(
        "SELECT extract(epoch FROM next_attempt_at - consign.clock())::float8 FROM consign.payment_outbox_pending",
    )
    .fetch_one(&mut desk.connection)
    .await
    .unwrap()
}

/// All or none, in the order given, a part of a lease or all of it.
#[tokio::test]
async fn a_batch_completes_all_or_nothing() {
    let mut desk = Desk::frozen().await;
    let ids = desk.enqueue("p", 4).await;
    let token = desk.claim(4, "w", 60).await[0].lease_token;
    let sql =
        "SELECT outbox_id, attempt_no, effective_state::text FROM consign.complete_outbox_attempts(
                   $1, 'w', $2, $3::text[]::consign.outbox_attempt_state[], $4)";
    let settle =
        async |desk: &mut Desk, ids: Vec<Uuid>, states: Vec<&str>, refs: Vec<Option<&str>>| {
            let rows = sqlx::query(sql)
                .bind(token)
                .bind(ids)
                .bind(states)
                .bind(refs)
                .fetch_all(&mut desk.connection)
                .await?;
            Ok::<_, sqlx::Error>(
                rows.iter()
                    .map(|row| (row.get(0), row.get(2)))
                    .collect::<Vec<(Uuid, String)>>(),
            )
        };
    let d = "DISPATCHED";
    for (ids, states, refs, code) in [
        (
            vec![ids[0], Uuid::nil()],
            vec![d, d],
            vec![Some("a"), Some("b")],
            "P7002",
        ),
        (
            vec![ids[0], ids[1]],
            vec![d, "DISPATCHING"],
            vec![Some("a"), None],
            "P7003",
        ),
        (
            vec![ids[0], ids[1]],
            vec![d, d],
            vec![Some("a"), None],
            "P7005",
        ),
        (
            vec![ids[0], ids[0]],
            vec![d, d],
            vec![Some("a"), Some("b")],
            "CN006",
        ),
        (vec![ids[0]], vec![d, d], vec![Some("a")], "CN006"),
    ] {
        let refused = settle(&mut desk, ids, states, refs).await;
        assert_eq!(sqlstate(refused), code);
    }
    assert_eq!(desk.count("SELECT count(*) FROM consign.attempt").await, 0);
    // Out of order, mixed, and only a part.
    let part = settle(
        &mut desk,
        vec![ids[2], ids[0]],
        vec!["FAILED", d],
        vec![None, Some("r0")],
    );
    let answer = part.await.unwrap();
    assert_eq!(
        answer,
        [(ids[2], "FAILED".to_owned()), (ids[0], d.to_owned())]
    );
    // The rest, and again what was recorded already.
    let rest = settle(
        &mut desk,
        vec![ids[0], ids[1], ids[3]],
        vec![d; 3],
        vec![Some("r0"), Some("r1"), Some("r3")],
    );
    assert_eq!(rest.await.unwrap().len(), 3);
    assert_eq!(desk.count("SELECT count(*) FROM consign.attempt").await, 4);
    assert_eq!(desk.count("SELECT count(*) FROM consign.lease").await, 0);
    assert_eq!(desk.findings().await, Vec::<String>::new());
}

/// P-17, CP-11: without a reference it is held with an alarm, and never sent again on its own.
#[tokio::test]
async fn a_success_without_a_reference_is_held_until_a_person_decides() {
    let mut desk = Desk::frozen().await;
    let id = desk.enqueue("p", 1).await[0];
    let claimed = desk.claim_one("w", 60).await;
    let row = sqlx::query(
        "SELECT attempt_no, effective_state::text FROM consign.hold_outbox_attempt($1, $2, 'w', 'OK', 'no reference in the answer')",
    )
    .bind(id)
    .bind(claimed.lease_token)
    .fetch_one(&mut desk.connection)
    .await
    .unwrap();
    assert_eq!(
        (row.get::<i32, _>(0), row.get::<String, _>(1)),
        (1, "RETRYABLE".to_owned())
    );
    desk.pass(100_000.0).await;
    assert_eq!(desk.claim(10, "w", 60).await.len(), 0);
    let alarm = "SELECT count(*) FROM consign.payment_outbox_reconcile WHERE kind = 'MISSING_REFERENCE' AND verdict = 'HELD'";
    assert_eq!(desk.count(alarm).await, 1);
    assert_eq!(
        desk.attempts(id).await,
        [(
            1,
            "RETRYABLE".to_owned(),
            Some("MISSING_RAIL_REFERENCE".to_owned())
        )]
    );
    desk.run("SELECT consign.resolve(ARRAY(SELECT message_id FROM consign.payment), 'delivered', 'me', 'in its books', '{\"rail_reference\": \"4711\"}')")
        .await;
    assert_eq!(desk.states(id).await, ["RETRYABLE", "DISPATCHED"]);
    assert_eq!(desk.count(alarm).await, 0);
    assert_eq!(desk.findings().await, Vec::<String>::new());
}

/// P-17, CP-12: a reference given twice is an alarm, not a failed completion.
#[tokio::test]
async fn a_reference_given_twice_is_recorded_and_reported() {
    let mut desk = Desk::frozen().await;
    desk.enqueue("p", 2).await;
    desk.enqueue("q", 1).await;
    for payment in desk.claim(3, "w", 60).await {
        sqlx::query("SELECT consign.complete_outbox_attempt($1, $2, 'w', 'DISPATCHED', 'ref-ok')")
            .bind(payment.outbox_id)
            .bind(payment.lease_token)
            .execute(&mut desk.connection)
            .await
            .unwrap();
    }
    let reused =
        "SELECT count(*) FROM consign.payment_outbox_reconcile WHERE kind = 'REUSED_REFERENCE'";
    assert_eq!(
        desk.count(reused).await,
        2,
        "of one participant; the other's is its own affair"
    );
    assert_eq!(desk.findings().await, ["rail_reference_reused"]);
}

/// What no index could hold is refused before anything is written, and the lease lives on.
#[tokio::test]
async fn a_reference_nobody_could_search_for_is_refused() {
    let mut desk = Desk::frozen().await;
    let id = desk.enqueue("p", 1).await[0];
    let payment = desk.claim_one("w", 60).await;
    let dispatched =
        "SELECT consign.complete_outbox_attempt($1, $2, 'w', 'DISPATCHED', repeat('x', $3))";
    let dispatch = async |desk: &mut Desk, length: i32| {
        let statement = sqlx::query(dispatched)
            .bind(id)
            .bind(payment.lease_token)
            .bind(length);
        statement.execute(&mut desk.connection).await
    };
    for length in [257, 100_000] {
        assert_eq!(sqlstate(dispatch(&mut desk, length).await), "CN006");
    }
    assert_eq!(desk.attempts(id).await, []);
    dispatch(&mut desk, 256).await.unwrap();
    assert_eq!(desk.states(id).await, ["DISPATCHED"]);
}
