//! The component is installed with the apps that it requires, at once or later.

use consign_kernel::Migration;
use consign_postgres::{PostgresOptions, migrate};
use consign_scm_app::POSTGRES_COMPONENT;
use consign_sqlite::SqliteOptions;
use consign_testkit::TestDatabase;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::harness::{execute, postgres_options, sqlite_options};

fn steps(migrations: &[Migration]) -> Vec<(&'static str, i64)> {
    let step = |m: &Migration| (m.component, m.version);
    migrations.iter().map(step).collect()
}

async fn empty() -> TestDatabase {
    TestDatabase::create(async |_: &str| {}).await
}

#[tokio::test]
async fn a_postgres_database_gets_the_ledger_later() {
    let database = empty().await;
    let mut without = PostgresOptions::new(database.url());
    without
        .components
        .push(consign_memory::store::POSTGRES_COMPONENT);
    migrate(&without).await.unwrap();
    let added = migrate(&postgres_options(database.url())).await.unwrap();
    assert_eq!(steps(&added), [("scm", 1), ("scm", 2)]);
    // A program without the app leaves its tables alone.
    assert_eq!(migrate(&without).await.unwrap(), []);
}

#[tokio::test]
async fn an_sqlite_file_gets_the_ledger_later() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queue.db");
    let file = file.to_str().unwrap();
    let without = SqliteOptions::new(file).unwrap();
    let without = without.component(consign_memory::store::sqlite_component());
    consign_sqlite::migrate(&without).await.unwrap();
    let before = consign_sqlite::status(&sqlite_options(file)).await.unwrap();
    assert_eq!(steps(&before.pending()), [("scm", 1)]);
    consign_sqlite::migrate(&sqlite_options(file))
        .await
        .unwrap();
    let after = consign_sqlite::status(&sqlite_options(file)).await.unwrap();
    after.check().unwrap();
    consign_sqlite::migrate(&without).await.unwrap();
}

/// Whatever order the apps are named in, the ledger comes after the logbook that it refers to.
#[test]
fn the_component_requires_the_logbook() {
    let mut options = PostgresOptions::new("");
    options.components.extend([
        POSTGRES_COMPONENT,
        consign_memory::store::POSTGRES_COMPONENT,
    ]);
    let order = steps(&options.migrations());
    let place = |component| order.iter().position(|(name, _)| *name == component);
    assert!(place("memory").unwrap() < place("scm").unwrap());
}

#[tokio::test]
async fn the_ledger_is_refused_without_the_logbook() {
    let database = empty().await;
    let alone = PostgresOptions {
        components: vec![POSTGRES_COMPONENT],
        ..PostgresOptions::new(database.url())
    };
    let error = migrate(&alone).await.unwrap_err();
    assert_eq!(error.code(), "migration_failed");
    let message = "migration 1 of scm (scm) cannot be applied: it uses tables of memory";
    assert!(error.to_string().contains(message), "{error}");
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    let made = "SELECT count(*) FROM pg_namespace WHERE nspname IN ('consign', 'scm')";
    let made: i64 = sqlx::query_scalar(made)
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(made, 0, "nothing was changed");
}

#[tokio::test]
async fn a_foreign_schema_is_not_adopted() {
    let database = empty().await;
    execute(
        database.url(),
        "CREATE SCHEMA scm; ALTER DEFAULT PRIVILEGES IN SCHEMA scm GRANT EXECUTE ON FUNCTIONS TO PUBLIC",
    )
    .await;
    let options = postgres_options(database.url());
    let error = migrate(&options).await.unwrap_err();
    assert_eq!(error.code(), "migration_failed");
    for part in [
        "migration 1 of scm (scm) cannot be applied: ",
        "schema scm is not empty",
    ] {
        assert!(error.to_string().contains(part), "{error}");
    }
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    let script = consign_postgres::script(&options.components);
    let by_hand = sqlx::raw_sql(AssertSqlSafe(script));
    let error = by_hand.execute(&mut connection).await.unwrap_err();
    let code = error.as_database_error().unwrap().code().unwrap();
    assert_eq!(code, "CN013", "the printed script refuses too: {error}");
}
