//! What people do: pause, resume, requeue, hold, unhold, and the record of it (G6).

use consign_kernel::{By, Move, MoveResult, Outcome, RenewAnswer, State, StateKind};

use crate::{
    Harness,
    stage::{Stage, TTL, by, ids, queue, refused, s},
};

use StateKind::{Dead, Delivered, Held, Leased, Ready};

pub(crate) async fn a_paused_queue_gives_nothing_out(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(2).await;
    let lease = stage.claim(1).await;
    let now = stage.now().await;
    let paused = stage
        .store
        .pause(&stage.queue, &by())
        .await
        .expect("pause answers");
    assert_eq!(paused.paused_at, Some(now));
    assert_eq!(paused.name, stage.queue);
    stage.claim_nothing("the queue is paused").await;
    let renewed = stage
        .store
        .renew(lease.token, TTL)
        .await
        .expect("renew answers");
    assert_ne!(
        renewed,
        RenewAnswer::LeaseLost,
        "leases in flight may finish"
    );
    stage.deliver(&lease).await;
    let late = stage.enqueue_one().await;
    stage
        .claim_nothing("enqueueing goes on, claiming does not")
        .await;
    let resumed = stage
        .store
        .resume(&stage.queue, &by())
        .await
        .expect("resume answers");
    assert_eq!(resumed.paused_at, None);
    assert_eq!(stage.drain().await, [sent[1], late]);
}

pub(crate) async fn pausing_twice_keeps_the_first_time(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let first = stage
        .store
        .pause(&stage.queue, &by())
        .await
        .expect("pause answers");
    stage.advance(s(5)).await;
    let second = stage
        .store
        .pause(&stage.queue, &by())
        .await
        .expect("pause answers");
    assert_eq!(second, first);
    let stored = stage
        .store
        .queue(&stage.queue)
        .await
        .expect("queue answers");
    assert_eq!(stored, Some(first));
    for _ in 0..2 {
        let queue = stage
            .store
            .resume(&stage.queue, &by())
            .await
            .expect("resume answers");
        assert_eq!(queue.paused_at, None, "resuming twice is resuming once");
    }
}

pub(crate) async fn a_claim_ends_expired_leases_of_a_paused_queue(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_one().await;
    stage.claim(1).await;
    stage
        .store
        .pause(&stage.queue, &by())
        .await
        .expect("pause answers");
    stage.advance(TTL).await;
    stage.claim_nothing("the queue is paused").await;
    assert_eq!(stage.kind(id).await, Ready, "taken back all the same");
}

pub(crate) async fn an_unknown_queue_cannot_be_paused(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let typo = queue("mael");
    refused(stage.store.pause(&typo, &by()).await, "unknown_queue");
    let error = refused(stage.store.resume(&typo, &by()).await, "unknown_queue");
    assert!(
        error.to_string().contains("\"mail\""),
        "suggests mail: {error}"
    );
}

pub(crate) async fn a_requeue_gives_a_fresh_set_of_tries(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_one().await;
    for _ in 0..3 {
        let lease = stage.claim(1).await;
        stage.report(&lease, id, Outcome::Retry).await;
        stage.advance(s(2)).await;
    }
    assert_eq!(stage.kind(id).await, Dead);
    let moved = stage
        .store
        .requeue(&[id], &by())
        .await
        .expect("requeue answers");
    let answer = Move::Moved { state: Ready };
    assert_eq!(moved, [MoveResult { id, answer }]);
    let due_at = stage.now().await;
    assert_eq!(
        stage.state(id).await,
        State::Ready { due_at },
        "due at once"
    );
    for tries in 0..3 {
        let lease = stage.claim(1).await;
        let claimed = &lease.messages[0];
        let expected = (4 + tries, tries);
        assert_eq!(
            (claimed.attempt_no, claimed.tries),
            expected,
            "tries anew, attempts on"
        );
        stage.report(&lease, id, Outcome::Retry).await;
        stage.advance(s(2)).await;
    }
    assert_eq!(stage.kind(id).await, Dead, "and no more than that");
    assert_eq!(stage.history(id).await.len(), 6);
    let page = stage.store.dead(&Default::default(), None, 10).await;
    assert_eq!(page.expect("dead answers").items[0].attempt_no, 6);
}

pub(crate) async fn only_dead_messages_can_be_requeued(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = one_of_each(&stage).await;
    let nobody = consign_kernel::MessageId(i64::MAX);
    let mut asked: Vec<_> = sent.iter().map(|(id, _)| *id).collect();
    asked.push(nobody);
    let moved = stage
        .store
        .requeue(&asked, &by())
        .await
        .expect("requeue answers");
    for ((id, state), moved) in sent.iter().zip(&moved) {
        let answer = match state {
            Dead => Move::Moved { state: Ready },
            state => Move::NotDead { state: *state },
        };
        assert_eq!(*moved, MoveResult { id: *id, answer });
    }
    let answer = Move::NoSuchMessage;
    assert_eq!(moved.last(), Some(&MoveResult { id: nobody, answer }));
}

