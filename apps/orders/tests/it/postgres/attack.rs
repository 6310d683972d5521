//! Attacks on the ledger of orders: around the append-only rows, with types of one's own, and through
//! exact interleavings.

use std::{sync::Arc, time::Duration};

use consign_kernel::{By, Outcome, StateKind, prelude::*};
use consign_orders::{AcceptResult, Ledger as _, LedgerStatus};
use consign_postgres::PostgresStore;
use consign_testkit::{TestDatabase, eventually};
use sqlx::{Connection, PgConnection};

use super::{enter, execute_all, fixture, harness::execute, order, settle_all};

const SOON: Duration = Duration::from_secs(20);

/// What an operator's tool calls.
const PURGE: &str = "SELECT consign.purge_orders('me', 'why')";

fn by() -> By {
    By::new("test", "test")
}

/// Makes every row of the ledger past its time.
async fn age(database: &TestDatabase) {
    let sql = "UPDATE consign.idempo_ledger SET expires_at = now() - interval '1 hour'";
    execute(database.url(), sql).await;
}

async fn count(connection: &mut PgConnection, table: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM consign.{table}");
    sqlx::query_scalar(sqlx::AssertSqlSafe(sql))
        .fetch_one(connection)
        .await
        .unwrap()
}

/// Repeats an operation that gave up on a lock: on a busy machine the lock is held for longer than an
/// operation waits for it.
macro_rules! until_unlocked {
    ($call:expr) => {
        loop {
            match $call.await {
                Err(consign_kernel::Error::Locked { .. }) => {}
                result => break result.unwrap(),
            }
        }
    };
}

/// Waits until a session waits for a lock.
async fn a_session_waits(store: &PostgresStore) {
    eventually("a session waits for a lock", SOON, || async {
        let blocked: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database OR l.database IS NULL
             WHERE NOT l.granted AND d.datname = current_database()",
        )
        .fetch_one(store.pool())
        .await
        .unwrap();
        blocked > 0
    })
    .await;
}

/// The owner too: without an entry of its own in the audit, in this very transaction, nothing goes.
#[tokio::test]
async fn nothing_recorded_is_deleted_but_by_an_audited_purge() {
    let (database, store) = fixture(120).await;
    enter(&store, "key-0001").await;
    execute_all(&store).await;
    age(&database).await;
    let report = store.purge(10, 3, false, &by()).await.unwrap();
    assert_eq!(report.succeeded, 1);
    enter(&store, "key-0002").await;
    execute_all(&store).await;
    let entry = "INSERT INTO consign.audit (at, actor, action, queue, reason) VALUES (now(), 'me', 'purge', 'orders', 'why')";
    let other = entry.replace("'purge'", "'requeue'");
    let last = "SELECT set_config('consign.purge', max(id)::text, true) FROM consign.audit";
    let refused = [
        "DELETE FROM consign.attempt".to_owned(),
        "DELETE FROM consign.message".to_owned(),
        "DELETE FROM consign.late".to_owned(),
        // An entry of an earlier purge is no permission.
        format!("{last}; DELETE FROM consign.attempt"),
        format!("{last} WHERE action = 'purge'; DELETE FROM consign.message"),
        // Nor is an entry about something else, nor the setting alone.
        format!("{other}; {last}; DELETE FROM consign.attempt"),
        format!("{entry}; DELETE FROM consign.attempt"),
        "SET LOCAL consign.purge = 'yes'; DELETE FROM consign.message".to_owned(),
        "SET LOCAL consign.purge = '99999999999999999999999'; DELETE FROM consign.message"
            .to_owned(),
        "SET LOCAL consign.purge = '-1'; DELETE FROM consign.message".to_owned(),
        // A purge removes rows; it never changes them.
        format!("{entry}; {last}; UPDATE consign.attempt SET code = 'x'"),
        format!("{entry}; {last}; UPDATE consign.message SET key = 'x'"),
        format!("{entry}; {last}; TRUNCATE consign.attempt"),
        format!("{entry}; {last}; TRUNCATE consign.message"),
        format!("{entry}; {last}; DELETE FROM consign.audit"),
        format!("{entry}; {last}; TRUNCATE consign.audit"),
        // The entry was undone with its savepoint.
        format!(
            "SAVEPOINT a; {entry}; SELECT set_config('consign.purge', max(id)::text, true) FROM consign.audit; ROLLBACK TO a; {last}; DELETE FROM consign.attempt"
        ),
        // What a purge was allowed ends with it.
        format!("{PURGE}; DELETE FROM consign.attempt"),
    ];
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    for sql in refused {
        let mut tx = connection.begin().await.unwrap();
        let result = sqlx::raw_sql(sqlx::AssertSqlSafe(sql.clone()))
            .execute(&mut *tx)
            .await;
        let error = result.expect_err(&sql);
        let code = error.as_database_error().unwrap().code().unwrap();
        assert_eq!(code, "CN009", "{sql}: {error}");
        tx.rollback().await.unwrap();
    }
    assert_eq!(count(&mut connection, "message").await, 1);
    assert_eq!(store.doctor().await.unwrap(), []);
}

