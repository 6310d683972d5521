//! The schema: forward only, twice, at once, and refused where it does not fit.

use consign_kernel::{prelude::*, with_causes};
use consign_sqlite::{SqliteOptions, SqliteStore, migrate, status};
use sqlx::{ConnectOptions, sqlite::SqliteConnectOptions};
use tempfile::TempDir;

fn options(directory: &TempDir) -> SqliteOptions {
    let file = directory.path().join("queue.db");
    SqliteOptions::new(file.to_str().unwrap()).unwrap()
}

async fn execute(options: &SqliteOptions, statement: &'static str) {
    let connect = SqliteConnectOptions::new().filename(options.path());
    let mut connection = connect.connect().await.unwrap();
    sqlx::query(statement)
        .execute(&mut connection)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_database_that_was_never_migrated_is_refused_and_not_created() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(&directory);
    let error = SqliteStore::open(&options).await.unwrap_err();
    assert_eq!(error.code(), "schema_mismatch");
    assert!(
        error.to_string().contains("run `consign migrate`"),
        "{error}"
    );
    assert!(!options.path().exists(), "looking creates nothing");
    assert_eq!(status(&options).await.unwrap().version("engine"), 0);
    assert_eq!(
        status(&options).await.unwrap().pending().len(),
        options.migrations().len()
    );
}

#[tokio::test]
async fn migrating_twice_is_migrating_once() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(&directory);
    let first = migrate(&options).await.unwrap();
    let second = migrate(&options).await.unwrap();
    assert_eq!(first, second);
    assert_eq!(first.applied.len(), options.migrations().len());
    assert_eq!(first.pending().len(), 0);
    let store = SqliteStore::open(&options).await.unwrap();
    assert_eq!(
        store.queues(None, 1_000).await.unwrap().len(),
        1,
        "the queue `default`"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn many_may_migrate_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(&directory);
    let migrating = (0..8).map(|_| {
        let options = options.clone();
        tokio::spawn(async move { migrate(&options).await })
    });
    for result in migrating.collect::<Vec<_>>() {
        let status = result.await.unwrap().unwrap();
        assert_eq!(status.applied.len(), options.migrations().len());
    }
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(&directory);
    migrate(&options).await.unwrap();
    execute(
        &options,
        "INSERT INTO schema_version VALUES ('engine', 999, 'tomorrow', '', 0)",
    )
    .await;
    let opened = SqliteStore::open(&options).await.map(drop);
    for error in [
        opened.unwrap_err(),
        migrate(&options).await.map(drop).unwrap_err(),
    ] {
        assert_eq!(error.code(), "schema_mismatch");
        assert!(error.to_string().contains("version 999"), "{error}");
        assert!(error.to_string().contains("newer consign"), "{error}");
    }
}

#[tokio::test]
async fn a_schema_with_another_history_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(&directory);
    migrate(&options).await.unwrap();
    execute(
        &options,
        "UPDATE schema_version SET checksum = 'edited' WHERE component = 'engine' AND version = 1",
    )
    .await;
    let error = SqliteStore::open(&options).await.unwrap_err();
    assert!(
        error.to_string().contains("migration 1 of engine (tables)"),
        "{error}"
    );
}

#[tokio::test]
async fn a_foreign_table_in_the_way_is_named_with_the_migration() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(&directory);
    let connect = SqliteConnectOptions::new()
        .filename(options.path())
        .create_if_missing(true);
    let mut connection = connect.connect().await.unwrap();
    let foreign = sqlx::query("CREATE TABLE message (x)");
    foreign.execute(&mut connection).await.unwrap();
    let error = migrate(&options).await.map(drop).unwrap_err();
    assert_eq!(
        error.to_string(),
        "migration 1 of engine (tables) cannot be applied: table message already exists; give consign a file \
         of its own; nothing was changed"
    );
    assert_eq!(status(&options).await.unwrap().version("engine"), 0);
}

#[tokio::test]
async fn a_file_that_cannot_be_opened_reports_the_cause() {
    let directory = tempfile::tempdir().unwrap();
    let folder = SqliteOptions::new(directory.path().to_str().unwrap()).unwrap();
    for error in [
        status(&folder).await.map(drop).unwrap_err(),
        migrate(&folder).await.map(drop).unwrap_err(),
    ] {
        assert_eq!(error.code(), "database_unavailable");
        let told = with_causes(&error);
        assert!(
            told.ends_with(": it is a folder; name a file in it"),
            "{told}"
        );
    }
    let nowhere = directory.path().join("nowhere/queue.db");
    let nowhere = SqliteOptions::new(nowhere.to_str().unwrap()).unwrap();
    let told = with_causes(&migrate(&nowhere).await.map(drop).unwrap_err());
    assert_eq!(told.matches("unable to open").count(), 1, "{told}");
    assert!(told.contains("the file and its folder"), "{told}");
}

#[tokio::test]
async fn paths_and_urls_name_the_same_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = options(&directory);
    let url = format!("sqlite://{}", path.path().display());
    let url = SqliteOptions::new(&url).unwrap();
    assert_eq!(url.path(), path.path());
    migrate(&url).await.unwrap();
    SqliteStore::open(&path).await.unwrap();
    for memory in ["", ":memory:", "sqlite::memory:", "sqlite:x?mode=memory"] {
        let error = SqliteOptions::new(memory).unwrap_err();
        assert_eq!(error.code(), "invalid_input", "{memory:?}");
    }
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(&directory);
    std::fs::write(
        options.path(),
        "not a database at all, but long enough ".repeat(100),
    )
    .unwrap();
    let error = SqliteStore::open(&options).await.unwrap_err();
    assert_eq!(error.code(), "corrupt", "{error}");
    assert!(
        error.to_string().contains("is not an SQLite database"),
        "{error}"
    );
}

#[tokio::test]
async fn the_file_and_its_log_are_their_owners_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let bench = crate::harness::fixture().await;
    bench
        .store
        .enqueue(&crate::harness::messages(1))
        .await
        .unwrap();
    for end in ["", "-wal", "-shm"] {
        let path = format!("{}{end}", bench.path());
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{path}");
    }
}
