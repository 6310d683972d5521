//! Erasure beside what else happens to finished messages: departures, requeues, late results.

use consign_kernel::{
    ErasureAnswer, ErasureTarget, MessageId, Move, Outcome, Refusal, Report, StateKind, Step,
};
use serde_json::json;
use tokio::task::JoinSet;

use super::{erase::letter, retention::keeping};
use crate::{
    Harness,
    stage::{Stage, all, by, done, refused, s, stranger},
};

pub(crate) async fn an_erased_message_leaves_with_its_erasure(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(60), Some(60))).await;
    let maintenance = stage.maintenance().await;
    let id = stage.enqueue_all(&[letter(&stage).with_key("k")]).await[0];
    stage.drain().await;
    stage.erase_one(id).await;
    let erased = stage.explain(id).await.erased;
    stage.advance(s(60)).await;
    let departure = maintenance.begin_of(1).await;
    let records = stage.store.departing(departure.id, None, 10).await;
    let records = records.expect("departing answers");
    assert_eq!(records[0].erased, erased);
    assert!(erased.is_some() && !format!("{records:?}").contains("Jane"));
    assert_eq!(maintenance.leave().await, 1);
    assert!(!stage.exists(id).await);
    let history = stage.history_of(&stage.queue).await;
    assert_eq!(
        (history.erased, history.departed),
        (1, 1),
        "counted for ever"
    );
    // Its key is compared by the payload that it had.
    let answers = stage.try_enqueue(&[letter(&stage).with_key("k")]).await;
    let answer = answers.expect("enqueue answers")[0];
    assert_eq!((answer.id, answer.duplicate), (id, true));
    let other = stage.message(9).with_key("k");
    refused(stage.try_enqueue(&[other]).await, "key_conflict");
    let by_key = ErasureTarget::Key {
        queue: stage.queue.clone(),
        key: "k".into(),
    };
    assert_eq!(stage.erase(&by_key).await, [(id, ErasureAnswer::Departed)]);
    assert_eq!(stage.erase_ids(&[id]).await, [ErasureAnswer::NoSuchMessage]);
}

pub(crate) async fn an_erasure_restarts_a_departure(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(60), Some(60))).await;
    let maintenance = stage.maintenance().await;
    for is_dead in [false, true] {
        let id = if is_dead {
            stage.dead_one().await
        } else {
            stage.delivered(1).await[0]
        };
        stage.advance(s(60)).await;
        let departure = maintenance.begin_of(1).await;
        maintenance.archive(&departure).await;
        stage.erase_one(id).await;
        let step = maintenance.step(&departure).await;
        assert_eq!(step, Step::Refused(Refusal::Changed));
        assert_eq!(maintenance.leave().await, 0, "the times count from it");
        assert!(stage.exists(id).await);
        stage.advance(s(60)).await;
        assert_eq!(maintenance.leave().await, 1);
    }
}

pub(crate) async fn an_archive_is_cleared_of_an_erasure_once(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(60), None)).await;
    let maintenance = stage.maintenance().await;
    let store = &stage.store;
    let due = async || {
        let due = store.due_erasures(10).await.expect("due_erasures answers");
        let ids: Vec<MessageId> = due.iter().map(|(id, _)| *id).collect();
        (due, ids)
    };
    let sent = stage.delivered(3).await;
    assert_eq!(due().await.1, []);
    stage.erase_ids(&sent).await;
    let (records, ids) = due().await;
    assert_eq!(ids, sent, "by id");
    assert_eq!(
        stage.explain(sent[1]).await.erased.as_ref(),
        Some(&records[1].1)
    );
    let one = store.due_erasures(1).await.expect("due_erasures answers");
    assert_eq!(one, records[..1]);
    let refusal = store.record_cleared(stranger(), &sent).await;
    let refusal = refusal.expect("record_cleared answers");
    assert_eq!(refusal, Step::Refused(Refusal::LeaseLost));
    done(store.record_cleared(maintenance.token, &sent[..2]).await);
    assert_eq!(due().await.1, sent[2..]);
    // Neither a repeated erasure nor a departure makes them due again, or not due any more.
    stage.erase_ids(&sent).await;
    stage.advance(s(60)).await;
    assert_eq!(maintenance.leave().await, 3);
    assert_eq!(due().await.1, sent[2..]);
    assert_eq!(due().await.0, records[2..]);
    maintenance.renew().await;
    done(store.record_cleared(maintenance.token, &sent).await);
    assert_eq!(due().await.1, []);
}

/// Of an erasure and a requeue of the same dead messages one wins each: none is sent without content.
pub(crate) async fn an_erasure_races_a_requeue(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    for _ in 0..10 {
        let dead = stage.dead(20).await;
        let mut reversed = dead.clone();
        reversed.reverse();
        let (erasing, requeueing) = (harness.another().await, harness.another().await);
        let target = ErasureTarget::Ids(dead.clone());
        let erasing = tokio::spawn(async move { erasing.erase(&target, &by()).await });
        let requeueing = tokio::spawn(async move { requeueing.requeue(&reversed, &by()).await });
        let erased = erasing.await.expect("no panic").expect("erase answers");
        let moved = requeueing
            .await
            .expect("no panic")
            .expect("requeue answers");
        for (erased, moved) in erased.iter().zip(&moved) {
            assert_eq!(erased.id, moved.id);
            match (erased.answer, moved.answer) {
                (ErasureAnswer::Erased, Move::Erased)
                | (ErasureAnswer::NotFinal { .. }, Move::Moved { .. }) => {}
                other => panic!("message {}: {other:?}", erased.id),
            }
            let explanation = stage.explain(erased.id).await;
            let is_erased = erased.answer == ErasureAnswer::Erased;
            assert_eq!(explanation.erased.is_some(), is_erased);
            let is_dead = explanation.state.kind() == StateKind::Dead;
            assert_eq!(is_dead, is_erased, "{explanation:?}");
        }
        stage.drain().await;
    }
    let findings = stage.store.doctor().await.expect("doctor answers");
    assert_eq!(findings, []);
}

/// However an erasure and a late result interleave, no content stays.
pub(crate) async fn an_erasure_races_late_results(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    for _ in 0..10 {
        let sent = stage.enqueue(10).await;
        let lost = stage.claim(10).await;
        stage.crash().await;
        let mut delivered = stage.drain().await;
        delivered.sort_unstable();
        assert_eq!(delivered, sent);
        let mut tasks: JoinSet<()> = JoinSet::new();
        let (store, target) = (harness.another().await, ErasureTarget::Ids(sent.clone()));
        tasks.spawn(async move {
            let erased = store.erase(&target, &by()).await.expect("erase answers");
            let is_new = |answer: ErasureAnswer| answer == ErasureAnswer::Erased;
            assert!(erased.iter().all(|result| is_new(result.answer)));
        });
        for part in sent.chunks(5) {
            let (store, token) = (harness.another().await, lost.token);
            let report = |id: &MessageId| Report {
                detail: Some("Jane Doe".into()),
                result: Some(json!("Jane Doe")),
                ..Report::new(*id, Outcome::Delivered)
            };
            let reports: Vec<Report> = part.iter().rev().map(report).collect();
            tasks.spawn(async move {
                let kept = store.record_late(token, &reports).await;
                assert_eq!(kept.expect("record_late answers").len(), 5);
            });
        }
        all(tasks).await;
        for id in sent {
            let late = stage.late_of(id).await;
            assert_eq!(late.len(), 1);
            assert_eq!((&late[0].detail, &late[0].result), (&None, &None));
        }
    }
}
