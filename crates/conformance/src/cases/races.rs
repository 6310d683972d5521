//! Races: two operations that meet on the same message, and what must hold whichever wins.

use std::{collections::BTreeMap, time::Duration};

use consign_kernel::{
    MessageId, Move, OnDead, Outcome, QueuePolicy, RenewAnswer, Report, SettleAnswer, State,
    StateKind,
};
use tokio::task::JoinSet;

use crate::{
    Harness,
    stage::{Stage, TTL, all, by, ordered, policy, s, settled},
};

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
    let mut over = false;
    while !over {
        // Read before the requeue, so that the last requeue comes after the last death.
        over = reporter.is_finished();
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
    assert_eq!(requeued.len(), sent.len(), "each was dead at some time");
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
        "the others get the result"
    );
    for id in sent {
        assert_eq!(stage.history(id).await.len(), 1, "recorded once");
    }
}

/// Producers and workers of one group, so that "the group just became free" and "a message joins
/// the group" keep meeting.
pub(crate) async fn a_group_that_drains_while_it_fills_is_never_stuck(harness: &dyn Harness) {
    let rules = QueuePolicy {
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
        // Where the two met, the head may be open until the next claim fills it.
        match stage.state(second.id).await {
            State::Ready { .. } | State::Waiting { behind: None } => {}
            other => panic!("it is the head, but it is {other:?}"),
        }
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
        let lost = renewed == RenewAnswer::LeaseLost;
        // The renewal may have read the clock before it moved; but never do both win.
        assert!(
            lost || expired.leases == 0,
            "renewed, and expired all the same"
        );
        let answer = stage.settle(&lease, &[Report::delivered(id)]).await;
        if lost {
            assert_eq!(answer, SettleAnswer::LeaseLost)
        } else {
            assert_eq!(settled(answer).len(), 1)
        }
        stage.drain().await;
    }
}

pub(crate) async fn queues_made_by_many_are_made_once(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let mut makers = JoinSet::new();
    for _ in 0..8 {
        let store = harness.another().await;
        let name = crate::stage::queue("fresh");
        makers.spawn(async move { store.put_queue(&name, &policy(), &by()).await });
    }
    for made in all(makers).await {
        assert_eq!(made.expect("put_queue answers").policy, policy());
    }
    let queues = stage
        .store
        .queues(None, 1_000)
        .await
        .expect("queues answers");
    let fresh = queues
        .iter()
        .filter(|(queue, _)| queue.name.as_str() == "fresh");
    assert_eq!(fresh.count(), 1);
}
