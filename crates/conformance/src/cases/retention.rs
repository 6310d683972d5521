//! Retention: what leaves, when, and what stays.

use std::{sync::Arc, time::Duration};

use consign_kernel::{
    Filter, MessageId, Move, OnDead, Outcome, QueueHistory, QueueName, QueuePolicy, Report,
    Resolution, SettleAnswer, StateKind,
};

use crate::{
    Harness,
    stage::{Maintenance, Stage, by, done, ids, ordered, policy, s},
};

/// The shortest time that every store can tell apart.
const MOMENT: Duration = Duration::from_micros(1);

/// The usual rules with times to keep delivered and dead messages, in seconds.
pub(super) fn keeping(keep_s: Option<u64>, keep_dead_s: Option<u64>) -> QueuePolicy {
    keeping_like(policy(), keep_s, keep_dead_s)
}

fn keeping_like(rules: QueuePolicy, keep_s: Option<u64>, keep_dead_s: Option<u64>) -> QueuePolicy {
    let ms = |s: u64| s * 1_000;
    QueuePolicy {
        keep_ms: keep_s.map(ms),
        keep_dead_ms: keep_dead_s.map(ms),
        ..rules
    }
}

impl Stage<'_> {
    /// Sends and delivers messages.
    pub(super) async fn delivered(&self, count: usize) -> Vec<MessageId> {
        let sent = self.enqueue(count).await;
        assert_eq!(self.drain().await, sent, "nothing else is due");
        sent
    }

    /// Leases the maintenance.
    pub(super) async fn maintenance(&self) -> Maintenance {
        Maintenance::lease(&self.store).await
    }

    pub(super) async fn exists(&self, id: MessageId) -> bool {
        let answer = self.store.explain(id).await;
        answer.expect("explain answers").is_some()
    }

    /// Which of these messages are in the store.
    pub(super) async fn existing(&self, ids: &[MessageId]) -> Vec<MessageId> {
        let mut existing = Vec::new();
        for id in ids {
            if self.exists(*id).await {
                existing.push(*id);
            }
        }
        existing
    }

    pub(super) async fn history_of(&self, queue: &QueueName) -> QueueHistory {
        let all = self.store.queue_history().await;
        let mut all = all.expect("queue_history answers").into_iter();
        all.find(|history| history.queue == *queue)
            .unwrap_or_else(|| panic!("queue {queue} is listed"))
    }

    async fn examine(&self) {
        let findings = self.store.doctor().await.expect("doctor answers");
        assert_eq!(findings, []);
    }
}

pub(crate) async fn nothing_leaves_by_default(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.delivered(2).await;
    let dead = stage.dead_one().await;
    let maintenance = stage.maintenance().await;
    stage.advance(s(50 * 366 * 86_400)).await;
    assert_eq!(maintenance.begin().await, None);
    assert_eq!(maintenance.leave().await, 0);
    assert_eq!(stage.existing(&sent).await, sent);
    assert_eq!(stage.kind(dead).await, StateKind::Dead);
}

pub(crate) async fn delivered_messages_leave_after_their_time(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(60), None)).await;
    let maintenance = stage.maintenance().await;
    let sent = stage.delivered(2).await;
    stage.advance(s(60) - MOMENT).await;
    assert_eq!(maintenance.leave().await, 0, "not a moment before");
    assert_eq!(stage.existing(&sent).await, sent);
    stage.advance(MOMENT).await;
    let later = stage.delivered(1).await;
    let dead = stage.dead_one().await;
    assert_eq!(maintenance.leave().await, 2);
    assert_eq!(stage.existing(&sent).await, []);
    assert_eq!(stage.existing(&later).await, later);
    stage.advance(s(1_000)).await;
    assert_eq!(maintenance.leave().await, 1);
    assert_eq!(stage.kind(dead).await, StateKind::Dead, "dead for ever");
}

pub(crate) async fn dead_messages_leave_after_theirs(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(None, Some(60))).await;
    let maintenance = stage.maintenance().await;
    let sent = stage.delivered(2).await;
    let dead = stage.dead(2).await;
    stage.advance(s(60) - MOMENT).await;
    assert_eq!(maintenance.leave().await, 0, "not a moment before");
    assert_eq!(stage.existing(&dead).await, dead);
    stage.advance(MOMENT).await;
    assert_eq!(maintenance.leave().await, 2);
    assert_eq!(stage.existing(&dead).await, []);
    assert_eq!(stage.existing(&sent).await, sent, "delivered stay for ever");
    assert_eq!(stage.counts().await.dead, 0);
}

