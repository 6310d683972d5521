//! Queues: named, with rules that may change while nothing depends on them.

use consign_kernel::{
    CLAIM_BYTES_MAX, Counts, Error, OnDead, OnUncertain, Outcome, Queue, QueueName, QueuePolicy,
    RetrySchedule, StateKind,
};

use crate::{
    Harness,
    stage::{Stage, TTL, by, ordered, policy, queue, refused, s},
};

pub(crate) async fn a_queue_keeps_every_rule_it_was_given(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let exponential = RetrySchedule::Exponential {
        base_ms: 250,
        factor: 1.5,
        max_ms: 90_000,
        jitter: 0.25,
    };
    let table = RetrySchedule::Table {
        delays_ms: vec![0, 1, 86_400_000],
    };
    let rules = [
        QueuePolicy::default(),
        QueuePolicy {
            lease_ttl_ms: 1,
            lease_ttl_max_ms: 1,
            attempts_max: 10_000,
            retry: exponential,
            on_uncertain: OnUncertain::Probe,
            ordered: true,
            on_dead: OnDead::Continue,
            notify: false,
            payload_max_bytes: 64 * 1024 * 1024,
            claim_max_bytes: CLAIM_BYTES_MAX,
            concurrency: 1_000,
            rate_per_second: Some(u32::MAX),
            total_concurrency: Some(10_000),
            total_rate_per_second: Some(10_000),
            timeout_ms: 86_400_000,
            record_begin: true,
            presume_begun: true,
            hold_codes: vec!["NO_RECEIPT".to_owned(), "x".repeat(128)],
            keep_ms: Some(0),
            keep_dead_ms: Some(100 * 366 * 86_400_000),
            keep_keys_ms: Some(86_400_000),
            archive: false,
            alert_queue: Some(stage.add_queue("ops", &QueuePolicy::default()).await),
            alert_interval_ms: 30 * 86_400_000,
            alert_age_ms: Some(30 * 86_400_000),
        },
        QueuePolicy {
            lease_ttl_ms: 86_400_000,
            lease_ttl_max_ms: 86_400_000,
            attempts_max: 1,
            retry: table,
            on_uncertain: OnUncertain::Hold,
            payload_max_bytes: 1,
            claim_max_bytes: 1,
            concurrency: 1,
            rate_per_second: Some(1),
            total_concurrency: Some(1),
            total_rate_per_second: Some(1),
            timeout_ms: 1,
            alert_interval_ms: 1_000,
            alert_age_ms: Some(1),
            ..QueuePolicy::default()
        },
        // Back to no limit, after one.
        QueuePolicy {
            retry: RetrySchedule::Fixed { delay_ms: 0 },
            ..QueuePolicy::default()
        },
    ];
    let name = queue("a.queue_with-7");
    for policy in rules {
        let answer = stage.store.put_queue(&name, &policy, &by()).await;
        let made = answer.expect("put_queue answers");
        assert_eq!((&made.name, made.paused_at), (&name, None));
        assert_eq!(made.policy, policy);
        let stored = stage.store.queue(&name).await.expect("queue answers");
        assert_eq!(stored, Some(made));
    }
}

pub(crate) async fn an_uncreated_queue_does_not_exist(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let answer = stage.store.queue(&queue("ghost")).await;
    assert_eq!(answer.expect("queue answers"), None);
}

pub(crate) async fn queues_are_listed_by_name_with_their_counts(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Continue)).await;
    for name in ["zebra", "alpha", "m-1"] {
        stage.add_queue(name, &policy()).await;
    }
    let start = stage.now().await;
    let sent = stage.enqueue(6).await;
    let lease = stage.claim(3).await;
    stage.report(&lease, sent[0], Outcome::Dead).await;
    stage.report(&lease, sent[1], Outcome::Delivered).await;
    stage
        .store
        .hold(&sent[5..], &by())
        .await
        .expect("hold answers");
    stage.enqueue_groups("aaa").await;
    let later = stage.message(9).with_delay(s(60));
    stage.enqueue_all(&[later]).await;
    stage.advance(s(1)).await;
    let queues = stage
        .store
        .queues(None, 1_000)
        .await
        .expect("queues answers");
    let names: Vec<QueueName> = queues.iter().map(|(queue, _)| queue.name.clone()).collect();
    assert!(names.is_sorted(), "by name: {names:?}");
    for name in ["alpha", "m-1", "mail", "zebra"] {
        assert!(names.contains(&queue(name)), "{name} is in {names:?}");
    }
    let expected = Counts {
        waiting: 2,
        ready: 3,
        scheduled: 1,
        leased: 1,
        held: 1,
        dead: 1,
        oldest_due_at: Some(start),
    };
    assert_eq!(stage.counts().await, expected);
    let listed = queues.iter().find(|(queue, _)| queue.name == stage.queue);
    assert_eq!(listed.map(|(_, counts)| *counts), Some(expected));
    let totals = stage.store.totals().await.expect("totals answers");
    assert_eq!(totals.queues, names.len() as u64);
    assert_eq!(totals.counts, expected, "nothing is anywhere else");
    assert_eq!(stage.counts_of(&queue("zebra")).await, Counts::default());
}

