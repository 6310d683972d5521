//! The component is installed with the engine alone, at once or later.

use consign_kernel::{Migration, Store};
use consign_memory::{
    Logbook, NewMemory,
    store::{POSTGRES_COMPONENT, sqlite_component},
};
use consign_postgres::{PostgresOptions, PostgresStore};
use consign_sqlite::{SqliteOptions, SqliteStore};
use consign_testkit::TestDatabase;

fn memory() -> NewMemory {
    NewMemory {
        target_space: "team:p".into(),
        payload_md: "text".into(),
        ..NewMemory::default()
    }
}

fn postgres(url: &str, components: Vec<consign_postgres::Component>) -> PostgresOptions {
    PostgresOptions {
        components,
        ..PostgresOptions::new(url)
    }
}

fn components(migrations: &[Migration]) -> Vec<&'static str> {
    let mut names: Vec<&str> = migrations.iter().map(|m| m.component).collect();
    names.dedup();
    names
}

/// The logbook works without repositories.
async fn check(store: &(impl Store + Logbook)) {
    store.enqueue_memory(&memory()).await.unwrap();
    let counts = store.memory_counts().await.unwrap();
    assert_eq!((counts.outbox["pending"], counts.patch_blobs), (1, (0, 0)));
    assert_eq!(store.doctor().await.unwrap(), []);
}

#[tokio::test]
async fn a_postgres_database_with_the_engine_alone_gets_the_logbook_later() {
    let database = TestDatabase::create(async |_: &str| {}).await;
    let engine = postgres(database.url(), Vec::new());
    consign_postgres::migrate(&engine).await.unwrap();
    let with = postgres(database.url(), vec![POSTGRES_COMPONENT]);
    let added = consign_postgres::migrate(&with).await.unwrap();
    assert_eq!(components(&added), ["memory"]);
    let store = PostgresStore::connect(&with).await.unwrap();
    check(&store).await;
    // A program without the app leaves its tables alone.
    assert_eq!(consign_postgres::migrate(&engine).await.unwrap(), []);
}

#[tokio::test]
async fn a_postgres_database_gets_the_engine_and_the_logbook_at_once() {
    let database = TestDatabase::create(async |_: &str| {}).await;
    let with = postgres(database.url(), vec![POSTGRES_COMPONENT]);
    let made = consign_postgres::migrate(&with).await.unwrap();
    assert_eq!(components(&made), ["engine", "memory"]);
    let store = PostgresStore::connect(&with).await.unwrap();
    check(&store).await;
}

#[tokio::test]
async fn a_sqlite_file_gets_the_logbook_later() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queue.db");
    let engine = SqliteOptions::new(file.to_str().unwrap()).unwrap();
    consign_sqlite::migrate(&engine).await.unwrap();
    let with = engine.clone().component(sqlite_component());
    let before = consign_sqlite::status(&with).await.unwrap();
    assert_eq!(components(&before.pending()), ["memory"]);
    consign_sqlite::migrate(&with).await.unwrap();
    let store = SqliteStore::open(&with).await.unwrap();
    check(&store).await;
    consign_sqlite::migrate(&engine).await.unwrap();
}

/// The engine finds a migration's schemas only in this form.
#[test]
fn every_schema_is_made_in_the_form_that_is_guarded() {
    let all = POSTGRES_COMPONENT.migrations.iter().map(|m| m.sql);
    let guarded: Vec<&str> = all
        .clone()
        .flat_map(str::lines)
        .filter_map(|line| line.strip_prefix("CREATE SCHEMA IF NOT EXISTS "))
        .collect();
    assert_eq!(
        guarded,
        ["identity;", "logbook;", "analysis;", "governance;"]
    );
    let made: usize = all.map(|sql| sql.matches("\nCREATE SCHEMA").count()).sum();
    assert_eq!(made, guarded.len());
}
