//! Migrations: twice, at once, printed, and refused where they do not fit.

use consign_kernel::{Certainty, Error, QueuePolicy, prelude::*, with_causes};
use consign_postgres::{PostgresStore, migrate, script, status};
use consign_testkit::TestDatabase;
use sqlx::{Connection, PgConnection};

use crate::{
    advice::Login,
    harness::{connect, database, execute, options},
};

async fn empty() -> TestDatabase {
    TestDatabase::create(async |_: &str| {}).await
}

#[tokio::test]
async fn migrating_twice_does_nothing_the_second_time() {
    let database = empty().await;
    assert_eq!(
        status(&options(database.url()))
            .await
            .unwrap()
            .version("engine"),
        0
    );
    assert_eq!(
        migrate(&options(database.url())).await.unwrap(),
        options("").migrations()
    );
    assert_eq!(migrate(&options(database.url())).await.unwrap(), []);
    let status = status(&options(database.url())).await.unwrap();
    assert_eq!(status.pending(), []);
    assert_eq!(status.applied.len(), status.known.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_that_start_together_migrate_once() {
    let database = empty().await;
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let url = database.url().to_owned();
            tokio::spawn(async move { migrate(&options(&url)).await.unwrap().len() })
        })
        .collect();
    let mut applied = Vec::new();
    for task in tasks {
        applied.push(task.await.unwrap());
    }
    applied.sort_unstable();
    assert_eq!(
        applied,
        [0, 0, 0, 0, 0, 0, 0, options("").migrations().len()]
    );
}

#[tokio::test]
async fn a_store_on_an_unmigrated_database_names_the_remedy() {
    let database = empty().await;
    let error = PostgresStore::connect(&options(database.url()))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Schema { found: 0, .. }), "{error}");
    assert!(
        error.to_string().contains("run `consign migrate`"),
        "{error}"
    );
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_alone() {
    let database = database().await;
    execute(
        database.url(),
        "INSERT INTO consign.schema_version (component, version, name, checksum) VALUES ('engine', 999, 'future', '')",
    )
    .await;
    let opened = PostgresStore::connect(&options(database.url())).await;
    assert!(matches!(
        opened.unwrap_err(),
        Error::Schema { found: 999, .. }
    ));
    assert!(matches!(
        migrate(&options(database.url())).await.unwrap_err(),
        Error::Schema { found: 999, .. }
    ));
}

#[tokio::test]
async fn an_edited_migration_is_noticed() {
    let database = database().await;
    execute(
        database.url(),
        "UPDATE consign.schema_version SET checksum = 'edited' WHERE component = 'engine' AND version = 3",
    )
    .await;
    let error = migrate(&options(database.url())).await.unwrap_err();
    assert!(
        error.to_string().contains("migration 3 of engine (queues)"),
        "{error}"
    );
    // Opened all the same, it would fail later, at each statement that differs.
    let opened = PostgresStore::connect(&options(database.url())).await;
    let error = opened.unwrap_err().to_string();
    assert!(error.contains("migration 3 of engine (queues)"), "{error}");
}

#[tokio::test]
async fn a_failed_migration_leaves_nothing_behind() {
    let database = empty().await;
    // Something of the same name is in the way of the last step but one.
    execute(
        database.url(),
        "CREATE SCHEMA consign; CREATE TABLE consign.audit (x int)",
    )
    .await;
    let error = migrate(&options(database.url())).await.unwrap_err();
    assert_eq!(error.code(), "migration_failed", "{error}");
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    let tables: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'consign'",
    )
    .fetch_one(&mut connection)
    .await
    .unwrap();
    assert_eq!(tables, 1, "only what was in the way");
}