#[tokio::test]
async fn a_purge_works_inside_a_savepoint_and_is_undone_with_it() {
    let (database, store) = fixture(120).await;
    enter(&store, "key-0001").await;
    settle_all(&store, Outcome::Dead, "BROKER_REJECTED").await;
    age(&database).await;
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    let sql = format!("SAVEPOINT a; SAVEPOINT b; {PURGE}; ROLLBACK TO a; SAVEPOINT c; {PURGE}");
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql))
        .execute(&mut *tx)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    for table in ["idempo_ledger", "message", "attempt", "dead"] {
        assert_eq!(count(&mut connection, table).await, 0, "{table}");
    }
    let audit = store.audit(None, None, 10).await.unwrap();
    let purges = audit.iter().filter(|entry| entry.action == "purge");
    assert_eq!(purges.count(), 1);
}

/// The lower half of a transaction's number comes round again; this one's neighbours do not count.
#[tokio::test]
async fn an_entry_under_way_elsewhere_is_no_permission() {
    let (database, store) = fixture(120).await;
    enter(&store, "key-0001").await;
    execute_all(&store).await;
    let mut other = PgConnection::connect(database.url()).await.unwrap();
    let mut other = other.begin().await.unwrap();
    let id: i64 = sqlx::query_scalar(
        "INSERT INTO consign.audit (at, actor, action, queue, reason) VALUES (now(), 'me', 'purge', 'orders', 'why') RETURNING id",
    )
    .fetch_one(&mut *other)
    .await
    .unwrap();
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    let sql = format!("BEGIN; SET LOCAL consign.purge = '{id}'; DELETE FROM consign.attempt");
    let error = sqlx::raw_sql(sqlx::AssertSqlSafe(sql))
        .execute(&mut connection)
        .await
        .unwrap_err();
    let code = error.as_database_error().unwrap().code().unwrap();
    assert_eq!(code, "CN009");
    other.commit().await.unwrap();
}

