//! An erasure and a departure at the same time.

use std::sync::Arc;

use async_trait::async_trait;
use consign_kernel::{Claim, Layer, LayeredStore, NewMessage, QueuePolicy, Report, Result};
use consign_retention::{Maintenance, Options};
use consign_sqlite::{SqliteOptions, SqliteStore};
use serde_json::json;
use tempfile::TempDir;

use super::*;

/// A store from which everything that may leave leaves just before an erasure.
struct DepartsBeforeErase {
    store: Arc<dyn Store>,
    folder: PathBuf,
}

#[async_trait]
impl Layer for DepartsBeforeErase {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn before(&self, operation: &'static str) -> Result<()> {
        if operation == "erase" {
            let options = Options {
                owner: "test".into(),
                archive: Some(Archive::open(&self.folder).unwrap()),
                store: "sqlite",
                range_messages: 1_000,
                range_age: Duration::from_secs(60),
                size_max_bytes: None,
            };
            let maintenance = Maintenance::new(Arc::clone(&self.store), options);
            assert_eq!(maintenance.pass().await.unwrap().departed, 1);
        }
        Ok(())
    }

    async fn after(&self, _operation: &'static str, _succeeded: bool) -> Result<()> {
        Ok(())
    }
}

/// The departure is the first one of the database: it also creates the archive.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_departs_before_the_database_is_erased_is_erased_in_the_archive() {
    let scratch = TempDir::new().unwrap();
    let database = scratch.path().join("consign.db");
    let options = SqliteOptions::new(database.to_str().unwrap()).unwrap();
    consign_sqlite::migrate(&options).await.unwrap();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&options).await.unwrap());
    let by = By::new("grace", "request 12");
    let queue: QueueName = "mail".parse().unwrap();
    let keeps_nothing = QueuePolicy {
        keep_ms: Some(0),
        ..QueuePolicy::default()
    };
    store.put_queue(&queue, &keeps_nothing, &by).await.unwrap();
    let mut message = NewMessage::new(queue.clone(), json!({"name": "Jane Doe"}));
    let case = json!("case-7");
    message.headers.insert("correlation_id".into(), case);
    store.enqueue(&[message]).await.unwrap();
    let lease = store.claim(&Claim::new(queue, "w", 1)).await.unwrap();
    let lease = lease.unwrap();
    let id = lease.messages[0].message.id;
    store
        .settle(lease.token, &[Report::delivered(id)])
        .await
        .unwrap();

    let folder = scratch.path().join("archive");
    let departing = LayeredStore(DepartsBeforeErase {
        store,
        folder: folder.clone(),
    });
    let target = ErasureTarget::Correlation {
        id: "case-7".into(),
        after: None,
    };
    let erased = erase_both(&departing, Some(&folder), &target, &by).await;
    let (results, cleared) = erased.unwrap();
    assert_eq!(results, [], "it has left");
    assert_eq!(cleared, [id]);
    let record = Archive::open(&folder).unwrap().find(id).unwrap().unwrap();
    assert_eq!(json!(record.message.payload), json!(null));
    assert_eq!(record.erased.unwrap().reason, "request 12");
}
