//! The SQL functions, called as other languages call them.

use consign_kernel::{NewMessage, Payload, RetrySchedule, prelude::*};
use consign_postgres::enqueue_in;
use serde_json::json;
use sqlx::{PgConnection, Row, postgres::types::PgInterval, types::Json};
use uuid::Uuid;

use crate::harness::{connect, database, frozen_database};

/// The SQLSTATE a statement fails with.
async fn sqlstate(connection: &mut PgConnection, sql: &'static str) -> String {
    let error = sqlx::raw_sql(sql).execute(connection).await.unwrap_err();
    error
        .as_database_error()
        .unwrap()
        .code()
        .unwrap()
        .into_owned()
}

#[tokio::test]
async fn a_worker_in_plain_sql_enqueues_claims_and_settles() {
    let database = database().await;
    let store = connect(&database).await;
    let mut tx = store.pool().begin().await.unwrap();
    let id: i64 =
        sqlx::query_scalar("SELECT consign.enqueue('default', '{\"n\": 1}', p_key => 'k1')")
            .fetch_one(&mut *tx)
            .await
            .unwrap();
    let claimed =
        sqlx::query("SELECT token, id, payload FROM consign.claim('default', 'psql', 10)")
            .fetch_all(&mut *tx)
            .await
            .unwrap();
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].get::<i64, _>("id"), id);
    let settled = sqlx::query("SELECT state FROM consign.settle($1, ARRAY[$2])")
        .bind(claimed[0].get::<Uuid, _>("token"))
        .bind(id)
        .fetch_one(&mut *tx)
        .await
        .unwrap();
    assert_eq!(settled.get::<&str, _>("state"), "delivered");
    tx.commit().await.unwrap();
    assert_eq!(store.doctor().await.unwrap(), []);
}

/// SQL can keep deeper results than Rust reads; their messages must be shown all the same.
/// In queues with `presume_begun`, a worker in SQL need not record the start of each call.
#[tokio::test]
async fn a_claim_in_sql_presumes_a_begun_delivery_where_the_policy_sets_it() {
    for presume_begun in [false, true] {
        let database = frozen_database().await;
        let store = connect(&database).await;
        sqlx::query("SELECT consign.put_queue('mail', jsonb_build_object('presume_begun', $1::bool), 'me', 'why')")
            .bind(presume_begun)
            .execute(store.pool())
            .await
            .unwrap();
        sqlx::raw_sql(
            "SELECT consign.enqueue('mail', '1'); SELECT consign.claim('mail', 'w', 1);
             UPDATE frozen.clock SET now = now + interval '1 day'",
        )
        .execute(store.pool())
        .await
        .unwrap();
        let in_doubt: bool =
            sqlx::query_scalar("SELECT in_doubt FROM consign.claim('mail', 'v', 1)")
                .fetch_one(store.pool())
                .await
                .unwrap();
        assert_eq!(in_doubt, presume_begun);
    }
}

#[tokio::test]
async fn a_deep_result_of_sql_is_shown_as_text() {
    let database = database().await;
    let store = connect(&database).await;
    let mut tx = store.pool().begin().await.unwrap();
    let id: i64 = sqlx::query_scalar("SELECT consign.enqueue('default', '1')")
        .fetch_one(&mut *tx)
        .await
        .unwrap();
    let deep = format!("{}1{}", "[".repeat(500), "]".repeat(500));
    let settle = "SELECT s.state FROM consign.claim('default', 'psql', 1) c,
                  LATERAL consign.settle(c.token, ARRAY[c.id], ARRAY['retry'], NULL, NULL, ARRAY[$1::jsonb]) s";
    sqlx::query(settle)
        .bind(&deep)
        .fetch_one(&mut *tx)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let history = store.history(consign_kernel::MessageId(id)).await.unwrap();
    assert_eq!(history[0].result, Some(json!(deep)));
}