/// As in the kernel's functions: a caller's types and functions never run as the owner.
#[tokio::test]
async fn types_of_a_caller_do_not_run_with_the_owners_rights() {
    let (database, store) = fixture(120).await;
    enter(&store, "key-0001").await;
    settle_all(&store, Outcome::Dead, "BROKER_REJECTED").await;
    let accept = "SELECT consign.accept_orders('{desk-2}', '{key-0001}', '{d}',
        ARRAY['{\"request_digest\": \"d\", \"body\": \"{}\"}'::pg_catalog.jsonb], NULL, ARRAY['48 h'::pg_catalog.interval], NULL)";
    let direct = "SELECT consign.open_direct_order('desk-2', 'key-0002', 'd', '{\"request_digest\": \"d\"}', '48 h', '5 s')";
    for (role, call) in [
        ("consign_order_server", accept),
        ("consign_order_server", direct),
        (
            "consign_order_server",
            "SELECT consign.order_entry('desk-1', 'key-0001')",
        ),
        (
            "consign_order_server",
            "SELECT consign.take_order_quota('desk-1', 1, 1)",
        ),
        (
            "consign_order_server",
            "SELECT consign.verify_order('desk-1', 'key-0001')",
        ),
        ("consign_operator", PURGE),
        (
            "consign_operator",
            "UPDATE consign.outbox_orders SET status = 'pending'",
        ),
        ("consign_auditor", "SELECT consign.count_orders()"),
        ("consign_auditor", "SELECT * FROM consign.outbox_orders"),
    ] {
        let mut connection = PgConnection::connect(database.url()).await.unwrap();
        let mut tx = connection.begin().await.unwrap();
        let sql = format!(
            "CREATE TABLE public.seen (role text);
             GRANT INSERT ON public.seen TO PUBLIC;
             SET LOCAL ROLE {role};
             CREATE FUNCTION pg_temp.spy(v pg_catalog.text) RETURNS boolean LANGUAGE plpgsql AS
                 $$ BEGIN INSERT INTO public.seen VALUES (current_user); RETURN true; END $$;
             CREATE DOMAIN pg_temp.timestamptz AS pg_catalog.timestamptz CHECK (pg_temp.spy(VALUE::pg_catalog.text));
             CREATE DOMAIN pg_temp.json AS pg_catalog.json CHECK (pg_temp.spy(VALUE::pg_catalog.text));
             CREATE DOMAIN pg_temp.jsonb AS pg_catalog.jsonb CHECK (pg_temp.spy(VALUE::pg_catalog.text));
             CREATE DOMAIN pg_temp.bigint AS pg_catalog.int8 CHECK (pg_temp.spy(VALUE::pg_catalog.text));
             CREATE FUNCTION pg_temp.length(pg_catalog.text) RETURNS int LANGUAGE plpgsql AS
                 $$ BEGIN INSERT INTO public.seen VALUES (current_user); RETURN 9; END $$;
             SET LOCAL search_path = pg_temp, pg_catalog;
             {call};
             RESET ROLE;"
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql))
            .execute(&mut *tx)
            .await
            .unwrap_or_else(|error| panic!("{role}: {call}: {error}"));
        let seen: Vec<String> = sqlx::query_scalar("SELECT role FROM public.seen")
            .fetch_all(&mut *tx)
            .await
            .unwrap();
        assert_eq!(seen, Vec::<String>::new(), "{role}: {call}");
        tx.rollback().await.unwrap();
    }
}

/// One has the dead message, the other the row of the ledger.
#[tokio::test(flavor = "multi_thread")]
async fn a_purge_leaves_alone_what_is_being_requeued() {
    let (database, store) = fixture(120).await;
    let id = enter(&store, "key-0001").await;
    settle_all(&store, Outcome::Dead, "BROKER_DOWN").await;
    age(&database).await;
    let mut operator = store.pool().begin().await.unwrap();
    sqlx::query("SELECT consign.requeue(ARRAY[$1], 'me', 'why')")
        .bind(id.0)
        .execute(&mut *operator)
        .await
        .unwrap();
    let report = store.purge(10, 3, false, &by()).await.unwrap();
    assert_eq!((report.failed, report.succeeded), (0, 0));
    operator.commit().await.unwrap();
    let key = order("key-0001");
    let entry = store.entry(&key.client, &key.key).await.unwrap().unwrap();
    assert_eq!(entry.status, LedgerStatus::Accepted);
    assert_eq!(store.doctor().await.unwrap(), []);
}

