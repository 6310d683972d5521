//! Enqueueing: one key, one payment; numbers without gaps; the caller's own transaction.

use std::time::Duration;

use consign_testkit::eventually;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection, Row, postgres::PgListener};
use uuid::Uuid;

use super::{Fixture, SOON, refusal, sqlstate};

async fn enqueue(
    connection: &mut PgConnection,
    participant: &str,
    rail: &str,
    payload: Value,
) -> Result<(Uuid, i64, String), sqlx::Error> {
    let row = sqlx::query("SELECT * FROM consign.enqueue_payment_outbox('i', $1, 'k', $2, $3)")
        .bind(participant)
        .bind(rail)
        .bind(payload)
        .fetch_one(connection)
        .await?;
    Ok((
        row.get("outbox_id"),
        row.get("sequence_id"),
        row.get("state"),
    ))
}

#[tokio::test]
async fn the_same_key_is_the_same_payment() {
    let mut fixture = Fixture::open().await;
    let payload = json!({"amount_minor": 1, "currency_code": "ZMW"});
    let first = enqueue(&mut fixture.connection, "p", "PAYMENT", payload.clone())
        .await
        .unwrap();
    let again = enqueue(&mut fixture.connection, "p", "PAYMENT", payload)
        .await
        .unwrap();
    assert_eq!(first, again);
    assert_eq!((first.1, first.2.as_str()), (1, "PENDING"));
    let counts = "SELECT (SELECT count(*) FROM consign.payment_outbox_pending) * 100
                       + (SELECT count(*) FROM consign.payment_outbox_attempts) * 10
                       + (SELECT next_sequence_id FROM consign.participant_outbox_sequences) - 2";
    assert_eq!(
        fixture.count(counts).await,
        100,
        "one pending, no attempt, one number"
    );
    assert_eq!(fixture.findings().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_key_with_another_content_is_a_conflict_that_names_the_field() {
    let mut fixture = Fixture::open().await;
    let payload = || json!({"amount_minor": 100, "currency_code": "ZMW"});
    let first = enqueue(&mut fixture.connection, "p", "PAYMENT", payload())
        .await
        .unwrap();
    let others = [
        ("q", "PAYMENT", payload(), "participant_id"),
        ("p", "REFUND", payload(), "rail_type"),
        (
            "p",
            "PAYMENT",
            json!({"amount_minor": 999, "currency_code": "ZMW"}),
            "payload",
        ),
    ];
    for (participant, rail, payload, field) in others {
        let error = enqueue(&mut fixture.connection, participant, rail, payload)
            .await
            .unwrap_err();
        let error = error
            .into_database_error()
            .unwrap()
            .downcast::<sqlx::postgres::PgDatabaseError>();
        let detail: Value = serde_json::from_str(error.detail().unwrap()).unwrap();
        assert_eq!(
            (error.code(), &detail),
            (
                "P7004",
                &json!({"field": field, "outbox_id": first.0.to_string()})
            )
        );
    }
    // Numbers by value, keys in any order.
    let same = json!({"currency_code": "ZMW", "amount_minor": 100.0});
    assert_eq!(
        enqueue(&mut fixture.connection, "p", "PAYMENT", same)
            .await
            .unwrap(),
        first
    );
    assert_eq!(
        fixture.count("SELECT count(*) FROM consign.payment").await,
        1,
        "nothing else was written"
    );
    assert_eq!(
        fixture
            .count(
                "SELECT sum(next_sequence_id)::bigint - 2 FROM consign.participant_outbox_sequences"
            )
            .await,
        0,
        "no number was used up"
    );
}

/// A hold that only the repeat requests must not be reported as set, nor the other
/// way round; what has become of it since does not matter.
#[tokio::test]
async fn a_hold_is_part_of_what_is_compared() {
    let mut fixture = Fixture::open().await;
    let (free, held) = (
        "SELECT state FROM consign.enqueue_payment_outbox('i', 'p', 'free', 'R', '{}', p_kyc_hold => $1)",
        "SELECT state FROM consign.enqueue_payment_outbox('i', 'p', 'held', 'R', '{}', p_kyc_hold => $1)",
    );
    let enqueue = async |fixture: &mut Fixture, sql: &'static str, is_held: Option<bool>| {
        let asked = sqlx::query_scalar::<_, String>(sql).bind(is_held);
        asked.fetch_one(&mut fixture.connection).await
    };
    assert_eq!(enqueue(&mut fixture, free, None).await.unwrap(), "PENDING");
    assert_eq!(
        enqueue(&mut fixture, held, Some(true)).await.unwrap(),
        "HELD"
    );
    for release in [
        "",
        "SELECT consign.unhold(ARRAY(SELECT message_id FROM consign.held), 'compliance', 'cleared')",
    ] {
        fixture.run(release).await;
        let is_released = !release.is_empty();
        let again = enqueue(&mut fixture, held, Some(true)).await.unwrap();
        assert_eq!(again, if is_released { "PENDING" } else { "HELD" });
        assert_eq!(
            enqueue(&mut fixture, free, Some(false)).await.unwrap(),
            "PENDING"
        );
        for (sql, is_held) in [(free, true), (held, false)] {
            let error = enqueue(&mut fixture, sql, Some(is_held)).await.unwrap_err();
            let error = error.into_database_error().unwrap();
            let error = error.downcast::<sqlx::postgres::PgDatabaseError>();
            assert_eq!(error.code(), "P7004");
            assert!(error.detail().unwrap().contains("kyc_hold"), "{error:?}");
        }
    }
}

/// A login that is bound to a tenant enqueues for no other tenant, and not without one.
#[tokio::test]
async fn a_bound_login_enqueues_for_its_own_tenant_only() {
    let mut fixture = Fixture::open().await;
    fixture.run("INSERT INTO consign.tenant_login VALUES ('symphony_ingest', 'aaaaaaaa-0000-4000-8000-000000000001'); SET ROLE symphony_ingest")
        .await;
    for sql in [
        "SELECT consign.enqueue_payment_outbox('i', 'p', 'k', 'PAYMENT', '{}', 'bbbbbbbb-0000-4000-8000-000000000002')",
        "SELECT consign.enqueue_payment_outbox('i', 'p', 'k', 'PAYMENT', '{}')",
        "SELECT consign.enqueue_payments(ARRAY['i'], ARRAY['q'], ARRAY['k'], ARRAY['R'], ARRAY['{}'::jsonb])",
    ] {
        assert_eq!(
            refusal(&mut fixture.connection, sql).await,
            "42501",
            "{sql}"
        );
    }
    fixture.run("SELECT consign.enqueue_payment_outbox('i', 'p', 'k', 'PAYMENT', '{}', 'aaaaaaaa-0000-4000-8000-000000000001')")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_at_once_under_one_key_are_one_payment() {
    let fixture = Fixture::open().await;
    let mut tasks = Vec::new();
    for _ in 0..10 {
        let mut connection = fixture.another().await;
        tasks.push(tokio::spawn(async move {
            enqueue(&mut connection, "p", "PAYMENT", json!({"amount_minor": 1}))
                .await
                .unwrap()
        }));
    }
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.unwrap());
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!(
        fixture.findings().await,
        Vec::<String>::new(),
        "no number was burnt"
    );
}

/// Two callers who disagree about whose payment a key is: one wins, the other gets a conflict, and no number
/// is burnt.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_used_by_two_participants_at_once_leaves_no_gap() {
    let mut fixture = Fixture::open().await;
    let mut other = fixture.another().await;
    let mut tx = other.begin().await.unwrap();
    enqueue(&mut tx, "p", "PAYMENT", json!({})).await.unwrap();
    let mut loser = fixture.another().await;
    let waits = tokio::spawn(async move { enqueue(&mut loser, "q", "PAYMENT", json!({})).await });
    eventually("the second waits for the first", SOON, || async {
        let mut connection = fixture.another().await;
        sqlx::query_scalar("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)")
            .fetch_one(&mut connection)
            .await
            .unwrap()
    })
    .await;
    tx.commit().await.unwrap();
    assert_eq!(sqlstate(waits.await.unwrap()), "P7004");
    assert_eq!(fixture.enqueue("q", 1).await.len(), 1);
    assert_eq!(
        fixture
            .count("SELECT max(sequence_id) FROM consign.payment WHERE participant_id = 'q'")
            .await,
        1
    );
    assert_eq!(fixture.findings().await, Vec::<String>::new());
}