/// What SQL callers may try, and the SQLSTATE they get.
const REFUSED: &[(&str, &str)] = &[
    ("SELECT consign.enqueue('nowhere', '1')", "CN001"),
    (
        "SELECT consign.enqueue('default', '1', 'k'), consign.enqueue('default', '2', 'k')",
        "CN002",
    ),
    (
        "SELECT consign.settle(gen_random_uuid(), ARRAY[1])",
        "CN003",
    ),
    ("SELECT consign.renew(gen_random_uuid(), '1 s')", "CN003"),
    ("SELECT consign.release(gen_random_uuid())", "CN003"),
    ("SELECT consign.begin(gen_random_uuid(), ARRAY[1])", "CN003"),
    (
        "SELECT consign.enqueue('default', to_jsonb(repeat('x', 2000000)))",
        "CN005",
    ),
    // Few bytes of jsonb, many of text.
    (
        "SELECT consign.enqueue('default', '[1e131071,1e131071,1e131071,1e131071,1e131071,1e131071,1e131071,1e131071]')",
        "CN005",
    ),
    (
        "SELECT consign.enqueue('default', (repeat('[', 101) || repeat(']', 101))::jsonb)",
        "CN006",
    ),
    ("SELECT consign.enqueue('default', NULL)", "CN006"),
    (
        "SELECT consign.enqueue('default', '1', p_key => '')",
        "CN006",
    ),
    (
        "SELECT consign.enqueue('default', '1', p_headers => '[]')",
        "CN006",
    ),
    (
        "SELECT consign.enqueue('default', '1', p_delay => '-1 s')",
        "CN006",
    ),
    ("SELECT consign.claim('default', '', 1)", "CN006"),
    ("SELECT consign.claim('default', 'w', 0)", "CN006"),
    ("SELECT consign.claim('default', 'w', 1001)", "CN006"),
    (
        "SELECT consign.claim('default', 'w', 1, '25 hours')",
        "CN006",
    ),
    (
        "SELECT consign.settle(gen_random_uuid(), ARRAY[1, 1])",
        "CN006",
    ),
    (
        "SELECT consign.settle(gen_random_uuid(), ARRAY[1], ARRAY['maybe'])",
        "CN006",
    ),
    ("SELECT consign.requeue(ARRAY[1], 'me', ' ')", "CN006"),
    (
        "SELECT consign.put_queue('x', '{\"lease_ms\": 1}', 'me', 'why')",
        "CN006",
    ),
    (
        "SELECT consign.put_queue('x', '{\"attempts_max\": 0}', 'me', 'why')",
        "CN006",
    ),
    ("SELECT consign.settle(gen_random_uuid(), NULL)", "CN006"),
    (
        "SELECT consign.settle(gen_random_uuid(), ARRAY[1, NULL])",
        "CN006",
    ),
    (
        "SELECT consign.settle(gen_random_uuid(), ARRAY[1], p_codes => ARRAY['a', 'b'])",
        "CN006",
    ),
    (
        "SELECT consign.settle(gen_random_uuid(), '{}', ARRAY['retry'])",
        "CN006",
    ),
    (
        "SELECT consign.enqueue_many('default', ARRAY['1', '2']::jsonb[], ARRAY['k'])",
        "CN006",
    ),
    (
        "SELECT consign.enqueue_mixed(ARRAY['default'], ARRAY['1', '2']::jsonb[], NULL, NULL, NULL, ARRAY['0 s', '0 s']::interval[])",
        "CN006",
    ),
    (
        "SELECT consign.enqueue_mixed(NULL, ARRAY['1']::jsonb[], NULL, NULL, NULL, ARRAY['0 s']::interval[])",
        "CN006",
    ),
    (
        "SELECT consign.put_queue('x', '{\"attempts_max\": \"3\"}', 'me', 'why')",
        "CN006",
    ),
    (
        "SELECT consign.put_queue('x', '{\"attempts_max\": 1.5}', 'me', 'why')",
        "CN006",
    ),
    (
        "SELECT consign.put_queue('x', '{\"concurrency\": 0}', 'me', 'why')",
        "CN006",
    ),
    (
        "SELECT consign.put_queue('x', '{\"concurrency\": 1.5}', 'me', 'why')",
        "CN006",
    ),
    (
        "SELECT consign.put_queue('x', '{\"concurrency\": null}', 'me', 'why')",
        "CN006",
    ),
    (
        "SELECT consign.put_queue('x', '{\"rate_per_second\": 0}', 'me', 'why')",
        "CN006",
    ),
    (
        "SELECT consign.put_queue('x', '{\"rate_per_second\": 0.5}', 'me', 'why')",
        "CN006",
    ),
    (
        "SELECT consign.put_queue('x', '{\"rate_per_second\": \"7\"}', 'me', 'why')",
        "CN006",
    ),
    (
        "SELECT consign.put_queue('x', '{\"timeout_ms\": 86400001}', 'me', 'why')",
        "CN006",
    ),
    (
        "SELECT consign.put_queue('x', '{\"record_begin\": 1}', 'me', 'why')",
        "CN006",
    ),
    (
        "SELECT consign.put_queue('x', '{\"presume_begun\": null}', 'me', 'why')",
        "CN006",
    ),
    (
        "SELECT consign.put_queue('x', '{\"hold_codes\": \"A\"}', 'me', 'why')",
        "CN006",
    ),
    (
        "SELECT consign.put_queue('x', '{\"hold_codes\": [1]}', 'me', 'why')",
        "CN006",
    ),
    (
        "SELECT consign.put_queue('x', '{\"retry\": {\"kind\": \"fixed\"}}', 'me', 'why')",
        "CN006",
    ),
    (
        "SELECT consign.put_queue('x', '{\"retry\": {\"kind\": \"fixed\", \"delay_ms\": -1}}', 'me', 'why')",
        "CN006",
    ),
    (
        "SELECT consign.put_queue('x', '{\"retry\": {\"kind\": \"fixed\", \"delay_ms\": 1, \"x\": 1}}', 'me', 'why')",
        "CN006",
    ),
    (
        "SELECT consign.put_queue('x', '{\"retry\": {\"kind\": \"table\", \"delays_ms\": []}}', 'me', 'why')",
        "CN006",
    ),
    (
        "SELECT consign.put_queue('x', '{\"retry\": {\"kind\": \"table\", \"delays_ms\": [1, \"a\"]}}', 'me', 'why')",
        "CN006",
    ),
    (
        "SELECT consign.put_queue('x', '{\"retry\": {\"kind\": \"exponential\", \"base_ms\": 1, \"factor\": 2, \"max_ms\": 1e300, \"jitter\": 0}}', 'me', 'why')",
        "CN006",
    ),
    (
        "SELECT consign.put_queue('x', '{\"retry\": null}', 'me', 'why')",
        "CN006",
    ),
    ("SELECT consign.pause('default', E'\\t', 'why')", "CN006"),
    ("UPDATE consign.attempt SET code = 'x'", "CN009"),
    ("DELETE FROM consign.attempt", "CN009"),
    ("TRUNCATE consign.attempt", "CN009"),
    ("UPDATE consign.message SET payload = '0'", "CN009"),
    ("DELETE FROM consign.message", "CN009"),
    ("TRUNCATE consign.message", "CN009"),
    ("UPDATE consign.audit SET actor = 'x'", "CN009"),
    ("UPDATE consign.erasure SET actor = 'x'", "CN009"),
    ("SELECT consign.erase(ARRAY[1], 'me', '')", "CN006"),
    (
        "SELECT consign.erase(ARRAY(SELECT generate_series(1, 1001)), 'me', 'why')",
        "CN006",
    ),
    ("TRUNCATE consign.audit CASCADE", "CN009"),
    ("UPDATE consign.late SET owner = 'me'", "CN009"),
    ("DELETE FROM consign.late", "CN009"),
    ("TRUNCATE consign.late", "CN009"),
    (
        "SELECT consign.record_late(gen_random_uuid(), ARRAY[1, 1])",
        "CN006",
    ),
    (
        "SELECT consign.record_late(gen_random_uuid(), ARRAY[1], ARRAY['expired'])",
        "CN006",
    ),
    (
        "SELECT consign.record_late(gen_random_uuid(), ARRAY[1], p_codes => ARRAY['a', 'b'])",
        "CN006",
    ),
    ("SELECT consign.start_redrive('me', '')", "CN006"),
    (
        "SELECT consign.start_redrive('me', repeat('x', 4001))",
        "CN006",
    ),
    (
        "SELECT consign.start_redrive('me', 'why', 'nowhere')",
        "CN001",
    ),
    (
        "SELECT consign.start_redrive('me', 'why', p_code => repeat('x', 129))",
        "CN006",
    ),
    (
        "SELECT consign.start_redrive('me', 'why', p_rate_per_second => 0)",
        "CN006",
    ),
    (
        "SELECT consign.start_redrive('me', 'why', p_at_most => 0)",
        "CN006",
    ),
    (
        "SELECT consign.resolve(ARRAY[1], 'sent', 'me', 'why')",
        "CN006",
    ),
    (
        "SELECT consign.resolve(ARRAY[1], 'dead', 'me', 'why', '{}')",
        "CN006",
    ),
    (
        "SELECT consign.resolve(ARRAY[1], NULL, 'me', 'why')",
        "CN006",
    ),
    (
        "SELECT consign.resolve(ARRAY[1], 'dead', 'me', '')",
        "CN006",
    ),
    ("SELECT consign.step_redrive(0)", "CN006"),
    ("SELECT consign.step_redrive(NULL)", "CN006"),
    ("SELECT consign.stop_redrive(7, 'me', 'why')", "CN008"),
    ("SELECT consign.resume_redrive(7, 'me', 'why')", "CN008"),
    ("SELECT consign.resume_redrive(NULL, 'me', 'why')", "CN008"),
];