/// The other way round the requeue waits, and then there is nothing to requeue.
#[tokio::test(flavor = "multi_thread")]
async fn a_requeue_that_meets_a_purge_finds_nothing() {
    let (database, store) = fixture(120).await;
    let store = Arc::new(store);
    let id = enter(&store, "key-0001").await;
    settle_all(&store, Outcome::Dead, "BROKER_DOWN").await;
    age(&database).await;
    let mut purger = PgConnection::connect(database.url()).await.unwrap();
    let mut purger = purger.begin().await.unwrap();
    sqlx::raw_sql(PURGE).execute(&mut *purger).await.unwrap();
    let requeue = tokio::spawn({
        let store = Arc::clone(&store);
        async move { until_unlocked!(store.requeue(&[id], &by())) }
    });
    a_session_waits(&store).await;
    purger.commit().await.unwrap();
    let moved = requeue.await.unwrap();
    assert!(
        !matches!(moved[0].answer, consign_kernel::Move::Moved { .. }),
        "{moved:?}"
    );
    assert_eq!(store.doctor().await.unwrap(), []);
    assert_eq!(store.explain(id).await.unwrap(), None);
}

/// The key is taken until the purge is over; then it is free.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_meets_the_purge_of_its_key_is_new() {
    let (database, store) = fixture(120).await;
    let store = Arc::new(store);
    let old = enter(&store, "key-0001").await;
    execute_all(&store).await;
    age(&database).await;
    for commits in [false, true] {
        let mut purger = PgConnection::connect(database.url()).await.unwrap();
        let mut purger = purger.begin().await.unwrap();
        sqlx::raw_sql(PURGE).execute(&mut *purger).await.unwrap();
        let accept = tokio::spawn({
            let store = Arc::clone(&store);
            async move { until_unlocked!(store.accept(&[order("key-0000"), order("key-0001")])) }
        });
        a_session_waits(&store).await;
        if commits {
            purger.commit().await.unwrap()
        } else {
            purger.rollback().await.unwrap()
        }
        let answers = accept.await.unwrap();
        let is_new = matches!(answers[1], AcceptResult::New(_));
        assert_eq!(is_new, commits, "{:?}", answers[1]);
        assert_eq!(answers[1].entry().outbox_id == Some(old), !commits);
    }
    assert_eq!(store.doctor().await.unwrap(), []);
}

/// A replay does not wait for a settle in another order than its own: it would be a deadlock.
#[tokio::test(flavor = "multi_thread")]
async fn a_replay_and_a_settle_never_wait_for_each_other() {
    let (database, store) = fixture(120).await;
    let store = Arc::new(store);
    let keys = ["key-0001", "key-0002"];
    store.accept(&keys.map(order)).await.unwrap();
    let sql = "UPDATE consign.idempo_ledger SET last_seen_at = last_seen_at - interval '1 hour'";
    execute(database.url(), sql).await;
    // Half a settle: the second order's row is in its hands, the first one's is next.
    let mut settle = PgConnection::connect(database.url()).await.unwrap();
    let mut settle = settle.begin().await.unwrap();
    sqlx::query(
        "UPDATE consign.idempo_ledger SET status = 'succeeded' WHERE idempotency_key = 'key-0002'",
    )
    .execute(&mut *settle)
    .await
    .unwrap();
    let replay = tokio::spawn({
        let store = Arc::clone(&store);
        async move { until_unlocked!(store.accept(&keys.map(order))) }
    });
    // It has looked at the first row and waits for the second, with nothing in its hands.
    a_session_waits(&store).await;
    sqlx::query(
        "UPDATE consign.idempo_ledger SET status = 'succeeded' WHERE idempotency_key = 'key-0001'",
    )
    .execute(&mut *settle)
    .await
    .unwrap();
    settle.rollback().await.unwrap();
    let answers = replay.await.unwrap();
    assert!(
        answers
            .iter()
            .all(|answer| matches!(answer, AcceptResult::Same(_)))
    );
}

