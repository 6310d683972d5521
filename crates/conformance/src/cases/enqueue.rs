//! Enqueueing: all messages or none, one message per key (G1, G2, G8).

use std::time::Duration;

use consign_kernel::{Error, MessageId, NewMessage, Payload, Report, State, StateKind};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{
    Harness,
    stage::{Stage, after, ids, policy, refused, s},
};

pub(crate) async fn an_enqueued_message_is_claimed_as_it_was_sent(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let mut new = stage.message(1).with_key("k-1").with_group("g-1");
    new.headers.insert("trace".into(), json!(["a", 1]));
    let answers = stage.try_enqueue(std::slice::from_ref(&new)).await;
    let answer = answers.expect("enqueue answers")[0];
    assert!(!answer.duplicate, "the key is new");
    assert_eq!(answer.state, StateKind::Ready);
    let now = stage.now().await;
    stage.advance(s(3)).await;
    let claimed = stage.claim(10).await.messages.remove(0);
    assert_eq!(claimed.message.id, answer.id);
    assert_eq!(claimed.message.queue, new.queue);
    assert_eq!(claimed.message.key, new.key);
    assert_eq!(claimed.message.group, new.group);
    assert_eq!(claimed.message.payload, new.payload);
    assert_eq!(claimed.message.headers, new.headers);
    assert_eq!(claimed.message.created_at, now, "the database's clock");
    assert_eq!(claimed.attempt_no, 1);
    assert_eq!(claimed.tries, 0);
    assert!(!claimed.in_doubt);
}

pub(crate) async fn ids_grow_in_order_of_enqueueing(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let mut all = stage.enqueue(5).await;
    all.extend(stage.enqueue(5).await);
    assert!(all.is_sorted_by(|a, b| a < b), "growing: {all:?}");
}

pub(crate) async fn a_committed_enqueue_is_delivered(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let messages = [stage.message(1).with_key("a"), stage.message(2)];
    let written = harness.enqueue_in_transaction(&messages).await;
    written.expect("the caller's transaction commits");
    let lease = stage.claim(10).await;
    let payloads: Vec<&Payload> = lease.messages.iter().map(|m| &m.message.payload).collect();
    assert_eq!(payloads, [&messages[0].payload, &messages[1].payload]);
    stage.deliver(&lease).await;
}

pub(crate) async fn a_rolled_back_enqueue_is_never_delivered(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let messages = [stage.message(1).with_key("a"), stage.message(2)];
    let written = harness.enqueue_and_roll_back(&messages).await;
    written.expect("the enqueue itself succeeds");
    stage.claim_nothing("it was rolled back").await;
    let page = stage.store.list(&Default::default(), None, 10).await;
    assert_eq!(page.expect("list answers").items, [], "no trace of it");
    let again = stage.message(9).with_key("a");
    stage.enqueue_all(&[again]).await;
}

pub(crate) async fn a_rolled_back_ordered_enqueue_leaves_no_group_head(harness: &dyn Harness) {
    let stage = Stage::with(
        harness,
        crate::stage::ordered(consign_kernel::OnDead::Block),
    )
    .await;
    let lost = [stage.message(1).with_group("g")];
    let written = harness.enqueue_and_roll_back(&lost).await;
    written.expect("the enqueue itself succeeds");
    let kept = stage.enqueue_groups("g").await;
    assert_eq!(
        stage.drain().await,
        kept,
        "the group is not blocked by a rolled-back message"
    );
}

pub(crate) async fn an_unknown_queue_refuses_the_whole_call(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let typo = NewMessage::new(crate::stage::queue("mial"), json!(1));
    let answer = stage.try_enqueue(&[stage.message(1), typo]).await;
    let Error::UnknownQueue { queue, suggestion } = refused(answer, "unknown_queue") else {
        unreachable!("the code was checked")
    };
    assert_eq!(queue, "mial");
    assert_eq!(suggestion.as_deref(), Some("mail"), "the nearest queue");
    stage.claim_nothing("the call was refused").await;
}