#[tokio::test]
async fn refusals_have_sqlstates_of_their_own() {
    let database = database().await;
    let store = connect(&database).await;
    let mut connection = store.pool().acquire().await.unwrap();
    // Updates are rejected by row.
    sqlx::raw_sql(
        "INSERT INTO consign.message (id, created_at, queue, payload, headers)
             VALUES (999, now(), 'default', '1', '{}');
         INSERT INTO consign.attempt (message_id, attempt_no, outcome, owner, fence, token, claimed_at, finished_at)
             VALUES (999, 1, 'delivered', 'w', 1, gen_random_uuid(), now(), now());
         INSERT INTO consign.late (message_id, fence, at, token, outcome, owner)
             VALUES (999, 1, now(), gen_random_uuid(), 'delivered', 'w')",
    )
    .execute(&mut *connection)
    .await
    .unwrap();
    for (sql, code) in REFUSED {
        assert_eq!(sqlstate(&mut connection, sql).await, *code, "{sql}");
    }
}

#[tokio::test]
async fn retry_delays_are_the_kernels() {
    let database = database().await;
    let store = connect(&database).await;
    let schedules = [
        RetrySchedule::Fixed { delay_ms: 1_500 },
        RetrySchedule::Table {
            delays_ms: vec![5_000, 10_000, 20_000, 40_000, 80_000],
        },
        RetrySchedule::default(),
        RetrySchedule::Exponential {
            base_ms: 60_000,
            factor: 2.0,
            max_ms: 3_600_000,
            jitter: 0.3,
        },
        RetrySchedule::Exponential {
            base_ms: 1,
            factor: 100.0,
            max_ms: 1_000_000,
            jitter: 0.0,
        },
        RetrySchedule::Exponential {
            base_ms: 7,
            factor: 1.5,
            max_ms: 100_000,
            jitter: 1.0,
        },
        // Grows for longer than the exponent.
        RetrySchedule::Exponential {
            base_ms: 1,
            factor: 1.01,
            max_ms: 10_000_000_000,
            jitter: 0.0,
        },
        RetrySchedule::Exponential {
            base_ms: 0,
            factor: 1.0,
            max_ms: 0,
            jitter: 0.5,
        },
    ];
    for schedule in &schedules {
        for tries in [1_u32, 2, 3, 4, 5, 6, 7, 30, 1_000, 9_999] {
            for chance in [0.0, 0.25, 0.5, 0.99] {
                let delay: PgInterval =
                    sqlx::query_scalar("SELECT consign.retry_delay($1, $2, $3)")
                        .bind(Json(schedule))
                        .bind(i32::try_from(tries).unwrap())
                        .bind(chance)
                        .fetch_one(store.pool())
                        .await
                        .unwrap();
                let expected = schedule.delay(tries, chance).as_micros();
                let actual = u128::try_from(delay.microseconds).unwrap();
                assert_eq!(actual, expected, "{schedule:?} try {tries} chance {chance}");
            }
        }
    }
}

