//! Many hands at once: several instances on one database.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use consign_kernel::{Claim, Lease, MessageId, NewMessage, OnDead, QueueName, Report, Store};
use serde_json::json;
use tokio::task::JoinSet;

use crate::{
    Harness,
    stage::{Stage, TTL, all, ids, ordered, settled},
};

/// How many rounds of "nothing there" make a worker sure that nothing comes any more.
const QUIET_ROUNDS: usize = 3;

async fn claim(
    store: &Arc<dyn Store>,
    queue: &QueueName,
    owner: &str,
    limit: u32,
) -> Option<Lease> {
    let claim = Claim::new(queue.clone(), owner, limit);
    store.claim(&claim).await.expect("claim answers")
}

async fn deliver(store: &Arc<dyn Store>, lease: &Lease) {
    let reports: Vec<Report> = ids(lease).into_iter().map(Report::delivered).collect();
    let answer = store
        .settle(lease.token, &reports)
        .await
        .expect("settle answers");
    settled(answer);
}

pub(crate) async fn many_claimers_share_without_overlap(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let mut sent = BTreeSet::new();
    for _ in 0..50 {
        sent.extend(stage.enqueue(100).await);
    }
    let mut workers = JoinSet::new();
    for worker in 0..8_u32 {
        let (store, queue) = (harness.another().await, stage.queue.clone());
        workers.spawn(async move {
            let mut seen = Vec::new();
            let mut quiet = 0;
            while quiet < QUIET_ROUNDS {
                let limit = 7 + 31 * worker;
                match claim(&store, &queue, &format!("worker-{worker}"), limit).await {
                    Some(lease) => {
                        assert!(lease.messages.len() <= limit as usize, "at most {limit}");
                        seen.extend(ids(&lease));
                        deliver(&store, &lease).await;
                        quiet = 0;
                    }
                    None => quiet += 1,
                }
            }
            seen
        });
    }
    let seen = all(workers).await.concat();
    assert_eq!(
        seen.len(),
        sent.len(),
        "no message was leased twice or left"
    );
    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), sent);
    for id in sent {
        assert_eq!(
            stage.history(id).await.len(),
            1,
            "each delivered exactly once"
        );
    }
    assert_eq!(stage.counts().await.unfinished(), 0);
}

pub(crate) async fn nothing_enqueued_during_claims_is_lost(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let mut producers = JoinSet::new();
    for producer in 0..3 {
        let (store, queue) = (harness.another().await, stage.queue.clone());
        producers.spawn(async move {
            let mut sent = Vec::new();
            for n in 0..40 {
                let message = |m| NewMessage::new(queue.clone(), json!([producer, n, m]));
                let batch: Vec<NewMessage> = (0..5).map(message).collect();
                let answers = store.enqueue(&batch).await.expect("enqueue answers");
                sent.extend(answers.iter().map(|a| a.id));
            }
            sent
        });
    }
    let mut workers = JoinSet::new();
    for _ in 0..3 {
        let (store, queue) = (harness.another().await, stage.queue.clone());
        workers.spawn(async move {
            let mut seen = Vec::new();
            while seen.len() < 600 {
                let Some(lease) = claim(&store, &queue, "worker", 10).await else {
                    break;
                };
                seen.extend(ids(&lease));
                deliver(&store, &lease).await;
            }
            seen
        });
    }
    let sent = all(producers).await.concat();
    let mut seen = all(workers).await.concat();
    seen.extend(stage.drain().await);
    assert_eq!(seen.len(), sent.len(), "each once");
    let (seen, sent): (BTreeSet<_>, BTreeSet<_>) =
        (seen.into_iter().collect(), sent.into_iter().collect());
    assert_eq!(seen, sent);
}

