//! Scene: delivering, failing, retrying, and a reply that gets lost.

use consign_kernel::{
    AttemptOutcome, Filter, MessageId, Outcome, Report, SettleAnswer, StateKind, Store,
};
use serde_json::json;

use super::{
    PATIENT_LEASE, claim, claim_soon,
    story::{SceneWriter, check},
};
use crate::failure::Failure;

pub(super) async fn play(store: &dyn Store, story: &mut SceneWriter) -> Result<(), Failure> {
    story.scene("A worker delivers two of them; the third fails and is tried again")?;
    let lease = claim_soon(store, "ann", PATIENT_LEASE).await?;
    let ids: Vec<MessageId> = lease.messages.iter().map(|held| held.message.id).collect();
    check(ids.len() == 3, || {
        format!("ann should hold 3 messages, not {ids:?}")
    })?;
    let (fence, n) = (lease.fence, ids.len());
    let text = format!("ann claims {n} messages in one lease (fence {fence})");
    story.happened(
        "claimed",
        &text,
        json!({"owner": "ann", "fence": fence, "ids": ids}),
    )?;

    let reports = [
        Report::delivered(ids[0]),
        Report::delivered(ids[1]),
        failure(ids[2], "http_503", "the sink answered: try later"),
    ];
    let SettleAnswer::Settled(recorded) = store.settle(lease.token, &reports).await? else {
        return check(false, || "ann's settle was not accepted".into());
    };
    let states: Vec<StateKind> = recorded.iter().map(|recorded| recorded.state).collect();
    let expected = [StateKind::Delivered, StateKind::Delivered, StateKind::Ready];
    check(states == expected, || {
        format!("ann's messages are {states:?}")
    })?;
    let text = format!(
        "{} and {} are delivered; {} failed and rests 100 ms",
        ids[0], ids[1], ids[2]
    );
    story.happened("settled", &text, json!(recorded))?;

    let repeated = store.settle(lease.token, &reports).await?;
    check(matches!(repeated, SettleAnswer::AlreadySettled(_)), || {
        format!("a repeated settle should be recognised, not {repeated:?}")
    })?;
    let text = "ann lost the reply and settles again: already settled, nothing is written";
    story.happened("already_settled", text, json!({}))?;
    retry(store, story, ids[2]).await
}

async fn retry(store: &dyn Store, story: &SceneWriter, id: MessageId) -> Result<(), Failure> {
    let lease = claim_soon(store, "bob", PATIENT_LEASE).await?;
    check(
        lease.messages.iter().all(|held| held.message.id == id),
        || format!("bob should get message {id}, not {:?}", lease.messages),
    )?;
    let settled = store.settle(lease.token, &[Report::delivered(id)]).await?;
    check(matches!(settled, SettleAnswer::Settled(_)), || {
        format!("bob's settle was not accepted: {settled:?}")
    })?;
    let history = store.history(id).await?;
    let due_at = history.first().and_then(|attempt| attempt.next_due_at);
    check(
        due_at.is_some_and(|due_at| lease.claimed_at >= due_at),
        || format!("message {id} was handed out before it was due"),
    )?;
    let outcomes: Vec<AttemptOutcome> = history.iter().map(|attempt| attempt.outcome).collect();
    check(
        outcomes == [AttemptOutcome::Retry, AttemptOutcome::Delivered],
        || format!("message {id} has the history {outcomes:?}"),
    )?;
    let text = format!("bob gets {id} once it is due again and delivers it, on attempt 2");
    story.happened(
        "settled",
        &text,
        json!({"id": id, "attempts": history.len()}),
    )?;

    let again = claim(store, "ann", PATIENT_LEASE).await?;
    check(again.is_none(), || {
        format!("a delivered message came back: {again:?}")
    })?;
    let delivered = Filter {
        state: Some(StateKind::Delivered),
        ..Filter::default()
    };
    let count = store.list(&delivered, None, 100).await?.items.len();
    check(count == 3, || {
        format!("3 delivered messages were expected, not {count}")
    })?;
    story.shown(
        "G1",
        "what was enqueued is delivered, a failure on the way notwithstanding",
    )?;
    story.shown(
        "G4",
        "one delivered attempt per message, even when a settle is repeated",
    )
}

/// A failure that may pass.
pub(super) fn failure(id: MessageId, code: &str, detail: &str) -> Report {
    Report {
        code: Some(code.into()),
        detail: Some(detail.into()),
        ..Report::new(id, Outcome::Retry)
    }
}
