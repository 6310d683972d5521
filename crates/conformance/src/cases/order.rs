//! Order: in an ordered queue, one message of a group at a time, oldest first.

use consign_kernel::{
    MessageId, Move, MoveResult, NewMessage, OnDead, Outcome, QueuePolicy, Report, Resolution,
    State, StateKind,
};

use crate::{
    Harness,
    stage::{Stage, TTL, after, by, ids, ordered, policy, s, settled},
};

use StateKind::{Dead, Delivered, Held, Leased, Ready, Waiting};

pub(crate) async fn only_the_oldest_of_a_group_may_be_claimed(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    let sent = stage.enqueue_groups("abab").await;
    assert_eq!(stage.kinds(&sent).await, [Ready, Ready, Waiting, Waiting]);
    let behind = Some(sent[1]);
    assert_eq!(stage.state(sent[3]).await, State::Waiting { behind });
    assert_eq!(stage.counts().await.waiting, 2);
    let lease = stage.claim(10).await;
    assert_eq!(ids(&lease), [sent[0], sent[1]]);
    stage.claim_nothing("they wait behind the head").await;
    stage.report(&lease, sent[1], Outcome::Delivered).await;
    assert_eq!(
        stage.kinds(&sent).await,
        [Leased, Delivered, Waiting, Ready]
    );
    let due_at = stage.now().await;
    assert_eq!(stage.state(sent[3]).await, State::Ready { due_at });
    assert_eq!(ids(&stage.claim(10).await), [sent[3]]);
}

pub(crate) async fn an_enqueue_answers_who_waits(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    let message = |n| stage.message(n).with_group("a").with_key(format!("k{n}"));
    let answers = stage
        .try_enqueue(&[message(0), message(1), message(0)])
        .await;
    let states: Vec<_> = answers
        .expect("enqueue answers")
        .iter()
        .map(|a| a.state)
        .collect();
    assert_eq!(states, [Ready, Waiting, Ready]);
    let again = stage
        .try_enqueue(&[message(1)])
        .await
        .expect("enqueue answers");
    assert_eq!((again[0].duplicate, again[0].state), (true, Waiting));
}

pub(crate) async fn messages_without_a_group_do_not_wait(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    let grouped = stage.enqueue_groups("aa").await;
    let free = stage.enqueue(3).await;
    let expected = [vec![grouped[0]], free].concat();
    assert_eq!(ids(&stage.claim(10).await), expected);
}

pub(crate) async fn an_unordered_queue_ignores_groups(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue_groups("aaa").await;
    assert_eq!(ids(&stage.claim(10).await), sent);
}

pub(crate) async fn the_same_group_in_two_queues_is_two_groups(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    let other = stage.add_queue("other", &ordered(OnDead::Block)).await;
    let there = NewMessage::new(other, serde_json::json!(1)).with_group("a");
    let sent = stage
        .enqueue_all(&[stage.message(1).with_group("a"), there])
        .await;
    assert_eq!(stage.kinds(&sent).await, [Ready, Ready]);
}

pub(crate) async fn a_retried_message_stays_group_head(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Continue)).await;
    let sent = stage.enqueue_groups("aa").await;
    let lease = stage.claim(10).await;
    stage.report(&lease, sent[0], Outcome::Retry).await;
    stage
        .claim_nothing("the first rests, the second waits")
        .await;
    stage.advance(s(1)).await;
    assert_eq!(stage.drain().await, sent, "in order");
}

pub(crate) async fn an_expired_message_stays_group_head(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Continue)).await;
    let sent = stage.enqueue_groups("aba").await;
    stage.claim(10).await;
    stage.crash().await;
    assert_eq!(stage.kinds(&sent).await, [Ready, Ready, Waiting]);
    assert_eq!(stage.drain().await, sent);
}

pub(crate) async fn a_released_message_stays_group_head(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Continue)).await;
    let sent = stage.enqueue_groups("aa").await;
    let lease = stage.claim(10).await;
    stage
        .store
        .release(lease.token)
        .await
        .expect("release answers");
    assert_eq!(stage.kinds(&sent).await, [Ready, Waiting]);
}

pub(crate) async fn a_dead_message_blocks_its_group_until_delivered(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    let sent = stage.enqueue_groups("aab").await;
    let lease = stage.claim(10).await;
    stage.report(&lease, sent[0], Outcome::Dead).await;
    stage.report(&lease, sent[2], Outcome::Delivered).await;
    stage.claim_nothing("the group is blocked").await;
    let behind = Some(sent[0]);
    assert_eq!(stage.state(sent[1]).await, State::Waiting { behind });
    let later = stage.enqueue_groups("ab").await;
    assert_eq!(
        stage.kinds(&later).await,
        [Waiting, Ready],
        "newcomers wait as well"
    );
    let moved = stage
        .store
        .requeue(&sent[..1], &by())
        .await
        .expect("requeue answers");
    assert_eq!(
        moved[0].answer,
        Move::Moved { state: Ready },
        "it is still the head"
    );
    assert_eq!(stage.drain().await, [later[1], sent[0], sent[1], later[0]]);
}