pub(crate) async fn two_expirers_record_one_loss(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(120).await;
    for _ in 0..30 {
        stage.claim(4).await;
    }
    stage.advance(TTL).await;
    let mut expirers = JoinSet::new();
    for _ in 0..4 {
        let (store, queue) = (harness.another().await, stage.queue.clone());
        expirers.spawn(async move {
            let mut expired = 0;
            for _ in 0..10 {
                expired += store.expire(10).await.expect("expire answers").messages;
            }
            // A claim ends expired leases as well. The others may still be at theirs.
            while claim(&store, &queue, "late", 1).await.is_none() {
                tokio::task::yield_now().await;
            }
            expired
        });
    }
    let expired: u64 = all(expirers).await.into_iter().sum();
    assert!(expired <= 120, "no loss is counted twice: {expired}");
    for id in sent {
        assert_eq!(stage.history(id).await.len(), 1, "one loss each: {id}");
    }
    let counts = stage.counts().await;
    assert_eq!((counts.ready, counts.leased), (116, 4));
}

pub(crate) async fn one_key_sent_by_many_is_one_message(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let stores = [
        harness.another().await,
        harness.another().await,
        stage.store.clone(),
    ];
    let mut senders = JoinSet::new();
    for n in 0..50 {
        let store = stores[n % stores.len()].clone();
        let keyed = stage.message(1).with_key("the-key");
        let plain = stage.message(n);
        senders.spawn(async move {
            let answers = store
                .enqueue(&[plain, keyed])
                .await
                .expect("enqueue answers");
            answers[1]
        });
    }
    let answers = all(senders).await;
    let ids: BTreeSet<MessageId> = answers.iter().map(|a| a.id).collect();
    assert_eq!(ids.len(), 1, "one key, one message: {ids:?}");
    let new = answers.iter().filter(|a| !a.duplicate).count();
    assert_eq!(new, 1, "one of them sent it");
    assert_eq!(stage.drain().await.len(), 51, "and all sent their own");
}

pub(crate) async fn groups_stay_in_order_under_many_workers(harness: &dyn Harness) {
    const GROUPS: usize = 12;
    const PER_GROUP: usize = 15;
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    let mut producers = JoinSet::new();
    for producer in 0..4 {
        let (store, queue) = (harness.another().await, stage.queue.clone());
        producers.spawn(async move {
            for n in 0..PER_GROUP {
                for group in (0..GROUPS).filter(|group| group % 4 == producer) {
                    let message = NewMessage::new(queue.clone(), json!({"group": group, "n": n}));
                    let message = message.with_group(format!("group-{group}"));
                    store.enqueue(&[message]).await.expect("enqueue answers");
                }
            }
        });
    }
    let delivered = Arc::new(tokio::sync::Mutex::new(Vec::new()));
    let mut workers = JoinSet::new();
    for _ in 0..4 {
        let (store, queue) = (harness.another().await, stage.queue.clone());
        let delivered = delivered.clone();
        workers.spawn(async move {
            while delivered.lock().await.len() < GROUPS * PER_GROUP {
                let Some(lease) = claim(&store, &queue, "worker", 5).await else {
                    tokio::task::yield_now().await;
                    continue;
                };
                // Seen before the settle: afterwards the next of the group may be seen elsewhere.
                let seen = lease.messages.iter().map(|m| m.message.payload.clone());
                delivered.lock().await.extend(seen);
                deliver(&store, &lease).await;
            }
        });
    }
    all(producers).await;
    all(workers).await;
    let mut next: BTreeMap<u64, u64> = BTreeMap::new();
    for payload in delivered.lock().await.iter() {
        let payload: serde_json::Value = payload.read().expect("as it was sent");
        let (group, n) = (payload["group"].as_u64(), payload["n"].as_u64());
        let expected = next.entry(group.expect("a number")).or_default();
        assert_eq!(n, Some(*expected), "order within {payload}");
        *expected += 1;
    }
    let counts = stage.counts().await;
    assert_eq!(
        (counts.waiting, counts.unfinished()),
        (0, 0),
        "nothing is left waiting"
    );
}

pub(crate) async fn a_wait_comes_back_by_itself(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let patience = Duration::from_millis(50);
    let wait = stage.store.wait(&stage.queue, patience);
    let answer = tokio::time::timeout(Duration::from_secs(20), wait).await;
    answer.expect("a wait ends").expect("wait answers");
    stage.enqueue_one().await;
    let wait = stage.store.wait(&stage.queue, patience);
    let answer = tokio::time::timeout(Duration::from_secs(20), wait).await;
    answer.expect("a wait ends").expect("wait answers");
}
