//! Discarding, cancelling and skipping beside what else happens to the same messages: exactly one wins.

use std::sync::Arc;

use consign_kernel::{
    MessageId, Move, MoveResult, OnDead, Outcome, QueuePolicy, RedriveAction, RedrivePlan,
    RedriveState, Report, SettleAnswer, StateKind,
};
use tokio::task::JoinSet;

use super::{discard::CLOSED, redrive::everything};
use crate::{
    Harness,
    stage::{Stage, all, by, ids, ordered, policy, s},
};

use StateKind::{Delivered, Discarded, Ready};

/// The messages of an answer that were moved.
fn moved(answers: &[MoveResult]) -> Vec<MessageId> {
    let moved = answers
        .iter()
        .filter(|answer| matches!(answer.answer, Move::Moved { .. }));
    moved.map(|answer| answer.id).collect()
}

/// An expired lease is ended while its messages are discarded and its worker reports: what died is
/// discarded once, and no outcome of the worker counts.
pub(crate) async fn a_discard_races_a_settle_and_an_expiry(harness: &dyn Harness) {
    let rules = QueuePolicy {
        attempts_max: 1,
        ..policy()
    };
    let stage = Stage::with(harness, rules).await;
    for round in 0..20 {
        let id = stage.enqueue_one().await;
        let lease = stage.claim(1).await;
        // In every other round the lease lives.
        if round % 2 == 0 {
            stage.advance(crate::stage::TTL).await;
        }
        let (store, token) = (harness.another().await, lease.token);
        let settle = tokio::spawn(async move {
            let answer = store.settle(token, &[Report::new(id, Outcome::Dead)]).await;
            answer.expect("settle answers")
        });
        let store = harness.another().await;
        let expire = tokio::spawn(async move { store.expire(10).await.expect("expire answers") });
        let mut closed = Vec::new();
        while closed.is_empty() {
            // The expiry passes over a lease that the settle has locked.
            stage.store.expire(10).await.expect("expire answers");
            let answers = stage.store.discard(&[id], &by()).await;
            closed = moved(&answers.expect("discard answers"));
            tokio::task::yield_now().await;
        }
        let settled = settle.await.expect("no panic");
        expire.await.expect("no panic");
        let is_lost = settled == SettleAnswer::LeaseLost;
        assert_eq!(is_lost, round % 2 == 0, "{settled:?}");
        assert_eq!(stage.kind(id).await, Discarded);
        assert_eq!(stage.history(id).await.len(), 1, "one loss or one report");
        assert_eq!(stage.actions(id).await, ["discard"]);
    }
    stage.is_sound().await;
}

pub(crate) async fn a_discard_races_a_requeue(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    let sent = stage.enqueue_groups(&"abcdefgh".repeat(10)).await;
    for _ in 0..10 {
        let lease = stage.claim(8).await;
        let heads = ids(&lease);
        stage.bury(&lease, "gone").await;
        let mut tasks = JoinSet::new();
        for n in 0..6 {
            let (store, heads) = (harness.another().await, heads.clone());
            tasks.spawn(async move {
                let answers = if n % 2 == 0 {
                    store.discard(&heads, &by()).await
                } else {
                    store.requeue(&heads, &by()).await
                };
                moved(&answers.expect("the move answers")).len()
            });
        }
        let total: usize = all(tasks).await.into_iter().sum();
        assert_eq!(total, heads.len(), "one move for each");
        for id in &heads {
            let kind = stage.kind(*id).await;
            let action = stage.actions(*id).await.pop().expect("it was moved");
            match kind {
                Discarded => assert_eq!(action, "discard"),
                Ready => {
                    assert_eq!(action, "requeue");
                    assert_eq!(stage.cancel(&[*id]).await, [CLOSED]);
                }
                other => panic!("message {id} is {other}"),
            }
        }
    }
    assert_eq!(stage.kinds(&sent).await, vec![Discarded; sent.len()]);
    stage.is_sound().await;
}

