//! Scene: a worker pauses, loses its lease, and resumes too late.

use consign_kernel::{AttemptOutcome, NewMessage, Report, SettleAnswer, Store};
use serde_json::json;

use super::{
    PATIENT_LEASE, SHORT_LEASE, claim_soon, queue,
    story::{SceneWriter, check},
};
use crate::failure::Failure;

pub(super) async fn play(store: &dyn Store, story: &mut SceneWriter) -> Result<(), Failure> {
    story.scene("A worker pauses, loses its lease, and resumes too late")?;
    let invoice = NewMessage::new(queue(), json!({"invoice": 77}));
    let id = store.enqueue(&[invoice]).await?[0].id;
    let old = claim_soon(store, "cid", SHORT_LEASE).await?;
    let ttl_ms = SHORT_LEASE.as_millis();
    let text = format!(
        "cid claims message {id} for {ttl_ms} ms (fence {}) and pauses",
        old.fence
    );
    story.happened(
        "claimed",
        &text,
        json!({"owner": "cid", "fence": old.fence, "ids": [id]}),
    )?;

    let new = claim_soon(store, "dot", PATIENT_LEASE).await?;
    check(
        new.messages.len() == 1 && new.messages[0].message.id == id,
        || format!("dot should get message {id}, not {:?}", new.messages),
    )?;
    check(new.claimed_at >= old.expires_at, || {
        "cid's lease was taken before its end".into()
    })?;
    check(new.fence > old.fence, || {
        format!("fence {} is not above {}", new.fence, old.fence)
    })?;
    let text = format!(
        "when the lease has ended, dot claims {id} (fence {})",
        new.fence
    );
    story.happened(
        "claimed",
        &text,
        json!({"owner": "dot", "fence": new.fence, "ids": [id]}),
    )?;
    story.shown(
        "G5",
        "the lease ended by the database's clock, not by a worker's",
    )?;

    let report = [Report::delivered(id)];
    let stale = store.settle(old.token, &report).await?;
    check(stale == SettleAnswer::LeaseLost, || {
        format!("cid's late settle should be refused, not {stale:?}")
    })?;
    let attempts = store.history(id).await?.len();
    check(attempts == 1, || {
        format!("the refused settle left {attempts} attempts")
    })?;
    let text = "cid resumes and reports success: refused, its lease is lost; nothing is written";
    story.happened("lease_lost", text, json!({"owner": "cid"}))?;

    let settled = store.settle(new.token, &report).await?;
    check(matches!(settled, SettleAnswer::Settled(_)), || {
        format!("dot's settle was not accepted: {settled:?}")
    })?;
    let history = store.history(id).await?;
    let outcomes: Vec<_> = history
        .iter()
        .map(|a| (a.owner.as_str(), a.outcome))
        .collect();
    let expected = [
        ("cid", AttemptOutcome::Expired),
        ("dot", AttemptOutcome::Delivered),
    ];
    check(outcomes == expected, || {
        format!("message {id} has the history {outcomes:?}")
    })?;
    story.happened(
        "settled",
        &format!("dot delivers {id}, on attempt 2"),
        json!({"id": id}),
    )?;
    story.shown("G4", "only the live lease may settle a message")?;
    story.shown(
        "G3",
        "cid may have sent it too: the expired attempt on record has the time and the owner",
    )
}