pub(crate) async fn what_is_not_finished_never_leaves(harness: &dyn Harness) {
    let rules = keeping_like(ordered(OnDead::Continue), Some(0), Some(0));
    let stage = Stage::with(harness, rules).await;
    let maintenance = stage.maintenance().await;
    let leased = stage.enqueue_one().await;
    stage.claim(1).await;
    let retried = stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    let report = Report {
        retry_in: Some(s(3_600)),
        ..Report::retry(retried, "busy")
    };
    stage.settle(&lease, &[report]).await;
    let held = stage.enqueue_one().await;
    stage
        .store
        .hold(&[held], &by())
        .await
        .expect("hold answers");
    let tried_and_held = stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    stage.report(&lease, tried_and_held, Outcome::Retry).await;
    let moved = stage.store.hold(&[tried_and_held], &by()).await;
    moved.expect("hold answers");
    let scheduled = stage.message(0).with_delay(s(5));
    let scheduled = stage.enqueue_all(&[scheduled]).await[0];
    let finished = stage.delivered(1).await;
    let grouped = stage.enqueue_groups("aa").await;
    let requeued = stage.enqueue_one().await;
    let lease = stage.claim(1_000).await;
    for id in ids(&lease) {
        let outcome = if id == requeued {
            Outcome::Dead
        } else {
            Outcome::Retry
        };
        stage.report(&lease, id, outcome).await;
    }
    let moved = stage.store.requeue(&[requeued], &by()).await;
    moved.expect("requeue answers");
    // The lease has ended long ago, but no claim has taken its message back.
    stage.advance(s(1_000)).await;
    let all = [
        leased,
        retried,
        held,
        tried_and_held,
        scheduled,
        grouped[0],
        grouped[1],
        requeued,
    ];
    use StateKind::{Held, Leased, Ready, Waiting};
    let expected = [Leased, Ready, Held, Held, Ready, Ready, Waiting, Ready];
    assert_eq!(stage.kinds(&all).await, expected);
    assert_eq!(maintenance.leave().await, 1, "the one that was delivered");
    assert_eq!(stage.existing(&finished).await, []);
    assert_eq!(stage.kinds(&all).await, expected);
    assert_eq!(stage.history(retried).await.len(), 1);
}

pub(crate) async fn times_count_from_the_last_event(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(60), Some(60))).await;
    let maintenance = stage.maintenance().await;
    // An attempt.
    let id = stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    stage.report(&lease, id, Outcome::Retry).await;
    stage.advance(s(50)).await;
    assert_eq!(stage.drain().await, [id]);
    stage.advance(s(50)).await;
    assert_eq!(
        maintenance.leave().await,
        0,
        "tried 100 s ago, and 50 s ago"
    );
    stage.advance(s(10)).await;
    assert_eq!(maintenance.leave().await, 1);
    // What an operator does.
    let sent = stage.delivered(2).await;
    let dead = stage.dead_one().await;
    stage.advance(s(50)).await;
    for id in [sent[0], dead] {
        let revealed = stage.store.reveal(id, &by()).await;
        revealed
            .expect("reveal answers")
            .expect("the message exists");
    }
    stage.advance(s(10)).await;
    assert_eq!(maintenance.leave().await, 1, "the one that was not shown");
    assert_eq!(stage.existing(&sent).await, sent[..1]);
    stage.advance(s(50) - MOMENT).await;
    assert_eq!(maintenance.leave().await, 0);
    stage.advance(MOMENT).await;
    assert_eq!(maintenance.leave().await, 2);
    // A second death.
    let dead = stage.dead_one().await;
    stage.advance(s(50)).await;
    let requeued = stage.store.requeue(&[dead], &by()).await;
    requeued.expect("requeue answers");
    stage.advance(s(9)).await;
    let lease = stage.claim(1).await;
    stage.report(&lease, dead, Outcome::Dead).await;
    stage.advance(s(60) - MOMENT).await;
    assert_eq!(maintenance.leave().await, 0);
    stage.advance(MOMENT).await;
    assert_eq!(maintenance.leave().await, 1);
}

