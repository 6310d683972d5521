//! Migrations: twice, at once, printed, and refused where they do not fit.

use consign_kernel::{Certainty, Error, LanePolicy, Store as _, with_causes};
use consign_postgres::{PostgresOptions, PostgresStore, migrate, migrations, script, status};
use consign_testkit::TestDatabase;
use sqlx::{Connection, PgConnection};

use crate::{
    advice::Login,
    harness::{connect, database, execute},
};

async fn empty() -> TestDatabase {
    TestDatabase::create(async |_: &str| {}).await
}

#[tokio::test]
async fn migrating_twice_does_nothing_the_second_time() {
    let database = empty().await;
    assert_eq!(status(database.url()).await.unwrap().found, 0);
    assert_eq!(migrate(database.url()).await.unwrap(), migrations());
    assert_eq!(migrate(database.url()).await.unwrap(), []);
    let status = status(database.url()).await.unwrap();
    assert_eq!(
        (status.found, status.newest),
        (migrations().len() as i64, status.found)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_that_start_together_migrate_once() {
    let database = empty().await;
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let url = database.url().to_owned();
            tokio::spawn(async move { migrate(&url).await.unwrap().len() })
        })
        .collect();
    let mut applied = Vec::new();
    for task in tasks {
        applied.push(task.await.unwrap());
    }
    applied.sort_unstable();
    assert_eq!(applied, [0, 0, 0, 0, 0, 0, 0, migrations().len()]);
}

#[tokio::test]
async fn a_store_on_an_unmigrated_database_says_what_to_do() {
    let database = empty().await;
    let error = PostgresStore::connect(&PostgresOptions::new(database.url()))
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
        "INSERT INTO consign.schema_version (version, name, checksum) VALUES (999, 'future', '')",
    )
    .await;
    let opened = PostgresStore::connect(&PostgresOptions::new(database.url())).await;
    assert!(matches!(
        opened.unwrap_err(),
        Error::Schema { found: 999, .. }
    ));
    assert!(matches!(
        migrate(database.url()).await.unwrap_err(),
        Error::Schema { found: 999, .. }
    ));
}

#[tokio::test]
async fn an_edited_migration_is_noticed() {
    let database = database().await;
    execute(
        database.url(),
        "UPDATE consign.schema_version SET checksum = 'edited' WHERE version = 2",
    )
    .await;
    let error = migrate(database.url()).await.unwrap_err();
    assert!(error.to_string().contains("migration 2 (lanes)"), "{error}");
    // Opened all the same, it would fail later, at each statement that differs.
    let opened = PostgresStore::connect(&PostgresOptions::new(database.url())).await;
    let error = opened.unwrap_err().to_string();
    assert!(error.contains("migration 2 (lanes)"), "{error}");
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
    let error = migrate(database.url()).await.unwrap_err();
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

#[tokio::test]
async fn foreign_objects_in_the_way_are_named_with_schema_and_migration() {
    let database = empty().await;
    execute(
        database.url(),
        "CREATE SCHEMA identity; CREATE TABLE identity.users (x int);
         CREATE SCHEMA logbook; CREATE TABLE logbook.items (x int)",
    )
    .await;
    let error = migrate(database.url()).await.unwrap_err();
    assert_eq!(error.code(), "migration_failed");
    let told = error.to_string();
    assert!(
        told.starts_with("migration 20 (logbook_tables) cannot be applied: "),
        "{told}"
    );
    for name in ["identity.users", "logbook.items", "nothing was changed"] {
        assert!(told.contains(name), "{told}");
    }
}

#[tokio::test]
async fn a_login_that_may_not_migrate_is_told_what_it_needs() {
    let database = empty().await;
    let login = Login::create(&database).await;
    let error = migrate(&login.url()).await.unwrap_err();
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
    let error = status(&nowhere).await.unwrap_err();
    assert_eq!(consign_postgres::sqlstate_of(&error), Some("3D000"));
    assert_eq!(
        with_causes(&error),
        "connect: the database is not available: database \"nowhere\" does not exist (SQLSTATE 3D000)"
    );
    let error = status("postgres://127.0.0.1:1/nowhere").await.unwrap_err();
    let told = with_causes(&error);
    assert_eq!(told.matches("refused").count(), 1, "{told}");
    assert!(told.ends_with("is the server running?"), "{told}");
}

#[tokio::test]
async fn the_default_lane_has_the_kernels_default_policy() {
    let database = database().await;
    let lane = connect(&database)
        .await
        .lane(&"default".parse().unwrap())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(lane.policy, LanePolicy::default());
}

#[tokio::test]
async fn a_database_that_is_not_there_is_unavailable_for_certain() {
    let nobody = PostgresOptions::new("postgres://127.0.0.1:1/nowhere");
    let error = PostgresStore::connect(&nobody).await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
    assert_eq!(error.certainty(), Certainty::Definite, "{error:?}");
}

#[tokio::test]
async fn the_printed_script_is_the_migration() {
    let database = empty().await;
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    sqlx::raw_sql(sqlx::AssertSqlSafe(script()))
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
    assert_eq!(
        migrate(database.url()).await.unwrap(),
        [],
        "nothing is left to do"
    );
    connect(&database).await;
}
