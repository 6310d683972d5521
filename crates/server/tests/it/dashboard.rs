//! The dashboard as a browser without JavaScript sees it: links, forms and cookies over a real
//! connection.

use std::sync::Arc;

use consign_postgres::{PostgresOptions, PostgresStore};
use consign_testkit::TestDatabase;

use crate::bench::{
    AUDITOR, Bench, Browser, DashboardFixture, OPERATOR, PRODUCER, PageAnswer, tokens, unescaped,
};

mod actions;
mod audit_logs;
mod beside;
mod bulk;
mod filters;
mod hostile;
mod live;
mod login;
mod message;
mod pages;
mod problems;
mod redrives;
mod schedules;
mod sessions;

/// Runs each of these on both databases: their queries differ.
macro_rules! on_databases {
    ($($test:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $test() {
                super::$test($crate::bench::Bench::sqlite().await).await;
            })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                let (_database, bench) = $crate::dashboard::postgres().await;
                super::$test(bench).await;
            })+
        }
    };
}
use on_databases;

/// The same on PostgreSQL.
async fn postgres() -> (TestDatabase, Bench) {
    let database = TestDatabase::create(async |_| {}).await;
    let options = PostgresOptions::new(database.url());
    consign_postgres::migrate(&options).await.unwrap();
    let store = Arc::new(PostgresStore::connect(&options).await.unwrap());
    let clock = consign_kernel::ManualClock::at(jiff::Timestamp::now());
    (database, Bench::on(store, clock, None).await)
}
