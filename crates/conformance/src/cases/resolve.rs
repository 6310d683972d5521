//! What a person found out about held messages (G4, G6).

use consign_kernel::{
    Attempt, AttemptOutcome, By, MessageId, Move, MoveResult, OnDead, OnUncertain, Outcome,
    QueuePolicy, Resolution, State, StateKind, codes,
};

use crate::{
    Harness,
    stage::{Stage, by, ids, ordered, policy, refused, s},
};

use StateKind::{Dead, Delivered, Held, Leased, Ready, Waiting};

async fn resolve(stage: &Stage<'_>, ids: &[MessageId], resolution: Resolution) -> Vec<Move> {
    let moved = stage.store.resolve(ids, &resolution, &by()).await;
    let answers = moved.expect("resolve answers").into_iter();
    answers.map(|MoveResult { answer, .. }| answer).collect()
}

fn moved(state: StateKind) -> Move {
    Move::Moved { state }
}

/// A queue that holds what is uncertain, and a message held there after one attempt.
async fn uncertain(harness: &dyn Harness) -> (Stage<'_>, MessageId) {
    let rules = QueuePolicy {
        on_uncertain: OnUncertain::Hold,
        ..policy()
    };
    let stage = Stage::with(harness, rules).await;
    let id = stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    stage.report(&lease, id, Outcome::Uncertain).await;
    assert_eq!(stage.kind(id).await, Held);
    (stage, id)
}

pub(crate) async fn a_held_message_may_be_resolved_as_delivered(harness: &dyn Harness) {
    let (stage, id) = uncertain(harness).await;
    stage.advance(s(7)).await;
    let now = stage.now().await;
    assert_eq!(
        resolve(&stage, &[id], Resolution::DELIVERED).await,
        [moved(Delivered)]
    );
    assert_eq!(stage.state(id).await, State::Delivered { at: now });
    let history = stage.history(id).await;
    let [first, last] = &history[..] else {
        panic!("two attempts: {history:?}")
    };
    let expected = Attempt {
        message_id: id,
        attempt_no: 2,
        outcome: AttemptOutcome::Delivered,
        owner: by().actor,
        fence: last.fence,
        token: last.token,
        claimed_at: now,
        finished_at: now,
        code: Some(codes::RESOLVED.into()),
        detail: Some(by().reason),
        result: None,
        next_due_at: None,
    };
    assert_eq!(*last, expected);
    assert!(last.fence > first.fence, "a lease of its own");
    assert_ne!(last.token, first.token);
    let audit = stage.store.audit(Some(id), None, 10).await;
    let audit = audit.expect("audit answers");
    assert_eq!((audit.len(), audit[0].action.as_str()), (1, "resolve"));
    let leases = stage.store.leases(10).await.expect("leases answers");
    assert_eq!(leases, [], "which is over");
    stage.claim_nothing("it is delivered").await;
    let other = stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    assert_eq!(ids(&lease), [other]);
    assert!(lease.fence > last.fence, "fences go on growing");
}

pub(crate) async fn a_held_message_may_be_resolved_as_dead(harness: &dyn Harness) {
    let (stage, id) = uncertain(harness).await;
    let now = stage.now().await;
    assert_eq!(
        resolve(&stage, &[id], Resolution::Dead).await,
        [moved(Dead)]
    );
    let expected = State::Dead {
        at: now,
        code: codes::RESOLVED.into(),
        detail: Some(by().reason),
    };
    assert_eq!(stage.state(id).await, expected);
    assert_eq!(stage.history(id).await[1].outcome, AttemptOutcome::Dead);
    let requeued = stage.store.requeue(&[id], &by()).await;
    requeued.expect("requeue answers");
    let lease = stage.claim(1).await;
    let claimed = &lease.messages[0];
    assert_eq!((claimed.attempt_no, claimed.tries), (3, 0));
    assert!(!claimed.in_doubt, "a person has looked");
}

/// An outcome that cannot be determined is dead, and in doubt once it is requeued.
pub(crate) async fn a_message_resolved_as_unknown_stays_in_doubt(harness: &dyn Harness) {
    for on_uncertain in [OnUncertain::Hold, OnUncertain::Probe, OnUncertain::Resend] {
        let stage = Stage::with(
            harness,
            QueuePolicy {
                on_uncertain,
                ..policy()
            },
        )
        .await;
        let id = stage.enqueue_one().await;
        stage.store.hold(&[id], &by()).await.expect("hold answers");
        assert_eq!(
            resolve(&stage, &[id], Resolution::Unknown).await,
            [moved(Dead)]
        );
        let state = stage.state(id).await;
        assert!(
            matches!(&state, State::Dead { code, .. } if code == codes::RESOLVED),
            "{state:?}"
        );
        let history = stage.history(id).await;
        assert_eq!(history[0].outcome, AttemptOutcome::Uncertain);
        let requeued = stage.store.requeue(&[id], &by()).await;
        requeued.expect("requeue answers");
        let lease = stage.claim(1).await;
        assert!(lease.messages[0].in_doubt, "uncertain");
        stage.report(&lease, id, Outcome::Delivered).await;
    }
}