pub(crate) async fn a_dead_message_lets_its_group_continue(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Continue)).await;
    let sent = stage.enqueue_groups("aa").await;
    let lease = stage.claim(10).await;
    stage.report(&lease, sent[0], Outcome::Dead).await;
    assert_eq!(stage.kinds(&sent).await, [Dead, Ready]);
    assert_eq!(stage.drain().await, [sent[1]]);
}

pub(crate) async fn a_death_by_expiry_is_a_death_to_its_group(harness: &dyn Harness) {
    for (on_dead, second) in [(OnDead::Block, Waiting), (OnDead::Continue, Ready)] {
        let stage = Stage::with(harness, policy()).await;
        let rules = QueuePolicy {
            attempts_max: 1,
            ..ordered(on_dead)
        };
        let queue = stage
            .add_queue(&format!("{on_dead:?}").to_lowercase(), &rules)
            .await;
        let stage = Stage { queue, ..stage };
        let sent = stage.enqueue_groups("aa").await;
        stage.claim(1).await;
        stage.crash().await;
        assert_eq!(stage.kinds(&sent).await, [Dead, second], "{on_dead:?}");
    }
}

pub(crate) async fn a_requeued_message_waits_while_its_group_is_busy(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Continue)).await;
    let sent = stage.enqueue_groups("aaa").await;
    let lease = stage.claim(10).await;
    stage.report(&lease, sent[0], Outcome::Dead).await;
    let busy = stage.claim(10).await;
    assert_eq!(ids(&busy), [sent[1]]);
    let moved = stage
        .store
        .requeue(&sent[..1], &by())
        .await
        .expect("requeue answers");
    let answer = Move::Moved { state: Waiting };
    assert_eq!(
        moved,
        [MoveResult {
            id: sent[0],
            answer
        }]
    );
    assert_eq!(stage.kinds(&sent).await, [Waiting, Leased, Waiting]);
    stage.deliver(&busy).await;
    assert_eq!(stage.drain().await, [sent[0], sent[2]], "the oldest next");
}

pub(crate) async fn a_held_message_blocks_its_group(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Continue)).await;
    let sent = stage.enqueue_groups("aa").await;
    stage
        .store
        .hold(&sent[..1], &by())
        .await
        .expect("hold answers");
    assert_eq!(stage.kinds(&sent).await, [Held, Waiting]);
    stage.claim_nothing("a held message stays the head").await;
    let moved = stage
        .store
        .unhold(&sent[..1], &by())
        .await
        .expect("unhold answers");
    assert_eq!(moved[0].answer, Move::Moved { state: Ready });
    assert_eq!(stage.drain().await, sent);
}

pub(crate) async fn a_held_waiting_message_keeps_its_place(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Continue)).await;
    let sent = stage.enqueue_groups("aaaa").await;
    hold(&stage, &sent[1..2]).await;
    assert_eq!(stage.kinds(&sent).await, [Ready, Held, Waiting, Waiting]);
    let lease = stage.claim(10).await;
    stage.report(&lease, sent[0], Outcome::Dead).await;
    assert_eq!(
        stage.kinds(&sent).await,
        [Dead, Held, Waiting, Waiting],
        "no message passes it"
    );
    stage.claim_nothing("the held one is the head").await;
    let behind = Some(sent[1]);
    assert_eq!(stage.state(sent[2]).await, State::Waiting { behind });
    let late = stage.enqueue_groups("a").await;
    assert_eq!(stage.kinds(&late).await, [Waiting], "newcomers wait too");
    assert_eq!(unhold(&stage, sent[1]).await, Move::Moved { state: Ready });
    assert_eq!(stage.drain().await, [&sent[1..], &late[..]].concat());
}

pub(crate) async fn a_held_waiting_message_may_return_before_it_is_head(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    let sent = stage.enqueue_groups("aaa").await;
    hold(&stage, &sent[1..2]).await;
    let answer = unhold(&stage, sent[1]).await;
    assert_eq!(answer, Move::Moved { state: Waiting });
    assert_eq!(stage.drain().await, sent, "as if it had never been held");
}

pub(crate) async fn many_held_messages_keep_their_places(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    let sent = stage.enqueue_groups("aabaa").await;
    // The first is the head; the others are held while they wait.
    hold(&stage, &[sent[4], sent[1], sent[0]]).await;
    assert_eq!(stage.drain().await, [sent[2]]);
    assert_eq!(unhold(&stage, sent[0]).await, Move::Moved { state: Ready });
    assert_eq!(stage.drain().await, [sent[0]]);
    let resolved = stage
        .store
        .resolve(&sent[4..], &Resolution::DELIVERED, &by())
        .await;
    resolved.expect("resolve answers");
    assert_eq!(
        stage.kinds(&sent).await,
        [Delivered, Held, Delivered, Waiting, Delivered],
        "it was not the head"
    );
    let resolved = stage
        .store
        .resolve(&sent[1..2], &Resolution::DELIVERED, &by())
        .await;
    resolved.expect("resolve answers");
    assert_eq!(stage.kind(sent[3]).await, Ready, "but that one had");
    assert_eq!(stage.drain().await, [sent[3]]);
    let next = stage.enqueue_groups("a").await;
    assert_eq!(stage.drain().await, next, "and the group has no head left");
}

