//! Cancelling: a ready, scheduled or waiting message is closed before it is sent.

use std::time::Duration;

use consign_kernel::{
    Filter, Move, OnDead, Outcome, RedriveAction, RedrivePlan, RedriveState, StateKind,
};

use super::{discard::CLOSED, redrive::everything};
use crate::{
    Harness,
    stage::{Stage, by, ordered, policy, queue, refused, s},
};

use StateKind::{Dead, Delivered, Discarded, Held, Leased, Ready, Waiting};

fn of_mail(action: RedriveAction) -> RedrivePlan {
    RedrivePlan {
        action,
        queue: Some(queue("mail")),
        ..RedrivePlan::default()
    }
}

pub(crate) async fn a_ready_message_is_cancelled(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(5).await;
    let middle = [sent[1], sent[3]];
    assert_eq!(stage.cancel(&middle).await, [CLOSED; 2]);
    assert_eq!(stage.actions(sent[1]).await, ["cancel"]);
    let explained = stage.explain(sent[1]).await;
    assert_eq!((explained.attempts, explained.last_attempt), (0, None));
    let sentence = stage.explain(sent[1]).await.sentence();
    assert!(sentence.contains("after 0 attempt(s)"), "{sentence}");
    assert_eq!(stage.drain().await, [sent[0], sent[2], sent[4]]);
    stage.is_sound().await;
}

pub(crate) async fn a_message_due_later_is_cancelled(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let later = stage.message(1).with_delay(s(60));
    let id = stage.enqueue_all(&[later]).await[0];
    assert_eq!(stage.cancel(&[id]).await, [CLOSED]);
    let tried = stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    stage.report(&lease, tried, Outcome::Retry).await;
    assert_eq!(stage.cancel(&[tried]).await, [CLOSED], "while it rests");
    assert_eq!(stage.explain(tried).await.attempts, 1);
    stage.advance(s(120)).await;
    stage.claim_nothing("both are closed").await;
    stage.is_sound().await;
}

pub(crate) async fn only_ready_and_waiting_messages_are_cancelled(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let dead = stage.dead_one().await;
    let held = stage.enqueue_one().await;
    stage.hold(&[held]).await;
    let delivered = stage.delivered(1).await[0];
    let leased = stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    let ids = [dead, held, delivered, leased];
    let refused = [Dead, Held, Delivered, Leased].map(|state| Move::NotCancellable { state });
    assert_eq!(stage.cancel(&ids).await, refused);
    stage.deliver(&lease).await;
    assert_eq!(stage.actions(leased).await, [""; 0]);
}

pub(crate) async fn a_cancelled_head_lets_its_group_go_on(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    let sent = stage.enqueue_groups("aaaab").await;
    assert_eq!(stage.cancel(&sent[..1]).await, [CLOSED]);
    assert_eq!(stage.kinds(&sent[..2]).await, [Discarded, Ready]);
    // The head and one that waits behind it, in one call.
    assert_eq!(stage.cancel(&sent[1..3]).await, [CLOSED; 2]);
    assert_eq!(
        stage.kinds(&sent[1..4]).await,
        [Discarded, Discarded, Ready]
    );
    stage.is_sound().await;
    assert_eq!(stage.drain().await, [sent[4], sent[3]]);
}

pub(crate) async fn a_waiting_message_is_cancelled(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    let sent = stage.enqueue_groups("aaa").await;
    assert_eq!(stage.cancel(&sent[1..2]).await, [CLOSED]);
    assert_eq!(stage.kinds(&sent).await, [Ready, Discarded, Waiting]);
    assert_eq!(stage.drain().await, [sent[0], sent[2]]);
}

pub(crate) async fn cancelled_messages_leave_in_their_time(harness: &dyn Harness) {
    let stage = Stage::with(harness, super::retention::keeping(Some(60), None)).await;
    let maintenance = stage.maintenance().await;
    let sent = stage.enqueue(3).await;
    stage.advance(s(60)).await;
    stage.cancel(&sent).await;
    assert_eq!(maintenance.leave().await, 0, "the time counts from the end");
    stage.advance(s(60)).await;
    assert_eq!(maintenance.leave().await, 3, "without an attempt");
    let history = stage.history_of(&stage.queue).await;
    assert_eq!((history.delivered, history.discarded), (0, 3));
    stage.is_sound().await;
}

pub(crate) async fn a_redrive_discards_the_dead_of_a_code(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let gone = stage.dead(5).await;
    let other = stage.dead_in(&stage.queue, 2, "busy").await;
    let erased = gone[4];
    stage.erase_one(erased).await;
    let plan = RedrivePlan {
        code: Some("gone".into()),
        ..of_mail(RedriveAction::Discard)
    };
    let first = stage.store.first_dead(&plan, 10).await;
    let first: Vec<_> = first.expect("first_dead answers");
    assert_eq!(first.len(), 5, "the erased too");
    let started = stage.start(&plan).await;
    assert_eq!((started.plan.clone(), started.total), (plan, 5));
    stage.advance(Duration::from_micros(1)).await;
    let young = stage.dead(1).await;
    let half = stage.step_moving(&started, 3, 3).await;
    assert_eq!(half.cursor, Some(gone[2]));
    let done = stage.step_moving(&half, 100, 2).await;
    assert_eq!((done.state, done.skipped), (RedriveState::Done, 0));
    assert_eq!(stage.kinds(&gone).await, [Discarded; 5]);
    assert_eq!(stage.kinds(&other).await, [Dead, Dead], "another code");
    assert_eq!(stage.kinds(&young).await, [Dead], "died after the start");
    let audit = stage.store.audit(Some(gone[0]), None, 1).await;
    let entry = audit.expect("audit answers").remove(0);
    let reason = format!("redrive {}: {}", started.id, by().reason);
    assert_eq!((entry.action.as_str(), entry.reason), ("discard", reason));
}