/// No foreign schema is used: its owner could run code as the owner of consign.
#[tokio::test]
async fn a_schema_that_is_not_consigns_is_named_and_left_alone() {
    for (there, told) in [
        (
            "CREATE SCHEMA identity; CREATE TABLE identity.users (x int);
             CREATE SCHEMA logbook; CREATE FUNCTION logbook.lower(text) RETURNS text LANGUAGE sql AS 'SELECT 1::text'",
            &[
                "migration 1 of memory (tables) cannot be applied: ",
                "schema identity is not empty: table identity.users",
                "schema logbook is not empty: function logbook.lower(text)",
                "nothing was changed",
            ][..],
        ),
        (
            "CREATE SCHEMA analysis; GRANT USAGE, CREATE ON SCHEMA analysis TO PUBLIC",
            &["in schema analysis others may create: PUBLIC"],
        ),
        (
            "CREATE SCHEMA governance; ALTER DEFAULT PRIVILEGES IN SCHEMA governance GRANT EXECUTE ON FUNCTIONS TO PUBLIC",
            &["schema governance is not empty"],
        ),
        (
            "CREATE SCHEMA consign; CREATE TABLE consign.mine ()",
            &["migration 1 of engine (tables) cannot be applied: ", "schema consign is not empty: table consign.mine"],
        ),
    ] {
        let database = empty().await;
        execute(database.url(), there).await;
        let before = snapshot(&database).await;
        let error = migrate(&options(database.url())).await.unwrap_err();
        assert_eq!(error.code(), "migration_failed");
        for part in told {
            assert!(error.to_string().contains(part), "{error}");
        }
        let mut connection = PgConnection::connect(database.url()).await.unwrap();
        let by_hand = sqlx::raw_sql(sqlx::AssertSqlSafe(script(&options("").components)));
        let error = by_hand.execute(&mut connection).await.unwrap_err();
        let code = error.as_database_error().unwrap().code().unwrap().into_owned();
        assert_eq!(code, "CN013", "the printed script refuses too: {error}");
        assert_eq!(snapshot(&database).await, before, "{there}");
    }
}

/// Schemas with their owners and rights, and how many objects they have.
async fn snapshot(database: &TestDatabase) -> Vec<String> {
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    sqlx::query_scalar(
        "SELECT format('%s %s %s %s', n.nspname, n.nspowner::regrole, n.nspacl,
                       (SELECT count(*) FROM pg_depend d WHERE d.refobjid = n.oid))
         FROM pg_namespace n WHERE n.nspname !~ '^pg_' ORDER BY 1",
    )
    .fetch_all(&mut connection)
    .await
    .unwrap()
}

/// A login that made the schema first would own it, and could put a trigger on whatever is put there.
#[tokio::test]
async fn a_schema_of_another_login_is_not_adopted() {
    let database = empty().await;
    let login = Login::create(&database).await;
    for schema in ["logbook", "consign"] {
        let name = login.name();
        login
            .run(format!("CREATE SCHEMA {schema} AUTHORIZATION {name}"))
            .await;
        let before = snapshot(&database).await;
        let error = migrate(&options(database.url())).await.unwrap_err();
        assert_eq!(error.code(), "migration_failed", "{error}");
        let told = format!("schema {schema} belongs to {name}, not to ");
        assert!(error.to_string().contains(&told), "{error}");
        assert_eq!(snapshot(&database).await, before);
        login.run(format!("DROP SCHEMA {schema}")).await;
    }
    // Made for the login that migrates, and empty, a schema is taken.
    execute(database.url(), "CREATE SCHEMA logbook").await;
    assert_eq!(
        migrate(&options(database.url())).await.unwrap(),
        options("").migrations()
    );
    // Also one who was let in later cannot have the next migration run what it left.
    login
        .run(format!(
            "GRANT CREATE ON SCHEMA consign TO {}",
            login.name()
        ))
        .await;
    let error = migrate(&options(database.url())).await.unwrap_err();
    assert!(error.to_string().contains("others may create"), "{error}");
    login
        .run(format!(
            "REVOKE CREATE ON SCHEMA consign FROM {}",
            login.name()
        ))
        .await;
    login.remove().await;
}