pub(crate) async fn counts_take_ended_leases_as_leased(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    stage.enqueue(2).await;
    stage.claim(2).await;
    stage.advance(TTL).await;
    assert_eq!(stage.counts().await.leased, 2, "until they are ended");
}

pub(crate) async fn new_rules_leave_a_pause_in_place(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let paused = stage
        .store
        .pause(&stage.queue, &by())
        .await
        .expect("pause answers");
    let rules = QueuePolicy {
        attempts_max: 7,
        ..policy()
    };
    let answer = stage.store.put_queue(&stage.queue, &rules, &by()).await;
    let changed = answer.expect("put_queue answers");
    assert_eq!(changed.paused_at, paused.paused_at);
    assert_eq!(changed.policy, rules);
}

/// Policies that no store can honour.
fn impossible_policies() -> Vec<QueuePolicy> {
    let with = |change: fn(&mut QueuePolicy)| {
        let mut rules = policy();
        change(&mut rules);
        rules
    };
    vec![
        with(|rules| rules.lease_ttl_ms = 0),
        with(|rules| rules.lease_ttl_ms = 86_400_001),
        with(|rules| rules.lease_ttl_max_ms = 86_400_001),
        with(|rules| (rules.lease_ttl_ms, rules.lease_ttl_max_ms) = (20_001, 20_000)),
        with(|rules| rules.claim_max_bytes = 0),
        with(|rules| rules.claim_max_bytes = CLAIM_BYTES_MAX + 1),
        with(|rules| rules.attempts_max = 0),
        with(|rules| rules.attempts_max = 10_001),
        with(|rules| rules.payload_max_bytes = 0),
        with(|rules| rules.concurrency = 0),
        with(|rules| rules.concurrency = 1_001),
        with(|rules| rules.rate_per_second = Some(0)),
        with(|rules| rules.total_concurrency = Some(0)),
        with(|rules| rules.total_concurrency = Some(10_001)),
        with(|rules| rules.total_rate_per_second = Some(0)),
        with(|rules| rules.total_rate_per_second = Some(10_001)),
        with(|rules| rules.timeout_ms = 0),
        with(|rules| rules.timeout_ms = 86_400_001),
        with(|rules| rules.hold_codes = vec![String::new()]),
        with(|rules| rules.hold_codes = vec!["x".repeat(129)]),
        with(|rules| rules.hold_codes = vec!["x".to_owned(); 17]),
        with(|rules| rules.keep_ms = Some(100 * 366 * 86_400_000 + 1)),
        with(|rules| rules.keep_dead_ms = Some(u64::MAX)),
        with(|rules| rules.keep_keys_ms = Some(u64::MAX)),
        with(|rules| rules.retry = RetrySchedule::Table { delays_ms: vec![] }),
        with(|rules| rules.retry = RetrySchedule::Fixed { delay_ms: u64::MAX }),
    ]
}

pub(crate) async fn rules_no_store_could_honour_are_refused(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let good = policy();
    for rules in impossible_policies() {
        refused(
            stage.store.put_queue(&stage.queue, &rules, &by()).await,
            "invalid_input",
        );
        let fresh = queue("fresh");
        refused(
            stage.store.put_queue(&fresh, &rules, &by()).await,
            "invalid_input",
        );
        assert_eq!(
            stage.store.queue(&fresh).await.expect("queue answers"),
            None
        );
    }
    let stored = stage
        .store
        .queue(&stage.queue)
        .await
        .expect("queue answers");
    assert_eq!(stored.map(|queue| queue.policy), Some(good), "unchanged");
}

pub(crate) async fn order_cannot_change_while_messages_are_unfinished(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue_groups("a").await;
    order_is_fixed(&stage, "ready").await;
    let lease = stage.claim(1).await;
    order_is_fixed(&stage, "leased").await;
    stage
        .store
        .release(lease.token)
        .await
        .expect("release answers");
    stage.store.hold(&sent, &by()).await.expect("hold answers");
    order_is_fixed(&stage, "held").await;
    let other = QueuePolicy {
        attempts_max: 9,
        lease_ttl_ms: 5_000,
        on_uncertain: OnUncertain::Hold,
        ..policy()
    };
    stage.add_queue("mail", &other).await;
    stage
        .store
        .unhold(&sent, &by())
        .await
        .expect("unhold answers");
    let lease = stage.claim(1).await;
    stage.report(&lease, sent[0], Outcome::Dead).await;
    stage.add_queue("mail", &ordered(OnDead::Continue)).await;
    stage
        .store
        .requeue(&sent, &by())
        .await
        .expect("requeue answers");
    let later = stage.enqueue_groups("a").await;
    assert_eq!(
        stage.drain().await,
        [sent[0], later[0]],
        "in order from now on"
    );
    stage.add_queue("mail", &policy()).await;
}