/// 1, rolled back, 2, duplicate 2, next 3.
#[tokio::test]
async fn numbers_have_no_gaps_after_rollbacks_and_duplicates() {
    let mut fixture = Fixture::open().await;
    let mut numbers = Vec::new();
    for (key, commits) in [
        ("a", true),
        ("b", false),
        ("c", true),
        ("c", true),
        ("d", true),
    ] {
        let mut tx = fixture.connection.begin().await.unwrap();
        let number: i64 = sqlx::query_scalar(
            "SELECT sequence_id FROM consign.enqueue_payment_outbox('i', 'p', $1, 'PAYMENT', '{}')",
        )
        .bind(key)
        .fetch_one(&mut *tx)
        .await
        .unwrap();
        if commits {
            tx.commit().await.unwrap()
        } else {
            tx.rollback().await.unwrap()
        }
        numbers.push(number);
    }
    assert_eq!(numbers, [1, 2, 2, 2, 3]);
    assert_eq!(fixture.findings().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_at_once_are_numbered_without_gaps() {
    let mut fixture = Fixture::open().await;
    let mut tasks = Vec::new();
    for worker in 0..10 {
        let mut connection = fixture.another().await;
        tasks.push(tokio::spawn(async move {
            for n in 0..10 {
                sqlx::query("SELECT consign.enqueue_payment_outbox($1, $2, 'k', 'PAYMENT', '{}')")
                    .bind(format!("i-{worker}-{n}"))
                    .bind(format!("p{}", n % 2))
                    .execute(&mut connection)
                    .await
                    .unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let dense = "SELECT count(*) FROM (SELECT participant_id FROM consign.payment GROUP BY 1
                 HAVING count(*) = 50 AND min(sequence_id) = 1 AND max(sequence_id) = 50) p";
    assert_eq!(fixture.count(dense).await, 2);
    assert_eq!(fixture.findings().await, Vec::<String>::new());
}

/// A transaction that cannot see the last number gets a serialization failure, and no number is
/// used twice.
#[tokio::test]
async fn numbers_are_safe_at_every_isolation_level() {
    let mut fixture = Fixture::open().await;
    fixture.enqueue("p", 1).await;
    let mut other = fixture.another().await;
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let begin = sqlx::AssertSqlSafe(format!("BEGIN ISOLATION LEVEL {level}; SELECT 1"));
        sqlx::raw_sql(begin).execute(&mut other).await.unwrap();
        let sql =
            "SELECT consign.enqueue_payment_outbox(gen_random_uuid()::text, 'p', 'k', 'R', '{}')";
        fixture.run(sql).await;
        assert_eq!(refusal(&mut other, sql).await, "40001", "{level}");
        sqlx::raw_sql("ROLLBACK").execute(&mut other).await.unwrap();
        let begin = sqlx::AssertSqlSafe(format!("BEGIN ISOLATION LEVEL {level}; {sql}; COMMIT"));
        sqlx::raw_sql(begin).execute(&mut other).await.unwrap();
    }
    assert_eq!(
        fixture
            .count("SELECT max(sequence_id) FROM consign.payment")
            .await,
        5
    );
    assert_eq!(fixture.findings().await, Vec::<String>::new());
}

/// A counter would leave a dead row behind with each number, and a transaction that takes thousands
/// would walk over all of its own for each further one.
#[tokio::test]
async fn numbering_leaves_nothing_behind_in_a_long_transaction() {
    let mut fixture = Fixture::open().await;
    let mut tx = fixture.connection.begin().await.unwrap();
    sqlx::query("SELECT consign.enqueue_payment_outbox('i' || n, 'p', 'k', 'R', '{}') FROM generate_series(1, 500) n")
        .execute(&mut *tx)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    assert_eq!(
        fixture.count("SELECT pg_relation_size('consign.payment_participant') / current_setting('block_size')::bigint")
            .await,
        1
    );
    assert_eq!(
        fixture
            .count("SELECT next_sequence_id FROM consign.participant_outbox_sequences")
            .await,
        501
    );
}

/// Producers that take the same participants in opposite orders, many in a call: none is turned away.
#[tokio::test(flavor = "multi_thread")]
async fn calls_with_many_participants_do_not_deadlock() {
    let fixture = Fixture::open().await;
    let mut tasks = Vec::new();
    for producer in 0..4_i32 {
        let mut connection = fixture.another().await;
        tasks.push(tokio::spawn(async move {
            for round in 0..10_i32 {
                let order = match producer % 2 {
                    0 => "SELECT count(e.outbox_id) FROM (SELECT array_agg('p' || n ORDER BY n) AS p FROM generate_series(1, 20) n) a, LATERAL consign.enqueue_payments(array_fill($1::text, ARRAY[20]), a.p, a.p, array_fill('R'::text, ARRAY[20]), array_fill('{}'::jsonb, ARRAY[20])) e",
                    _ => "SELECT count(e.outbox_id) FROM (SELECT array_agg('p' || n ORDER BY n DESC) AS p FROM generate_series(1, 20) n) a, LATERAL consign.enqueue_payments(array_fill($1::text, ARRAY[20]), a.p, a.p, array_fill('R'::text, ARRAY[20]), array_fill('{}'::jsonb, ARRAY[20])) e",
                };
                sqlx::query(order)
                    .bind(format!("i-{producer}-{round}"))
                    .execute(&mut connection)
                    .await
                    .unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(fixture.findings().await, Vec::<String>::new());
}

#[tokio::test]
async fn what_is_no_payment_is_refused() {
    let mut fixture = Fixture::open().await;
    for (sql, code) in [
        (
            "SELECT consign.enqueue_payment_outbox('i', 'p', 'k', 'R', '[1]')",
            "23514",
        ),
        (
            "SELECT consign.enqueue_payment_outbox('i', 'p', 'k', 'R', NULL)",
            "23514",
        ),
        (
            "SELECT consign.enqueue_payment_outbox(NULL, 'p', 'k', 'R', '{}')",
            "23502",
        ),
        (
            "SELECT consign.enqueue_payment_outbox('i', ' ', 'k', 'R', '{}')",
            "CN006",
        ),
        (
            "SELECT consign.enqueue_payment_outbox('i', repeat('p', 257), 'k', 'R', '{}')",
            "CN006",
        ),
        (
            "SELECT consign.enqueue_payments(ARRAY['i'], ARRAY['p'], ARRAY['k'], ARRAY['R', 'R'], ARRAY['{}'::jsonb])",
            "CN006",
        ),
        // A stranger in the queue would stop every worker that claims it.
        (
            "SELECT consign.payments_queue(), consign.enqueue('payments', '{}', 'k')",
            "CN006",
        ),
        (
            "SELECT consign.put_queue('payments', consign.payments_policy() || '{\"on_uncertain\": \"resend\"}', 'a', 'b')",
            "CN006",
        ),
    ] {
        assert_eq!(refusal(&mut fixture.connection, sql).await, code, "{sql}");
    }
    assert_eq!(
        fixture.count("SELECT count(*) FROM consign.payment").await,
        0
    );
    assert_eq!(
        fixture
            .count("SELECT count(*) FROM consign.participant_outbox_sequences")
            .await,
        0
    );
}

#[tokio::test]
async fn a_rollback_takes_the_payment_with_the_business_rows() {
    let mut fixture = Fixture::open().await;
    fixture.run("CREATE TABLE public.ledger (entry text)").await;
    fixture
        .run(
            "BEGIN; INSERT INTO public.ledger VALUES ('a');
         SELECT consign.enqueue_payment_outbox('i', 'p', 'a', 'PAYMENT', '{}'); ROLLBACK;
         BEGIN; INSERT INTO public.ledger VALUES ('b');
         SELECT consign.enqueue_payment_outbox('i', 'p', 'b', 'PAYMENT', '{}'); COMMIT;",
        )
        .await;
    let both = "SELECT count(*) FROM public.ledger l JOIN consign.payment p ON p.idempotency_key = l.entry";
    assert_eq!(fixture.count(both).await, 1);
    assert_eq!(
        fixture.count("SELECT count(*) FROM consign.payment").await,
        1
    );
    assert_eq!(fixture.claim(10, "w", 60).await[0].sequence_id, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_payment_is_announced_at_commit_and_nothing_else_is() {
    let mut fixture = Fixture::open().await;
    let mut listener = PgListener::connect(fixture.database.url()).await.unwrap();
    listener.listen("symphony_outbox").await.unwrap();
    // A rolled-back one, a first one, a duplicate of it; then a mark that ends the wait.
    fixture.run(
        "BEGIN; SELECT consign.enqueue_payment_outbox('i', 'p', 'gone', 'PAYMENT', '{}'); ROLLBACK;
         SELECT consign.enqueue_payment_outbox('i', 'p', 'k', 'PAYMENT', '{}');",
    )
    .await;
    fixture
        .run("SELECT consign.enqueue_payment_outbox('i', 'p', 'k', 'PAYMENT', '{}')")
        .await;
    fixture.run("NOTIFY symphony_outbox, 'the end'").await;
    let mut heard = Vec::new();
    while heard.last().map(String::as_str) != Some("the end") {
        let notification = tokio::time::timeout(Duration::from_secs(20), listener.recv());
        heard.push(notification.await.unwrap().unwrap().payload().to_owned());
    }
    assert_eq!(heard, ["", "the end"]);
}

/// The state of a key that was used before is the payment's own, not a lease's.
#[tokio::test]
async fn a_repeated_key_returns_the_payments_state() {
    let mut fixture = Fixture::frozen().await;
    fixture
        .run("SELECT consign.enqueue_payment_outbox('i', 'p', 'k', 'PAYMENT', '{}')")
        .await;
    let again = "SELECT state FROM consign.enqueue_payment_outbox('i', 'p', 'k', 'PAYMENT', '{}')";
    let state = async |fixture: &mut Fixture| -> String {
        sqlx::query_scalar(again)
            .fetch_one(&mut fixture.connection)
            .await
            .unwrap()
    };
    let claimed = fixture.claim_one("w", 60).await;
    assert_eq!(state(&mut fixture).await, "PENDING", "leased");
    fixture.complete(&claimed, "w", "FAILED").await.unwrap();
    assert_eq!(state(&mut fixture).await, "FAILED");
    fixture.run("SELECT consign.requeue(ARRAY(SELECT message_id FROM consign.payment), 'me', 'the account exists now')")
        .await;
    assert_eq!(state(&mut fixture).await, "PENDING", "requeued by a person");
    let claimed = fixture.claim_one("w", 60).await;
    fixture.complete(&claimed, "w", "DISPATCHED").await.unwrap();
    assert_eq!(state(&mut fixture).await, "DISPATCHED");
    assert_eq!(
        fixture.states(claimed.outbox_id).await,
        ["FAILED", "DISPATCHED"],
        "what was recorded stays"
    );
}

/// A policy may be partial: omitted fields are the protocol's, not the engine's defaults.
#[tokio::test]
async fn a_partial_policy_keeps_what_payments_need() {
    let mut fixture = Fixture::open().await;
    fixture
        .run("SELECT consign.put_queue('payments', '{\"attempts_max\": 3}', 'me', 'fewer tries')")
        .await;
    let kept = "SELECT count(*) FROM consign.queue WHERE name = 'payments' AND policy = consign.payments_policy() || '{\"attempts_max\": 3}'";
    assert_eq!(fixture.count(kept).await, 1);
    for policy in ["NULL", "'[]'", "'3'"] {
        let sql = format!("SELECT consign.put_queue('payments', {policy}, 'me', 'mistaken')");
        let result = sqlx::raw_sql(sqlx::AssertSqlSafe(sql))
            .execute(&mut fixture.connection)
            .await;
        let error = result.unwrap_err().to_string();
        assert!(error.contains("policy: must be a JSON object"), "{error}");
    }
}