/// Any login can hold any advisory lock, and a role may read the version table for as long as it likes.
#[tokio::test]
async fn other_logins_cannot_delay_a_migration_or_a_reconcile() {
    let database = empty().await;
    let login = Login::create(&database).await;
    let mut stranger = PgConnection::connect(&login.url()).await.unwrap();
    sqlx::raw_sql("SELECT pg_advisory_lock(hashtext('consign migrate')), pg_advisory_lock(hashtext('consign memory reconcile'))")
        .execute(&mut stranger)
        .await
        .unwrap();
    let deadline = std::time::Duration::from_secs(60);
    let migrated = tokio::time::timeout(deadline, migrate(&options(database.url()))).await;
    assert_eq!(
        migrated.expect("it does not wait").unwrap(),
        options("").migrations()
    );
    login.grant("consign_auditor").await;
    sqlx::raw_sql("BEGIN; SELECT * FROM consign.schema_version; LOCK TABLE consign.schema_version IN ACCESS SHARE MODE")
        .execute(&mut stranger)
        .await
        .unwrap();
    let stronger = sqlx::raw_sql("SAVEPOINT s; SELECT FROM consign.schema_version FOR KEY SHARE");
    assert!(stronger.execute(&mut stranger).await.is_err());
    let tries = sqlx::raw_sql("ROLLBACK TO s; LOCK TABLE consign.schema_version IN ROW SHARE MODE");
    assert!(tries.execute(&mut stranger).await.is_err());
    let again = tokio::time::timeout(deadline, migrate(&options(database.url()))).await;
    assert_eq!(again.expect("it does not wait").unwrap(), []);
    let reconcile = execute(
        database.url(),
        "SELECT logbook.reconcile_outbox(p_repair => true)",
    );
    tokio::time::timeout(deadline, reconcile)
        .await
        .expect("it does not wait");
    stranger.close().await.unwrap();
    login.remove().await;
}

/// Whatever a database is set to, a backslash in the functions is a backslash, and names mean what they
/// mean in pg_catalog.
#[tokio::test]
async fn settings_of_the_database_do_not_change_what_is_migrated() {
    let database = empty().await;
    let name = database.name();
    let login = Login::create(&database).await;
    login
        .run(format!(
            "ALTER DATABASE {name} SET standard_conforming_strings = off;
             ALTER DATABASE {name} SET search_path = evil, public;
             CREATE SCHEMA evil; CREATE FUNCTION evil.unnest(bigint[]) RETURNS SETOF bigint LANGUAGE plpgsql
                 AS 'BEGIN RAISE EXCEPTION ''it runs''; END'"
        ))
        .await;
    login.remove().await;
    migrate(&options(database.url())).await.unwrap();
    let store = connect(&database).await;
    store.queues(None, 1_000).await.unwrap();
    store.leases(1).await.unwrap();
    assert_eq!(store.doctor().await.unwrap(), []);
    // By a caller of its own, with those settings.
    execute(
        database.url(),
        "SELECT consign.enqueue('default', '1');
         SELECT consign.settle(c.token, ARRAY[c.id]) FROM consign.claim('default', 'w', 1) c;
         SELECT consign.pause('default', 'me', 'why')",
    )
    .await;
}

#[tokio::test]
async fn names_the_rights_that_a_migration_needs() {
    let database = empty().await;
    let login = Login::create(&database).await;
    let error = migrate(&options(&login.url())).await.unwrap_err();
    login.remove().await;
    assert_eq!(error.code(), "forbidden");
    let told = error.to_string();
    assert!(
        told.contains("may create schemas in this database"),
        "{told}"
    );
}

#[tokio::test]
async fn an_error_of_the_server_is_printed_once_and_without_its_source_code() {
    let database = empty().await;
    let nowhere = database.url().rsplit_once('/').unwrap().0.to_owned() + "/nowhere";
    let error = status(&options(nowhere.as_str())).await.unwrap_err();
    assert_eq!(consign_postgres::sqlstate_of(&error), Some("3D000"));
    assert_eq!(
        with_causes(&error),
        "connect: the database is not available: database \"nowhere\" does not exist (SQLSTATE 3D000)"
    );
    let error = status(&options("postgres://127.0.0.1:1/nowhere"))
        .await
        .unwrap_err();
    let told = with_causes(&error);
    assert_eq!(told.matches("refused").count(), 1, "{told}");
    assert!(told.ends_with("is the server running?"), "{told}");
}

#[tokio::test]
async fn the_default_queue_has_the_kernels_default_policy() {
    let database = database().await;
    let queue = connect(&database)
        .await
        .queue(&"default".parse().unwrap())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(queue.policy, QueuePolicy::default());
}

#[tokio::test]
async fn a_database_that_is_not_there_is_unavailable_for_certain() {
    let nobody = options("postgres://127.0.0.1:1/nowhere");
    let error = PostgresStore::connect(&nobody).await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
    assert_eq!(error.certainty(), Certainty::Definite, "{error:?}");
}

#[tokio::test]
async fn the_printed_script_is_the_migration() {
    let database = empty().await;
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    sqlx::raw_sql(sqlx::AssertSqlSafe(script(&options("").components)))
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
    assert_eq!(
        migrate(&options(database.url())).await.unwrap(),
        [],
        "nothing is left to do"
    );
    connect(&database).await;
}
