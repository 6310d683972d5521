//! Reading: explanations, histories, lists.

use consign_kernel::{
    AttemptOutcome, Claim, LastAttempt, LeaseView, MessageId, OnDead, Outcome, Report, State,
    StateKind, codes,
};
use serde_json::json;

use crate::{
    Harness,
    stage::{Stage, TTL, after, by, ids, ordered, policy, s, settled},
};

pub(crate) async fn an_explanation_carries_the_whole_message(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let mut new = stage.message(1).with_key("k").with_group("g");
    new.headers.insert("h".into(), json!({"deep": [1]}));
    let created_at = stage.now().await;
    let id = stage.enqueue_all(std::slice::from_ref(&new)).await[0];
    stage.advance(s(5)).await;
    let told = stage.explain(id).await;
    assert_eq!((told.message.id, told.message.queue), (id, new.queue));
    assert_eq!((told.message.key, told.message.group), (new.key, new.group));
    assert_eq!(
        (told.message.payload, told.message.headers),
        (new.payload, new.headers)
    );
    assert_eq!(told.message.created_at, created_at);
    assert_eq!(told.state, State::Ready { due_at: created_at });
    assert_eq!(
        (told.queue.name, told.queue.policy),
        (stage.queue.clone(), policy())
    );
    assert_eq!((told.attempts, told.now), (0, stage.now().await));
    assert_eq!(told.last_attempt, None);
}

pub(crate) async fn an_explanation_carries_the_last_attempt(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue(1).await[0];
    says(&stage, id, &["Ready and due since", "no worker holds it"]).await;
    let lease = stage.claim(1).await;
    stage.advance(TTL).await;
    stage.store.expire(10).await.expect("expire answers");
    let lost = stage.explain(id).await.last_attempt;
    let lost = lost.expect("an expiry is an attempt");
    assert_eq!(
        (lost.attempt_no, lost.outcome),
        (1, AttemptOutcome::Expired)
    );
    assert_eq!(lost.code.as_deref(), Some(codes::LEASE_EXPIRED));
    drop(lease);

    let lease = stage.claim(1).await;
    stage.advance(s(1)).await;
    let finished_at = stage.now().await;
    let busy = Report {
        detail: Some("come back later".into()),
        ..Report::retry(id, "http_503")
    };
    settled(stage.settle(&lease, &[busy]).await);
    let tried = LastAttempt {
        attempt_no: 2,
        outcome: AttemptOutcome::Retry,
        owner: "worker-1".into(),
        finished_at,
        code: Some("http_503".into()),
        detail: Some("come back later".into()),
    };
    let told = stage.explain(id).await;
    assert_eq!((told.attempts, told.last_attempt), (2, Some(tried)));
    let ended = format!(
        "attempt 2 by worker-1 ended in retry (http_503: come back later) at {finished_at:.3}"
    );
    says(&stage, id, &["Due later", &ended]).await;
    stage.advance(s(3_600)).await;
    says(
        &stage,
        id,
        &["Ready and due again since", &ended, "queue mail"],
    )
    .await;

    let lease = stage.claim(1).await;
    let told = stage.explain(id).await;
    assert_eq!(told.state.kind(), StateKind::Leased);
    assert_eq!(told.last_attempt.map(|last| last.attempt_no), Some(2));
    says(&stage, id, &["Leased by worker-1", &ended]).await;
    stage.report(&lease, id, Outcome::Dead).await;
    stage
        .store
        .requeue(&[id], &by())
        .await
        .expect("requeue answers");
    says(
        &stage,
        id,
        &["due again since", "attempt 3 by worker-1 ended in dead"],
    )
    .await;
    let lease = stage.claim(1).await;
    stage.report(&lease, id, Outcome::Delivered).await;
    let last = stage.explain(id).await.last_attempt.expect("it was tried");
    assert_eq!(
        (last.attempt_no, last.outcome),
        (4, AttemptOutcome::Delivered)
    );
}

