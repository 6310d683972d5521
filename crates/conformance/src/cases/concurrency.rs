//! Many hands at once: several instances on one database.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use consign_kernel::{
    Claim, LaneName, LanePolicy, Lease, MessageId, Move, NewMessage, OnDead, Outcome, Report,
    SettleAnswer, StateKind, Store,
};
use serde_json::json;
use tokio::task::JoinSet;

use crate::{
    Harness,
    stage::{Stage, TTL, by, ids, ordered, policy, s, settled},
};

/// How many rounds of "nothing there" make a worker sure that nothing comes any more.
const QUIET_ROUNDS: usize = 3;

async fn claim(store: &Arc<dyn Store>, lane: &LaneName, owner: &str, limit: u32) -> Option<Lease> {
    let claim = Claim::new(lane.clone(), owner, limit);
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

/// Waits for all tasks and hands on their panics.
async fn all<T: 'static>(mut tasks: JoinSet<T>) -> Vec<T> {
    let mut results = Vec::new();
    while let Some(result) = tasks.join_next().await {
        results.push(result.expect("no task panics"));
    }
    results
}

pub(crate) async fn many_claimers_share_without_overlap(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let mut sent = BTreeSet::new();
    for _ in 0..50 {
        sent.extend(stage.enqueue(100).await);
    }
    let mut workers = JoinSet::new();
    for worker in 0..8_u32 {
        let (store, lane) = (harness.another().await, stage.lane.clone());
        workers.spawn(async move {
            let mut seen = Vec::new();
            let mut quiet = 0;
            while quiet < QUIET_ROUNDS {
                let limit = 7 + 31 * worker;
                match claim(&store, &lane, &format!("worker-{worker}"), limit).await {
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
        let (store, lane) = (harness.another().await, stage.lane.clone());
        producers.spawn(async move {
            let mut sent = Vec::new();
            for n in 0..40 {
                let message = |m| NewMessage::new(lane.clone(), json!([producer, n, m]));
                let batch: Vec<NewMessage> = (0..5).map(message).collect();
                let answers = store.enqueue(&batch).await.expect("enqueue answers");
                sent.extend(answers.iter().map(|a| a.id));
            }
            sent
        });
    }
    let mut workers = JoinSet::new();
    for _ in 0..3 {
        let (store, lane) = (harness.another().await, stage.lane.clone());
        workers.spawn(async move {
            let mut seen = Vec::new();
            while seen.len() < 600 {
                let Some(lease) = claim(&store, &lane, "worker", 10).await else {
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
        let (store, lane) = (harness.another().await, stage.lane.clone());
        expirers.spawn(async move {
            let mut expired = 0;
            for _ in 0..10 {
                expired += store.expire(10).await.expect("expire answers").messages;
            }
            // A claim ends expired leases as well. The others may still be at theirs.
            while claim(&store, &lane, "late", 1).await.is_none() {
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

pub(crate) async fn of_two_payloads_for_one_key_one_wins(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    for key in 0..10 {
        let mut senders = JoinSet::new();
        for n in 0..4 {
            let store = harness.another().await;
            let message = stage.message(n).with_key(format!("key-{key}"));
            senders.spawn(async move { store.enqueue(&[message]).await });
        }
        let answers = all(senders).await;
        let accepted = answers.iter().filter(|answer| answer.is_ok()).count();
        assert_eq!(accepted, 1, "one payload is accepted: {answers:?}");
        let conflict = |answer: &consign_kernel::Result<_>| {
            answer
                .as_ref()
                .is_err_and(|error| error.code() == "key_conflict")
        };
        let conflicts = answers.iter().filter(|answer| conflict(answer)).count();
        assert_eq!(conflicts, 3, "the others conflict: {answers:?}");
    }
    assert_eq!(stage.drain().await.len(), 10);
}

/// A reporter declares messages dead while an operator keeps requeueing them: however the two
/// interleave, each message ends ready after exactly as many requeues as deaths.
pub(crate) async fn a_requeue_races_a_settle(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(40).await;
    let lease = stage.claim(40).await;
    let (store, token, order) = (harness.another().await, lease.token, sent.clone());
    let reporter = tokio::spawn(async move {
        for id in order {
            let report = Report::new(id, Outcome::Dead);
            settled(
                store
                    .settle(token, &[report])
                    .await
                    .expect("settle answers"),
            );
        }
    });
    let mut requeued: BTreeMap<MessageId, u32> = BTreeMap::new();
    while requeued.len() < sent.len() {
        for moved in stage
            .store
            .requeue(&sent, &by())
            .await
            .expect("requeue answers")
        {
            match moved.answer {
                Move::Moved { state } => {
                    assert_eq!(state, StateKind::Ready);
                    *requeued.entry(moved.id).or_default() += 1;
                }
                Move::NotDead { state } => {
                    let expected = [StateKind::Leased, StateKind::Ready];
                    assert!(expected.contains(&state), "not dead but {state}");
                }
                other => panic!("{} is {other:?}", moved.id),
            }
        }
        tokio::task::yield_now().await;
    }
    reporter.await.expect("the reporter succeeds");
    assert!(
        requeued.values().all(|count| *count == 1),
        "each died once: {requeued:?}"
    );
    assert_eq!(stage.drain().await.len(), sent.len());
}

/// Eight holders of the same token, as after a lost reply and a hasty repeat.
pub(crate) async fn one_settle_of_many_repeats_is_recorded(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(20).await;
    let lease = stage.claim(20).await;
    let mut repeats = JoinSet::new();
    for _ in 0..8 {
        let (store, token) = (harness.another().await, lease.token);
        let reports: Vec<Report> = sent.iter().copied().map(Report::delivered).collect();
        repeats.spawn(async move { store.settle(token, &reports).await.expect("settle answers") });
    }
    let answers = all(repeats).await;
    let won = |answer: &&SettleAnswer| matches!(answer, SettleAnswer::Settled(_));
    assert_eq!(
        answers.iter().filter(won).count(),
        1,
        "one is the first: {answers:?}"
    );
    let told = |answer: &&SettleAnswer| matches!(answer, SettleAnswer::AlreadySettled(_));
    assert_eq!(
        answers.iter().filter(told).count(),
        7,
        "the others are told"
    );
    for id in sent {
        assert_eq!(stage.history(id).await.len(), 1, "recorded once");
    }
}

pub(crate) async fn groups_stay_in_order_under_many_workers(harness: &dyn Harness) {
    const GROUPS: usize = 12;
    const PER_GROUP: usize = 15;
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    let mut producers = JoinSet::new();
    for producer in 0..4 {
        let (store, lane) = (harness.another().await, stage.lane.clone());
        producers.spawn(async move {
            for n in 0..PER_GROUP {
                for group in (0..GROUPS).filter(|group| group % 4 == producer) {
                    let message = NewMessage::new(lane.clone(), json!({"group": group, "n": n}));
                    let message = message.with_group(format!("group-{group}"));
                    store.enqueue(&[message]).await.expect("enqueue answers");
                }
            }
        });
    }
    let delivered = Arc::new(tokio::sync::Mutex::new(Vec::new()));
    let mut workers = JoinSet::new();
    for _ in 0..4 {
        let (store, lane) = (harness.another().await, stage.lane.clone());
        let delivered = delivered.clone();
        workers.spawn(async move {
            while delivered.lock().await.len() < GROUPS * PER_GROUP {
                let Some(lease) = claim(&store, &lane, "worker", 5).await else {
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
    let rounds = async {
        all(producers).await;
        all(workers).await;
    };
    let in_time = tokio::time::timeout(Duration::from_secs(60), rounds).await;
    assert!(
        in_time.is_ok(),
        "nothing is stuck: {:?}",
        stage.counts().await
    );
    let mut next: BTreeMap<u64, u64> = BTreeMap::new();
    for payload in delivered.lock().await.iter() {
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

/// Producers and workers of one group, so that "the group just became free" and "somebody joins
/// the group" keep meeting.
pub(crate) async fn a_group_that_drains_while_it_fills_is_never_stuck(harness: &dyn Harness) {
    let rules = LanePolicy {
        attempts_max: 1,
        ..ordered(OnDead::Continue)
    };
    let stage = Stage::with(harness, rules).await;
    for round in 0..40 {
        let first = stage.enqueue_groups("a").await[0];
        let lease = stage.claim(1).await;
        let (store, token) = (harness.another().await, lease.token);
        let outcome = match round % 2 {
            0 => Outcome::Delivered,
            _ => Outcome::Dead,
        };
        let settle = tokio::spawn(async move {
            let report = Report::new(first, outcome);
            settled(
                store
                    .settle(token, &[report])
                    .await
                    .expect("settle answers"),
            );
        });
        let store = harness.another().await;
        let joins = stage.message(round).with_group("a");
        let join = tokio::spawn(async move { store.enqueue(&[joins]).await.expect("answers")[0] });
        settle.await.expect("the settle succeeds");
        let second = join.await.expect("the enqueue succeeds");
        assert_eq!(
            stage.kind(second.id).await,
            StateKind::Ready,
            "its turn has come"
        );
        assert_eq!(stage.drain().await, [second.id]);
    }
}

pub(crate) async fn a_renewal_races_an_expiry(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    for _ in 0..20 {
        let id = stage.enqueue_one().await;
        let lease = stage.claim(1).await;
        stage.advance(TTL - Duration::from_micros(1)).await;
        let (store, token) = (harness.another().await, lease.token);
        let renewal = tokio::spawn(async move { store.renew(token, s(60)).await });
        stage.advance(Duration::from_micros(1)).await;
        let expired = stage.store.expire(10).await.expect("expire answers");
        let renewed = renewal.await.expect("no panic").expect("renew answers");
        let lost = renewed == consign_kernel::RenewAnswer::LeaseLost;
        // The renewal may have read the clock before it moved; but never do both win.
        assert!(
            lost || expired.leases == 0,
            "renewed, and expired all the same"
        );
        let answer = stage.settle(&lease, &[Report::delivered(id)]).await;
        match lost {
            true => assert_eq!(answer, SettleAnswer::LeaseLost),
            false => assert_eq!(settled(answer).len(), 1),
        }
        stage.drain().await;
    }
}

pub(crate) async fn lanes_made_by_many_are_made_once(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let mut makers = JoinSet::new();
    for _ in 0..8 {
        let store = harness.another().await;
        let name = crate::stage::lane("fresh");
        makers.spawn(async move { store.put_lane(&name, &policy(), &by()).await });
    }
    for made in all(makers).await {
        assert_eq!(made.expect("put_lane answers").policy, policy());
    }
    let lanes = stage.store.lanes().await.expect("lanes answers");
    let fresh = lanes
        .iter()
        .filter(|(lane, _)| lane.name.as_str() == "fresh");
    assert_eq!(fresh.count(), 1);
}

pub(crate) async fn a_wait_comes_back_by_itself(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let patience = Duration::from_millis(50);
    let wait = stage.store.wait(&stage.lane, patience);
    let answer = tokio::time::timeout(Duration::from_secs(20), wait).await;
    answer.expect("a wait ends").expect("wait answers");
    stage.enqueue_one().await;
    let wait = stage.store.wait(&stage.lane, patience);
    let answer = tokio::time::timeout(Duration::from_secs(20), wait).await;
    answer.expect("a wait ends").expect("wait answers");
}
