//! Erased messages, and archives that hold a copy of them.

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use consign_kernel::{
    By, Certainty, ErasureTarget, Error, Layer, LayeredStore, MessageId, QueuePolicy,
    ReferenceStore, Result, Store, prelude::*,
};
use consign_retention::End;
use serde_json::json;

use crate::support::{Stage, queue};

/// A store whose process ends before anything departs.
struct KilledBeforeDepart(ReferenceStore);

#[async_trait]
impl Layer for KilledBeforeDepart {
    fn inner(&self) -> &dyn Store {
        &self.0
    }

    async fn before(&self, operation: &'static str) -> Result<()> {
        if operation != "depart" {
            return Ok(());
        }
        Err(Error::Unavailable {
            attempted: operation,
            certainty: Certainty::Unknown,
            source: "killed here".into(),
        })
    }

    async fn after(&self, _operation: &'static str, _succeeded: bool) -> Result<()> {
        Ok(())
    }
}

fn by() -> By {
    By::new("grace", "request 12")
}

async fn erase(stage: &Stage, id: MessageId) {
    let target = ErasureTarget::Ids(vec![id]);
    stage.store.erase(&target, &by()).await.unwrap();
}

/// Which payloads of `deliver` the files of the archive hold.
fn payloads(stage: &Stage) -> BTreeSet<i64> {
    let archive = stage.archive();
    let mut found = BTreeSet::new();
    for manifest in archive.manifests().unwrap() {
        for record in archive.read(&manifest).unwrap() {
            let payload = json!(record.unwrap().message.payload);
            found.extend(payload["n"].as_i64());
        }
    }
    found
}

#[tokio::test]
async fn an_erased_message_is_archived_with_its_erasure() {
    let stage = Stage::new(true).await;
    let ids = stage.deliver(3).await;
    let before = stage.store.explain(ids[1]).await.unwrap().unwrap();
    let digest = before.message.payload.digest_hex();
    erase(&stage, ids[1]).await;
    let erased = stage.store.explain(ids[1]).await.unwrap().unwrap().erased;
    let pass = stage.maintenance(Some(stage.archive())).pass().await;
    assert_eq!(pass.unwrap().departed, 3);
    let found = stage.archive().find(ids[1]).unwrap().unwrap();
    assert_eq!((&found.digest, &found.erased), (&digest, &erased));
    assert!(erased.is_some());
    assert_eq!(payloads(&stage), BTreeSet::from([0, 2]));
    assert_eq!(stage.store.due_erasures(10).await.unwrap(), []);
}

/// The archive has a message that the store erases before it leaves: the next pass clears the archive,
/// though the message stays.
#[tokio::test]
async fn the_archive_is_cleared_of_what_is_erased_after_it_was_written() {
    let stage = Stage::new(true).await;
    let ids = stage.deliver(3).await;
    let killed = Arc::new(LayeredStore(KilledBeforeDepart(stage.store.clone())));
    let killed = stage.maintenance_of(killed, Some(stage.archive()));
    killed.pass().await.unwrap_err();
    assert_eq!(stage.archived(), ids.iter().copied().collect());
    erase(&stage, ids[1]).await;
    let keep = QueuePolicy {
        keep_ms: Some(3_600_000),
        ..QueuePolicy::default()
    };
    stage.store.put_queue(&queue(), &keep, &by()).await.unwrap();
    assert_eq!(
        payloads(&stage),
        BTreeSet::from([0, 1, 2]),
        "not cleared yet"
    );
    stage.let_the_lease_end();
    let maintenance = stage.maintenance(Some(stage.archive()));
    let pass = maintenance.pass().await.unwrap();
    assert_eq!((pass.departed, pass.end), (0, End::Done));
    assert_eq!(payloads(&stage), BTreeSet::from([0, 2]));
    let found = stage.archive().find(ids[1]).unwrap().unwrap();
    let erased = stage.store.explain(ids[1]).await.unwrap().unwrap().erased;
    assert_eq!(found.erased, erased, "with the record of the store");
    assert_eq!(stage.store.due_erasures(10).await.unwrap(), []);
}
