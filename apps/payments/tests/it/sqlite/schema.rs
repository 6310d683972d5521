//! The component in databases with the engine alone, and in those that had the engine before.

use consign_kernel::NewMessage;
use consign_kernel::prelude::*;
use consign_payments::{Payments, store::sqlite_component};
use consign_sqlite::{SqliteOptions, SqliteStore, migrate};
use serde_json::json;

use crate::cases::fixture::payment;

#[tokio::test]
async fn payments_are_added_to_a_database_that_has_the_engine() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("queue.db");
    let engine = SqliteOptions::new(file.to_str().unwrap()).unwrap();
    migrate(&engine).await.unwrap();
    let store = SqliteStore::open(&engine).await.unwrap();
    let message = NewMessage::new("default".parse().unwrap(), json!(1));
    store.enqueue(&[message]).await.unwrap();
    store.close().await.unwrap();

    let both = engine.component(sqlite_component());
    let refused = SqliteStore::open(&both).await.unwrap_err().to_string();
    assert!(refused.contains("payments is at version 0"), "{refused}");
    let migrated = migrate(&both).await.unwrap();
    assert_eq!(migrated.version("payments"), 1);
    assert!(migrated.pending().is_empty());
    let store = SqliteStore::open(&both).await.unwrap();
    let answers = store.enqueue_payments(&[payment(1)]).await.unwrap();
    assert_eq!(answers.len(), 1);
    assert_eq!(store.doctor().await.unwrap(), []);
}