async fn order_is_fixed(stage: &Stage<'_>, why: &str) {
    let before = stage
        .store
        .queue(&stage.queue)
        .await
        .expect("queue answers");
    let policy = before.clone().expect("the queue exists").policy;
    let rules = QueuePolicy {
        ordered: !policy.ordered,
        ..policy
    };
    let answer = stage.store.put_queue(&stage.queue, &rules, &by()).await;
    let error = refused(answer, "queue_not_empty");
    assert!(
        matches!(error, Error::QueueNotEmpty { queue } if queue == stage.queue),
        "{why}"
    );
    let after = stage
        .store
        .queue(&stage.queue)
        .await
        .expect("queue answers");
    assert_eq!(after, before, "unchanged while a message is {why}");
}

pub(crate) async fn order_cannot_change_while_a_group_is_blocked(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    let sent = stage.enqueue_groups("a").await;
    let lease = stage.claim(1).await;
    stage.report(&lease, sent[0], Outcome::Dead).await;
    order_is_fixed(&stage, "dead and blocks its group").await;
    stage
        .store
        .requeue(&sent, &by())
        .await
        .expect("requeue answers");
    assert_eq!(stage.drain().await, sent);
    stage.add_queue("mail", &policy()).await;
}

pub(crate) async fn order_may_change_once_all_is_delivered(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    stage.enqueue_groups("ab").await;
    stage.drain().await;
    stage.add_queue("mail", &policy()).await;
    let sent = stage.enqueue_groups("aa").await;
    assert_eq!(
        crate::stage::ids(&stage.claim(10).await),
        sent,
        "unordered now"
    );
}

/// In the same transaction: no group is left behind a dead message that does not block.
pub(crate) async fn on_dead_may_let_blocked_groups_go_on(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    let sent = stage.enqueue_groups("aabbcc").await;
    let heads = [sent[0], sent[2], sent[4]];
    let lease = stage.claim(10).await;
    assert_eq!(crate::stage::ids(&lease), heads);
    stage.report(&lease, heads[0], Outcome::Dead).await;
    stage.report(&lease, heads[1], Outcome::Dead).await;
    let other = stage.enqueue_groups("d").await;
    stage.add_queue("mail", &ordered(OnDead::Continue)).await;
    use StateKind::{Dead, Leased, Ready, Waiting};
    assert_eq!(
        stage.kinds(&sent).await,
        [Dead, Ready, Dead, Ready, Leased, Waiting]
    );
    stage.report(&lease, heads[2], Outcome::Dead).await;
    assert_eq!(stage.kind(sent[5]).await, Ready, "the next death too");
    assert_eq!(
        stage.drain().await,
        [other[0], sent[1], sent[3], sent[5]],
        "each once"
    );
    let moved = stage.store.requeue(&heads, &by()).await;
    moved.expect("requeue answers");
    assert_eq!(stage.drain().await, heads);
}

/// What has moved on has moved on; the next death blocks.
pub(crate) async fn on_dead_may_block_from_now_on(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Continue)).await;
    let sent = stage.enqueue_groups("aaa").await;
    let lease = stage.claim(1).await;
    stage.report(&lease, sent[0], Outcome::Dead).await;
    stage.add_queue("mail", &ordered(OnDead::Block)).await;
    let lease = stage.claim(1).await;
    assert_eq!(crate::stage::ids(&lease), sent[1..2], "it goes on");
    stage.report(&lease, sent[1], Outcome::Dead).await;
    stage.claim_nothing("the group is blocked").await;
    let moved = stage.store.requeue(&sent[..2], &by()).await;
    moved.expect("requeue answers");
    assert_eq!(
        stage.kinds(&sent).await,
        [StateKind::Waiting, StateKind::Ready, StateKind::Waiting],
        "the head is the one that blocked"
    );
    assert_eq!(stage.drain().await, [sent[1], sent[0], sent[2]]);
}

pub(crate) async fn queues_are_listed_in_pages(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    for name in ["b", "a-1", "a.1", "a_1", "0", "zz"] {
        stage.add_queue(name, &policy()).await;
    }
    let store = &stage.store;
    let names = |queues: Vec<(Queue, Counts)>| -> Vec<QueueName> {
        queues.into_iter().map(|(queue, _)| queue.name).collect()
    };
    let all = store.queues(None, u32::MAX).await.expect("queues answers");
    let all = names(all);
    let mut pages = Vec::new();
    loop {
        let page = store.queues(pages.last(), 2).await.expect("queues answers");
        assert!(page.len() <= 2);
        if page.is_empty() {
            break;
        }
        pages.extend(names(page));
    }
    assert_eq!(pages, all, "every queue once");
    assert!(all.is_sorted() && all.len() >= 7, "{all:?}");
    let none = store.queue_counts(&queue("nowhere")).await;
    assert_eq!(none.expect("queue_counts answers"), None);
}
