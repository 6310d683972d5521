//! Discarding: a dead or held message is closed for good, and never counted as delivered (G6).

use consign_kernel::{
    ErasureAnswer, MessageId, Move, MoveResult, OnDead, OnUncertain, Outcome, QueuePolicy, Refusal,
    Resolution, State, StateKind, Step,
};

use super::retention::keeping;
use crate::{
    Harness,
    stage::{Stage, by, ordered, policy, s},
};

use StateKind::{Dead, Delivered, Discarded, Held, Ready, Waiting};

/// The answer of a move to `discarded`.
pub(super) const CLOSED: Move = Move::Moved { state: Discarded };

impl Stage<'_> {
    pub(super) async fn discard(&self, ids: &[MessageId]) -> Vec<Move> {
        let moved = self.store.discard(ids, &by()).await;
        answers(ids, moved.expect("discard answers"))
    }

    pub(super) async fn cancel(&self, ids: &[MessageId]) -> Vec<Move> {
        let moved = self.store.cancel(ids, &by()).await;
        answers(ids, moved.expect("cancel answers"))
    }

    pub(super) async fn hold(&self, ids: &[MessageId]) {
        let moved = self.store.hold(ids, &by()).await.expect("hold answers");
        let is_held = |moved: &MoveResult| moved.answer == Move::Moved { state: Held };
        assert!(moved.iter().all(is_held), "{moved:?}");
    }

    /// What was done to a message, oldest first.
    pub(super) async fn actions(&self, id: MessageId) -> Vec<String> {
        let audit = self.store.audit(Some(id), None, 100).await;
        let audit = audit.expect("audit answers").into_iter().rev();
        audit.map(|entry| entry.action).collect()
    }

    pub(super) async fn is_sound(&self) {
        let findings = self.store.doctor().await.expect("doctor answers");
        assert_eq!(findings, [], "nothing is wrong");
    }
}

/// The answers, which must be by id.
fn answers(ids: &[MessageId], moved: Vec<MoveResult>) -> Vec<Move> {
    assert!(moved.is_sorted_by_key(|moved| moved.id), "{moved:?}");
    assert_eq!(moved.len(), ids.len(), "{moved:?}");
    moved.into_iter().map(|moved| moved.answer).collect()
}

pub(crate) async fn a_dead_message_is_discarded_for_good(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.dead_one().await;
    stage.advance(s(5)).await;
    assert_eq!(stage.discard(&[id]).await, [CLOSED]);
    let expected = State::Discarded {
        at: stage.now().await,
        actor: by().actor,
        reason: by().reason,
    };
    assert_eq!(stage.state(id).await, expected);
    let explained = stage.explain(id).await;
    assert_eq!(explained.attempts, 1);
    let sentence = explained.sentence();
    assert!(sentence.contains("by ada after 1 attempt"), "{sentence}");
    assert_eq!(stage.history(id).await.len(), 1, "no attempt is recorded");
    assert_eq!(stage.actions(id).await, ["discard"]);
    assert_eq!(stage.counts().await, consign_kernel::Counts::default());
    stage.claim_nothing("it is closed").await;
    assert_eq!(
        stage.discard(&[id]).await,
        [Move::NotDiscardable { state: Discarded }]
    );
    assert_eq!(stage.actions(id).await, ["discard"], "a refusal is not");
}

pub(crate) async fn a_held_message_is_discarded(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(2).await;
    stage.hold(&sent[..1]).await;
    assert_eq!(stage.discard(&sent[..1]).await, [CLOSED]);
    assert_eq!(stage.kinds(&sent).await, [Discarded, Ready]);
    assert_eq!(stage.drain().await, sent[1..]);
    assert_eq!(stage.actions(sent[0]).await, ["hold", "discard"]);
}

pub(crate) async fn only_dead_and_held_messages_are_discarded(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    let sent = stage.enqueue_groups("aab").await;
    let refused = |state| Move::NotDiscardable { state };
    assert_eq!(
        stage.discard(&sent).await,
        [refused(Ready), refused(Waiting), refused(Ready)]
    );
    let lease = stage.claim(1).await;
    assert_eq!(
        stage.discard(&sent[..1]).await,
        [refused(StateKind::Leased)]
    );
    stage.deliver(&lease).await;
    assert_eq!(stage.discard(&sent[..1]).await, [refused(Delivered)]);
    let nobody = MessageId(i64::MAX);
    assert_eq!(stage.discard(&[nobody]).await, [Move::NoSuchMessage]);
    assert_eq!(stage.drain().await, [sent[2], sent[1]]);
}