#[tokio::test]
async fn compact_length_is_the_length_serde_writes() {
    let database = database().await;
    let store = connect(&database).await;
    let documents = [
        json!(null),
        json!("ä\n\"\\"),
        json!(["\\", " \\\" , : ", "\\\\\"", {" \" ": "\t \u{1} "}, -0.5]),
        json!([]),
        json!({}),
        json!([1, [2, [3, []]], {"a": {}}]),
        json!({"a": [1, 2, {"b": [true, false, null]}], "c": {"d": "x, y: z"}}),
    ];
    for document in documents {
        let bytes: i64 = sqlx::query_scalar("SELECT consign.compact_bytes($1::jsonb::text)")
            .bind(Json(&document))
            .fetch_one(store.pool())
            .await
            .unwrap();
        assert_eq!(bytes as usize, document.to_string().len(), "{document}");
    }
}

/// Its text is longer than the queue allows only by the spaces PostgreSQL prints, so that it must be
/// measured. The time allowed is many times what one pass takes, and a fraction of what a step for
/// every pair of values would.
#[tokio::test]
async fn a_payload_of_many_small_values_is_measured_in_one_pass() {
    let database = database().await;
    let store = connect(&database).await;
    let mut connection = store.pool().acquire().await.unwrap();
    sqlx::query("SET statement_timeout = '8s'")
        .execute(&mut *connection)
        .await
        .unwrap();
    for (expression, refused) in [
        ("consign.enqueue('default', $1::text::jsonb)", false),
        (
            "consign.enqueue('default', jsonb_build_array($1::text::jsonb, $1::text::jsonb))",
            true,
        ),
        (
            "consign.enqueue('default', '1', p_headers => jsonb_build_object('x', $1::text::jsonb))",
            true,
        ),
        (
            "logbook.document_text(jsonb_build_array($1::text::jsonb, replace($1::text, '0', '\"\"')::jsonb))",
            false,
        ),
    ] {
        let zeros = format!("[{}0]", "0,".repeat(450_000));
        let called = sqlx::query(sqlx::AssertSqlSafe(format!("SELECT {expression}")))
            .bind(zeros)
            .execute(&mut *connection)
            .await;
        let code = called.err().map(|error| {
            let code = error.as_database_error().and_then(|error| error.code());
            code.map_or(error.to_string(), |code| code.into_owned())
        });
        let is_refusal = code.as_deref().is_some_and(|code| code.starts_with("CN00"));
        assert_eq!(
            (code.is_some(), is_refusal),
            (refused, refused),
            "{expression}: {code:?}"
        );
    }
}

