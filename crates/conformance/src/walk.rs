//! Lists over many messages. For stores that are quick with them: the reference is not.

use std::sync::Arc;

use consign_kernel::{
    Claim, Cursor, Filter, MessageId, MessageSummary, NewMessage, Report, StateKind,
};
use serde_json::json;

use crate::{
    Factory,
    stage::{Stage, by, policy, settled},
};

/// More than a page may walk over, in every store.
const MANY: usize = 21_000;
const BATCH: usize = 1_000;

/// Where few messages are looked for among many, pages may be short, but they end, find everything
/// once, and in order.
pub async fn long_walks_are_cut_and_lose_nothing(factory: &dyn Factory) {
    let harness = factory.fresh().await;
    let stage = Stage::new(harness.as_ref()).await;
    let rare = stage.add_queue("rare", &policy()).await;
    let few: Vec<NewMessage> = (0..3)
        .map(|n| NewMessage::new(rare.clone(), json!(n)))
        .collect();
    let few = newest_first(stage.enqueue_all(&few).await);
    let mut many = Vec::new();
    for batch in 0..MANY / BATCH {
        let messages = (0..BATCH).map(|n| {
            let mut message = stage.message(batch * BATCH + n);
            message
                .headers
                .insert("correlation_id".into(), json!("big"));
            message
        });
        many.extend(stage.enqueue_all(&messages.collect::<Vec<_>>()).await);
    }
    let in_queue = Filter {
        queue: Some(rare.clone()),
        ..Filter::default()
    };
    assert_eq!(walk(&stage, &in_queue).await, few, "few in a queue");

    let held = [many[0], many[MANY / 2]];
    stage.store.hold(&held, &by()).await.expect("hold answers");
    let is_ready = |id: &MessageId| !held.contains(id);
    let ready: Vec<MessageId> = many.iter().copied().filter(is_ready).collect();
    let of_queue = |queue: &consign_kernel::QueueName, state| Filter {
        queue: Some(queue.clone()),
        state: Some(state),
        ..Filter::default()
    };
    let filter = of_queue(&stage.queue, StateKind::Ready);
    assert_eq!(
        walk(&stage, &filter).await,
        newest_first(ready),
        "a deep queue"
    );
    let filter = of_queue(&rare, StateKind::Ready);
    assert_eq!(walk(&stage, &filter).await, few, "beside a deep queue");
    let filter = Filter {
        state: Some(StateKind::Held),
        correlation_id: Some("big".into()),
        ..Filter::default()
    };
    assert_eq!(
        walk(&stage, &filter).await,
        newest_first(held.to_vec()),
        "few of a big case"
    );

    let claimed = stage.store.claim(&Claim::new(rare.clone(), "w", 3)).await;
    let lease = claimed.expect("claim answers").expect("three are there");
    let reports: Vec<Report> = few.iter().copied().map(Report::delivered).collect();
    settled(stage.settle(&lease, &reports).await);
    let delivered = stage.drain().await.len();
    assert_eq!(delivered, MANY - held.len());
    let filter = of_queue(&rare, StateKind::Delivered);
    let first = stage.store.list(&filter, None, 50).await;
    let first = first.expect("list answers");
    assert!(
        first.items.is_empty() && first.next.is_some(),
        "cut: {first:?}"
    );
    assert_eq!(walk(&stage, &filter).await, few, "few of the delivered");
}

fn newest_first(mut ids: Vec<MessageId>) -> Vec<MessageId> {
    ids.sort_unstable();
    ids.reverse();
    ids
}

/// All that a filter finds, page by page.
async fn walk(stage: &Stage<'_>, filter: &Filter) -> Vec<MessageId> {
    let store = Arc::clone(&stage.store);
    let (mut found, mut before): (Vec<MessageId>, Option<Cursor>) = (Vec::new(), None);
    loop {
        let page = store.list(filter, before, 500).await.expect("list answers");
        found.extend(page.items.iter().map(|listed: &MessageSummary| listed.id));
        let Some(next) = page.next else { return found };
        assert!(before.is_none_or(|before| next < before), "it goes on");
        before = Some(next);
    }
}