pub(crate) async fn one_key_is_one_message(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let message = stage.message(1).with_key("k");
    let id = stage.enqueue_all(std::slice::from_ref(&message)).await[0];
    let again = async |state: StateKind| {
        let answers = stage.try_enqueue(std::slice::from_ref(&message)).await;
        let answer = answers.expect("a repeated key is no error")[0];
        assert_eq!(
            (answer.id, answer.duplicate),
            (id, true),
            "the first message"
        );
        assert_eq!(answer.state, state, "where it is now");
    };
    again(StateKind::Ready).await;
    let lease = stage.claim(10).await;
    assert_eq!(ids(&lease), [id], "once");
    again(StateKind::Leased).await;
    stage.deliver(&lease).await;
    again(StateKind::Delivered).await;
    stage.claim_nothing("it was delivered").await;
}

pub(crate) async fn one_key_is_one_message_within_a_call(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let twin = || stage.message(1).with_key("k");
    let answers = stage.try_enqueue(&[twin(), stage.message(2), twin()]).await;
    let answers = answers.expect("a repeated key is no error");
    assert_eq!(answers[0].id, answers[2].id, "one message");
    let duplicates: Vec<bool> = answers.iter().map(|a| a.duplicate).collect();
    assert_eq!(duplicates, [false, false, true]);
    assert!(
        answers.iter().all(|a| a.state == StateKind::Ready),
        "{answers:?}"
    );
    assert_eq!(ids(&stage.claim(10).await), [answers[0].id, answers[1].id]);
}

pub(crate) async fn a_key_is_unique_in_its_queue_only(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let other = stage.add_queue("other", &policy()).await;
    let here = stage.message(1).with_key("k");
    let there = NewMessage::new(other, json!({"another": "payload"})).with_key("k");
    let made = stage.enqueue_all(&[here, there]).await;
    assert_ne!(made[0], made[1], "two queues, two messages");
}

pub(crate) async fn a_key_with_another_payload_is_a_conflict(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_all(&[stage.message(1).with_key("k")]).await[0];
    let batch = [stage.message(7), stage.message(2).with_key("k")];
    let answer = stage.try_enqueue(&batch).await;
    conflict(refused(answer, "key_conflict"), "k", Some(id));
    assert_eq!(stage.drain().await, [id], "nothing else was written");
}

pub(crate) async fn a_key_with_another_group_is_a_conflict(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let keyed = stage.message(1).with_key("k").with_group("a");
    let id = stage.enqueue_all(&[keyed]).await[0];
    for other in [
        stage.message(1).with_key("k").with_group("b"),
        stage.message(1).with_key("k"),
    ] {
        let answer = stage.try_enqueue(&[other]).await;
        conflict(refused(answer, "key_conflict"), "k", Some(id));
    }
    assert_eq!(stage.drain().await, [id], "nothing else was written");
}

pub(crate) async fn a_conflict_within_a_call_writes_nothing(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let batch = [
        stage.message(1).with_key("k"),
        stage.message(2),
        stage.message(3).with_key("k"),
    ];
    let answer = stage.try_enqueue(&batch).await;
    // The message that holds the key was never written, so there is no id to name.
    conflict(refused(answer, "key_conflict"), "k", None);
    stage.claim_nothing("the call was refused").await;
    stage.enqueue_all(&[stage.message(4).with_key("k")]).await;
}

pub(crate) async fn headers_and_delay_are_not_part_of_a_keys_identity(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let mut first = stage.message(1).with_key("k");
    first.headers.insert("try".into(), json!(1));
    let mut second = stage.message(1).with_key("k").with_delay(s(60));
    second.headers.insert("try".into(), json!(2));
    let id = stage.enqueue_all(&[first.clone()]).await[0];
    let answer = stage.try_enqueue(&[second]).await.expect("no conflict")[0];
    assert_eq!((answer.id, answer.duplicate), (id, true));
    let kept = stage.claim(1).await.messages.remove(0).message;
    assert_eq!(
        kept.headers, first.headers,
        "the first message is unchanged"
    );
}

