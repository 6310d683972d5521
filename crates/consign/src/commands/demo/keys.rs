//! Scene: one key, one message.

use consign_kernel::{Error, Filter, NewMessage, Store};
use serde_json::{Value, json};

use super::{
    queue,
    story::{SceneWriter, check},
};
use crate::failure::Failure;

pub(super) async fn play(store: &dyn Store, story: &mut SceneWriter) -> Result<(), Failure> {
    story.scene("Three orders are enqueued, one of them twice")?;
    let orders: Vec<NewMessage> = (1..=3).map(|n| order(n, 10 * n)).collect();
    let first = store.enqueue(&orders).await?;
    let ids: Vec<_> = first.iter().map(|enqueued| enqueued.id).collect();
    check(ids.len() == 3 && !first.iter().any(|e| e.duplicate), || {
        format!("three new messages were expected, not {first:?}")
    })?;
    let text = format!(
        "orders 1, 2 and 3 became messages {}, {} and {}",
        ids[0], ids[1], ids[2]
    );
    story.happened("enqueued", &text, json!({"ids": ids}))?;

    let again = store.enqueue(&[order(1, 10)]).await?;
    check(
        again.len() == 1 && again[0].duplicate && again[0].id == ids[0],
        || {
            format!(
                "the same key should answer with message {}, not {again:?}",
                ids[0]
            )
        },
    )?;
    let text = format!(
        "order 1 again, same key and payload: still message {}",
        ids[0]
    );
    story.happened("repeated", &text, json!(again[0]))?;

    match store.enqueue(&[order(1, 999)]).await {
        Err(error @ Error::KeyConflict { .. }) => {
            let text = "order 1 with another amount: refused as a key conflict";
            story.happened("conflict", text, json!({"code": error.code()}))?;
        }
        other => check(false, || {
            format!("a key conflict was expected, not {other:?}")
        })?,
    }
    let listed = store.list(&Filter::default(), None, 100).await?.items.len();
    check(listed == 3, || {
        format!("3 messages were expected, not {listed}")
    })?;
    story.shown(
        "G8",
        "one key, one message; a different payload is rejected",
    )
}

fn order(number: u64, amount: u64) -> NewMessage {
    let payload: Value = json!({"order": number, "amount": amount});
    NewMessage::new(queue(), payload).with_key(format!("order-{number}"))
}