async fn hold(stage: &Stage<'_>, ids: &[MessageId]) {
    let moved = stage.store.hold(ids, &by()).await.expect("hold answers");
    for moved in moved {
        assert_eq!(moved.answer, Move::Moved { state: Held }, "{}", moved.id);
    }
}

async fn unhold(stage: &Stage<'_>, id: MessageId) -> Move {
    let moved = stage.store.unhold(&[id], &by()).await;
    moved.expect("unhold answers")[0].answer
}

pub(crate) async fn a_held_waiting_message_may_find_its_group_free(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    let sent = stage.enqueue_groups("aa").await;
    stage
        .store
        .hold(&sent[1..], &by())
        .await
        .expect("hold answers");
    assert_eq!(stage.drain().await, [sent[0]]);
    let moved = stage
        .store
        .unhold(&sent[1..], &by())
        .await
        .expect("unhold answers");
    assert_eq!(moved[0].answer, Move::Moved { state: Ready });
    assert_eq!(stage.drain().await, [sent[1]]);
}

pub(crate) async fn an_uncertain_message_held_blocks_its_group(harness: &dyn Harness) {
    let rules = QueuePolicy {
        on_uncertain: consign_kernel::OnUncertain::Hold,
        ..ordered(OnDead::Continue)
    };
    let stage = Stage::with(harness, rules).await;
    let sent = stage.enqueue_groups("aa").await;
    let lease = stage.claim(10).await;
    stage.report(&lease, sent[0], Outcome::Uncertain).await;
    assert_eq!(stage.kinds(&sent).await, [Held, Waiting]);
    stage
        .store
        .unhold(&sent[..1], &by())
        .await
        .expect("unhold answers");
    assert_eq!(stage.drain().await, sent);
}

pub(crate) async fn a_waiting_message_keeps_its_delay(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    let start = stage.now().await;
    let first = stage.message(0).with_group("a");
    let second = stage.message(1).with_group("a").with_delay(s(8));
    let third = stage.message(2).with_group("a").with_delay(s(5));
    let sent = stage.enqueue_all(&[first, second, third]).await;
    assert_eq!(stage.drain().await, [sent[0]]);
    let due_at = after(start, s(8));
    assert_eq!(
        stage.state(sent[1]).await,
        State::Ready { due_at },
        "it became the head early"
    );
    assert_eq!(
        stage.kind(sent[2]).await,
        Waiting,
        "older comes first, though due later"
    );
    stage.advance(s(8)).await;
    let lease = stage.claim(10).await;
    stage.advance(s(1)).await;
    stage.deliver(&lease).await;
    let due_at = after(start, s(9));
    assert_eq!(
        stage.state(sent[2]).await,
        State::Ready { due_at },
        "it became the head late"
    );
}

pub(crate) async fn a_drained_group_starts_afresh(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    for _ in 0..3 {
        let sent = stage.enqueue_groups("aa").await;
        assert_eq!(stage.kinds(&sent).await, [Ready, Waiting]);
        assert_eq!(stage.drain().await, sent);
    }
}

pub(crate) async fn a_settle_promotes_in_many_groups(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Continue)).await;
    let sent = stage.enqueue_groups("abcabcabc").await;
    let lease = stage.claim(10).await;
    let reports = [
        Report::new(sent[2], Outcome::Dead),
        Report::delivered(sent[0]),
        Report::retry(sent[1], "x"),
    ];
    settled(stage.settle(&lease, &reports).await);
    let expected = [sent[5], sent[3]];
    assert_eq!(
        ids(&stage.claim(10).await),
        expected,
        "in the order of the reports"
    );
    stage.advance(TTL).await;
    stage.store.expire(10).await.expect("expire answers");
    let mut rest = stage.drain().await;
    rest.sort();
    let all = [1, 3, 4, 5, 6, 7, 8].map(|n| sent[n]);
    assert_eq!(rest, all, "nothing is stuck");
}

pub(crate) async fn a_thousand_groups_drain_in_order(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    let message = |n: usize| stage.message(n).with_group(format!("g{}", n % 1_000));
    let batch: Vec<NewMessage> = (0..3_000).map(message).collect();
    let sent = stage.enqueue_all(&batch).await;
    assert_eq!(stage.counts().await.ready, 1_000, "one of each group");
    let rounds: Vec<&[MessageId]> = sent.chunks(1_000).collect();
    for round in rounds {
        let lease = stage.claim(1_000).await;
        let mut got = ids(&lease);
        got.sort();
        assert_eq!(got, round, "every group's next");
        stage.deliver(&lease).await;
    }
    assert_eq!(stage.counts().await.unfinished(), 0);
}