/// One redrive requeues what another discards.
pub(crate) async fn redrives_of_two_minds_share_the_dead(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let dead = stage.dead(120).await;
    let requeue = stage.start(&everything()).await;
    let discard = RedrivePlan {
        action: RedriveAction::Discard,
        ..everything()
    };
    let discard = stage.start(&discard).await;
    stage.advance(s(1)).await;
    let mut tasks = JoinSet::new();
    for n in 0..4 {
        let store = harness.another().await;
        tasks.spawn(async move {
            loop {
                let stepped = store.step_redrive(7 + n).await;
                let all = store.redrives(10).await.expect("redrives answers");
                let is_done = all.iter().all(|it| it.state == RedriveState::Done);
                if stepped.expect("step_redrive answers").is_none() && is_done {
                    break;
                }
                tokio::task::yield_now().await;
            }
        });
    }
    all(tasks).await;
    let read = async |id| {
        let redrive = stage.store.redrive(id).await.expect("redrive answers");
        redrive.expect("it exists")
    };
    let (requeue, discard) = (read(requeue.id).await, read(discard.id).await);
    assert_eq!(
        requeue.moved + discard.moved,
        120,
        "{requeue:?} {discard:?}"
    );
    let kinds = stage.kinds(&dead).await;
    let discarded = kinds.iter().filter(|kind| **kind == Discarded).count();
    assert_eq!(discarded as u64, discard.moved, "counts what really moved");
    assert_eq!(stage.drain().await.len() as u64, requeue.moved);
    stage.is_sound().await;
}

pub(crate) async fn a_cancel_races_claims(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(300).await;
    let mut tasks = JoinSet::new();
    for n in 0..3 {
        let store = harness.another().await;
        let claim = stage.ask(2 + n);
        tasks.spawn(async move {
            let mut seen = Vec::new();
            while let Some(lease) = store.claim(&claim).await.expect("claim answers") {
                let reports: Vec<_> = ids(&lease).into_iter().map(Report::delivered).collect();
                let answer = store.settle(lease.token, &reports).await;
                assert!(matches!(answer, Ok(SettleAnswer::Settled(_))), "{answer:?}");
                seen.extend(ids(&lease));
            }
            (Delivered, seen)
        });
    }
    let (store, order) = (harness.another().await, sent.clone());
    tasks.spawn(async move {
        let mut closed = Vec::new();
        for some in order.rchunks(10) {
            let answers = store.cancel(some, &by()).await;
            closed.extend(moved(&answers.expect("cancel answers")));
        }
        (Discarded, closed)
    });
    let mut count = 0;
    for (kind, ids) in all(tasks).await {
        count += ids.len();
        assert_eq!(stage.kinds(&ids).await, vec![kind; ids.len()]);
    }
    // A claim that met a cancel may have found nothing.
    count += stage.drain().await.len();
    assert_eq!(count, 300, "each has one end");
    stage.is_sound().await;
}

