//! A store with messages past their time, and an archive.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use consign_archive::Archive;
use consign_kernel::{
    By, Claim, Filter, ManualClock, MessageId, NewMessage, QueueName, QueuePolicy, ReferenceStore,
    Report, Store, prelude::*,
};
use consign_retention::{Maintenance, Options};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tempfile::TempDir;

pub(crate) struct Stage {
    pub(crate) store: ReferenceStore,
    pub(crate) clock: ManualClock,
    pub(crate) folder: TempDir,
    pub(crate) size_max_bytes: Option<u64>,
}

pub(crate) fn queue() -> QueueName {
    "mail".parse().unwrap()
}

pub(crate) fn by() -> By {
    By::new("test", "test")
}

/// Delivers messages of one queue.
pub(crate) async fn deliver_in(store: &dyn Store, messages: &[NewMessage]) -> Vec<MessageId> {
    let receipts = store.enqueue(messages).await.unwrap();
    let claim = Claim::new(messages[0].queue.clone(), "w", 1_000);
    while let Some(lease) = store.claim(&claim).await.unwrap() {
        let ids = lease.messages.iter().map(|claimed| claimed.message.id);
        let reports: Vec<_> = ids.map(Report::delivered).collect();
        store.settle(lease.token, &reports).await.unwrap();
    }
    receipts.iter().map(|receipt| receipt.id).collect()
}

impl Stage {
    /// A queue that keeps nothing it may let go.
    pub(crate) async fn new(archive: bool) -> Self {
        Self::keeping(Some(0), archive).await
    }

    /// A queue that keeps delivered messages for so long.
    pub(crate) async fn keeping(keep_ms: Option<u64>, archive: bool) -> Self {
        let clock = ManualClock::at(Timestamp::from_second(1_000_000).unwrap());
        let store = ReferenceStore::new(clock.clone(), 7);
        let policy = QueuePolicy {
            keep_ms,
            keep_keys_ms: Some(60_000),
            archive,
            ..QueuePolicy::default()
        };
        store.put_queue(&queue(), &policy, &by()).await.unwrap();
        Self {
            store,
            clock,
            folder: TempDir::new().unwrap(),
            size_max_bytes: None,
        }
    }

    /// Delivers so many messages, and leaves one ready.
    pub(crate) async fn deliver(&self, count: usize) -> Vec<MessageId> {
        let message = |n| NewMessage::new(queue(), json!({"n": n})).with_key(format!("key-{n}"));
        let messages: Vec<_> = (0..count).map(message).collect();
        let ids = deliver_in(&self.store, &messages).await;
        let ready = NewMessage::new(queue(), json!("ready"));
        self.store.enqueue(&[ready]).await.unwrap();
        ids
    }

    pub(crate) fn archive(&self) -> Archive {
        Archive::open(self.folder.path().join("archive")).unwrap()
    }

    pub(crate) fn maintenance(&self, archive: Option<Archive>) -> Maintenance {
        self.maintenance_of(Arc::new(self.store.clone()), archive)
    }

    pub(crate) fn maintenance_of(
        &self,
        store: Arc<dyn Store>,
        archive: Option<Archive>,
    ) -> Maintenance {
        let options = Options {
            owner: "test".to_owned(),
            archive,
            store: "reference",
            range_messages: 1_000_000,
            range_age: Duration::ZERO,
            size_max_bytes: self.size_max_bytes,
        };
        Maintenance::new(store, options)
    }

    /// Lets the lease of a process that was killed end.
    pub(crate) fn let_the_lease_end(&self) {
        self.clock.advance(SignedDuration::from_secs(61));
    }

    /// The messages that are in the store.
    pub(crate) async fn stored(&self) -> BTreeSet<MessageId> {
        let page = self.store.list(&Filter::default(), None, 1_000).await;
        page.unwrap()
            .items
            .iter()
            .map(|message| message.id)
            .collect()
    }

    /// The messages that are in the archive, each of which must be there once.
    pub(crate) fn archived(&self) -> BTreeSet<MessageId> {
        let archive = self.archive();
        let mut ids = BTreeSet::new();
        for manifest in archive.manifests().unwrap() {
            archive.verify(&manifest).unwrap();
            for record in archive.read(&manifest).unwrap() {
                let id = record.unwrap().message.id;
                assert!(ids.insert(id), "{id} is archived twice");
            }
        }
        ids
    }
}
