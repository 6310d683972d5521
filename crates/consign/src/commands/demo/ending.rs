//! Scene: what is left for an operator, and `doctor` finds nothing.

use consign_app::attempts::{print_attempts, without_token};
use consign_kernel::{By, Counts, Filter, MessageId, Move, StateKind, Store};
use serde_json::{Value, json};

use super::{
    queue,
    story::{SceneWriter, check},
};
use crate::{
    commands::explain::{self, explanation_json},
    failure::Failure,
};

pub(super) async fn play(
    store: &dyn Store,
    story: &mut SceneWriter,
    dead: MessageId,
) -> Result<(), Failure> {
    story.scene("One dead message is left for an operator")?;
    refuse_to_move_delivered(store, story).await?;
    history(store, story, dead).await?;
    books(store, story).await
}

async fn refuse_to_move_delivered(store: &dyn Store, story: &SceneWriter) -> Result<(), Failure> {
    let delivered = Filter {
        state: Some(StateKind::Delivered),
        ..Filter::default()
    };
    let page = store.list(&delivered, None, 1).await?;
    let Some(id) = page.items.first().map(|listed| listed.id) else {
        return check(false, || "no delivered message is listed".into());
    };
    let moves = store
        .requeue(&[id], &By::new("demo", "to see it refused"))
        .await?;
    let refused = matches!(moves[..], [moved] if matches!(moved.answer, Move::NotDead { .. }));
    check(refused, || {
        format!("requeueing a delivered message gave {moves:?}")
    })?;
    let text = format!("an operator tries to requeue message {id}, which is delivered: refused");
    story.happened("refused", &text, json!(moves))?;
    story.shown("G6", "delivered is final")
}

async fn history(store: &dyn Store, story: &SceneWriter, dead: MessageId) -> Result<(), Failure> {
    let attempts = store.history(dead).await?;
    let dense = attempts
        .iter()
        .zip(1..)
        .all(|(attempt, no)| attempt.attempt_no == no);
    check(dense, || {
        format!("the attempts of message {dead} have a gap")
    })?;
    let Some(explanation) = store.explain(dead).await? else {
        return check(false, || format!("message {dead} cannot be explained"));
    };
    let text = format!("the history of message {dead}, and why it is where it is:");
    let rows: Vec<Value> = attempts.iter().map(without_token).collect();
    let facts = json!({"attempts": rows, "explanation": explanation_json(&explanation)});
    story.happened("history", &text, facts)?;
    if !story.out().is_json() {
        print_attempts(story.out(), &attempts, explanation.now)?;
        story.out().line("")?;
        explain::print(story.out(), &explanation)?;
        story.out().line("")?;
    }
    story.shown(
        "G7",
        "attempts are numbered without gaps and never rewritten",
    )
}

async fn books(store: &dyn Store, story: &SceneWriter) -> Result<(), Failure> {
    let counts = store.queue_counts(&queue()).await?;
    let counts = counts.map(|(_, counts)| counts).unwrap_or_default();
    let expected = Counts {
        dead: 1,
        ..Counts::default()
    };
    check(counts == expected, || format!("the queue holds {counts:?}"))?;
    story.shown("G9", "once the faults ended, everything else drained")?;
    let findings = store.doctor().await?;
    check(findings.is_empty(), || format!("doctor found {findings:?}"))?;
    let text = "doctor finds nothing wrong: every message is in exactly one state";
    story.happened("doctor", text, json!({"findings": findings}))
}