pub(crate) async fn a_late_result_prolongs_a_messages_time(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(60), None)).await;
    let maintenance = stage.maintenance().await;
    let id = stage.enqueue_one().await;
    let lost = stage.claim(1).await;
    stage.crash().await;
    assert_eq!(stage.drain().await, [id]);
    stage.advance(s(50)).await;
    let late = [Report::delivered(id)];
    let kept = stage.store.record_late(lost.token, &late).await;
    assert_eq!(kept.expect("record_late answers"), [id]);
    stage.advance(s(60) - MOMENT).await;
    assert_eq!(maintenance.leave().await, 0, "60 s from the late result");
    stage.advance(MOMENT).await;
    assert_eq!(maintenance.leave().await, 1);
}

pub(crate) async fn a_queue_that_keeps_longer_keeps_its_messages(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(60), None)).await;
    let maintenance = stage.maintenance().await;
    let longer = stage.add_queue("longer", &keeping(Some(600), None)).await;
    let longer = Stage {
        harness,
        store: Arc::clone(&stage.store),
        queue: longer,
    };
    let mut sent = Vec::new();
    let mut sent_longer = Vec::new();
    for _ in 0..3 {
        sent.extend(stage.delivered(1).await);
        sent_longer.extend(longer.delivered(1).await);
    }
    stage.advance(s(60)).await;
    let departure = maintenance.begin_of(3).await;
    assert!(departure.stay >= 2, "those between: {departure:?}");
    assert_eq!(maintenance.leave().await, 3);
    assert_eq!(stage.existing(&sent).await, []);
    assert_eq!(stage.existing(&sent_longer).await, sent_longer);
    stage.advance(s(540)).await;
    assert_eq!(maintenance.leave().await, 3);
    assert_eq!(stage.existing(&sent_longer).await, []);
}

pub(crate) async fn a_policy_change_takes_effect_at_once(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(60), None)).await;
    let maintenance = stage.maintenance().await;
    let sent = stage.delivered(1).await;
    stage.advance(s(60)).await;
    stage.add_queue("mail", &policy()).await;
    assert_eq!(maintenance.leave().await, 0, "kept for ever now");
    stage.add_queue("mail", &keeping(Some(61), None)).await;
    assert_eq!(maintenance.leave().await, 0, "kept longer");
    stage.add_queue("mail", &keeping(Some(10), None)).await;
    assert_eq!(maintenance.leave().await, 1, "kept for a shorter time");
    assert_eq!(stage.existing(&sent).await, []);
}

pub(crate) async fn a_blocked_group_keeps_its_dead_head(harness: &dyn Harness) {
    let rules = |on_dead| keeping_like(ordered(on_dead), Some(0), Some(0));
    let stage = Stage::with(harness, rules(OnDead::Block)).await;
    let maintenance = stage.maintenance().await;
    let sent = stage.enqueue_groups("aab").await;
    let alone = stage.enqueue_one().await;
    let lease = stage.claim(10).await;
    assert_eq!(ids(&lease), [sent[0], sent[2], alone]);
    stage.bury(&lease, "gone").await;
    stage.advance(s(60)).await;
    assert_eq!(maintenance.leave().await, 1, "the one without a group");
    assert_eq!(stage.existing(&sent).await, sent);
    assert!(!stage.exists(alone).await);
    let later = stage.enqueue_groups("b").await;
    use StateKind::{Dead, Waiting};
    assert_eq!(stage.kind(later[0]).await, Waiting, "the group is blocked");
    assert_eq!(stage.kinds(&sent).await, [Dead, Waiting, Dead]);
    let requeued = stage.store.requeue(&[sent[0], sent[2]], &by()).await;
    requeued.expect("requeue answers");
    assert_eq!(
        stage.drain().await,
        [sent[0], sent[2], sent[1], later[0]],
        "in order"
    );
    assert_eq!(maintenance.leave().await, 4);
    // Where the group goes on, its dead leave.
    stage.add_queue("mail", &rules(OnDead::Continue)).await;
    let sent = stage.enqueue_groups("aa").await;
    let lease = stage.claim(10).await;
    stage.bury(&lease, "gone").await;
    assert_eq!(maintenance.leave().await, 1);
    assert_eq!(stage.existing(&sent).await, sent[1..]);
    assert_eq!(stage.drain().await, sent[1..]);
}

