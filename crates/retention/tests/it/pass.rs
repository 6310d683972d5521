//! What a pass does.

use std::collections::BTreeSet;

use consign_kernel::{NewMessage, QueueName, QueuePolicy, Refusal, prelude::*};
use consign_retention::{End, Pass};
use jiff::SignedDuration;

use serde_json::json;

use crate::support::{Stage, by, deliver_in, queue};

const NO_ARCHIVE: End = End::Refused(Refusal::NoArchive);

#[tokio::test]
async fn what_leaves_is_in_the_archive_as_it_was_in_the_store() {
    let stage = Stage::new(true).await;
    let ids = stage.deliver(1_500).await;
    let (message, history) = (
        stage.store.explain(ids[7]).await.unwrap().unwrap().message,
        stage.store.history(ids[7]).await.unwrap(),
    );
    let pass = stage
        .maintenance(Some(stage.archive()))
        .pass()
        .await
        .unwrap();
    let expected = Pass {
        departed: 1_500,
        departures: 1,
        keys: 0,
        end: End::Done,
    };
    assert_eq!(pass, expected);
    assert_eq!(stage.stored().await.len(), 1, "what is ready stays");
    assert_eq!(stage.archived(), ids.iter().copied().collect());
    let found = stage.archive().find(ids[7]).unwrap().unwrap();
    assert_eq!(found.message, message);
    assert_eq!(found.attempts.len(), history.len());
    assert_eq!(found.attempts[0].finished_at, history[0].finished_at);
    assert_eq!(stage.store.doctor().await.unwrap(), []);
}

#[tokio::test]
async fn without_the_archive_that_a_queue_requires_everything_stays() {
    let stage = Stage::new(true).await;
    stage.deliver(3).await;
    let pass = stage.maintenance(None).pass().await.unwrap();
    assert_eq!((pass.departed, pass.end), (0, NO_ARCHIVE));
    assert_eq!(stage.stored().await.len(), 4);
    // A pass ends its lease.
    stage.clock.advance(SignedDuration::from_millis(1));
    let maintenance = stage.maintenance(Some(stage.archive()));
    assert_eq!(maintenance.pass().await.unwrap().departed, 3);
}

#[tokio::test]
async fn a_queue_may_let_its_messages_leave_without_an_archive() {
    let stage = Stage::new(false).await;
    stage.deliver(3).await;
    let pass = stage.maintenance(None).pass().await.unwrap();
    assert_eq!((pass.departed, pass.end), (3, End::Done));
    assert_eq!(stage.archived(), BTreeSet::new());
}

/// A queue without the archive that it requires holds no other back.
#[tokio::test]
async fn other_messages_leave_without_an_archive() {
    let stage = Stage::new(true).await;
    stage.deliver(3).await;
    let other: QueueName = "other".parse().unwrap();
    let policy = QueuePolicy {
        keep_ms: Some(0),
        keep_keys_ms: Some(0),
        archive: false,
        ..QueuePolicy::default()
    };
    stage.store.put_queue(&other, &policy, &by()).await.unwrap();
    let keyed = NewMessage::new(other.clone(), json!(1)).with_key("k");
    deliver_in(&stage.store, &[keyed]).await;
    let pass = stage.maintenance(None).pass().await.unwrap();
    assert_eq!((pass.departed, pass.keys, pass.end), (1, 1, NO_ARCHIVE));
    let recorded = stage.store.growth().await.unwrap().pass.unwrap();
    assert_eq!(recorded.end, "no_archive");
    assert_eq!(stage.stored().await.len(), 4);
}

#[tokio::test]
async fn keys_past_their_time_are_forgotten() {
    let stage = Stage::new(false).await;
    stage.deliver(1_200).await;
    let pass = stage.maintenance(None).pass().await.unwrap();
    assert_eq!((pass.departed, pass.keys), (1_200, 0));
    stage.let_the_lease_end();
    let pass = stage.maintenance(None).pass().await.unwrap();
    assert_eq!((pass.departed, pass.keys), (0, 1_200));
    let history = stage.store.queue_history().await.unwrap();
    let history = history.iter().find(|history| history.queue == queue());
    assert_eq!(history.unwrap().former_keys, 0);
}
