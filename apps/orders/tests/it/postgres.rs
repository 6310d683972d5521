//! Orders through SQL: the view `outbox_orders`, and the manual statements of the outbox protocol as
//! they are printed there.

mod attack;
mod conformance;
mod doctor;
mod harness;
mod install;
mod pruning;

use consign_kernel::{By, Claim, MessageId, Outcome, QueuePolicy, Report, StateKind, prelude::*};
use consign_orders::{FinalResult, Ledger as _, LedgerStatus, NewOrder, QUEUE};
use consign_postgres::PostgresStore;
use consign_testkit::TestDatabase;
use serde_json::{Map, Value, json};
use sqlx::{Connection, PgConnection, Row};

use self::harness::{connect, database, execute};

const RELEASE_VOID_LOCKS: &str = "
UPDATE outbox_orders
   SET status='pending', locked_by=NULL, locked_at=NULL
 WHERE status='sending' AND locked_at < now() - interval '120 seconds';";

const REQUEUE: &str = "
UPDATE outbox_orders
   SET status='pending', attempts=0, last_error_code=NULL, last_error_msg=NULL,
       next_run_at=NULL, updated_at=now()
 WHERE id = $1;";

/// An order of the client `fixture-1`.
pub(crate) fn order(key: &str) -> NewOrder {
    let payload = json!({
        "client": "desk-1",
        "idempotency_key": key,
        "request_digest": format!("sha256:{key}"),
        "order": {"order_id": "ord-1", "instrument": "USDJPY", "side": "BUY"},
        "body": r#"{"instrument": "USDJPY", "qty": 0.10}"#,
    });
    NewOrder {
        client: "desk-1".parse().unwrap(),
        key: key.parse().unwrap(),
        request_digest: format!("sha256:{key}"),
        payload,
        headers: Map::new(),
        ttl: std::time::Duration::from_secs(48 * 3_600),
        max_age: None,
    }
}

fn ended(http_status: u16) -> Value {
    let ended = FinalResult {
        http_status,
        result_digest: "sha256:r".to_owned(),
        exec_result: r#"{"status":"…"}"#.to_owned(),
    };
    serde_json::to_value(ended).unwrap()
}

/// Settles every order that is due.
pub(crate) async fn settle_all(store: &PostgresStore, outcome: Outcome, code: &str) {
    let claim = Claim::new(QUEUE.parse().unwrap(), "worker-1", 100);
    while let Some(lease) = store.claim(&claim).await.unwrap() {
        let http_status = if outcome == Outcome::Delivered {
            200
        } else {
            504
        };
        let report = |id| Report {
            code: Some(code.to_owned()),
            detail: Some("from the broker".to_owned()),
            result: Some(ended(http_status)),
            ..Report::new(id, outcome)
        };
        let ids = lease.messages.iter().map(|claimed| claimed.message.id);
        let reports: Vec<Report> = ids.map(report).collect();
        store.settle(lease.token, &reports).await.unwrap();
    }
}

/// Executes every order that is due.
pub(crate) async fn execute_all(store: &PostgresStore) {
    settle_all(store, Outcome::Delivered, "EXECUTED").await;
}

/// A store with the queue `orders`.
pub(crate) async fn fixture(lease_s: u64) -> (TestDatabase, PostgresStore) {
    let database = database().await;
    let store = connect(&database).await;
    let policy = QueuePolicy {
        lease_ttl_ms: lease_s * 1_000,
        ..QueuePolicy::default()
    };
    let by = By::new("test", "orders");
    let queue = QUEUE.parse().unwrap();
    store.put_queue(&queue, &policy, &by).await.unwrap();
    (database, store)
}

pub(crate) async fn enter(store: &PostgresStore, key: &str) -> MessageId {
    let answers = store.accept(&[order(key)]).await.unwrap();
    answers[0].entry().outbox_id.unwrap()
}

async fn claim(store: &PostgresStore) -> Vec<MessageId> {
    let claim = Claim::new(QUEUE.parse().unwrap(), "worker-1", 100);
    let lease = store.claim(&claim).await.unwrap().unwrap();
    lease.messages.iter().map(|c| c.message.id).collect()
}