/// Skips meet the settles of the same heads, while messages join the groups.
pub(crate) async fn a_skip_races_settles_and_enqueues(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    let sent = stage.enqueue_groups(&"ab".repeat(60)).await;
    let mut tasks: JoinSet<Vec<MessageId>> = JoinSet::new();
    for n in 0..2 {
        let store = harness.another().await;
        let claim = stage.ask(1);
        tasks.spawn(async move {
            let mut delivered = Vec::new();
            let mut misses = 0;
            while misses < 50 {
                let Some(lease) = store.claim(&claim).await.expect("claim answers") else {
                    misses += 1;
                    tokio::task::yield_now().await;
                    continue;
                };
                let id = ids(&lease)[0];
                let outcome = if id.0 % 3 == n {
                    Outcome::Dead
                } else {
                    Outcome::Delivered
                };
                let answer = store.settle(lease.token, &[Report::new(id, outcome)]).await;
                assert!(matches!(answer, Ok(SettleAnswer::Settled(_))), "{answer:?}");
                delivered.extend((outcome == Outcome::Delivered).then_some(id));
            }
            delivered
        });
    }
    for group in ["a", "b"] {
        let (store, queue) = (harness.another().await, stage.queue.clone());
        tasks.spawn(async move {
            let mut closed = Vec::new();
            for _ in 0..40 {
                let skipped = store.skip(&queue, group, &by()).await;
                closed.extend(moved(skipped.expect("skip answers").as_slice()));
                tokio::task::yield_now().await;
            }
            closed
        });
    }
    let store = harness.another().await;
    let joining: Vec<_> = (0..20)
        .map(|n| {
            stage
                .message(n)
                .with_group(if n % 2 == 0 { "a" } else { "b" })
        })
        .collect();
    tasks.spawn(async move {
        for message in joining {
            store.enqueue(&[message]).await.expect("enqueue answers");
        }
        Vec::new()
    });
    let mut ended: Vec<MessageId> = all(tasks).await.concat();
    // What is left: dead heads to skip, and the messages behind them.
    for group in ["a", "b"].repeat(140) {
        ended.extend(stage.drain().await);
        ended.extend(stage.skip(group).await.map(|skipped| skipped.id));
    }
    ended.extend(stage.drain().await);
    let count = ended.len();
    ended.sort_unstable();
    ended.dedup();
    assert_eq!((ended.len(), count), (140, 140), "each has one end");
    assert!(sent.iter().all(|id| ended.binary_search(id).is_ok()));
    stage.is_sound().await;
}

/// The last message of a group is cancelled while another joins: the group is never stuck.
pub(crate) async fn a_cancelled_head_races_an_enqueue(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    for round in 0..30 {
        let first = stage.enqueue_groups("a").await[0];
        let store = harness.another().await;
        let joins = stage.message(round).with_group("a");
        let join = tokio::spawn(async move { store.enqueue(&[joins]).await.expect("answers")[0] });
        let store = Arc::clone(&stage.store);
        let cancelled = store.cancel(&[first], &by()).await;
        assert_eq!(moved(&cancelled.expect("cancel answers")), [first]);
        let second = join.await.expect("the enqueue succeeds");
        assert_eq!(stage.drain().await, [second.id]);
    }
    stage.is_sound().await;
}

/// The heads of many groups are settled while those behind them are cancelled and held: none waits for another
/// for ever, and each message has one end.
pub(crate) async fn cancels_and_holds_race_settles_of_many_groups(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    for _ in 0..6 {
        // The names of groups descend while ids grow.
        let named = |n: usize| {
            stage
                .message(n)
                .with_group(format!("g{:03}", 200 - n % 200))
        };
        let messages: Vec<_> = (0..600).map(named).collect();
        let sent = stage.enqueue_all(&messages).await;
        let lease = stage.claim(200).await;
        assert_eq!(ids(&lease), sent[..200]);
        let mut tasks = JoinSet::new();
        for kind in [StateKind::Held, Discarded] {
            let (store, behind) = (harness.another().await, sent[200..].to_vec());
            tasks.spawn(async move {
                let answers = if kind == Discarded {
                    store.cancel(&behind[..300], &by()).await
                } else {
                    store.hold(&behind[100..], &by()).await
                };
                (kind, moved(&answers.expect("the move answers")))
            });
        }
        let store = harness.another().await;
        tasks.spawn(async move {
            let reports: Vec<_> = ids(&lease).into_iter().map(Report::delivered).collect();
            let answer = store.settle(lease.token, &reports).await;
            assert!(matches!(answer, Ok(SettleAnswer::Settled(_))), "{answer:?}");
            (Delivered, ids(&lease))
        });
        let mut ended = Vec::new();
        for (kind, some) in all(tasks).await {
            assert_eq!(stage.kinds(&some).await, vec![kind; some.len()]);
            if kind == StateKind::Held {
                let back = stage.store.unhold(&some, &by()).await;
                assert_eq!(moved(&back.expect("unhold answers")).len(), some.len());
                ended.extend(stage.drain().await);
            } else {
                ended.extend(some);
            }
        }
        ended.extend(stage.drain().await);
        ended.sort_unstable();
        assert_eq!(ended, sent, "each has one end");
    }
    stage.is_sound().await;
}
