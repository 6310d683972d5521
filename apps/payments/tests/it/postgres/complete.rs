//! Completing: what is recorded, what is refused, and in which order.

use sqlx::Row;
use uuid::Uuid;

use super::{Fixture, sqlstate};

#[tokio::test]
async fn each_outcome_files_the_payment_where_it_belongs() {
    let mut fixture = Fixture::frozen().await;
    fixture.enqueue("p", 3).await;
    let claimed = fixture.claim(3, "w", 60).await;
    for (payment, state) in claimed.iter().zip(["DISPATCHED", "FAILED", "RETRYABLE"]) {
        let done = fixture.complete(payment, "w", state).await.unwrap();
        assert_eq!(done, (1, state.to_owned()));
    }
    let rows = sqlx::query(
        "SELECT state::text, completed_at IS NOT NULL AS completed, latency_ms IS NULL AS untimed,
                p.outbox_id IS NOT NULL AS pending, p.claimed_by IS NULL AND p.lease_token IS NULL AND p.lease_expires_at IS NULL AS free,
                p.attempt_count, p.next_attempt_at >= consign.clock() + interval '1 second' AS rests
         FROM consign.payment_outbox_attempts a LEFT JOIN consign.payment_outbox_pending p USING (outbox_id)
         ORDER BY a.sequence_id",
    )
    .fetch_all(&mut fixture.connection)
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

/// A worker's clock that was set back measures less than nothing.
#[tokio::test]
async fn a_negative_latency_does_not_fail_a_completion() {
    let mut fixture = Fixture::frozen().await;
    fixture.enqueue("p", 1).await;
    let claimed = fixture.claim_one("w", 60).await;
    sqlx::query(
        "SELECT consign.complete_outbox_attempt($1, $2, 'w', 'DISPATCHED', 'r-1', p_latency_ms => -5)",
    )
    .bind(claimed.outbox_id)
    .bind(claimed.lease_token)
    .execute(&mut fixture.connection)
    .await
    .unwrap();
    let latency_ms: i32 =
        sqlx::query_scalar("SELECT latency_ms::int FROM consign.payment_outbox_attempts")
            .fetch_one(&mut fixture.connection)
            .await
            .unwrap();
    assert_eq!(latency_ms, 0);
}

/// The lease comes first, then the state, then the reference.
#[tokio::test]
async fn rejections_follow_their_order_and_write_nothing() {
    let mut fixture = Fixture::frozen().await;
    let id = fixture.enqueue("p", 1).await[0];
    let claimed = fixture.claim_one("w", 60).await;
    let wrong_token = super::ClaimedRow {
        lease_token: Uuid::nil(),
        ..claimed.clone()
    };
    let unknown = super::ClaimedRow {
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
        let refused = fixture.complete(payment, worker, state).await;
        assert_eq!(sqlstate(refused), code, "{worker} {state}");
    }
    for reference in [None, Some(""), Some(" \t")] {
        let refused =
            sqlx::query("SELECT consign.complete_outbox_attempt($1, $2, 'w', 'DISPATCHED', $3)")
                .bind(id)
                .bind(claimed.lease_token)
                .bind(reference)
                .execute(&mut fixture.connection)
                .await;
        assert_eq!(sqlstate(refused), "P7005", "{reference:?}");
    }
    assert_eq!(fixture.attempts(id).await, []);
    fixture.pass(60.0).await;
    let late = fixture.complete(&claimed, "w", "DISPATCHED").await;
    assert_eq!(sqlstate(late), "P7002", "expired");
    assert_eq!(fixture.attempts(id).await, []);
    let other = fixture.claim_one("v", 60).await;
    fixture.complete(&other, "v", "DISPATCHED").await.unwrap();
    let done = fixture.complete(&claimed, "w", "DISPATCHED").await;
    assert_eq!(sqlstate(done), "P7002", "completed by another");
}

/// A lost reply is not a lost lease.
#[tokio::test]
async fn completing_again_under_the_same_lease_answers_what_was_recorded() {
    let mut fixture = Fixture::frozen().await;
    let ids = fixture.enqueue("p", 2).await;
    let claimed = fixture.claim(2, "w", 60).await;
    let first = fixture
        .complete(&claimed[0], "w", "RETRYABLE")
        .await
        .unwrap();
    assert_eq!(
        fixture
            .complete(&claimed[0], "w", "RETRYABLE")
            .await
            .unwrap(),
        first,
        "while the rest of the lease lives"
    );
    fixture
        .complete(&claimed[1], "w", "DISPATCHED")
        .await
        .unwrap();
    fixture.pass(120.0).await;
    assert_eq!(
        fixture
            .complete(&claimed[0], "w", "RETRYABLE")
            .await
            .unwrap(),
        first,
        "long after"
    );
    let stranger = fixture.complete(&claimed[0], "v", "RETRYABLE").await;
    assert_eq!(sqlstate(stranger), "P7002");
    assert_eq!(fixture.attempts(ids[0]).await.len(), 1);
}

/// The ceiling, its word, and the last error beside it.
#[tokio::test]
async fn the_last_try_fails_with_the_ceiling_and_keeps_the_last_error() {
    let mut fixture = Fixture::frozen().await;
    fixture.policy(r#"{"attempts_max": 3}"#).await;
    let id = fixture.enqueue("p", 1).await[0];
    for attempt in 1..=3 {
        let claimed = fixture.claim_one("w", 60).await;
        let done = fixture.complete(&claimed, "w", "RETRYABLE").await.unwrap();
        let effective = if attempt < 3 { "RETRYABLE" } else { "FAILED" };
        assert_eq!(done, (attempt, effective.to_owned()));
        fixture.pass(60.0).await;
    }
    let ceiling = (
        3,
        "FAILED".to_owned(),
        Some("RETRY_CEILING_EXCEEDED".to_owned()),
    );
    assert_eq!(fixture.attempts(id).await[2], ceiling);
    let message: String = sqlx::query_scalar(
        "SELECT error_message FROM consign.payment_outbox_attempts WHERE attempt_no = 3",
    )
    .fetch_one(&mut fixture.connection)
    .await
    .unwrap();
    assert_eq!(message, "RAIL_DOWN: no route to the rail");
    assert_eq!(
        fixture
            .count("SELECT count(*) FROM consign.payment_outbox_pending")
            .await,
        0
    );
    fixture
        .run("SELECT consign.requeue(ARRAY(SELECT message_id FROM consign.payment), 'me', 'again')")
        .await;
    assert_eq!(
        fixture.attempts(id).await[2],
        ceiling,
        "a requeue changes no attempt"
    );
}

#[tokio::test]
async fn a_worker_cannot_change_the_ceiling() {
    let mut fixture = Fixture::frozen().await;
    fixture.policy(r#"{"attempts_max": 1}"#).await;
    fixture.enqueue("p", 1).await;
    fixture
        .run("SET symphony.outbox_retry_ceiling = '1000'; SET ROLE symphony_executor")
        .await;
    let queue = sqlx::raw_sql("SELECT consign.put_queue('payments', '{}', 'w', 'more tries')");
    assert_eq!(
        sqlstate(queue.execute(&mut fixture.connection).await),
        "42501"
    );
    fixture.run("RESET ROLE").await;
    let claimed = fixture.claim_one("w", 60).await;
    let done = fixture.complete(&claimed, "w", "RETRYABLE").await.unwrap();
    assert_eq!(done.1, "FAILED");
}

/// 1, 2, 4, 8, 16, 32, 60, 60 s by the queue, at least a second by the caller.
#[tokio::test]
async fn rests_follow_the_queue_or_the_caller_but_never_less_than_a_second() {
    let mut fixture = Fixture::frozen().await;
    fixture.enqueue("p", 1).await;
    for seconds in [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0] {
        let claimed = fixture.claim_one("w", 60).await;
        sqlx::query("SELECT consign.complete_outbox_attempts($1, 'w', ARRAY[$2], '{RETRYABLE}')")
            .bind(claimed.lease_token)
            .bind(claimed.outbox_id)
            .execute(&mut fixture.connection)
            .await
            .unwrap();
        assert_eq!(rest(&mut fixture).await, seconds);
        fixture.pass(seconds).await;
    }
    for (asked, rests) in [(0, 1.0), (-5, 1.0), (7, 7.0)] {
        let claimed = fixture.claim_one("w", 60).await;
        sqlx::query("SELECT consign.complete_outbox_attempt($1, $2, 'w', 'RETRYABLE', p_retry_delay_seconds => $3)")
            .bind(claimed.outbox_id)
            .bind(claimed.lease_token)
            .bind(asked)
            .execute(&mut fixture.connection)
            .await
            .unwrap();
        assert_eq!(rest(&mut fixture).await, rests, "requested {asked}");
        fixture.pass(rests).await;
    }
}

async fn rest(fixture: &mut Fixture) -> f64 {
    sqlx::query_scalar(
        "SELECT extract(epoch FROM next_attempt_at - consign.clock())::float8 FROM consign.payment_outbox_pending",
    )
    .fetch_one(&mut fixture.connection)
    .await
    .unwrap()
}

/// Completes a batch by SQL: the state of each payment afterwards.
async fn settle(
    fixture: &mut Fixture,
    token: Uuid,
    ids: Vec<Uuid>,
    states: Vec<&str>,
    refs: Vec<Option<&str>>,
) -> Result<Vec<(Uuid, String)>, sqlx::Error> {
    let sql = "SELECT outbox_id, effective_state::text FROM consign.complete_outbox_attempts(
                   $1, 'w', $2, $3::text[]::consign.outbox_attempt_state[], $4)";
    sqlx::query_as(sql)
        .bind(token)
        .bind(ids)
        .bind(states)
        .bind(refs)
        .fetch_all(&mut fixture.connection)
        .await
}

/// All or none, in input order, a part of a lease or all of it.
#[tokio::test]
async fn a_batch_completes_all_or_nothing() {
    let mut fixture = Fixture::frozen().await;
    let ids = fixture.enqueue("p", 4).await;
    let token = fixture.claim(4, "w", 60).await[0].lease_token;
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
        let refused = settle(&mut fixture, token, ids, states, refs).await;
        assert_eq!(sqlstate(refused), code);
    }
    assert_eq!(
        fixture.count("SELECT count(*) FROM consign.attempt").await,
        0
    );
    // Out of order, mixed, and only a part.
    let part = settle(
        &mut fixture,
        token,
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
        &mut fixture,
        token,
        vec![ids[0], ids[1], ids[3]],
        vec![d; 3],
        vec![Some("r0"), Some("r1"), Some("r3")],
    );
    assert_eq!(rest.await.unwrap().len(), 3);
    assert_eq!(
        fixture.count("SELECT count(*) FROM consign.attempt").await,
        4
    );
    assert_eq!(fixture.count("SELECT count(*) FROM consign.lease").await, 0);
    assert_eq!(fixture.findings().await, Vec::<String>::new());
}

/// Without a reference it is held with an alarm, and never sent again on its own.
#[tokio::test]
async fn a_success_without_a_reference_is_held_until_a_person_decides() {
    let mut fixture = Fixture::frozen().await;
    let id = fixture.enqueue("p", 1).await[0];
    let claimed = fixture.claim_one("w", 60).await;
    let row = sqlx::query(
        "SELECT attempt_no, effective_state::text FROM consign.hold_outbox_attempt($1, $2, 'w', 'OK', 'no reference in the answer')",
    )
    .bind(id)
    .bind(claimed.lease_token)
    .fetch_one(&mut fixture.connection)
    .await
    .unwrap();
    assert_eq!(
        (row.get::<i32, _>(0), row.get::<String, _>(1)),
        (1, "RETRYABLE".to_owned())
    );
    fixture.pass(100_000.0).await;
    assert_eq!(fixture.claim(10, "w", 60).await.len(), 0);
    let alarm = "SELECT count(*) FROM consign.payment_outbox_reconcile WHERE kind = 'MISSING_REFERENCE' AND verdict = 'HELD'";
    assert_eq!(fixture.count(alarm).await, 1);
    assert_eq!(
        fixture.attempts(id).await,
        [(
            1,
            "RETRYABLE".to_owned(),
            Some("MISSING_RAIL_REFERENCE".to_owned())
        )]
    );
    fixture.run("SELECT consign.resolve(ARRAY(SELECT message_id FROM consign.payment), 'delivered', 'me', 'in its books', '{\"rail_reference\": \"4711\"}')")
        .await;
    assert_eq!(fixture.states(id).await, ["RETRYABLE", "DISPATCHED"]);
    assert_eq!(fixture.count(alarm).await, 0);
    assert_eq!(fixture.findings().await, Vec::<String>::new());
}

/// A reused reference is an alarm, not a failed completion.
#[tokio::test]
async fn a_reused_reference_is_recorded_and_reported() {
    let mut fixture = Fixture::frozen().await;
    fixture.enqueue("p", 2).await;
    fixture.enqueue("q", 1).await;
    for payment in fixture.claim(3, "w", 60).await {
        sqlx::query("SELECT consign.complete_outbox_attempt($1, $2, 'w', 'DISPATCHED', 'ref-ok')")
            .bind(payment.outbox_id)
            .bind(payment.lease_token)
            .execute(&mut fixture.connection)
            .await
            .unwrap();
    }
    let reused =
        "SELECT count(*) FROM consign.payment_outbox_reconcile WHERE kind = 'REUSED_REFERENCE'";
    assert_eq!(
        fixture.count(reused).await,
        2,
        "of one participant; the other's is its own affair"
    );
    assert_eq!(fixture.findings().await, ["rail_reference_reused"]);
}

/// What no index could hold is refused before anything is written, and the lease lives on.
#[tokio::test]
async fn rejects_a_reference_that_is_too_long() {
    let mut fixture = Fixture::frozen().await;
    let id = fixture.enqueue("p", 1).await[0];
    let payment = fixture.claim_one("w", 60).await;
    let dispatched =
        "SELECT consign.complete_outbox_attempt($1, $2, 'w', 'DISPATCHED', repeat('x', $3))";
    let dispatch = async |fixture: &mut Fixture, length: i32| {
        let statement = sqlx::query(dispatched)
            .bind(id)
            .bind(payment.lease_token)
            .bind(length);
        statement.execute(&mut fixture.connection).await
    };
    for length in [257, 100_000] {
        assert_eq!(sqlstate(dispatch(&mut fixture, length).await), "CN006");
    }
    assert_eq!(fixture.attempts(id).await, []);
    dispatch(&mut fixture, 256).await.unwrap();
    assert_eq!(fixture.states(id).await, ["DISPATCHED"]);
}
