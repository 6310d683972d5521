//! Sending a message again as a new one.

use consign_kernel::{
    By, ErasureTarget, MessageId, NewMessage, Payload, QueuePolicy, RESENT_HEADER, StateKind,
};
use serde_json::json;

use crate::{
    Harness,
    stage::{Stage, by, policy, refused},
};

/// What was recorded about a message under this action, as reasons.
async fn resends(stage: &Stage<'_>, id: MessageId) -> Vec<(String, String)> {
    let audit = stage.store.audit(Some(id), None, 100).await;
    let entries = audit.expect("audit answers").into_iter();
    let entries = entries.filter(|entry| entry.action == "resend");
    entries.map(|entry| (entry.actor, entry.reason)).collect()
}

pub(crate) async fn a_message_is_sent_again_as_a_new_one(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let mut message = NewMessage {
        group: Some("ada".to_owned()),
        ..stage.message(0).with_key("letter")
    };
    message.headers.insert("to".to_owned(), json!("ada"));
    let id = stage.enqueue_all(&[message]).await[0];
    let grace = By::new("grace", "lost in the post");
    let copy = stage.store.resend(id, None, &grace).await;
    let copy = copy.expect("resend answers").expect("it is there");
    let (old, new) = (stage.explain(id).await, stage.explain(copy).await);
    assert_eq!(old.state.kind(), StateKind::Ready, "it stays where it is");
    assert_eq!(new.state.kind(), StateKind::Ready);
    let (old, new) = (old.message, new.message);
    assert!(copy > id);
    assert_eq!(new.key, None);
    assert_eq!(
        (&new.queue, &new.group, &new.payload),
        (&old.queue, &old.group, &old.payload)
    );
    let mut headers = old.headers.clone();
    headers.insert(RESENT_HEADER.to_owned(), json!(id.to_string()));
    assert_eq!(new.headers, headers);
    let recorded = format!("as message {copy}: lost in the post");
    assert_eq!(resends(&stage, id).await, [("grace".to_owned(), recorded)]);

    // A copy of the copy names the copy, with another payload to the last digit.
    let payload = Payload::parse(r#"{"n":1.50}"#).expect("JSON");
    let third = stage.store.resend(copy, Some(&payload), &grace).await;
    let third = third.expect("resend answers").expect("it is there");
    let third = stage.explain(third).await.message;
    assert_eq!(third.payload, payload);
    assert_eq!(third.headers[RESENT_HEADER], json!(copy.to_string()));
    assert_eq!(stage.drain().await.len(), 3, "all are delivered");
}

pub(crate) async fn a_resend_that_is_rejected_writes_nothing(harness: &dyn Harness) {
    let small = QueuePolicy {
        payload_max_bytes: 20,
        ..policy()
    };
    let stage = Stage::with(harness, small).await;
    let id = stage.dead_one().await;
    let store = &stage.store;
    let none = store.resend(MessageId(i64::MAX), None, &by()).await;
    assert_eq!(none.expect("resend answers"), None);
    let blank = By::new("grace", " ");
    refused(store.resend(id, None, &blank).await, "invalid_input");
    // The record names the copy, and has no room for it.
    let long = By::new("grace", "x".repeat(4_090));
    refused(store.resend(id, None, &long).await, "invalid_input");
    let large = Payload::from(json!("a text of more than twenty bytes"));
    let too_large = store.resend(id, Some(&large), &by()).await;
    refused(too_large, "payload_too_large");
    let erased = store.erase(&ErasureTarget::Ids(vec![id]), &by()).await;
    erased.expect("erase answers");
    refused(store.resend(id, None, &by()).await, "invalid_input");
    let other = Payload::from(json!(1));
    refused(store.resend(id, Some(&other), &by()).await, "invalid_input");
    assert_eq!(resends(&stage, id).await, []);
    assert_eq!(stage.counts().await.unfinished(), 0);
}
