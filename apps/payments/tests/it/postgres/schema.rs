//! The component in databases that had the engine before, and in those with settings of their own.

use consign_kernel::NewMessage;
use consign_kernel::prelude::*;
use consign_payments::Payments;
use consign_postgres::{PostgresOptions, PostgresStore, migrate};
use consign_testkit::{Login, TestDatabase};
use serde_json::json;

use super::harness::{connect, execute, options};
use crate::cases::fixture::payment;

async fn empty() -> TestDatabase {
    TestDatabase::create(async |_: &str| ()).await
}

#[tokio::test]
async fn payments_are_added_to_a_database_that_has_the_engine() {
    let database = empty().await;
    let engine = PostgresOptions {
        components: Vec::new(),
        ..PostgresOptions::new(database.url())
    };
    migrate(&engine).await.unwrap();
    let store = PostgresStore::connect(&engine).await.unwrap();
    let message = NewMessage::new("default".parse().unwrap(), json!(1));
    store.enqueue(&[message]).await.unwrap();
    store.close().await;

    let both = options(database.url());
    let refused = PostgresStore::connect(&both).await.unwrap_err().to_string();
    assert!(refused.contains("payments is at version 0"), "{refused}");
    let applied = migrate(&both).await.unwrap();
    let all_are_ours = applied
        .iter()
        .all(|migration| migration.component == "payments");
    assert!(all_are_ours && !applied.is_empty(), "{applied:?}");
    let store = connect(&database).await;
    let answers = store.enqueue_payments(&[payment(1)]).await.unwrap();
    assert_eq!(answers.len(), 1);
    assert_eq!(store.doctor().await.unwrap(), []);
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
    assert_eq!(store.doctor().await.unwrap(), []);
    // By a caller of its own, with those settings.
    execute(
        database.url(),
        "SELECT consign.enqueue_payment_outbox('i', 'p', 'k', 'R', '{}');
         SELECT consign.complete_outbox_attempt(c.outbox_id, c.lease_token, 'w', 'DISPATCHED', 'reference of the rail')
             FROM consign.claim_outbox_batch(1, 'w', 60) c",
    )
    .await;
}