pub(crate) async fn a_redrive_opens_the_groups_that_it_discards_the_heads_of(
    harness: &dyn Harness,
) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    let sent = stage.enqueue_groups("abab").await;
    let lease = stage.claim(10).await;
    stage.bury(&lease, "gone").await;
    stage.start(&of_mail(RedriveAction::Discard)).await;
    while stage.step(1).await.is_some() {}
    assert_eq!(stage.drain().await, sent[2..]);
    stage.is_sound().await;
}

pub(crate) async fn a_redrive_cancels_what_was_enqueued_before(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    let other = stage.add_queue("other", &policy()).await;
    let there = consign_kernel::NewMessage::new(other, serde_json::json!(1));
    let there = stage.enqueue_all(&[there]).await;
    let dead = stage.dead_one().await;
    let sent = stage.enqueue_groups("aaabbb").await;
    let later = stage.message(1).with_delay(s(60));
    let later = stage.enqueue_all(&[later]).await;
    let lease = stage.claim(1).await;
    let plan = of_mail(RedriveAction::Cancel);
    assert_eq!(
        stage.store.first_dead(&plan, 10).await.expect("answers"),
        []
    );
    let shown = async |plan: &RedrivePlan, limit| {
        let open = stage.store.first_open(plan, limit).await;
        let open = open.expect("first_open answers").into_iter();
        open.map(|it| (it.id, it.state)).collect::<Vec<_>>()
    };
    let waits = [Waiting, Waiting, Ready, Waiting, Waiting, Ready];
    let takes: Vec<_> = sent[1..].iter().chain(&later).copied().zip(waits).collect();
    assert_eq!(
        shown(&plan, 1_000).await,
        takes,
        "in the order it takes them"
    );
    assert_eq!(shown(&plan, 2).await, takes[..2]);
    let short = RedrivePlan {
        limit: Some(1),
        ..plan.clone()
    };
    assert_eq!(shown(&short, 10).await, takes[..1], "no more than it takes");
    assert_eq!(shown(&of_mail(RedriveAction::Discard), 10).await, []);
    let started = stage.start(&plan).await;
    assert_eq!(started.total, 6, "all but the leased and the dead");
    stage.advance(Duration::from_micros(1)).await;
    let young = stage.enqueue_groups("c").await;
    let half = stage.step_moving(&started, 2, 2).await;
    assert_eq!(half.cursor, Some(sent[2]), "by id");
    // Of the next five, the last is too young.
    let done = stage.step_moving(&half, 4, 4).await;
    assert_eq!((done.state, done.skipped), (RedriveState::Done, 0));
    assert_eq!(stage.kinds(&sent[1..]).await, [Discarded; 5]);
    assert_eq!(stage.kinds(&later).await, [Discarded]);
    stage.deliver(&lease).await;
    let kinds = stage.kinds(&[young[0], there[0], dead]).await;
    assert_eq!(kinds, [Ready, Ready, Dead]);
    assert_eq!(stage.drain().await, young);
    stage.is_sound().await;
}

pub(crate) async fn a_redrive_closes_within_its_rate_and_limit(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    stage.enqueue(10).await;
    let plan = RedrivePlan {
        rate_per_second: Some(2),
        limit: Some(3),
        ..of_mail(RedriveAction::Cancel)
    };
    let started = stage.start(&plan).await;
    stage.step_nothing("no time has passed").await;
    stage.advance(s(1)).await;
    let half = stage.step_moving(&started, 100, 2).await;
    let stopped = stage.store.stop_redrive(started.id, &by()).await;
    stopped.expect("stop_redrive answers");
    stage.advance(s(5)).await;
    stage.step_nothing("it is stopped").await;
    let resumed = stage.store.resume_redrive(started.id, &by()).await;
    resumed.expect("resume_redrive answers");
    stage.advance(s(1)).await;
    let done = stage.step_moving(&half, 100, 1).await;
    assert_eq!(done.state, RedriveState::Done);
    assert_eq!(stage.drain().await.len(), 7);
}

pub(crate) async fn a_redrive_that_cancels_names_a_queue(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let store = &stage.store;
    let everywhere = RedrivePlan {
        action: RedriveAction::Cancel,
        ..everything()
    };
    refused(
        store.start_redrive(&everywhere, &by()).await,
        "invalid_input",
    );
    let coded = RedrivePlan {
        code: Some("gone".into()),
        ..of_mail(RedriveAction::Cancel)
    };
    refused(store.start_redrive(&coded, &by()).await, "invalid_input");
    let listed = store.redrives(10).await.expect("redrives answers");
    assert_eq!(listed, []);
    let none = store.list(&Filter::default(), None, 10).await;
    assert_eq!(none.expect("list answers").items, []);
}