pub(crate) async fn payloads_compare_by_value(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let send = |key: &str, payload: Value| {
        let message = NewMessage::new(stage.queue.clone(), payload).with_key(key);
        let store = stage.store.clone();
        async move { store.enqueue(&[message]).await }
    };
    let same = [
        (json!(1), json!(1.0)),
        (json!({"a": 1, "b": [2.0]}), json!({"b": [2], "a": 1.0})),
        (json!(0.5), json!(0.50)),
        (json!({}), json!({})),
    ];
    for (n, (first, second)) in same.into_iter().enumerate() {
        let key = format!("same-{n}");
        send(&key, first.clone()).await.expect("a new key");
        let answer = send(&key, second.clone()).await;
        let answer = answer.unwrap_or_else(|e| panic!("{first} is {second}, but: {e}"));
        assert!(answer[0].duplicate, "{first} is {second}");
    }
    let different = [
        (json!(1), json!("1")),
        (
            json!(9_007_199_254_740_993_i64),
            json!(9_007_199_254_740_992_i64),
        ),
        (json!([1, 2]), json!([2, 1])),
        (json!({"a": null}), json!({})),
        (json!(null), json!(false)),
        (json!("a"), json!("A")),
    ];
    for (n, (first, second)) in different.into_iter().enumerate() {
        let key = format!("different-{n}");
        send(&key, first).await.expect("a new key");
        refused(send(&key, second).await, "key_conflict");
    }
}

pub(crate) async fn every_kind_of_payload_survives(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let payloads = [
        json!(null),
        json!(true),
        json!(""),
        json!([]),
        json!({}),
        json!({"": {"": []}}),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(-0.125),
        json!(1.5e300),
        json!("quotes ' \" \\ and \u{1F980} and \u{1}\n\t"),
        json!({"ä": ["\u{FFFD}", {"deep": [[[[1]]]]}]}),
        json!("x".repeat(100_000)),
    ];
    let new = |payload: &Value| NewMessage::new(stage.queue.clone(), payload.clone());
    let messages: Vec<NewMessage> = payloads.iter().map(new).collect();
    stage.enqueue_all(&messages).await;
    let lease = stage.claim(100).await;
    assert_eq!(lease.messages.len(), payloads.len());
    for (claimed, sent) in lease.messages.iter().zip(&payloads) {
        let got = &claimed.message.payload;
        assert!(got == sent, "sent {sent}, got {got}");
    }
}

pub(crate) async fn an_enqueue_of_nothing_answers_nothing(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    assert_eq!(stage.try_enqueue(&[]).await.expect("no error"), []);
    stage.claim_nothing("nothing was enqueued").await;
}

pub(crate) async fn ten_thousand_messages_fit_in_one_call(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(10_000).await;
    assert!(sent.is_sorted_by(|a, b| a < b), "ids grow within the call");
    assert_eq!(stage.counts().await.ready, 10_000);
    let mut got = Vec::new();
    while let Some(lease) = stage.try_claim(1_000).await {
        assert_eq!(lease.messages.len(), 1_000, "a full lease");
        got.extend(ids(&lease));
        stage.deliver(&lease).await;
    }
    assert_eq!(got, sent, "all of them, in order");
}

pub(crate) async fn a_call_over_several_queues_lands_in_each(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let other = stage.add_queue("other", &policy()).await;
    let there = |n: usize| NewMessage::new(other.clone(), json!(n));
    let batch = [stage.message(0), there(1), stage.message(2), there(3)];
    let made = stage.enqueue_all(&batch).await;
    assert_eq!(ids(&stage.claim(10).await), [made[0], made[2]]);
    assert_eq!(stage.counts_of(&other).await.ready, 2);
}

