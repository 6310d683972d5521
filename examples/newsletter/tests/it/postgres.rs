//! On PostgreSQL, and in transactions that are rolled back or killed around a settle.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use consign_kernel::{StateKind, Store, prelude::*};
use consign_postgres::{PostgresOptions, PostgresStore, migrate};
use consign_testkit::{TestDatabase, eventually, fingerprint};
use newsletter::{Status, Subscribers, store::POSTGRES_COMPONENT};
use sqlx::{Connection, PgConnection};

use crate::cases::{self, Fixture, claimed, put_queue, state, status};

cases::cases!(PostgresFixture::new());

struct PostgresFixture {
    store: Arc<PostgresStore>,
    database: TestDatabase,
}

fn options(url: &str) -> PostgresOptions {
    PostgresOptions {
        components: vec![POSTGRES_COMPONENT],
        ..PostgresOptions::new(url)
    }
}

impl PostgresFixture {
    async fn new() -> Self {
        let migrations = options("").migrations();
        let name = fingerprint(migrations.iter().map(|migration| migration.sql));
        let template = format!("newsletter_{name}");
        let database = TestDatabase::from_template(&template, async |url: &str| {
            migrate(&options(url)).await.unwrap();
        })
        .await;
        let store = PostgresStore::connect(&options(database.url())).await;
        let store = Arc::new(store.unwrap());
        put_queue(&*store).await;
        Self { store, database }
    }

    async fn connect(&self) -> PgConnection {
        PgConnection::connect(self.database.url()).await.unwrap()
    }
}

#[async_trait]
impl Fixture for PostgresFixture {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn subscribers(&self) -> Arc<dyn Subscribers> {
        self.store.clone()
    }

    async fn break_subscribers(&self, is_broken: bool) {
        let sql = if is_broken {
            "ALTER TABLE newsletter.subscriber ADD CONSTRAINT injected CHECK (status = 'pending')"
        } else {
            "ALTER TABLE newsletter.subscriber DROP CONSTRAINT injected"
        };
        let mut connection = self.connect().await;
        sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
    }
}

#[tokio::test]
async fn a_settle_that_is_rolled_back_or_killed_leaves_row_and_outcome_alike() {
    let fixture = PostgresFixture::new().await;
    let (subscriber, lease) = claimed(&*fixture.store, &*fixture.store).await;
    let settle = "SELECT FROM consign.settle($1, ARRAY[$2::bigint])";
    for is_killed in [false, true] {
        let mut connection = fixture.connect().await;
        let mut tx = connection.begin().await.unwrap();
        let settled = sqlx::query(settle)
            .bind(lease.token.0)
            .bind(subscriber.message_id.0)
            .execute(&mut *tx);
        settled.await.unwrap();
        let within: String = sqlx::query_scalar("SELECT status FROM newsletter.subscriber")
            .fetch_one(&mut *tx)
            .await
            .unwrap();
        assert_eq!(within, "welcomed", "the hook ran in this transaction");
        if is_killed {
            let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()")
                .fetch_one(&mut *tx)
                .await
                .unwrap();
            kill(&fixture, pid).await;
            drop(tx);
        } else {
            tx.rollback().await.unwrap();
        }
        assert_eq!(status(&*fixture.store).await, Status::Pending);
        let place = state(&*fixture.store, &subscriber).await;
        assert_eq!(place, StateKind::Leased);
        assert_eq!(fixture.store.doctor().await.unwrap(), []);
    }
    let report = consign_kernel::Report::delivered(subscriber.message_id);
    let settled = fixture.store.settle(lease.token, &[report]).await;
    settled.unwrap();
    assert_eq!(status(&*fixture.store).await, Status::Welcomed);
}

/// Kills a session of the server and returns when it is gone.
async fn kill(fixture: &PostgresFixture, pid: i32) {
    let mut connection = fixture.connect().await;
    sqlx::query("SELECT pg_terminate_backend($1)")
        .bind(pid)
        .execute(&mut connection)
        .await
        .unwrap();
    let pool = fixture.store.pool();
    eventually(
        "the session is gone",
        Duration::from_secs(10),
        || async move {
            let count: i64 =
                sqlx::query_scalar("SELECT count(*) FROM pg_stat_activity WHERE pid = $1")
                    .bind(pid)
                    .fetch_one(pool)
                    .await
                    .unwrap();
            count == 0
        },
    )
    .await;
}