/// A result means something to queues whose app takes one, and is about one message.
pub(crate) async fn a_result_is_refused_where_it_means_nothing(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(2).await;
    let hold_answer = stage.store.hold(&sent, &by()).await;
    hold_answer.expect("hold answers");
    let resolution = Resolution::Delivered {
        result: Some(r#"{"receipt":"R-1"}"#.to_owned()),
    };
    for ids in [&sent[..], &sent[..1], &[]] {
        let answer = stage.store.resolve(ids, &resolution, &by()).await;
        refused(answer, "invalid_input");
    }
    assert_eq!(stage.kinds(&sent).await, [Held, Held], "nothing was done");
}

pub(crate) async fn only_held_messages_can_be_resolved(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    let sent = stage.enqueue_groups("aabc").await;
    let lease = stage.claim(2).await;
    stage.report(&lease, sent[2], Outcome::Dead).await;
    let nobody = MessageId(i64::MAX);
    let all = [sent[1], nobody, sent[0], sent[3], sent[2], sent[0]];
    let before = stage.store.audit(None, None, 100).await;
    let expected = [
        Move::NotHeld { state: Leased },
        Move::NotHeld { state: Waiting },
        Move::NotHeld { state: Dead },
        Move::NotHeld { state: Ready },
        Move::NoSuchMessage,
    ];
    assert_eq!(
        resolve(&stage, &all, Resolution::DELIVERED).await,
        expected,
        "each id once"
    );
    assert_eq!(resolve(&stage, &[], Resolution::DELIVERED).await, []);
    stage.report(&lease, sent[0], Outcome::Delivered).await;
    let delivered = [Move::NotHeld { state: Delivered }];
    assert_eq!(
        resolve(&stage, &sent[..1], Resolution::Dead).await,
        delivered
    );
    let after = stage.store.audit(None, None, 100).await;
    let (before, after) = (before.expect("an audit"), after.expect("an audit"));
    assert_eq!(after, before, "nothing was done");
}

pub(crate) async fn a_resolved_message_lets_its_group_move_on(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Continue)).await;
    let sent = stage.enqueue_groups("aabbcc").await;
    let held = [sent[0], sent[2]];
    let hold_answer = stage.store.hold(&held, &by()).await;
    hold_answer.expect("hold answers");
    stage.advance(s(1)).await;
    assert_eq!(
        resolve(&stage, &held[..1], Resolution::DELIVERED).await,
        [moved(Delivered)]
    );
    assert_eq!(
        resolve(&stage, &held[1..], Resolution::Dead).await,
        [moved(Dead)]
    );
    let kinds = [Delivered, Ready, Dead, Ready, Ready, Waiting];
    assert_eq!(stage.kinds(&sent).await, kinds);
    assert_eq!(stage.drain().await, [sent[4], sent[1], sent[3], sent[5]]);
}

pub(crate) async fn a_message_resolved_as_dead_blocks_its_group(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    let sent = stage.enqueue_groups("aa").await;
    let hold_answer = stage.store.hold(&sent[..1], &by()).await;
    hold_answer.expect("hold answers");
    assert_eq!(
        resolve(&stage, &sent[..1], Resolution::Dead).await,
        [moved(Dead)]
    );
    stage.claim_nothing("the group is blocked").await;
    let requeued = stage.store.requeue(&sent[..1], &by()).await;
    requeued.expect("requeue answers");
    assert_eq!(stage.drain().await, sent);
}

pub(crate) async fn a_message_held_while_it_waited_promotes_no_other(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Continue)).await;
    let sent = stage.enqueue_groups("aaaa").await;
    let hold_answer = stage.store.hold(&sent[1..3], &by()).await;
    hold_answer.expect("hold answers");
    assert_eq!(
        resolve(&stage, &sent[1..2], Resolution::DELIVERED).await,
        [moved(Delivered)]
    );
    assert_eq!(
        resolve(&stage, &sent[2..3], Resolution::Dead).await,
        [moved(Dead)]
    );
    let kinds = [Ready, Delivered, Dead, Waiting];
    assert_eq!(stage.kinds(&sent).await, kinds, "the head stays");
    assert_eq!(stage.drain().await, [sent[0], sent[3]]);
}

pub(crate) async fn many_are_resolved_in_one_call(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let other = stage.add_queue("other", &policy()).await;
    let mut sent = stage.enqueue(30).await;
    let elsewhere = consign_kernel::NewMessage::new(other, serde_json::json!(1));
    sent.extend(stage.enqueue_all(&vec![elsewhere; 3]).await);
    let hold_answer = stage.store.hold(&sent, &by()).await;
    hold_answer.expect("hold answers");
    let why = By::new("grace", "it is in their books");
    let moved = stage
        .store
        .resolve(&sent, &Resolution::DELIVERED, &why)
        .await;
    let moved = moved.expect("resolve answers");
    assert_eq!(moved.iter().map(|m| m.id).collect::<Vec<_>>(), sent);
    for id in &sent {
        assert_eq!(stage.kind(*id).await, Delivered);
        assert_eq!(stage.history(*id).await[0].owner, "grace");
    }
}
