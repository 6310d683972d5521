//! Scene: one message of a batch kills every worker that touches it.

use consign_kernel::{
    Lease, MessageId, NewMessage, Report, SettleAnswer, State, StateKind, Store, codes,
};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{
    POLL_INTERVAL, SHORT_LEASE, WAIT_MAX, claim, queue,
    story::{SceneWriter, check},
};
use crate::{failure::Failure, output::count};

const BATCH_MESSAGES: usize = 8;
const POISONED: usize = 5;

/// Plays the scene and returns the poison message, which is dead by then.
pub(super) async fn play(store: &dyn Store, story: &mut SceneWriter) -> Result<MessageId, Failure> {
    story.scene("One message of a batch kills every worker that touches it")?;
    let mails = (0..BATCH_MESSAGES).map(|n| NewMessage::new(queue(), json!({"mail": n})));
    let enqueued = store.enqueue(&mails.collect::<Vec<_>>()).await?;
    let ids: Vec<MessageId> = enqueued.iter().map(|enqueued| enqueued.id).collect();
    let poison = ids[POISONED];
    let (first, last) = (ids[0], ids[BATCH_MESSAGES - 1]);
    let text = format!("messages {first} to {last} are enqueued; {poison} is the poison");
    story.happened("enqueued", &text, json!({"ids": ids, "poison": poison}))?;

    let mut crashes = 0;
    let ends = Instant::now() + WAIT_MAX;
    while unfinished(store).await? > 0 {
        check(Instant::now() < ends, || {
            format!("the queue did not drain within {WAIT_MAX:?}")
        })?;
        match claim(store, "eve", SHORT_LEASE).await? {
            Some(lease) if holds(&lease, poison) => {
                crashes += 1;
                let n = lease.messages.len();
                let text = format!("eve claims {} and crashes", count(n as u64, "message"));
                story.happened("crashed", &text, json!({"owner": "eve", "messages": n}))?;
            }
            Some(lease) => deliver(store, story, &lease).await?,
            None => sleep(POLL_INTERVAL).await,
        }
    }
    verify(store, &ids, poison).await?;
    let alone = store
        .queue(&queue())
        .await?
        .map_or(0, |queue| queue.policy.attempts_max);
    let text = format!(
        "after {crashes} crashes, the last {alone} of them alone in its lease, {poison} is dead"
    );
    story.happened("dead", &text, json!({"id": poison, "crashes": crashes}))?;
    story.shown(
        "G11",
        "the culprit ends dead; its neighbours, halved away from it, are delivered",
    )?;
    Ok(poison)
}

async fn unfinished(store: &dyn Store) -> Result<u64, Failure> {
    Ok(store.totals().await?.counts.unfinished())
}

fn holds(lease: &Lease, id: MessageId) -> bool {
    lease.messages.iter().any(|held| held.message.id == id)
}

async fn deliver(store: &dyn Store, story: &SceneWriter, lease: &Lease) -> Result<(), Failure> {
    let ids: Vec<MessageId> = lease.messages.iter().map(|held| held.message.id).collect();
    let reports: Vec<Report> = ids.iter().copied().map(Report::delivered).collect();
    match store.settle(lease.token, &reports).await? {
        SettleAnswer::Settled(_) => {
            let text = format!(
                "eve claims {} and delivers",
                count(ids.len() as u64, "message")
            );
            story.happened("settled", &text, json!({"owner": "eve", "ids": ids}))
        }
        // The lease is short, and a busy machine may be slower: the messages come back.
        SettleAnswer::LeaseLost => story.happened(
            "lease_lost",
            "eve was too slow; they come back",
            json!({"ids": ids}),
        ),
        other => check(false, || {
            format!("eve's settle was answered with {other:?}")
        }),
    }
}

async fn verify(store: &dyn Store, ids: &[MessageId], poison: MessageId) -> Result<(), Failure> {
    for id in ids {
        let explanation = store.explain(*id).await?;
        let state = explanation.map(|explanation| explanation.state);
        let as_promised = match &state {
            Some(State::Dead { code, .. }) => *id == poison && code == codes::LEASE_EXPIRED,
            Some(state) => *id != poison && state.kind() == StateKind::Delivered,
            None => false,
        };
        check(as_promised, || format!("message {id} is {state:?}"))?;
    }
    Ok(())
}
