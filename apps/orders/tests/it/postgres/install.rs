//! The component on top of the engine: alone, and later.

use consign_kernel::{By, NewMessage, QueuePolicy, prelude::*};
use consign_orders::{Ledger as _, QUEUE};
use consign_postgres::{PostgresOptions, migrate};
use consign_testkit::TestDatabase;
use serde_json::json;

use super::{
    execute_all,
    harness::{connect, options},
    order,
};

/// The engine without any app.
fn engine(url: &str) -> PostgresOptions {
    PostgresOptions {
        components: Vec::new(),
        ..PostgresOptions::new(url)
    }
}

#[tokio::test]
async fn migrates_alone_on_top_of_the_engine_at_once_or_later() {
    for is_later in [false, true] {
        let database = TestDatabase::create(async |url: &str| {
            if is_later {
                migrate(&engine(url)).await.unwrap();
                let statement =
                    "SELECT consign.put_queue('orders', '{}', 'test', 'before the app')";
                super::harness::execute(url, statement).await;
            }
            let applied = migrate(&options(url)).await.unwrap();
            let orders = applied.iter().filter(|m| m.component == "orders");
            assert_eq!(orders.count(), 5, "later: {is_later}");
        })
        .await;
        let store = connect(&database).await;
        let queue = QUEUE.parse().unwrap();
        let by = By::new("test", "orders");
        let policy = QueuePolicy::default();
        if !is_later {
            store.put_queue(&queue, &policy, &by).await.unwrap();
        }
        store.accept(&[order("key-0001")]).await.unwrap();
        let stray = store.enqueue(&[NewMessage::new(queue, json!(1))]).await;
        assert_eq!(stray.unwrap_err().code(), "invalid_input");
        execute_all(&store).await;
        assert_eq!(store.doctor().await.unwrap(), []);
    }
}