pub(crate) async fn what_left_is_gone_for_every_read(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(0), Some(0))).await;
    let maintenance = stage.maintenance().await;
    let message = stage.message(0).with_key("k");
    let mut message = message;
    message
        .headers
        .insert("correlation_id".into(), "case-7".into());
    let delivered = stage.enqueue_all(&[message]).await[0];
    stage.drain().await;
    let dead = stage.dead_one().await;
    let store = &stage.store;
    store.reveal(dead, &by()).await.expect("reveal answers");
    assert_eq!(maintenance.leave().await, 2);
    for id in [delivered, dead] {
        assert_eq!(store.explain(id).await.expect("explain answers"), None);
        assert_eq!(stage.history(id).await, []);
        assert_eq!(store.late(id).await.expect("late answers"), []);
        assert_eq!(store.reveal(id, &by()).await.expect("reveal answers"), None);
        for moved in [
            store.requeue(&[id], &by()).await,
            store.hold(&[id], &by()).await,
            store.unhold(&[id], &by()).await,
            store.resolve(&[id], &Resolution::Dead, &by()).await,
        ] {
            let moved = moved.expect("the move answers");
            assert_eq!(moved[0].answer, Move::NoSuchMessage);
        }
    }
    let filters = [
        Filter::default(),
        Filter {
            key: Some("k".into()),
            queue: Some(stage.queue.clone()),
            ..Filter::default()
        },
        Filter {
            correlation_id: Some("case-7".into()),
            ..Filter::default()
        },
        Filter {
            state: Some(StateKind::Delivered),
            ..Filter::default()
        },
        Filter {
            state: Some(StateKind::Dead),
            ..Filter::default()
        },
    ];
    for filter in filters {
        let listed = store.list(&filter, None, 10).await.expect("list answers");
        assert_eq!(listed.items, [], "{filter:?}");
        let listed = store.dead(&filter, None, 10).await.expect("dead answers");
        assert_eq!(listed.items, [], "{filter:?}");
    }
    assert_eq!(stage.count_dead(&Filter::default(), 10).await, 0);
}

pub(crate) async fn audit_entries_leave_with_their_message(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(0), Some(60))).await;
    let maintenance = stage.maintenance().await;
    let store = &stage.store;
    let sent = stage.delivered(2).await;
    let dead = stage.dead_one().await;
    for id in [sent[0], dead] {
        store.reveal(id, &by()).await.expect("reveal answers");
    }
    let entries = async |id| store.audit(id, None, 100).await.expect("audit answers");
    let before = entries(None).await;
    assert_eq!(entries(Some(sent[0])).await.len(), 1);
    assert_eq!(maintenance.leave().await, 2);
    assert_eq!(entries(Some(sent[0])).await, []);
    assert_eq!(entries(Some(dead)).await.len(), 1, "it stayed");
    let mut after = entries(None).await;
    let departures = after.iter().take_while(|entry| entry.action == "depart");
    let departures = departures.count();
    assert!(departures > 0, "{after:#?}");
    let departures: Vec<_> = after.drain(..departures).collect();
    assert!(departures.iter().all(|entry| entry.message_id.is_none()));
    let stay: Vec<_> = (before.into_iter())
        .filter(|entry| entry.message_id != Some(sent[0]))
        .collect();
    assert_eq!(after, stay, "those about queues and other messages");
    // Numbers go on.
    store.reveal(dead, &by()).await.expect("reveal answers");
    let newest = entries(None).await.remove(0);
    assert!(newest.id > departures[0].id, "{newest:?}");
    stage.advance(s(60)).await;
    assert_eq!(maintenance.leave().await, 1);
    assert_eq!(entries(Some(dead)).await, []);
}

pub(crate) async fn what_left_cannot_be_settled_again(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(0), None)).await;
    let maintenance = stage.maintenance().await;
    let id = stage.enqueue_one().await;
    let lost = stage.claim(1).await;
    stage.crash().await;
    let lease = stage.claim(1).await;
    stage.deliver(&lease).await;
    assert_eq!(maintenance.leave().await, 1);
    let report = [Report::delivered(id)];
    assert_eq!(stage.settle(&lease, &report).await, SettleAnswer::LeaseLost);
    let kept = stage.store.record_late(lost.token, &report).await;
    assert_eq!(kept.expect("record_late answers"), []);
    // And while its lease lives on with others.
    let sent = stage.enqueue(2).await;
    let lease = stage.claim(2).await;
    stage.report(&lease, sent[0], Outcome::Delivered).await;
    assert_eq!(maintenance.leave().await, 1);
    let answer = stage.settle(&lease, &[Report::delivered(sent[0])]).await;
    assert_eq!(answer, SettleAnswer::NotInLease(vec![sent[0]]));
    stage.report(&lease, sent[1], Outcome::Delivered).await;
}