pub(crate) async fn only_ready_and_waiting_messages_can_be_held(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = one_of_each(&stage).await;
    let asked: Vec<_> = sent.iter().map(|(id, _)| *id).collect();
    let moved = stage.store.hold(&asked, &by()).await.expect("hold answers");
    for ((id, state), moved) in sent.iter().zip(&moved) {
        let answer = match state {
            Ready => Move::Moved { state: Held },
            state => Move::NotHoldable { state: *state },
        };
        assert_eq!(*moved, MoveResult { id: *id, answer });
    }
    let nobody = consign_kernel::MessageId(i64::MAX);
    let moved = stage
        .store
        .hold(&[nobody], &by())
        .await
        .expect("hold answers");
    let answer = Move::NoSuchMessage;
    assert_eq!(moved, [MoveResult { id: nobody, answer }]);
}

pub(crate) async fn only_held_messages_can_be_unheld(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = one_of_each(&stage).await;
    let asked: Vec<_> = sent.iter().map(|(id, _)| *id).collect();
    let moved = stage
        .store
        .unhold(&asked, &by())
        .await
        .expect("unhold answers");
    for ((id, state), moved) in sent.iter().zip(&moved) {
        let answer = match state {
            Held => Move::Moved { state: Ready },
            state => Move::NotHeld { state: *state },
        };
        assert_eq!(*moved, MoveResult { id: *id, answer });
    }
    let nobody = consign_kernel::MessageId(i64::MAX);
    let moved = stage
        .store
        .unhold(&[nobody], &by())
        .await
        .expect("unhold answers");
    let answer = Move::NoSuchMessage;
    assert_eq!(moved, [MoveResult { id: nobody, answer }]);
}

/// A delivered, a dead, a leased, a held and a ready message, by id.
async fn one_of_each(stage: &Stage<'_>) -> Vec<(consign_kernel::MessageId, StateKind)> {
    let sent = stage.enqueue(5).await;
    let lease = stage.claim(3).await;
    stage.report(&lease, sent[0], Outcome::Delivered).await;
    stage.report(&lease, sent[1], Outcome::Dead).await;
    stage
        .store
        .hold(&sent[3..4], &by())
        .await
        .expect("hold answers");
    let kinds = [Delivered, Dead, Leased, Held, Ready];
    assert_eq!(stage.kinds(&sent).await, kinds, "one of each");
    sent.into_iter().zip(kinds).collect()
}

pub(crate) async fn moves_answer_by_id_and_each_id_once(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(3).await;
    let asked = [sent[2], sent[0], sent[2], sent[1], sent[0]];
    let held = stage.store.hold(&asked, &by()).await.expect("hold answers");
    assert_eq!(held.iter().map(|m| m.id).collect::<Vec<_>>(), sent);
    let unheld = stage
        .store
        .unhold(&asked, &by())
        .await
        .expect("unhold answers");
    assert_eq!(unheld.iter().map(|m| m.id).collect::<Vec<_>>(), sent);
    let lease = stage.claim(3).await;
    assert_eq!(ids(&lease), sent, "back in order of their ids");
    for id in &sent {
        stage.report(&lease, *id, Outcome::Dead).await;
    }
    let requeued = stage
        .store
        .requeue(&asked, &by())
        .await
        .expect("requeue answers");
    assert_eq!(requeued.iter().map(|m| m.id).collect::<Vec<_>>(), sent);
    for id in sent {
        let audit = stage
            .store
            .audit(Some(id), None, 10)
            .await
            .expect("audit answers");
        let actions: Vec<&str> = audit.iter().map(|e| e.action.as_str()).collect();
        assert_eq!(
            actions,
            ["requeue", "unhold", "hold"],
            "each once, newest first"
        );
    }
}

pub(crate) async fn a_held_message_keeps_its_tries(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    stage.report(&lease, id, Outcome::Retry).await;
    stage
        .store
        .hold(&[id], &By::new("bob", "not today"))
        .await
        .expect("hold answers");
    let at = stage.now().await;
    let reason = "not today".to_owned();
    assert_eq!(stage.state(id).await, State::Held { at, reason });
    assert_eq!(stage.counts().await.held, 1);
    stage.advance(s(60)).await;
    stage.claim_nothing("it is held").await;
    stage
        .store
        .unhold(&[id], &by())
        .await
        .expect("unhold answers");
    let due_at = stage.now().await;
    assert_eq!(stage.state(id).await, State::Ready { due_at });
    let claimed = &stage.claim(1).await.messages[0];
    assert_eq!((claimed.attempt_no, claimed.tries), (2, 1));
}

pub(crate) async fn a_hold_leaves_the_rest_of_a_batch_in_order(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(5).await;
    let taken = [sent[0], sent[2]];
    stage.store.hold(&taken, &by()).await.expect("hold answers");
    assert_eq!(ids(&stage.claim(10).await), [sent[1], sent[3], sent[4]]);
}

pub(crate) async fn delivered_is_final(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    stage.deliver(&lease).await;
    let state = Delivered;
    let moved = stage
        .store
        .requeue(&[id], &by())
        .await
        .expect("requeue answers");
    assert_eq!(moved[0].answer, Move::NotDead { state });
    let moved = stage.store.hold(&[id], &by()).await.expect("hold answers");
    assert_eq!(moved[0].answer, Move::NotHoldable { state });
    stage.advance(s(3600)).await;
    stage.store.expire(10).await.expect("expire answers");
    stage.claim_nothing("delivered is final").await;
    assert_eq!(stage.history(id).await.len(), 1);
}