pub(crate) async fn an_unknown_message_has_no_history(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    for id in [MessageId(i64::MAX), MessageId(0), MessageId(-1)] {
        assert_eq!(
            stage.store.explain(id).await.expect("explain answers"),
            None
        );
        assert_eq!(stage.store.history(id).await.expect("history answers"), []);
        assert_eq!(
            stage
                .store
                .audit(Some(id), None, 10)
                .await
                .expect("audit answers"),
            []
        );
    }
}

async fn says(stage: &Stage<'_>, id: MessageId, words: &[&str]) {
    let sentence = stage.explain(id).await.sentence();
    for word in words {
        assert!(sentence.contains(word), "{word:?} is in {sentence:?}");
    }
}

pub(crate) async fn every_place_has_its_sentence(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    let sent = stage.enqueue_groups("aabc").await;
    says(&stage, sent[0], &["Ready and due since", "queue mail"]).await;
    says(
        &stage,
        sent[1],
        &[
            "Waiting",
            &format!("message {} is the head of its group", sent[0]),
        ],
    )
    .await;
    let delayed = stage
        .enqueue_all(&[stage.message(9).with_delay(s(60))])
        .await[0];
    says(&stage, delayed, &["Due later", "enqueued with a delay"]).await;
    stage
        .store
        .pause(&stage.queue, &by())
        .await
        .expect("pause answers");
    says(&stage, sent[0], &["paused since", "consign resume mail"]).await;
    stage
        .store
        .resume(&stage.queue, &by())
        .await
        .expect("resume answers");
    let lease = stage.claim(3).await;
    says(&stage, sent[0], &["Leased by worker-1", "about to send"]).await;
    stage
        .store
        .begin(lease.token, &sent[..1])
        .await
        .expect("begin answers");
    says(&stage, sent[0], &["Leased by worker-1", ", sending it"]).await;
    stage.report(&lease, sent[0], Outcome::Delivered).await;
    says(&stage, sent[0], &["Delivered at", "after 1 attempt"]).await;
    let gone = Report {
        detail: Some("moved away".into()),
        code: Some("gone".into()),
        ..Report::new(sent[2], Outcome::Dead)
    };
    settled(stage.settle(&lease, &[gone]).await);
    let requeue = format!("consign requeue {}", sent[2]);
    says(
        &stage,
        sent[2],
        &["Dead since", "gone (moved away)", &requeue],
    )
    .await;
    stage
        .store
        .hold(&sent[1..2], &by())
        .await
        .expect("hold answers");
    let unhold = format!("consign unhold {}", sent[1]);
    says(
        &stage,
        sent[1],
        &["Held since", "checking the rules", &unhold],
    )
    .await;
    stage.advance(TTL).await;
    says(
        &stage,
        sent[3],
        &["ended at", "the next claim in queue mail"],
    )
    .await;
    stage.store.expire(10).await.expect("expire answers");
    let lease = stage.claim(1).await;
    stage.report(&lease, sent[3], Outcome::Retry).await;
    says(
        &stage,
        sent[3],
        &["Due later", "attempt 2 by worker-1 ended in retry"],
    )
    .await;
}

pub(crate) async fn leases_are_listed_oldest_first(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(4).await;
    let mut expected = Vec::new();
    for limit in [2, 1, 1] {
        let claim = Claim::new(stage.queue.clone(), format!("worker-{limit}"), limit);
        let lease = stage.store.claim(&claim).await.expect("claim answers");
        let lease = lease.expect("something is due");
        expected.push(LeaseView {
            fence: lease.fence,
            token_prefix: lease.token.shown(),
            queue: stage.queue.clone(),
            owner: claim.owner,
            ids: ids(&lease),
            begun: vec![],
            claimed_at: stage.now().await,
            expires_at: after(stage.now().await, TTL),
        });
        stage.advance(s(1)).await;
    }
    assert_eq!(expected[0].ids, sent[..2]);
    let leases = stage.store.leases(10).await.expect("leases answers");
    assert_eq!(leases, expected);
    let two = stage.store.leases(2).await.expect("leases answers");
    assert_eq!(two, expected[..2], "at most two");
}