pub(crate) async fn nothing_moves_a_discarded_message(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.dead_one().await;
    stage.discard(&[id]).await;
    let state = Discarded;
    let store = &stage.store;
    let requeued = store.requeue(&[id], &by()).await.expect("answers");
    assert_eq!(requeued[0].answer, Move::NotDead { state });
    let held = store.hold(&[id], &by()).await.expect("answers");
    assert_eq!(held[0].answer, Move::NotHoldable { state });
    let unheld = store.unhold(&[id], &by()).await.expect("answers");
    assert_eq!(unheld[0].answer, Move::NotHeld { state });
    let delivered = Resolution::DELIVERED;
    let resolved = store.resolve(&[id], &delivered, &by()).await;
    let resolved = resolved.expect("answers");
    assert_eq!(resolved[0].answer, Move::NotHeld { state });
    assert_eq!(stage.cancel(&[id]).await, [Move::NotCancellable { state }]);
    assert_eq!(stage.kind(id).await, Discarded);
}

pub(crate) async fn a_discarded_head_lets_its_group_go_on(harness: &dyn Harness) {
    for on_dead in [OnDead::Block, OnDead::Continue] {
        let rules = QueuePolicy {
            attempts_max: 1,
            on_uncertain: OnUncertain::Hold,
            ..ordered(on_dead)
        };
        let stage = Stage::with(harness, rules).await;
        for outcome in [Outcome::Dead, Outcome::Uncertain] {
            let sent = stage.enqueue_groups("aaa").await;
            let lease = stage.claim(1).await;
            stage.report(&lease, sent[0], outcome).await;
            assert_eq!(stage.discard(&sent[..1]).await, [CLOSED]);
            assert_eq!(stage.kinds(&sent).await, [Discarded, Ready, Waiting]);
            stage.is_sound().await;
            assert_eq!(stage.drain().await, sent[1..]);
        }
    }
}

pub(crate) async fn the_last_of_a_group_is_discarded(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    let sent = stage.enqueue_groups("a").await;
    let lease = stage.claim(1).await;
    stage.report(&lease, sent[0], Outcome::Dead).await;
    assert_eq!(stage.discard(&sent).await, [CLOSED]);
    let later = stage.enqueue_groups("aa").await;
    assert_eq!(stage.drain().await, later, "the group is open");
    stage.is_sound().await;
}

/// A held message that waited is no head: its group does not move when it is discarded.
pub(crate) async fn a_discarded_message_of_the_middle_promotes_no_other(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    let sent = stage.enqueue_groups("aaa").await;
    stage.hold(&sent[1..2]).await;
    assert_eq!(stage.discard(&sent[1..2]).await, [CLOSED]);
    assert_eq!(stage.kinds(&sent).await, [Ready, Discarded, Waiting]);
    assert_eq!(stage.drain().await, [sent[0], sent[2]]);
    stage.is_sound().await;
}

pub(crate) async fn many_of_many_groups_are_discarded_in_one_call(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    let other = stage.add_queue("other", &policy()).await;
    // The next messages are promoted in the order of the closed ones, not of the groups.
    let sent = stage.enqueue_groups("cbacbacba").await;
    let lease = stage.claim(10).await;
    stage.bury(&lease, "gone").await;
    let elsewhere = stage.dead_in(&other, 2, "gone").await;
    let all = [&sent[..3], &elsewhere].concat();
    assert_eq!(stage.discard(&all).await, [CLOSED; 5]);
    assert_eq!(stage.drain().await, sent[3..]);
    assert_eq!(stage.history_of(&stage.queue).await.discarded, 3);
    assert_eq!(stage.history_of(&other).await.discarded, 2);
    stage.is_sound().await;
}

pub(crate) async fn a_key_of_a_discarded_message_stays_taken(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(60), None)).await;
    let maintenance = stage.maintenance().await;
    let message = || [stage.message(1).with_key("k")];
    let id = stage.enqueue_all(&message()).await[0];
    assert_eq!(stage.cancel(&[id]).await, [CLOSED]);
    let again = async || {
        let receipts = stage.try_enqueue(&message()).await;
        let receipt = receipts.expect("enqueue answers")[0];
        (receipt.id, receipt.duplicate, receipt.state)
    };
    assert_eq!(again().await, (id, true, Discarded));
    stage.advance(s(60)).await;
    assert_eq!(maintenance.leave().await, 1);
    assert!(!stage.exists(id).await);
    assert_eq!(again().await, (id, true, Discarded), "after it has left");
}

pub(crate) async fn discarded_messages_are_counted_for_ever(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(60), None)).await;
    let maintenance = stage.maintenance().await;
    let delivered = stage.delivered(2).await;
    stage.advance(s(1)).await;
    let dead = stage.dead(2).await;
    let cancelled = stage.enqueue(1).await;
    let totals = async || {
        let history = stage.history_of(&stage.queue).await;
        [
            history.enqueued,
            history.delivered,
            history.dead,
            history.discarded,
            history.departed,
        ]
    };
    assert_eq!(totals().await, [5, 2, 2, 0, 0]);
    stage.discard(&dead).await;
    stage.cancel(&cancelled).await;
    assert_eq!(totals().await, [5, 2, 2, 3, 0], "no death is forgotten");
    stage.advance(s(59)).await;
    assert_eq!(maintenance.leave().await, 2, "the delivered came first");
    assert!(stage.exists(dead[0]).await && !stage.exists(delivered[0]).await);
    stage.advance(s(1)).await;
    assert_eq!(maintenance.leave().await, 3, "as delivered ones leave");
    assert_eq!(totals().await, [5, 2, 2, 3, 5]);
    stage.is_sound().await;
}