/// An order that is given up before its result arrives has one final answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_waited_past_its_time_is_too_late() {
    let (database, store) = fixture(120).await;
    let store = Arc::new(store);
    let order = order("key-0001");
    store
        .open_direct(&order, Duration::from_millis(400))
        .await
        .unwrap();
    let mut other = PgConnection::connect(database.url()).await.unwrap();
    let mut tx = other.begin().await.unwrap();
    sqlx::query("SELECT FROM consign.idempo_ledger FOR UPDATE")
        .execute(&mut *tx)
        .await
        .unwrap();
    let close = tokio::spawn({
        let (store, order) = (Arc::clone(&store), order.clone());
        let ended = consign_orders::FinalResult {
            http_status: 200,
            result_digest: "sha256:r".to_owned(),
            exec_result: "{}".to_owned(),
        };
        async move { until_unlocked!(store.close_direct(&order, LedgerStatus::Succeeded, &ended)) }
    });
    a_session_waits(&store).await;
    eventually("its time is over", SOON, || async {
        sqlx::query_scalar::<_, bool>(
            "SELECT give_up_at < clock_timestamp() FROM consign.idempo_ledger",
        )
        .fetch_one(store.pool())
        .await
        .unwrap()
    })
    .await;
    tx.rollback().await.unwrap();
    let entry = close.await.unwrap().unwrap();
    assert_eq!(
        (entry.status, entry.http_status),
        (LedgerStatus::Failed, 504)
    );
}

/// A row that was changed by hand is not its message's to end or to bring back.
#[tokio::test]
async fn a_row_that_is_final_or_about_another_request_is_left_alone() {
    let row = "SELECT l::text FROM consign.idempo_ledger l WHERE outbox_id = $1";
    for (change, outcome) in [
        ("status = 'succeeded', http_status = 200", Outcome::Dead),
        (
            "status = 'succeeded', http_status = 200",
            Outcome::Delivered,
        ),
        ("status = 'failed', http_status = 400", Outcome::Delivered),
        ("request_digest = 'sha256:other'", Outcome::Dead),
        ("request_digest = 'sha256:other'", Outcome::Delivered),
        (
            "request_digest = 'sha256:other', status = 'failed'",
            Outcome::Dead,
        ),
    ] {
        let (database, store) = fixture(120).await;
        let id = enter(&store, "key-0001").await;
        let sql = format!("UPDATE consign.idempo_ledger SET {change}");
        let mut owner = PgConnection::connect(database.url()).await.unwrap();
        let changed = sqlx::raw_sql(sqlx::AssertSqlSafe(sql));
        changed.execute(&mut owner).await.unwrap();
        let look = async || -> String {
            let row = sqlx::query_scalar(row).bind(id.0);
            row.fetch_one(store.pool()).await.unwrap()
        };
        let before = look().await;
        settle_all(&store, outcome, "LAST_WORD").await;
        assert_eq!(look().await, before, "{change}, {outcome:?}");
        if outcome == Outcome::Dead && !change.contains("'succeeded'") {
            store.requeue(&[id], &by()).await.unwrap();
            assert_eq!(look().await, before, "{change}, requeued");
        }
    }
}

/// A message behind the ledger's back, delivered without a code, is found.
#[tokio::test]
async fn an_order_settled_by_hand_without_a_code_is_found_by_doctor() {
    let (_database, store) = fixture(120).await;
    let id = enter(&store, "key-0001").await;
    sqlx::query(
        "SELECT consign.settle(c.token, ARRAY[c.id]) FROM consign.claim('orders', 'psql', 1) c",
    )
    .execute(store.pool())
    .await
    .unwrap();
    let state = store.explain(id).await.unwrap().unwrap().state;
    assert_eq!(state.kind(), StateKind::Delivered);
    let findings = store.doctor().await.unwrap();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(
        (findings[0].code.as_str(), &findings[0].ids[..]),
        ("order_disagrees", &[id][..])
    );
}

