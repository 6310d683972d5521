//! Skipping: the head of a group is closed, so that the group goes on.

use consign_kernel::{By, Move, MoveResult, OnDead, Outcome, StateKind};

use super::discard::CLOSED;
use crate::{
    Harness,
    stage::{Stage, by, ordered, queue, refused},
};

use StateKind::{Dead, Discarded, Leased, Ready, Waiting};

impl Stage<'_> {
    pub(super) async fn skip(&self, group: &str) -> Option<MoveResult> {
        let skipped = self.store.skip(&self.queue, group, &by()).await;
        skipped.expect("skip answers")
    }
}

pub(crate) async fn a_dead_head_is_skipped(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    let sent = stage.enqueue_groups("aab").await;
    let lease = stage.claim(1).await;
    stage.report(&lease, sent[0], Outcome::Dead).await;
    let (id, answer) = (sent[0], CLOSED);
    assert_eq!(stage.skip("a").await, Some(MoveResult { id, answer }));
    assert_eq!(stage.actions(id).await, ["discard"]);
    assert_eq!(stage.kinds(&sent).await, [Discarded, Ready, Ready]);
    stage.is_sound().await;
}

pub(crate) async fn a_held_head_is_skipped(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    let sent = stage.enqueue_groups("aa").await;
    stage.hold(&sent[..1]).await;
    assert_eq!(stage.skip("a").await.map(|skip| skip.id), Some(sent[0]));
    assert_eq!(stage.actions(sent[0]).await, ["hold", "discard"]);
    assert_eq!(stage.drain().await, sent[1..]);
}

pub(crate) async fn a_ready_head_is_skipped(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Continue)).await;
    let sent = stage.enqueue_groups("aaa").await;
    for id in &sent {
        assert_eq!(stage.skip("a").await.map(|skip| skip.id), Some(*id));
        assert_eq!(stage.actions(*id).await, ["cancel"]);
    }
    assert_eq!(stage.skip("a").await, None, "nothing of the group is left");
    assert_eq!(stage.kinds(&sent).await, [Discarded; 3]);
    stage.is_sound().await;
}

pub(crate) async fn a_leased_head_is_not_skipped(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    let sent = stage.enqueue_groups("aa").await;
    let lease = stage.claim(1).await;
    let answer = Move::NotDiscardable { state: Leased };
    let id = sent[0];
    assert_eq!(stage.skip("a").await, Some(MoveResult { id, answer }));
    assert_eq!(stage.kinds(&sent).await, [Leased, Waiting]);
    stage.deliver(&lease).await;
    assert_eq!(stage.drain().await, sent[1..]);
}

/// Where the dead do not block, a dead message is no head.
pub(crate) async fn a_skip_closes_the_head_only(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Continue)).await;
    let sent = stage.enqueue_groups("aaa").await;
    let lease = stage.claim(1).await;
    stage.report(&lease, sent[0], Outcome::Dead).await;
    assert_eq!(stage.skip("a").await.map(|skip| skip.id), Some(sent[1]));
    assert_eq!(stage.kinds(&sent).await, [Dead, Discarded, Ready]);
}

pub(crate) async fn a_skip_needs_an_ordered_queue_and_a_name(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    stage.add_queue("plain", &crate::stage::policy()).await;
    let store = &stage.store;
    let plain = store.skip(&queue("plain"), "a", &by()).await;
    refused(plain, "invalid_input");
    let nowhere = store.skip(&queue("nowhere"), "a", &by()).await;
    refused(nowhere, "unknown_queue");
    let nobody = store.skip(&stage.queue, "a", &By::new("", "why")).await;
    refused(nobody, "invalid_input");
    assert_eq!(stage.skip("a").await, None);
    assert_eq!(stage.skip("a\0").await, None, "no store keeps such a group");
}