async fn status(store: &PostgresStore, key: &str) -> LedgerStatus {
    let order = order(key);
    let entry = store.entry(&order.client, &order.key).await.unwrap();
    entry.unwrap().status
}

/// A session as the protocol's documents imagine it.
pub(crate) async fn session(database: &TestDatabase) -> PgConnection {
    let mut session = PgConnection::connect(database.url()).await.unwrap();
    let path = "SET search_path = consign, public";
    sqlx::raw_sql(path).execute(&mut session).await.unwrap();
    session
}

/// Status and attempts by id, from the view.
async fn shown(session: &mut PgConnection) -> Vec<(i64, String, i32)> {
    let sql = "SELECT id, status, attempts FROM outbox_orders ORDER BY id";
    let rows = sqlx::query(sql).fetch_all(session).await.unwrap();
    let row = |row: &sqlx::postgres::PgRow| (row.get(0), row.get(1), row.get(2));
    rows.iter().map(row).collect()
}

fn code(error: &sqlx::Error) -> String {
    let error = error.as_database_error().unwrap();
    error.code().unwrap().into_owned()
}

/// Pending, sending, failed until it is due again, succeeded, aborted; held shows as failed.
#[tokio::test]
async fn the_view_shows_the_five_states() {
    let (database, store) = fixture(120).await;
    let mut session = session(&database).await;
    enter(&store, "key-0001").await;
    execute_all(&store).await;
    enter(&store, "key-0002").await;
    settle_all(&store, Outcome::Dead, "BROKER_REJECTED").await;
    let retried = enter(&store, "key-0003").await;
    settle_all(&store, Outcome::Retry, "BROKER_TIMEOUT").await;
    let held = enter(&store, "key-0004").await;
    let by = By::new("test", "check it");
    store.hold(&[held], &by).await.unwrap();
    let sending = enter(&store, "key-0005").await;
    assert_eq!(claim(&store).await, [sending]);
    enter(&store, "key-0006").await;
    let statuses: Vec<String> = shown(&mut session).await.into_iter().map(|s| s.1).collect();
    let expected = [
        "succeeded",
        "aborted",
        "failed",
        "failed",
        "sending",
        "pending",
    ];
    assert_eq!(statuses, expected);

    let row = sqlx::query("SELECT * FROM outbox_orders WHERE id = $1")
        .bind(retried.0)
        .fetch_one(&mut session)
        .await
        .unwrap();
    assert_eq!(row.get::<&str, _>("client"), "desk-1");
    assert_eq!(row.get::<&str, _>("idempotency_key"), "key-0003");
    assert_eq!(row.get::<&str, _>("request_digest"), "sha256:key-0003");
    assert_eq!(row.get::<&str, _>("last_error_code"), "BROKER_TIMEOUT");
    assert_eq!(row.get::<&str, _>("last_error_msg"), "from the broker");
    assert_eq!(row.get::<i32, _>("attempts"), 1);
    let (in_future, body, unlocked): (bool, String, bool) = sqlx::query_as(
        "SELECT next_run_at > now(), order_request_json::text, num_nulls(locked_by, locked_at) = 2
         FROM outbox_orders WHERE id = $1",
    )
    .bind(retried.0)
    .fetch_one(&mut session)
    .await
    .unwrap();
    assert!(in_future && unlocked);
    assert_eq!(body, r#"{"qty": 0.10, "instrument": "USDJPY"}"#);
    let counted: i64 = sqlx::query("SELECT status, count(*) FROM outbox_orders GROUP BY 1;")
        .fetch_all(&mut session)
        .await
        .unwrap()
        .iter()
        .map(|row| row.get::<i64, _>("count"))
        .sum();
    assert_eq!(counted, 6);
}

#[tokio::test]
async fn void_locks_are_released_as_printed() {
    let (database, store) = fixture(120).await;
    let mut session = session(&database).await;
    let keys = ["key-0001", "key-0002"].map(order);
    store.accept(&keys).await.unwrap();
    let void = claim(&store).await;
    execute(
        database.url(),
        "UPDATE consign.lease SET claimed_at = claimed_at - interval '3 minutes', expires_at = expires_at - interval '3 minutes'",
    )
    .await;
    enter(&store, "key-0003").await;
    let live = Claim::new(QUEUE.parse().unwrap(), "worker-2", 1);
    let ready = sqlx::query(
        "SELECT consign.enqueue('default', '1')", // another queue's lease is not an order
    );
    ready.execute(store.pool()).await.unwrap();
    let done = sqlx::raw_sql(RELEASE_VOID_LOCKS)
        .execute(&mut session)
        .await
        .unwrap();
    assert_eq!(done.rows_affected(), 2, "both orders of the one void lease");
    let states = shown(&mut session).await;
    assert!(states.iter().all(|row| row.1 == "pending"), "{states:?}");
    for id in &void {
        let history = store.history(*id).await.unwrap();
        assert_eq!(history[0].code.as_deref(), Some("lease_expired"), "fenced");
        let audit = store.audit(Some(*id), None, 10).await.unwrap();
        assert_eq!(
            (audit[0].actor.as_str(), audit[0].action.as_str()),
            ("postgres", "expire")
        );
    }
    store.claim(&live).await.unwrap().unwrap();
    let done = sqlx::raw_sql(RELEASE_VOID_LOCKS)
        .execute(&mut session)
        .await
        .unwrap();
    assert_eq!(done.rows_affected(), 0, "nothing void any more");
    assert_eq!(store.doctor().await.unwrap(), []);
}

/// The statement's 120 seconds are not the queue's: only the lease decides whether it is live.
#[tokio::test]
async fn a_live_lock_is_never_released() {
    let (database, store) = fixture(600).await;
    let mut session = session(&database).await;
    let id = enter(&store, "key-0001").await;
    claim(&store).await;
    execute(
        database.url(),
        "UPDATE consign.lease SET claimed_at = claimed_at - interval '5 minutes', expires_at = expires_at - interval '5 minutes'",
    )
    .await;
    let done = sqlx::raw_sql(RELEASE_VOID_LOCKS)
        .execute(&mut session)
        .await
        .unwrap();
    assert_eq!(done.rows_affected(), 0);
    let state = store.explain(id).await.unwrap().unwrap().state;
    assert_eq!(state.kind(), StateKind::Leased);
    assert_eq!(store.audit(Some(id), None, 10).await.unwrap(), []);
}

#[tokio::test]
async fn an_aborted_order_is_requeued_as_printed() {
    let (database, store) = fixture(120).await;
    let mut session = session(&database).await;
    let id = enter(&store, "key-0001").await;
    settle_all(&store, Outcome::Dead, "BROKER_DOWN").await;
    assert_eq!(status(&store, "key-0001").await, LedgerStatus::Failed);
    let requeue = sqlx::query(REQUEUE).bind(id.0).execute(&mut session).await;
    assert_eq!(requeue.unwrap().rows_affected(), 1);
    assert_eq!(shown(&mut session).await, [(id.0, "pending".to_owned(), 0)]);
    assert_eq!(status(&store, "key-0001").await, LedgerStatus::Accepted);
    let audit = store.audit(Some(id), None, 10).await.unwrap();
    assert_eq!(
        (audit[0].actor.as_str(), audit[0].action.as_str()),
        ("postgres", "requeue")
    );
    execute_all(&store).await;
    assert_eq!(status(&store, "key-0001").await, LedgerStatus::Succeeded);
    let again = sqlx::query(REQUEUE).bind(id.0).execute(&mut session).await;
    assert_eq!(code(&again.unwrap_err()), "CN006", "it is not aborted");
    assert_eq!(store.doctor().await.unwrap(), []);
}

#[tokio::test]
async fn any_other_change_is_refused() {
    let (database, store) = fixture(120).await;
    let mut session = session(&database).await;
    enter(&store, "key-0001").await;
    execute_all(&store).await;
    enter(&store, "key-0002").await;
    settle_all(&store, Outcome::Dead, "BROKER_DOWN").await;
    enter(&store, "key-0003").await;
    claim(&store).await;
    enter(&store, "key-0004").await;
    let before = shown(&mut session).await;
    for sql in [
        "UPDATE outbox_orders SET status = 'pending' WHERE status = 'succeeded'",
        "UPDATE outbox_orders SET status = 'succeeded'",
        "UPDATE outbox_orders SET status = 'aborted' WHERE status = 'pending'",
        "UPDATE outbox_orders SET attempts = 0 WHERE status = 'pending'",
        "UPDATE outbox_orders SET status = 'pending', attempts = 0 WHERE status = 'sending'",
        "UPDATE outbox_orders SET status = 'pending', locked_by = NULL WHERE status = 'sending'",
        "UPDATE outbox_orders SET locked_at = now() WHERE status = 'sending'",
        "UPDATE outbox_orders SET status = 'pending', order_request_json = '{}' WHERE status = 'aborted'",
        "UPDATE outbox_orders SET status = 'pending', client = 'other' WHERE status = 'aborted'",
        "UPDATE outbox_orders SET id = 7 WHERE status = 'aborted'",
    ] {
        let error = sqlx::raw_sql(sql).execute(&mut session).await.unwrap_err();
        assert_eq!(code(&error), "CN006", "{sql}: {error}");
    }
    for sql in [
        "DELETE FROM outbox_orders",
        "INSERT INTO outbox_orders (id) VALUES (1)",
        "UPDATE outbox_orders SET status = 'sending' FROM (SELECT id FROM outbox_orders FOR UPDATE) x",
    ] {
        sqlx::raw_sql(sql).execute(&mut session).await.unwrap_err();
    }
    assert_eq!(shown(&mut session).await, before);
    assert_eq!(store.doctor().await.unwrap(), []);
}

#[tokio::test]
async fn a_query_for_one_status_does_not_look_into_the_others() {
    let (database, _store) = fixture(120).await;
    let mut session = session(&database).await;
    for (status, tables) in [
        ("succeeded", ["ready", "attempt"].as_slice()),
        ("aborted", &["ready", "dead"]),
        ("sending", &["ready", "lease", "queue"]),
        ("pending", &["ready", "waiting"]),
        ("failed", &["ready", "held"]),
    ] {
        let sql = format!("EXPLAIN SELECT id FROM outbox_orders WHERE status = '{status}'");
        let plan: Vec<String> = sqlx::query_scalar(sqlx::AssertSqlSafe(sql))
            .fetch_all(&mut session)
            .await
            .unwrap();
        let plan = plan.join("\n");
        let all = [
            "ready", "waiting", "lease", "queue", "held", "dead", "attempt",
        ];
        // Of a table in ranges the plan names the ranges.
        let scanned = |table: &&&str| {
            [format!(" on {table} "), format!(" on {table}_1 ")]
                .iter()
                .any(|scan| plan.contains(scan))
        };
        let seen: Vec<&str> = all.iter().filter(scanned).copied().collect();
        let expected: Vec<&&str> = all.iter().filter(|table| tables.contains(table)).collect();
        assert_eq!(seen.iter().collect::<Vec<_>>(), expected, "{plan}");
    }
}

/// Whatever a client sent or an owner put there.
#[tokio::test]
async fn a_request_that_cannot_be_read_is_shown_all_the_same() {
    let (database, store) = fixture(120).await;
    let mut session = session(&database).await;
    let open = "SELECT consign.set_hook('orders', 'check', NULL)";
    sqlx::raw_sql(open).execute(&mut session).await.unwrap();
    for (n, payload) in [
        r#"{"body": "{not json"}"#,
        r#"{"body": "{\"a\": \"\\u0000\"}"}"#,
        r#"{"body": 7}"#,
        r#"{"body": null}"#,
        r#"{"client": "x"}"#,
        r#""text""#,
        "null",
        "[1]",
    ]
    .into_iter()
    .enumerate()
    {
        sqlx::query("SELECT consign.enqueue('orders', $1::text::jsonb, $2)")
            .bind(payload)
            .bind((n > 3).then(|| format!("desk-1/key-{n:04}")))
            .execute(&mut session)
            .await
            .unwrap();
    }
    let deep = format!("{}1{}", "[".repeat(60_000), "]".repeat(60_000));
    sqlx::query("SELECT consign.enqueue('orders', jsonb_build_object('body', $1::text))")
        .bind(deep)
        .execute(&mut session)
        .await
        .unwrap();
    let rows = sqlx::query("SELECT * FROM outbox_orders")
        .fetch_all(&mut session)
        .await;
    assert_eq!(rows.unwrap().len(), 9);
    drop(store);
}