pub(crate) async fn ids_are_not_used_again(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(0), None)).await;
    let maintenance = stage.maintenance().await;
    let mut newest = MessageId(0);
    for _ in 0..3 {
        let sent = stage.delivered(2).await;
        assert!(sent[0] > newest, "{sent:?} after {newest}");
        newest = sent[1];
        assert_eq!(maintenance.leave().await, 2);
    }
    let another = harness.another().await;
    let sent = another.enqueue(&[stage.message(9)]).await;
    let id = sent.expect("enqueue answers")[0].id;
    assert!(id > newest, "{id} after {newest}, in another process too");
}

pub(crate) async fn the_departed_are_counted_for_ever(harness: &dyn Harness) {
    let rules = QueuePolicy {
        keep_keys_ms: Some(10_000),
        ..keeping(Some(0), Some(60))
    };
    let stage = Stage::with(harness, rules).await;
    let maintenance = stage.maintenance().await;
    let oldest = |id, at| Some((id, at));
    let expected = |messages, oldest: Option<_>, totals: [u64; 4], former_keys| {
        let [enqueued, delivered, dead, departed] = totals;
        QueueHistory {
            queue: stage.queue.clone(),
            messages,
            oldest_id: oldest.map(|(id, _)| id),
            oldest_at: oldest.map(|(_, at)| at),
            may_leave: 0,
            enqueued,
            delivered,
            dead,
            discarded: 0,
            departed,
            erased: 0,
            former_keys,
        }
    };
    let history = || stage.history_of(&stage.queue);
    assert_eq!(history().await, expected(0, None, [0; 4], 0));
    let keyed: Vec<_> = (0..2)
        .map(|n| stage.message(n).with_key(format!("k{n}")))
        .collect();
    stage.enqueue_all(&keyed).await;
    stage.drain().await;
    stage.delivered(1).await;
    stage.advance(s(1)).await;
    let died_at = stage.now().await;
    let died = stage.dead_one().await;
    let died = oldest(died, died_at);
    assert_eq!(history().await.messages, 4);
    assert_eq!(history().await.may_leave, 3);
    assert_eq!(maintenance.leave().await, 3);
    assert_eq!(history().await, expected(1, died, [4, 3, 1, 3], 2));
    stage.advance(s(59)).await;
    assert_eq!(maintenance.leave().await, 0);
    let forgotten = stage.store.forget_keys(maintenance.token, 10).await;
    assert_eq!(done(forgotten), 2);
    assert_eq!(history().await, expected(1, died, [4, 3, 1, 3], 0));
    stage.advance(s(1)).await;
    assert_eq!(history().await.may_leave, 1);
    assert_eq!(maintenance.leave().await, 1);
    assert_eq!(history().await, expected(0, None, [4, 3, 1, 4], 0));
    let all = stage.store.queue_history().await;
    let all = all.expect("queue_history answers");
    assert!(all.is_sorted_by_key(|history| &history.queue), "{all:?}");
}

pub(crate) async fn doctor_is_clean_after_departures(harness: &dyn Harness) {
    let rules = keeping_like(ordered(OnDead::Continue), Some(30), Some(60));
    let stage = Stage::with(harness, rules).await;
    let maintenance = stage.maintenance().await;
    let (mut removed, mut sent) = (0, 0);
    for round in 0..6_usize {
        stage.enqueue_groups("abcab").await;
        let keyed = stage.message(round).with_key(format!("k{round}"));
        stage.enqueue_all(&[keyed]).await;
        sent += 6;
        let lease = stage.claim(1_000).await;
        for (n, id) in ids(&lease).into_iter().enumerate() {
            let outcome = match (n + round) % 4 {
                0 => Outcome::Dead,
                1 => Outcome::Retry,
                _ => Outcome::Delivered,
            };
            stage.report(&lease, id, outcome).await;
        }
        stage.examine().await;
        removed += maintenance.leave().await;
        stage.examine().await;
        stage.advance(s(20)).await;
    }
    assert!(removed > 0, "some have left while others are on their way");
    while let Some(lease) = stage.try_claim(1_000).await {
        stage.deliver(&lease).await;
        stage.advance(s(5)).await;
    }
    stage.advance(s(60)).await;
    removed += maintenance.leave().await;
    assert_eq!(removed, sent, "everything leaves in the end");
    stage.examine().await;
}
