//! Limits: what fits, what is refused, what is cut.

use std::time::Duration;

use consign_kernel::{
    AT_MAX, CODE_BYTES_MAX, DETAIL_BYTES_MAX, Error, HEADERS_BYTES_MAX, KEY_BYTES_MAX, NewMessage,
    Outcome, PAYLOAD_DEPTH_MAX, QueuePolicy, Report, SettleAnswer,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{
    Harness,
    stage::{Stage, policy, refused, settled},
};

/// Refuses the message in the second place of a call of three, whole.
async fn refuses(stage: &Stage<'_>, message: NewMessage, what: &str) {
    let batch = [stage.message(1), message, stage.message(3)];
    let error = refused(stage.try_enqueue(&batch).await, "invalid_input");
    let text = error.to_string();
    assert!(
        text.contains("message 1") && text.contains(what),
        "names {what}: {text}"
    );
    stage.claim_nothing("the call was refused").await;
}

pub(crate) async fn a_payload_may_be_as_large_as_its_queue_allows(harness: &dyn Harness) {
    let rules = QueuePolicy {
        payload_max_bytes: 1_000,
        ..policy()
    };
    let stage = Stage::with(harness, rules).await;
    // Two quotes make up the rest; "ä" is two bytes of JSON text.
    let of_bytes = |bytes: usize| json!(format!("ä{}", "x".repeat(bytes - 4)));
    let message = |payload: Value| NewMessage::new(stage.queue.clone(), payload);
    let batch = [message(json!(1)), message(of_bytes(1_001))];
    let error = refused(stage.try_enqueue(&batch).await, "payload_too_large");
    let Error::PayloadTooLarge {
        index,
        queue,
        bytes,
        bytes_max,
    } = error
    else {
        unreachable!("the code was checked")
    };
    assert_eq!((index, bytes, bytes_max), (1, 1_001, 1_000));
    assert_eq!(queue, stage.queue);
    stage.claim_nothing("the call was refused").await;
    stage.enqueue_all(&[message(of_bytes(1_000))]).await;
    let claimed = stage.claim(1).await.messages.remove(0);
    assert_eq!(
        claimed.message.payload,
        of_bytes(1_000),
        "exactly the limit fits"
    );
}

pub(crate) async fn a_megabyte_of_payload_survives(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let payload = json!("y".repeat(1024 * 1024 - 2));
    stage
        .enqueue_all(&[NewMessage::new(stage.queue.clone(), payload.clone())])
        .await;
    let claimed = stage.claim(1).await.messages.remove(0);
    assert!(claimed.message.payload == payload, "a megabyte, unchanged");
}

pub(crate) async fn keys_and_groups_have_a_length(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let long = "ä".repeat(KEY_BYTES_MAX / 2);
    let too_long = format!("{long}x");
    refuses(&stage, stage.message(0).with_key(""), "key").await;
    refuses(&stage, stage.message(0).with_group(""), "group").await;
    refuses(&stage, stage.message(0).with_key(too_long.clone()), "key").await;
    refuses(&stage, stage.message(0).with_group(too_long), "group").await;
    let fits = stage
        .message(0)
        .with_key(long.clone())
        .with_group(long.clone());
    stage.enqueue_all(&[fits]).await;
    let claimed = stage.claim(1).await.messages.remove(0).message;
    assert_eq!(
        (claimed.key, claimed.group),
        (Some(long.clone()), Some(long))
    );
}

pub(crate) async fn nul_is_refused_wherever_it_hides(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let message = |payload: Value| NewMessage::new(stage.queue.clone(), payload);
    refuses(&stage, message(json!("a\0b")), "payload").await;
    refuses(&stage, message(json!([{"deep": ["\0"]}])), "payload").await;
    refuses(&stage, message(json!({"k\0": 1})), "payload").await;
    refuses(&stage, stage.message(0).with_key("a\0"), "key").await;
    refuses(&stage, stage.message(0).with_group("\0"), "group").await;
    let with_header = |name: &str, value: Value| {
        let mut message = stage.message(0);
        message.headers.insert(name.into(), value);
        message
    };
    refuses(&stage, with_header("h\0", json!(1)), "headers").await;
    refuses(&stage, with_header("h", json!(["\0"])), "headers").await;
    // The six characters of an escape are no U+0000.
    stage.enqueue_all(&[message(json!("\\u0000"))]).await;
    let claimed = stage.claim(1).await.messages.remove(0);
    assert_eq!(claimed.message.payload, json!("\\u0000"));
}

pub(crate) async fn headers_have_a_size(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let with_headers = |bytes: usize| {
        let mut message = stage.message(0);
        let overhead = r#"{"h":""}"#.len();
        message
            .headers
            .insert("h".into(), json!("x".repeat(bytes - overhead)));
        message
    };
    refuses(&stage, with_headers(HEADERS_BYTES_MAX + 1), "headers").await;
    stage.enqueue_all(&[with_headers(HEADERS_BYTES_MAX)]).await;
    let claimed = stage.claim(1).await.messages.remove(0);
    assert_eq!(
        claimed.message.headers,
        with_headers(HEADERS_BYTES_MAX).headers
    );
}

pub(crate) async fn a_delay_has_an_end(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let year = Duration::from_secs(366 * 24 * 3600);
    let over = year + Duration::from_secs(1);
    refuses(&stage, stage.message(0).with_delay(over), "delay").await;
    refuses(&stage, stage.message(0).with_delay(Duration::MAX), "delay").await;
    stage
        .enqueue_all(&[stage.message(0).with_delay(year)])
        .await;
    assert_eq!(stage.counts().await.scheduled, 1);
}

pub(crate) async fn a_time_is_at_most_ten_years_ahead(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let last = stage.now().await + SignedDuration::try_from(AT_MAX).expect("ten years fit");
    for at in [last + SignedDuration::from_micros(1), Timestamp::MAX] {
        refuses(&stage, stage.message(0).with_at(at), "at").await;
        let mixed = [stage.message(0), stage.message(1).with_at(at)];
        let refused = refused(stage.try_enqueue(&mixed).await, "invalid_input");
        let text = refused.to_string();
        assert!(text.starts_with("message 1: at: is "), "{text}");
    }
    stage.enqueue_all(&[stage.message(0).with_at(last)]).await;
    assert_eq!(stage.counts().await.scheduled, 1);
}

pub(crate) async fn a_babbling_report_is_cut_not_refused(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    let report = Report {
        code: Some(format!("c\0{}", "c".repeat(CODE_BYTES_MAX))),
        // The last character would straddle the limit, so it is left out whole.
        detail: Some(format!("{}äää", "d".repeat(DETAIL_BYTES_MAX - 1))),
        result: Some(json!({"k\0": ["v\0"]})),
        ..Report::new(id, Outcome::Dead)
    };
    settled(stage.settle(&lease, &[report]).await);
    let attempt = stage.history(id).await.remove(0);
    // U+FFFD, which takes the place of U+0000, is three bytes long.
    let code = format!("c\u{FFFD}{}", "c".repeat(CODE_BYTES_MAX - 4));
    assert_eq!(attempt.code.as_deref(), Some(code.as_str()));
    assert_eq!(attempt.detail, Some("d".repeat(DETAIL_BYTES_MAX - 1)));
    assert_eq!(attempt.result, Some(json!({"k\u{FFFD}": ["v\u{FFFD}"]})));
    let page = stage.store.dead(&Default::default(), None, 1).await;
    let letter = page.expect("dead answers").items.remove(0);
    assert_eq!(
        (Some(letter.code), letter.detail),
        (attempt.code, attempt.detail)
    );
}

/// A receiver's answer must not make its message unreadable.
pub(crate) async fn a_deep_result_is_kept_as_text(harness: &dyn Harness) {
    let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    let stage = Stage::new(harness).await;
    for (levels, is_text) in [
        (PAYLOAD_DEPTH_MAX, false),
        (PAYLOAD_DEPTH_MAX + 1, true),
        (127, true),
    ] {
        let id = stage.enqueue_one().await;
        let (lease, result) = (stage.claim(1).await, nested(levels));
        let report = Report {
            result: Some(result.clone()),
            ..Report::new(id, Outcome::Delivered)
        };
        settled(stage.settle(&lease, std::slice::from_ref(&report)).await);
        let repeated = stage.settle(&lease, &[report]).await;
        assert!(
            matches!(repeated, SettleAnswer::AlreadySettled(_)),
            "{repeated:?}"
        );
        let kept = stage.history(id).await.remove(0).result;
        let expected = if is_text {
            json!(result.to_string())
        } else {
            result
        };
        assert_eq!(kept, Some(expected), "{levels} levels");
        let explained = stage.store.explain(id).await;
        explained.expect("explain answers");
    }
}

pub(crate) async fn text_is_data_and_never_code(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let text = r#"'; drop table message; -- {} \ % _ $1 ? "x" {"a"} NULL"#;
    let message = NewMessage::new(stage.queue.clone(), json!({ text: text }));
    let message = message.with_key(text).with_group(text);
    let id = stage.enqueue_all(std::slice::from_ref(&message)).await[0];
    let lease = stage.claim(1).await;
    assert_eq!(lease.messages[0].message.key.as_deref(), Some(text));
    let report = Report {
        code: Some(text.into()),
        detail: Some(text.into()),
        result: Some(json!(text)),
        ..Report::new(id, Outcome::Dead)
    };
    settled(stage.settle(&lease, &[report]).await);
    let attempt = stage.history(id).await.remove(0);
    assert_eq!(
        (attempt.code.as_deref(), attempt.detail.as_deref()),
        (Some(text), Some(text))
    );
    let filter = consign_kernel::Filter {
        key: Some(text.into()),
        code: Some(text.into()),
        ..Default::default()
    };
    let page = stage
        .store
        .list(&filter, None, 10)
        .await
        .expect("list answers");
    assert_eq!(page.items.len(), 1, "found by its key and code");
    let by = consign_kernel::By::new(text, text);
    stage
        .store
        .requeue(&[id], &by)
        .await
        .expect("requeue answers");
    let audit = stage
        .store
        .audit(Some(id), None, 1)
        .await
        .expect("audit answers");
    assert_eq!(
        (audit[0].actor.as_str(), audit[0].reason.as_str()),
        (text, text)
    );
}