#[tokio::test]
async fn a_payload_that_is_too_large_is_never_sent() {
    let database = database().await;
    let store = connect(&database).await;
    let too_large = Payload::parse(&format!("[{}0]", "0,".repeat(4_000_000))).unwrap();
    let too_large = [NewMessage::new("default".parse().unwrap(), too_large)];
    // What would take it is not there: only a call that comes this far notices.
    sqlx::query("ALTER FUNCTION consign.enqueue_many RENAME TO enqueue_none")
        .execute(store.pool())
        .await
        .unwrap();
    let refused = store.enqueue(&too_large).await.unwrap_err();
    assert_eq!(refused.code(), "payload_too_large", "{refused}");
    let mut tx = store.pool().begin().await.unwrap();
    let refused = enqueue_in(&mut tx, &too_large).await.unwrap_err();
    assert_eq!(refused.code(), "payload_too_large", "{refused}");
}

#[tokio::test]
async fn a_claim_split_by_another_is_never_taken_twice() {
    // Two sessions claim from one run of 200: the second finds the run split by the first between
    // its snapshot and its lock.
    let database = database().await;
    let store = connect(&database).await;
    for _ in 0..30 {
        sqlx::query("SELECT consign.enqueue_many('default', array_fill('1'::jsonb, ARRAY[200]))")
            .execute(store.pool())
            .await
            .unwrap();
        let claims = (0..8).map(|n| {
            let pool = store.pool().clone();
            tokio::spawn(async move {
                sqlx::query("SELECT id FROM consign.claim('default', $1, 25)")
                    .bind(format!("w{n}"))
                    .fetch_all(&pool)
                    .await
                    .unwrap()
            })
        });
        let mut ids: Vec<i64> = Vec::new();
        for claim in claims.collect::<Vec<_>>() {
            ids.extend(
                claim
                    .await
                    .unwrap()
                    .iter()
                    .map(|row| row.get::<i64, _>("id")),
            );
        }
        let claimed = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), claimed, "a message was leased twice");
    }
    assert_eq!(store.doctor().await.unwrap(), []);
}

