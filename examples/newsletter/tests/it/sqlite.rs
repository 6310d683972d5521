//! On SQLite, and in processes that are killed around a settle.

use std::{os::unix::process::ExitStatusExt, process::Command, sync::Arc, time::Duration};

use async_trait::async_trait;
use consign_kernel::{Report, StateKind, Store, prelude::*};
use consign_sqlite::{SqliteOptions, SqliteStore};
use consign_testkit::Child;
use newsletter::{Status, Subscribers, store::sqlite_component};
use sqlx::{ConnectOptions, SqliteConnection, sqlite::SqliteConnectOptions};
use tempfile::TempDir;

use crate::cases::{self, Fixture, claimed, put_queue, state, status};

cases::cases!(SqliteFixture::new());

/// Names the file of a process that is killed.
const FILE: &str = "NEWSLETTER_TEST_FILE";

struct SqliteFixture {
    directory: TempDir,
    store: SqliteStore,
}

impl SqliteFixture {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("newsletter.db");
        let store = open(path.to_str().unwrap()).await;
        put_queue(&store).await;
        Self { directory, store }
    }

    fn path(&self) -> String {
        let path = self.directory.path().join("newsletter.db");
        path.to_str().unwrap().to_owned()
    }
}

async fn open(path: &str) -> SqliteStore {
    let options = SqliteOptions::new(path).unwrap().migrate_on_open(true);
    let options = options.component(sqlite_component());
    SqliteStore::open(&options).await.unwrap()
}

#[async_trait]
impl Fixture for SqliteFixture {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn subscribers(&self) -> Arc<dyn Subscribers> {
        Arc::new(self.store.clone())
    }

    async fn break_subscribers(&self, is_broken: bool) {
        let options = SqliteConnectOptions::new().filename(self.path());
        let mut connection: SqliteConnection = options.connect().await.unwrap();
        let sql = if is_broken {
            "CREATE TRIGGER injected BEFORE UPDATE ON newsletter_subscriber \
             BEGIN SELECT raise(ABORT, 'injected'); END"
        } else {
            "DROP TRIGGER injected"
        };
        sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
    }
}

/// Not a test by itself: a process that subscribes, claims and settles, and is killed on the way.
#[tokio::test]
async fn a_process_that_is_killed() {
    let Ok(path) = std::env::var(FILE) else {
        return;
    };
    let store = open(&path).await;
    let (subscriber, lease) = claimed(&store, &store).await;
    let report = Report::delivered(subscriber.message_id);
    store.settle(lease.token, &[report]).await.unwrap();
}

#[tokio::test]
async fn a_kill_around_the_settle_leaves_row_and_outcome_alike() {
    for (point, expected, place) in [
        ("settle_before_commit", Status::Pending, StateKind::Leased),
        ("settle_committed", Status::Welcomed, StateKind::Delivered),
    ] {
        let fixture = SqliteFixture::new().await;
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "sqlite::a_process_that_is_killed", "--nocapture"]);
        command.env(FILE, fixture.path());
        command.env("CONSIGN_FAILPOINT", format!("{point}:kill"));
        let ended = Child::start(command).wait(Duration::from_secs(60)).await;
        assert_eq!(ended.signal(), Some(9), "killed at {point}: {ended}");
        let found = fixture.store.subscribers(1).await.unwrap();
        assert_eq!(status(&fixture.store).await, expected, "{point}");
        assert_eq!(state(&fixture.store, &found[0]).await, place, "{point}");
        assert_eq!(fixture.store.doctor().await.unwrap(), [], "{point}");
    }
}
