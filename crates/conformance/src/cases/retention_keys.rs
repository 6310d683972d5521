//! Keys of messages that have left: still taken, until they are forgotten.

use consign_kernel::{Error, MessageId, NewMessage, Payload, QueuePolicy, Receipt, StateKind};
use serde_json::json;

use super::retention::keeping;
use crate::{
    Harness,
    stage::{Maintenance, Stage, done, refused, s},
};

/// The usual rules: messages leave at once, keys after `keep_keys_s`.
fn rules(keep_keys_s: Option<u64>) -> QueuePolicy {
    QueuePolicy {
        keep_keys_ms: keep_keys_s.map(|s| s * 1_000),
        ..keeping(Some(0), Some(0))
    }
}

async fn receipt(stage: &Stage<'_>, message: NewMessage) -> Receipt {
    let receipts = stage.try_enqueue(&[message]).await;
    receipts.expect("enqueue answers")[0]
}

async fn forget(maintenance: &Maintenance, limit: u32) -> u64 {
    maintenance.renew().await;
    done(
        (maintenance.store)
            .forget_keys(maintenance.token, limit)
            .await,
    )
}

/// The message that a refused key belongs to.
#[track_caller]
fn holder(result: consign_kernel::Result<Vec<Receipt>>) -> Option<MessageId> {
    let Error::KeyConflict { id, .. } = refused(result, "key_conflict") else {
        unreachable!("the code was checked")
    };
    id
}

pub(crate) async fn a_key_outlives_its_message(harness: &dyn Harness) {
    let stage = Stage::with(harness, rules(None)).await;
    let maintenance = stage.maintenance().await;
    let delivered = stage.message(1).with_key("delivered");
    let grouped = stage.message(2).with_key("grouped").with_group("g");
    let dead = stage.message(3).with_key("dead");
    let [first, second] = [&delivered, &grouped].map(Clone::clone);
    let sent = stage.enqueue_all(&[first, second]).await;
    stage.drain().await;
    let buried = stage.enqueue_all(std::slice::from_ref(&dead)).await[0];
    let lease = stage.claim(1).await;
    stage.bury(&lease, "gone").await;
    assert_eq!(maintenance.leave().await, 3);
    stage.advance(s(50 * 366 * 86_400)).await;
    assert_eq!(forget(&maintenance, 10).await, 0, "kept for ever");
    let duplicate = |id, state| Receipt {
        id,
        duplicate: true,
        state,
    };
    use StateKind::{Dead, Delivered};
    let all = [delivered.clone(), grouped.clone(), dead, delivered.clone()];
    let expected = [
        duplicate(sent[0], Delivered),
        duplicate(sent[1], Delivered),
        duplicate(buried, Dead),
        duplicate(sent[0], Delivered),
    ];
    let receipts = stage.try_enqueue(&all).await;
    assert_eq!(receipts.expect("enqueue answers"), expected);
    stage.claim_nothing("nothing was enqueued").await;
    // Headers and a delay are not part of a key's identity; the payload and the group are.
    let mut with_headers = delivered.clone().with_delay(s(5));
    with_headers.headers.insert("a".into(), json!(1));
    assert_eq!(receipt(&stage, with_headers).await, expected[0]);
    for (other, id) in [
        (stage.message(7).with_key("delivered"), sent[0]),
        (delivered.clone().with_group("g"), sent[0]),
        (stage.message(2).with_key("grouped"), sent[1]),
        (grouped.with_group("h"), sent[1]),
        (stage.message(7).with_key("dead"), buried),
    ] {
        // Not even what comes before it in the call.
        let call = [stage.message(8), other];
        assert_eq!(holder(stage.try_enqueue(&call).await), Some(id));
    }
    stage.claim_nothing("all or nothing").await;
    let elsewhere = stage.add_queue("elsewhere", &rules(None)).await;
    let elsewhere = NewMessage {
        queue: elsewhere,
        ..delivered
    };
    assert!(!receipt(&stage, elsewhere).await.duplicate, "another queue");
}