/// A claim in a transaction that stays open hides the rest of the run it was the first to split;
/// after that, claims hide what they take and no more.
#[tokio::test]
async fn open_claims_hide_what_they_took_once_a_batch_is_in_pieces() {
    let database = database().await;
    let store = connect(&database).await;
    let fill = "SELECT consign.enqueue_many('default', array_fill('1'::jsonb, ARRAY[450]))";
    sqlx::raw_sql(fill).execute(store.pool()).await.unwrap();
    let claim = async |tx: &mut PgConnection, limit: i32| -> Vec<i64> {
        sqlx::query_scalar("SELECT id FROM consign.claim('default', 'psql', $1)")
            .bind(limit)
            .fetch_all(tx)
            .await
            .unwrap()
    };
    let mut first = store.pool().begin().await.unwrap();
    let mut second = store.pool().begin().await.unwrap();
    let mut third = store.pool().begin().await.unwrap();
    assert_eq!(claim(&mut first, 2).await, [1, 2]);
    assert_eq!(claim(&mut second, 2).await, [201, 202], "the next run");
    first.commit().await.unwrap();
    let mut first = store.pool().begin().await.unwrap();
    assert_eq!(claim(&mut first, 2).await, [3, 4]);
    assert_eq!(claim(&mut third, 2).await, [5, 6]);
    assert_eq!(claim(&mut third, 3).await, [7, 8, 9]);
    first.rollback().await.unwrap();
    assert_eq!(claim(&mut third, 3).await, [3, 4, 10]);
    third.rollback().await.unwrap();
    second.rollback().await.unwrap();
    // In order, across pieces and runs.
    let mut rest = store.pool().begin().await.unwrap();
    let all = claim(&mut rest, 1000).await;
    assert_eq!(all, (3..=450).collect::<Vec<i64>>());
    rest.commit().await.unwrap();
    assert_eq!(store.doctor().await.unwrap(), []);
}
