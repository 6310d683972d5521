//! What logins with rights of their own try beyond them: lengths of time that a bound does not hold, the
//! queues and spaces of others, data that cannot be parsed.

use consign_kernel::Schedules as _;
use consign_postgres::migrate;
use consign_testkit::{TestDatabase, eventually};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::{
    advice::Login,
    harness::{connect, database, execute, options},
};

const SOON: std::time::Duration = std::time::Duration::from_secs(15);

async fn connection(database: &TestDatabase) -> PgConnection {
    PgConnection::connect(database.url()).await.unwrap()
}

async fn run(connection: &mut PgConnection, sql: &str) {
    let ran = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(connection);
    ran.await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// The SQLSTATE of a refusal.
async fn refusal(connection: &mut PgConnection, sql: &str) -> String {
    let error = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(connection);
    let error = error.await.expect_err(sql);
    let error = error.into_database_error().expect(sql);
    error.code().expect(sql).into_owned()
}

async fn count(connection: &mut PgConnection, sql: &'static str) -> i64 {
    let count = sqlx::query_scalar(sql).fetch_one(connection).await;
    count.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// PostgreSQL compares a year as 360 days and adds a calendar year.
#[tokio::test]
async fn years_and_days_that_cancel_out_pass_no_bound() {
    let database = database().await;
    let mut sql = connection(&database).await;
    run(&mut sql, "SELECT consign.enqueue('default', '1')").await;
    for call in [
        "consign.claim('default', 'w', 1, interval '100000 years -36000000 days 1 hour')",
        "consign.claim('default', 'w', 1, interval '-100 years 36000 days 1 second')",
        "consign.renew(gen_random_uuid(), interval '290000 years -104400000 days 1 hour')",
        "consign.enqueue('default', '1', p_delay => interval '-6000 years 2160000 days')",
        "consign.enqueue('default', '1', p_delay => interval '6000 years -2160000 days')",
        "consign.register_idle('default', gen_random_uuid(), interval '100 years -36000 days')",
        "logbook.take_write_lock('http://m', 'w', interval '100000 years -36000000 days 1 minute')",
    ] {
        let code = refusal(&mut sql, &format!("SELECT {call}")).await;
        assert_eq!(code, "CN006", "{call}");
    }
    let day = "SELECT consign.enqueue('default', '1', p_delay => interval '30 days 1 hour')";
    run(&mut sql, day).await;
}

/// Processes read the next ticks of all schedules in one page: one that they cannot decode would stop all.
#[tokio::test]
async fn no_tick_makes_the_next_ticks_unreadable() {
    let database = database().await;
    let mut sql = connection(&database).await;
    let put = |name: &str, next_at: &str| {
        format!(
            "SELECT consign.put_schedule('{name}', 'default', '@daily', 'UTC', '1', '{{}}', NULL, 'skip', 1, '{next_at}', 'a', 'b')"
        )
    };
    run(&mut sql, &put("good", "2026-01-01 00:00+00")).await;
    let tick = |rest: &str| {
        format!("SELECT consign.tick('good', '@daily', 'UTC', '2026-01-01 00:00+00', {rest})")
    };
    for call in [
        put("bad", "infinity"),
        put("bad", "-infinity"),
        put("bad", "10000-01-01 00:00+00"),
        put("good", "infinity"),
        tick("NULL, NULL, 0, 0, 'infinity'"),
        tick("NULL, NULL, 0, -1, '2026-01-02'"),
        tick("NULL, NULL, -1, 0, '2026-01-02'"),
        tick("NULL, NULL, NULL, 0, '2026-01-02'"),
        tick("'{2026-01-01 00:00+00}', '{-1}', 0, 0, '2026-01-02'"),
        tick("'{2026-01-01 00:00+00}', '{0,0}', 0, 0, '2026-01-02'"),
        tick("'{2026-01-01 00:00+00,NULL}', '{0,0}', 0, 0, '2026-01-02'"),
    ] {
        assert_eq!(refusal(&mut sql, &call).await, "CN006", "{call}");
    }
    for damage in ["next_at = 'infinity'", "ticks = -1", "dropped = -1"] {
        let update = format!("UPDATE consign.schedule SET {damage}");
        assert_eq!(refusal(&mut sql, &update).await, "23514", "{damage}");
    }
    let store = connect(&database).await;
    assert_eq!(store.upcoming(None, 10).await.unwrap().ticks.len(), 1);
}

#[tokio::test]
async fn a_worker_leaves_queues_alone_that_it_was_not_granted() {
    let database = database().await;
    let login = Login::create(&database).await;
    login.grant("consign_worker").await;
    let mut owner = connection(&database).await;
    let queue = "SELECT consign.put_queue('mail', (SELECT policy FROM consign.queue WHERE name = 'default'), 'test', 'test');
        UPDATE consign.queue SET workers = '{consign_operator}' WHERE name = 'mail';
        SELECT consign.enqueue('mail', '1');
        SELECT consign.claim('mail', 'w', 1, interval '1 millisecond')";
    run(&mut owner, queue).await;
    let is_over = "SELECT count(*) FROM consign.lease WHERE expires_at <= clock_timestamp()";
    let over = tokio::sync::Mutex::new(&mut owner);
    eventually("the lease is over", SOON, || async {
        count(&mut **over.lock().await, is_over).await == 1
    })
    .await;
    let mut worker = PgConnection::connect(&login.url()).await.unwrap();
    let expired = "SELECT leases FROM consign.expire(10)";
    assert_eq!(count(&mut worker, expired).await, 0);
    let due = "SELECT count(consign.until_due('mail'))";
    assert_eq!(count(&mut worker, due).await, 0, "nor does it see when");
    assert_eq!(count(&mut owner, due).await, 1);
    assert_eq!(count(&mut owner, expired).await, 1);
    worker.close().await.unwrap();
    login.remove().await;
}

#[tokio::test]
async fn what_cannot_be_read_back_is_refused() {
    let database = database().await;
    let mut sql = connection(&database).await;
    for headers in [
        r#"'{"x": 1e400}'"#,
        r#"(repeat('{"a":', 200) || '1' || repeat('}', 200))::jsonb"#,
    ] {
        let enqueue = format!("SELECT consign.enqueue('default', '1', p_headers => {headers})");
        assert_eq!(refusal(&mut sql, &enqueue).await, "CN006", "{headers}");
    }
    run(
        &mut sql,
        r#"SELECT consign.enqueue('default', '1', p_headers => '{"x": [1.5e300, -7]}')"#,
    )
    .await;
    let store = connect(&database).await;
    let id = count(&mut sql, "SELECT max(id) FROM consign.message").await;
    let found = consign_kernel::Read::explain(&store, consign_kernel::MessageId(id)).await;
    assert!(found.unwrap().is_some());
}

#[tokio::test]
async fn a_synchronisation_writes_into_no_space_but_its_projects() {
    let database = database().await;
    let mut sql = connection(&database).await;
    run(
        &mut sql,
        r#"SELECT scm.note((scm.add_repo('git', 'https://h/x.git', 'p')).repo_id, 'advice', '{"space": "private:alice", "text": "zebra"}')"#,
    )
    .await;
    let space = "SELECT count(*) FROM logbook.events WHERE space = 'private:alice'";
    assert_eq!(count(&mut sql, space).await, 0);
    let space = "SELECT count(*) FROM logbook.events WHERE space = 'team:p'";
    assert_eq!(count(&mut sql, space).await, 1);
}

/// The migrator waits for a schema that another login is making, which makes the next one meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_schema_made_while_a_migration_waits_is_not_adopted() {
    let database = TestDatabase::create(async |_| {}).await;
    let login = Login::create(&database).await;
    login
        .run(format!(
            "GRANT CREATE ON DATABASE {} TO {}",
            database.name(),
            login.name()
        ))
        .await;
    let mut first = PgConnection::connect(&login.url()).await.unwrap();
    let mut second = PgConnection::connect(&login.url()).await.unwrap();
    run(&mut first, "BEGIN; CREATE SCHEMA identity").await;
    let url = database.url().to_owned();
    let migrating = tokio::spawn(async move { migrate(&options(&url)).await });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let watch = tokio::sync::Mutex::new(connection(&database).await);
    eventually("the migration waits", SOON, || async {
        count(&mut *watch.lock().await, waits).await == 1
    })
    .await;
    run(&mut second, "CREATE SCHEMA logbook").await;
    run(&mut first, "ROLLBACK").await;
    let error = migrating.await.unwrap().expect_err("it is not its own");
    assert!(
        error.to_string().contains("schema logbook belongs to"),
        "{error}"
    );
    first.close().await.unwrap();
    second.close().await.unwrap();
    execute(database.url(), "DROP SCHEMA logbook").await;
    login
        .run(format!(
            "REVOKE CREATE ON DATABASE {} FROM {}",
            database.name(),
            login.name()
        ))
        .await;
    login.remove().await;
}

/// A lock on a view is one on its tables, by its owner's rights; who may not change a whole relation
/// gets none that keeps others from writing.
#[tokio::test]
async fn no_role_locks_a_table_or_a_view() {
    let database = database().await;
    let mut sql = connection(&database).await;
    let lockable: Vec<String> = sqlx::query_scalar(
        "SELECT r.rolname || ' ' || c.oid::regclass FROM pg_class c, pg_roles r
             WHERE c.relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname IN ('consign', 'logbook', 'identity', 'scm', 'analysis', 'governance'))
                 AND c.relkind IN ('r', 'v', 'm', 'p') AND NOT r.rolsuper
                 AND (starts_with(r.rolname, 'consign_') OR starts_with(r.rolname, 'symphony_'))
                 AND has_table_privilege(r.oid, c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')",
    )
    .fetch_all(&mut sql)
    .await
    .unwrap();
    assert_eq!(lockable, Vec::<String>::new());
    run(&mut sql, "BEGIN; SET LOCAL ROLE consign_operator").await;
    let lock = "LOCK TABLE consign.outbox_orders IN ROW SHARE MODE";
    assert_eq!(refusal(&mut sql, lock).await, "42501");
    run(&mut sql, "ROLLBACK").await;
}

#[tokio::test]
async fn a_migration_gives_up_on_a_lock_and_names_who_holds_it() {
    let database = TestDatabase::create(async |_| {}).await;
    let mut other = connection(&database).await;
    run(&mut other, "BEGIN; CREATE SCHEMA identity").await;
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()")
        .fetch_one(&mut other)
        .await
        .unwrap();
    let error = migrate(&options(database.url()))
        .await
        .expect_err("it is locked");
    assert_eq!(error.code(), "migration_failed", "{error}");
    let text = error.to_string();
    assert!(text.contains(&format!("pid {pid} (")), "{text}");
    run(&mut other, "ROLLBACK").await;
    migrate(&options(database.url())).await.unwrap();
}
