//! How much one claim takes: no more bytes than its queue and its caller allow, but one message at least.

use consign_kernel::{MessageId, NewMessage, QueuePolicy};
use serde_json::json;

use crate::{
    Harness,
    stage::{Stage, ids, policy, s},
};

/// Room for three messages of 1,000 bytes, however a store writes them, and not for four.
const THREE: usize = 3_500;

fn within(claim_max_bytes: usize) -> QueuePolicy {
    QueuePolicy {
        claim_max_bytes,
        ..policy()
    }
}

/// A message whose payload is a text of `bytes`.
fn sized(stage: &Stage<'_>, bytes: usize) -> NewMessage {
    NewMessage::new(stage.queue.clone(), json!("x".repeat(bytes)))
}

/// Claims until nothing is left, and expects these parts of `sent`.
async fn claims(stage: &Stage<'_>, sent: &[MessageId], parts: &[usize]) {
    let mut rest = sent;
    for part in parts {
        let (expected, others) = rest.split_at(*part);
        assert_eq!(ids(&stage.claim(100).await), expected);
        rest = others;
    }
    assert_eq!(rest, []);
    stage.claim_nothing("all of them are leased").await;
}

pub(crate) async fn a_claim_takes_no_more_bytes_than_its_queue_allows(harness: &dyn Harness) {
    let stage = Stage::with(harness, within(THREE)).await;
    let sent = vec![sized(&stage, 1_000); 10];
    let sent = stage.enqueue_all(&sent).await;
    claims(&stage, &sent, &[3, 3, 3, 1]).await;
}

pub(crate) async fn a_claim_may_ask_for_fewer_bytes(harness: &dyn Harness) {
    let stage = Stage::with(harness, within(THREE)).await;
    let sent = vec![sized(&stage, 1_000); 6];
    let sent = stage.enqueue_all(&sent).await;
    for (bytes_max, expected) in [
        (2_500, &sent[..2]),
        (0, &sent[2..3]),
        (u64::MAX, &sent[3..]),
    ] {
        let claim = stage.ask(100).with_bytes_max(bytes_max);
        let lease = stage.store.claim(&claim).await.expect("claim answers");
        assert_eq!(ids(&lease.expect("something is due")), expected);
    }
}

pub(crate) async fn a_message_beyond_the_bytes_is_claimed_alone(harness: &dyn Harness) {
    let stage = Stage::with(harness, within(THREE)).await;
    let sizes = [1_000, 9_000, 9_000, 1_000, 1_000, 9_000];
    let sent = sizes.map(|bytes| sized(&stage, bytes));
    let sent = stage.enqueue_all(&sent).await;
    claims(&stage, &sent, &[1, 1, 1, 2, 1]).await;
    // The same, each in a batch of its own.
    let stage = Stage::with(harness, within(THREE)).await;
    let mut sent = Vec::new();
    for bytes in sizes {
        sent.extend(stage.enqueue_all(&[sized(&stage, bytes)]).await);
        stage.advance(s(1)).await;
    }
    claims(&stage, &sent, &[1, 1, 1, 2, 1]).await;
}

pub(crate) async fn bytes_are_counted_over_several_batches(harness: &dyn Harness) {
    let stage = Stage::with(harness, within(THREE)).await;
    let mut sent = Vec::new();
    for count in [1, 1, 2, 2, 1, 1, 3, 1] {
        let batch = vec![sized(&stage, 1_000); count];
        sent.extend(stage.enqueue_all(&batch).await);
        stage.advance(s(1)).await;
    }
    claims(&stage, &sent, &[3, 3, 3, 3]).await;
}

pub(crate) async fn headers_count_too(harness: &dyn Harness) {
    let stage = Stage::with(harness, within(THREE)).await;
    let header = ("note".to_owned(), json!("x".repeat(3_000)));
    let message = NewMessage {
        headers: [header].into_iter().collect(),
        ..sized(&stage, 10)
    };
    let sent = stage.enqueue_all(&vec![message; 2]).await;
    claims(&stage, &sent, &[1, 1]).await;
}

pub(crate) async fn a_suspect_batch_split_by_bytes_stays_suspect(harness: &dyn Harness) {
    let stage = Stage::with(harness, within(9_000)).await;
    let sent = vec![sized(&stage, 1_000); 8];
    let sent = stage.enqueue_all(&sent).await;
    assert_eq!(stage.claim(8).await.messages.len(), 8);
    stage.crash().await;
    let fresh = stage.enqueue(1).await;
    let few = stage.ask(100).with_bytes_max(THREE as u64);
    let lease = stage.store.claim(&few).await.expect("claim answers");
    assert_eq!(ids(&lease.expect("the suspects are due")), sent[..3]);
    let all: Vec<MessageId> = [&sent[3..], &fresh].concat();
    claims(&stage, &all, &[1, 4, 1]).await;
}

pub(crate) async fn small_messages_are_claimed_as_before(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(450).await;
    assert_eq!(ids(&stage.claim(1_000).await), sent);
}