pub(crate) async fn a_departed_record_shows_a_discard(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(60), None)).await;
    let maintenance = stage.maintenance().await;
    let id = stage.dead_one().await;
    stage.discard(&[id]).await;
    stage.advance(s(60)).await;
    let departure = maintenance.begin_of(1).await;
    let records = stage.store.departing(departure.id, None, 10).await;
    let record = records.expect("departing answers").remove(0);
    assert_eq!((record.state, record.dead), (Discarded, None));
    let audit = &record.audit[0];
    assert_eq!(
        (audit.action.as_str(), audit.actor.as_str(), &audit.reason),
        ("discard", "ada", &by().reason)
    );
}

pub(crate) async fn a_discard_restarts_the_time_of_a_dead_message(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(60), Some(60))).await;
    let maintenance = stage.maintenance().await;
    let id = stage.dead_one().await;
    stage.advance(s(60)).await;
    let departure = maintenance.begin_of(1).await;
    maintenance.archive(&departure).await;
    stage.discard(&[id]).await;
    let step = maintenance.step(&departure).await;
    assert_eq!(step, Step::Refused(Refusal::Changed));
    assert_eq!(maintenance.leave().await, 0, "the time counts from it");
    assert_eq!(stage.kind(id).await, Discarded);
    stage.advance(s(60)).await;
    assert_eq!(maintenance.leave().await, 1);
}

pub(crate) async fn a_discarded_message_can_be_erased(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    let sent = stage.enqueue_groups("aa").await;
    let lease = stage.claim(1).await;
    stage.report(&lease, sent[0], Outcome::Dead).await;
    let blocked = stage.erase_ids(&sent[..1]).await;
    assert_eq!(blocked, [ErasureAnswer::BlocksGroup]);
    stage.discard(&sent[..1]).await;
    assert_eq!(
        stage.erase_ids(&sent[..1]).await,
        [ErasureAnswer::Erased],
        "no group waits for it any more"
    );
    assert_eq!(stage.kind(sent[0]).await, Discarded);
    stage.is_sound().await;
}

pub(crate) async fn an_erased_dead_message_can_be_discarded(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.dead_one().await;
    stage.erase_one(id).await;
    assert_eq!(stage.discard(&[id]).await, [CLOSED]);
    let explained = stage.explain(id).await;
    assert!(explained.erased.is_some());
    assert_eq!(explained.state.kind(), Discarded);
    stage.is_sound().await;
}

pub(crate) async fn a_late_result_of_a_discarded_message_is_evidence(harness: &dyn Harness) {
    let rules = QueuePolicy {
        record_begin: true,
        on_uncertain: OnUncertain::Hold,
        ..policy()
    };
    let stage = Stage::with(harness, rules).await;
    let id = stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    let begun = stage.store.begin(lease.token, &[id]).await;
    begun.expect("begin answers");
    stage.crash().await;
    assert_eq!(stage.kind(id).await, Held);
    stage.discard(&[id]).await;
    let report = consign_kernel::Report::delivered(id);
    let kept = stage.store.record_late(lease.token, &[report]).await;
    assert_eq!(kept.expect("record_late answers"), [id]);
    assert_eq!(stage.kind(id).await, Discarded, "evidence, no outcome");
    let late = stage.store.late(id).await.expect("late answers");
    assert_eq!(late.len(), 1);
    assert_eq!(stage.history_of(&stage.queue).await.delivered, 0);
}

pub(crate) async fn discarded_messages_are_listed(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let dead = stage.dead(3).await;
    let ready = stage.enqueue(1).await;
    stage.discard(&dead[..2]).await;
    let filter = consign_kernel::Filter {
        queue: Some(stage.queue.clone()),
        state: Some(Discarded),
        ..consign_kernel::Filter::default()
    };
    let page = stage.store.list(&filter, None, 1).await;
    let page = page.expect("list answers");
    assert_eq!((page.items[0].id, page.next), (dead[1], Some(dead[1])));
    assert_eq!(
        (page.items[0].state, page.items[0].code.as_deref()),
        (Discarded, None)
    );
    let page = stage.store.list(&filter, page.next, 10).await;
    let listed: Vec<_> = page.expect("list answers").items;
    assert_eq!(listed.iter().map(|m| m.id).collect::<Vec<_>>(), [dead[0]]);
    let all = consign_kernel::Filter::default();
    let all = stage.store.list(&all, None, 10).await;
    let states: Vec<_> = all
        .expect("list answers")
        .items
        .iter()
        .map(|m| m.state)
        .collect();
    assert_eq!(states, [Ready, Dead, Discarded, Discarded]);
    assert_eq!(stage.drain().await, ready);
}