pub(crate) async fn a_delayed_message_rests_until_its_time(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let start = stage.now().await;
    let message = stage.message(1).with_delay(s(5));
    let id = stage.enqueue_all(&[message]).await[0];
    let due_at = after(start, s(5));
    assert_eq!(stage.state(id).await, State::Ready { due_at });
    let counts = stage.counts().await;
    assert_eq!(
        (counts.ready, counts.scheduled, counts.oldest_due_at),
        (0, 1, None)
    );
    stage
        .advance(s(5) - std::time::Duration::from_micros(1))
        .await;
    stage.claim_nothing("a microsecond is left").await;
    stage.advance(std::time::Duration::from_micros(1)).await;
    let counts = stage.counts().await;
    assert_eq!((counts.ready, counts.scheduled), (1, 0));
    assert_eq!(counts.oldest_due_at, Some(due_at));
    let lease = stage.claim(1).await;
    assert_eq!(ids(&lease), [id], "due exactly now is due");
}

pub(crate) async fn a_message_rests_until_its_absolute_time(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let at = after(stage.now().await, s(3_600));
    let in_call = [stage.message(0).with_at(at), stage.message(1)];
    let made = stage.enqueue_all(&in_call).await;
    let alone = stage.enqueue_all(&[stage.message(2).with_at(at)]).await[0];
    for id in [made[0], alone] {
        assert_eq!(stage.state(id).await, State::Ready { due_at: at });
    }
    let now = stage.claim(10).await;
    assert_eq!(ids(&now), [made[1]]);
    stage.deliver(&now).await;
    // The clock decides, wherever it was when the message was enqueued.
    harness.advance(SignedDuration::from_secs(-60)).await;
    stage.advance(s(3_659)).await;
    stage.claim_nothing("a second is left").await;
    stage.advance(s(1)).await;
    assert_eq!(ids(&stage.claim(10).await), [made[0], alone]);
}

pub(crate) async fn a_time_in_the_past_is_due_now_and_overtakes_nothing(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let now = stage.now().await;
    let first = stage.enqueue_one().await;
    let a_minute_ago = now - SignedDuration::from_secs(60);
    let long_ago = [Timestamp::MIN, Timestamp::UNIX_EPOCH, a_minute_ago, now];
    let past = long_ago.map(|at| stage.message(1).with_at(at));
    let made = stage.enqueue_all(&past).await;
    assert_eq!(stage.state(made[0]).await, State::Ready { due_at: now });
    let mixed = stage
        .enqueue_all(&[stage.message(2), stage.message(3).with_at(long_ago[2])])
        .await;
    let order: Vec<MessageId> = [vec![first], made, mixed].concat();
    assert_eq!(ids(&stage.claim(10).await), order, "as they were enqueued");
}

pub(crate) async fn a_time_is_kept_to_the_microsecond(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let at = after(stage.now().await, Duration::from_nanos(5_000_001_999));
    let id = stage.enqueue_all(&[stage.message(0).with_at(at)]).await[0];
    let due_at = after(stage.now().await, Duration::from_micros(5_000_001));
    assert_eq!(stage.state(id).await, State::Ready { due_at });
}

pub(crate) async fn delays_in_one_call_make_separate_batches(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let delays = [9, 0, 3, 0, 9];
    let delayed = |(n, delay): (usize, &u64)| stage.message(n).with_delay(s(*delay));
    let batch: Vec<NewMessage> = delays.iter().enumerate().map(delayed).collect();
    let made = stage.enqueue_all(&batch).await;
    assert_eq!(
        ids(&stage.claim(10).await),
        [made[1], made[3]],
        "due at once"
    );
    stage.advance(s(9)).await;
    let lease = stage.claim(2).await;
    assert_eq!(ids(&lease), [made[2], made[0]], "the earlier due first");
    let answer = stage.settle(&lease, &[Report::delivered(made[2])]).await;
    crate::stage::settled(answer);
}

#[track_caller]
fn conflict(error: Error, expected_key: &str, expected_id: Option<MessageId>) {
    let Error::KeyConflict { queue, key, id } = error else {
        panic!("expected a key conflict, got {error}")
    };
    assert_eq!(queue.as_str(), "mail");
    assert_eq!(key, expected_key);
    assert_eq!(id, expected_id, "the message that holds the key");
}