/// What was executed is not taken back, not even by the owner in passing.
#[tokio::test]
async fn what_succeeded_stays_so() {
    let (database, store) = fixture(120).await;
    enter(&store, "key-0001").await;
    execute_all(&store).await;
    let mut owner = PgConnection::connect(database.url()).await.unwrap();
    for change in [
        "status = 'accepted'",
        "status = 'failed', http_status = 500",
        "http_status = 500",
        "request_digest = 'sha256:other'",
        "result_digest = NULL",
        "response_payload_json = '{}'",
        "response_payload_json = NULL",
        "outbox_id = NULL",
    ] {
        let sql = format!("UPDATE consign.idempo_ledger SET {change}");
        let error = sqlx::raw_sql(sqlx::AssertSqlSafe(sql));
        let error = error.execute(&mut owner).await.unwrap_err();
        assert!(error.to_string().contains("final"), "{change}: {error}");
    }
    let seen = "UPDATE consign.idempo_ledger SET last_seen_at = now(), expires_at = now()";
    execute(database.url(), seen).await;
}

/// One order that is being closed must not keep the others from being purged.
#[tokio::test]
async fn a_purge_does_not_wait_for_a_row_in_other_hands() {
    let (database, store) = fixture(120).await;
    for key in ["key-0001", "key-0002"] {
        let opened = store.open_direct(&order(key), Duration::from_secs(5)).await;
        opened.unwrap();
    }
    let overdue = "UPDATE consign.idempo_ledger SET give_up_at = now() - interval '1 s'";
    execute(database.url(), overdue).await;
    let mut other = PgConnection::connect(database.url()).await.unwrap();
    let mut tx = other.begin().await.unwrap();
    let hold =
        "SELECT FROM consign.idempo_ledger WHERE idempotency_key = 'key-0001' FOR NO KEY UPDATE";
    sqlx::query(hold).execute(&mut *tx).await.unwrap();
    let purge = tokio::time::timeout(SOON, store.purge(10, 3, false, &by())).await;
    assert_eq!(purge.expect("it does not wait").unwrap().given_up, 1);
    tx.rollback().await.unwrap();
    let purge = store.purge(10, 3, false, &by()).await.unwrap();
    assert_eq!(purge.given_up, 1, "it is claimed");
}

/// A message that died of a conflict does not affect the order that holds the key.
#[tokio::test]
async fn an_order_whose_message_died_of_a_conflict_is_as_it_should_be() {
    let (_database, store) = fixture(120).await;
    enter(&store, "key-0001").await;
    settle_all(&store, Outcome::Dead, "IDEMPOTENCY_CONFLICT").await;
    let order = order("key-0001");
    let entry = store.entry(&order.client, &order.key).await;
    let entry = entry.unwrap().unwrap();
    assert_eq!(entry.status, LedgerStatus::Accepted);
    assert_eq!(store.doctor().await.unwrap(), []);
}

/// Between two reads of the ledger a row may be purged; the order gets the first read's answer.
#[tokio::test]
async fn orders_are_all_answered_although_a_row_goes_meanwhile() {
    let answers = until_unlocked!(accept_while_a_row_goes());
    assert!(
        matches!(
            &answers[..],
            [AcceptResult::Conflict(_), AcceptResult::Same(_)]
        ),
        "{answers:?}"
    );
}

async fn accept_while_a_row_goes() -> consign_kernel::Result<Vec<AcceptResult>> {
    let (database, store) = fixture(120).await;
    let store = Arc::new(store);
    for key in ["key-0001", "key-0002"] {
        enter(&store, key).await;
    }
    let mut twisted = order("key-0001");
    twisted.request_digest = "sha256:other".to_owned();
    twisted.payload["request_digest"] = "sha256:other".into();
    let mut other = PgConnection::connect(database.url()).await.unwrap();
    let mut tx = other.begin().await.unwrap();
    let count = "INSERT INTO consign.idempo_conflict (conflicts, client, idempotency_key)
                 VALUES (1, 'desk-1', 'key-0001')";
    sqlx::query(count).execute(&mut *tx).await.unwrap();
    let accept = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.accept(&[twisted, order("key-0002")]).await }
    });
    a_session_waits(&store).await;
    let gone = "DELETE FROM consign.idempo_ledger WHERE idempotency_key = 'key-0001'";
    execute(database.url(), gone).await;
    tx.commit().await.unwrap();
    accept.await.unwrap()
}
