//! The record of what people do: who, what, when, why.

use consign_kernel::{AuditEntry, By, OWNER_BYTES_MAX, Resolution, StateKind};

use crate::{
    Harness,
    stage::{Stage, after, by, refused, s},
};

pub(crate) async fn moving_nothing_answers_nothing(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let before = stage
        .store
        .audit(None, None, 100)
        .await
        .expect("audit answers");
    assert_eq!(
        stage
            .store
            .requeue(&[], &by())
            .await
            .expect("requeue answers"),
        []
    );
    assert_eq!(
        stage.store.hold(&[], &by()).await.expect("hold answers"),
        []
    );
    assert_eq!(
        stage
            .store
            .unhold(&[], &by())
            .await
            .expect("unhold answers"),
        []
    );
    let after = stage
        .store
        .audit(None, None, 100)
        .await
        .expect("audit answers");
    assert_eq!(after, before, "nothing to record");
}

pub(crate) async fn every_action_is_recorded_with_who_and_why(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.dead_one().await;
    stage.advance(s(5)).await;
    let now = stage.now().await;
    let why = |reason: &str| By::new("grace", reason);
    let store = &stage.store;
    store
        .requeue(&[id], &why("fixed"))
        .await
        .expect("requeue answers");
    store.hold(&[id], &why("wait")).await.expect("hold answers");
    store
        .unhold(&[id], &why("go"))
        .await
        .expect("unhold answers");
    store
        .pause(&stage.queue, &why("stop"))
        .await
        .expect("pause answers");
    store
        .resume(&stage.queue, &why("start"))
        .await
        .expect("resume answers");
    let all = store.audit(None, None, 6).await.expect("audit answers");
    let expected = [
        ("resume", None, "grace", "start"),
        ("pause", None, "grace", "stop"),
        ("unhold", Some(id), "grace", "go"),
        ("hold", Some(id), "grace", "wait"),
        ("requeue", Some(id), "grace", "fixed"),
        ("queue", None, "ada", "checking the rules"),
    ];
    assert_eq!(all.len(), expected.len());
    for (entry, (action, message_id, actor, reason)) in all.iter().zip(expected) {
        assert_eq!(entry.action, action, "newest first: {all:#?}");
        assert_eq!(entry.message_id, message_id);
        assert_eq!(
            (entry.actor.as_str(), entry.reason.as_str()),
            (actor, reason)
        );
        assert_eq!(entry.queue.as_ref(), Some(&stage.queue));
    }
    assert!(
        all[..5].iter().all(|e| e.at == now),
        "the database's clock: {all:#?}"
    );
    assert_eq!(after(all[5].at, s(5)), now);
    assert!(all.windows(2).all(|w| w[0].id > w[1].id), "numbers grow");
    let of_message = store.audit(Some(id), None, 2).await.expect("audit answers");
    assert_eq!(
        of_message,
        all[2..4],
        "of one message, newest first, at most two"
    );
}

pub(crate) async fn refused_moves_leave_no_record(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_one().await;
    let before = stage
        .store
        .audit(None, None, 100)
        .await
        .expect("audit answers");
    stage
        .store
        .requeue(&[id], &by())
        .await
        .expect("requeue answers");
    stage
        .store
        .unhold(&[id], &by())
        .await
        .expect("unhold answers");
    let lease = stage.claim(1).await;
    stage.store.hold(&[id], &by()).await.expect("hold answers");
    let after = stage
        .store
        .audit(None, None, 100)
        .await
        .expect("audit answers");
    assert_eq!(after, before);
    stage.deliver(&lease).await;
}

pub(crate) async fn an_audit_is_read_in_pages(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_one().await;
    for _ in 0..3 {
        stage.store.hold(&[id], &by()).await.expect("hold answers");
        stage
            .store
            .pause(&stage.queue, &by())
            .await
            .expect("it pauses");
        stage
            .store
            .unhold(&[id], &by())
            .await
            .expect("unhold answers");
    }
    for of in [None, Some(id)] {
        let all = stage.store.audit(of, None, 100).await.expect("an audit");
        let mut read = Vec::new();
        while let before = read.last().map(|entry: &AuditEntry| entry.id)
            && let page = stage.store.audit(of, before, 4).await.expect("a page")
            && !page.is_empty()
        {
            read.extend(page);
            assert!(read.len() <= all.len(), "pages end");
        }
        assert_eq!(read, all, "no entry twice, none left out");
        let first = all.last().map(|entry| entry.id);
        assert_eq!(stage.store.audit(of, first, 4).await.expect("an end"), []);
    }
}

pub(crate) async fn operator_actions_need_an_actor_and_a_reason(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.dead_one().await;
    let before = stage
        .store
        .audit(None, None, 100)
        .await
        .expect("audit answers");
    let nameless = [
        By::new("", "why"),
        By::new("  ", "why"),
        By::new("ada", ""),
        By::new("ada", "\n"),
        By::new("a\0a", "why"),
        By::new("ada", "w\0y"),
        By::new("x".repeat(OWNER_BYTES_MAX + 1), "why"),
        By::new("ada", "x".repeat(4_097)),
    ];
    for by in nameless {
        let (store, queue) = (&stage.store, &stage.queue);
        refused(store.requeue(&[id], &by).await, "invalid_input");
        refused(store.hold(&[id], &by).await, "invalid_input");
        refused(store.unhold(&[id], &by).await, "invalid_input");
        refused(
            store.resolve(&[id], &Resolution::DELIVERED, &by).await,
            "invalid_input",
        );
        refused(store.pause(queue, &by).await, "invalid_input");
        refused(store.resume(queue, &by).await, "invalid_input");
        let policy = crate::stage::policy();
        refused(store.put_queue(queue, &policy, &by).await, "invalid_input");
    }
    assert_eq!(stage.kind(id).await, StateKind::Dead, "nothing was moved");
    let after = stage
        .store
        .audit(None, None, 100)
        .await
        .expect("audit answers");
    assert_eq!(after, before);
    let wordy = By::new("x".repeat(OWNER_BYTES_MAX), "x".repeat(4_096));
    stage
        .store
        .requeue(&[id], &wordy)
        .await
        .expect("at the limits");
}