pub(crate) async fn a_key_compares_numbers_by_value_after_its_message_left(harness: &dyn Harness) {
    let stage = Stage::with(harness, rules(None)).await;
    let maintenance = stage.maintenance().await;
    let message = |text: &str, key: usize| {
        let payload = Payload::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        NewMessage::new(stage.queue.clone(), payload).with_key(format!("k{key}"))
    };
    let same: [&[&str]; 5] = [
        &[
            "1",
            "1.0",
            "1e0",
            "10e-1",
            "1.000000000000000000000000000000",
        ],
        &["1.50", "1.5", "15e-1"],
        &[
            r#"{"a":12345678901234567890123,"b":[0.10]}"#,
            r#"{"b":[0.1],"a":12345678901234567890123.0}"#,
            r#"{"b": [1e-1], "a": 1.2345678901234567890123e22}"#,
        ],
        &["0", "-0", "0.00", "0e5"],
        &[
            r#"{"1.0": "1.50, \"2.0\"", "z": 2.00}"#,
            r#"{"z":2,"1.0":"1.50, \"2.0\""}"#,
        ],
    ];
    for (key, spellings) in same.iter().enumerate() {
        stage.enqueue_all(&[message(spellings[0], key)]).await;
    }
    let different = [
        ("12345678901234567890123", "12345678901234567890124"),
        ("0.12345678901234567890", "0.12345678901234567891"),
        ("10", "1"),
        ("100", "1.00"),
        (r#""1.0""#, r#""1""#),
        (r#""é""#, "\"e\u{301}\""),
        (r#"{"1":1}"#, r#"{"1.0":1}"#),
        ("[1,2]", "[2,1]"),
    ];
    for (n, (first, _)) in different.iter().enumerate() {
        stage.enqueue_all(&[message(first, 100 + n)]).await;
    }
    stage.drain().await;
    let all = (same.len() + different.len()) as u64;
    assert_eq!(maintenance.leave().await, all);
    for (key, spellings) in same.into_iter().enumerate() {
        for spelling in spellings {
            let again = stage.try_enqueue(&[message(spelling, key)]).await;
            let again = again.unwrap_or_else(|error| panic!("{spelling}: {error}"));
            assert!(again[0].duplicate, "{spelling} is {}", spellings[0]);
        }
    }
    for (n, (first, second)) in different.into_iter().enumerate() {
        let key = 100 + n;
        let again = stage.try_enqueue(&[message(first, key)]).await;
        assert!(again.expect("enqueue answers")[0].duplicate, "{first}");
        refused(
            stage.try_enqueue(&[message(second, key)]).await,
            "key_conflict",
        );
    }
}

pub(crate) async fn a_key_names_one_message_at_a_time(harness: &dyn Harness) {
    let stage = Stage::with(harness, rules(Some(60))).await;
    let maintenance = stage.maintenance().await;
    let mut newest = MessageId(0);
    // Enqueued, left, forgotten, and once more.
    for n in 0..3 {
        let id = stage.enqueue_all(&[stage.message(n).with_key("k")]).await[0];
        assert!(id > newest);
        newest = id;
        let again = receipt(&stage, stage.message(n).with_key("k")).await;
        assert_eq!((again.id, again.state), (id, StateKind::Ready));
        stage.drain().await;
        assert_eq!(maintenance.leave().await, 1);
        let again = receipt(&stage, stage.message(n).with_key("k")).await;
        assert_eq!((again.id, again.state), (id, StateKind::Delivered));
        stage.advance(s(60)).await;
        assert_eq!(forget(&maintenance, 10).await, 1);
    }
}

pub(crate) async fn a_forgotten_key_is_free(harness: &dyn Harness) {
    let stage = Stage::with(harness, rules(Some(100))).await;
    let maintenance = stage.maintenance().await;
    let first = stage.enqueue_all(&[stage.message(1).with_key("k")]).await[0];
    stage.advance(s(30)).await;
    stage.drain().await;
    assert_eq!(maintenance.leave().await, 1);
    stage.advance(s(69)).await;
    assert_eq!(forget(&maintenance, 10).await, 0, "100 s from its enqueue");
    let other = stage.message(2).with_key("k");
    let answer = stage.try_enqueue(std::slice::from_ref(&other)).await;
    assert_eq!(holder(answer), Some(first));
    stage.advance(s(1)).await;
    let answer = stage.try_enqueue(std::slice::from_ref(&other)).await;
    assert_eq!(holder(answer), Some(first), "until it is forgotten");
    assert_eq!(forget(&maintenance, 10).await, 1);
    let second = stage.enqueue_all(&[other]).await[0];
    assert!(second > first);
    assert_eq!(stage.drain().await, [second]);
}

pub(crate) async fn keys_are_forgotten_a_few_at_a_time(harness: &dyn Harness) {
    let stage = Stage::with(harness, rules(Some(10))).await;
    let maintenance = stage.maintenance().await;
    let kept = stage.add_queue("kept", &rules(None)).await;
    let kept = Stage {
        harness,
        store: std::sync::Arc::clone(&stage.store),
        queue: kept,
    };
    for stage in [&stage, &kept] {
        let keyed: Vec<NewMessage> = (0..5)
            .map(|n| stage.message(n).with_key(format!("k{n}")))
            .collect();
        stage.enqueue_all(&keyed).await;
        stage.drain().await;
    }
    assert_eq!(maintenance.leave().await, 10);
    stage.advance(s(10)).await;
    assert_eq!(forget(&maintenance, 2).await, 2);
    assert_eq!(forget(&maintenance, 2).await, 2);
    assert_eq!(forget(&maintenance, 2).await, 1);
    assert_eq!(forget(&maintenance, 2).await, 0);
    let left = async |of: &Stage<'_>| stage.history_of(&of.queue).await.former_keys;
    assert_eq!((left(&stage).await, left(&kept).await), (0, 5));
    // By the policy of the moment.
    stage.add_queue("kept", &rules(Some(0))).await;
    assert_eq!(forget(&maintenance, 100).await, 5);
}

pub(crate) async fn a_key_stays_while_its_message_does(harness: &dyn Harness) {
    let rules = QueuePolicy {
        keep_keys_ms: Some(10_000),
        ..keeping(Some(1_000), None)
    };
    let stage = Stage::with(harness, rules).await;
    let maintenance = stage.maintenance().await;
    let message = stage.message(1).with_key("k");
    let id = stage.enqueue_all(std::slice::from_ref(&message)).await[0];
    stage.drain().await;
    stage.advance(s(500)).await;
    assert_eq!(forget(&maintenance, 10).await, 0);
    let again = receipt(&stage, message.clone()).await;
    assert_eq!((again.id, again.state), (id, StateKind::Delivered));
    let other = stage.message(2).with_key("k");
    assert_eq!(holder(stage.try_enqueue(&[other]).await), Some(id));
    stage.advance(s(500)).await;
    assert_eq!(maintenance.leave().await, 1);
    let again = receipt(&stage, message.clone()).await;
    assert_eq!(again.id, id, "past its time, but not forgotten yet");
    assert_eq!(forget(&maintenance, 10).await, 1);
    assert!(!receipt(&stage, message).await.duplicate);
}
