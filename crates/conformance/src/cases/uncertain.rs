//! Uncertain outcomes: resent, probed or held, by the queue's policy.

use consign_kernel::{
    AttemptOutcome, MessageId, OnUncertain, Outcome, QueuePolicy, Report, State, StateKind,
};

use crate::{
    Harness,
    stage::{Stage, TTL, after, by, policy, s, settled},
};

fn uncertain(on_uncertain: OnUncertain) -> QueuePolicy {
    QueuePolicy {
        on_uncertain,
        ..policy()
    }
}

/// Claims one message, returns whether it is in doubt, and settles it.
async fn next_is_in_doubt(stage: &Stage<'_>, outcome: Outcome) -> bool {
    let lease = stage.claim(1).await;
    let claimed = &lease.messages[0];
    stage.report(&lease, claimed.message.id, outcome).await;
    stage.advance(s(2)).await;
    claimed.in_doubt
}

pub(crate) async fn an_uncertain_report_is_resent_under_on_uncertain_resend(harness: &dyn Harness) {
    let stage = Stage::with(harness, uncertain(OnUncertain::Resend)).await;
    let id = stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    let record = stage.report(&lease, id, Outcome::Uncertain).await;
    assert_eq!(record.outcome, AttemptOutcome::Uncertain);
    assert_eq!(record.state, StateKind::Ready);
    assert_eq!(
        record.next_due_at,
        Some(after(stage.now().await, s(1))),
        "the schedule applies"
    );
    stage.advance(s(1)).await;
    let claimed = &stage.claim(1).await.messages[0];
    assert_eq!((claimed.attempt_no, claimed.tries), (2, 1), "it counts");
}

pub(crate) async fn uncertain_reports_exhaust_the_tries(harness: &dyn Harness) {
    for on_uncertain in [OnUncertain::Resend, OnUncertain::Probe] {
        let stage = Stage::with(harness, uncertain(on_uncertain)).await;
        let id = stage.enqueue_one().await;
        for _ in 0..3 {
            next_is_in_doubt(&stage, Outcome::Uncertain).await;
        }
        // Without a probe the doubt remains, and a message in doubt does not become dead.
        match (stage.state(id).await, on_uncertain) {
            (State::Dead { code, .. }, OnUncertain::Resend) => {
                assert_eq!(code, "attempts_exhausted");
            }
            (State::Held { reason, .. }, OnUncertain::Probe) => assert_eq!(reason, "uncertain"),
            (state, _) => panic!("{on_uncertain:?}: {state:?} after three tries"),
        }
    }
}

pub(crate) async fn an_uncertain_report_with_a_code_to_hold_is_held_at_once(harness: &dyn Harness) {
    for on_uncertain in [OnUncertain::Resend, OnUncertain::Probe, OnUncertain::Hold] {
        let rules = QueuePolicy {
            hold_codes: vec!["NO_RECEIPT".to_owned()],
            ..uncertain(on_uncertain)
        };
        let stage = Stage::with(harness, rules).await;
        let ids = stage.enqueue(3).await;
        let lease = stage.claim(3).await;
        let report = |(id, outcome, code): (MessageId, Outcome, &str)| Report {
            code: Some(code.to_owned()),
            ..Report::new(id, outcome)
        };
        let reports = [
            (ids[0], Outcome::Uncertain, "NO_RECEIPT"),
            (ids[1], Outcome::Uncertain, "TIMEOUT"),
            (ids[2], Outcome::Retry, "NO_RECEIPT"),
        ];
        let records = settled(stage.settle(&lease, &reports.map(report)).await);
        assert_eq!(records[0].state, StateKind::Held, "{on_uncertain:?}");
        match stage.state(ids[0]).await {
            State::Held { reason, .. } => assert_eq!(reason, "NO_RECEIPT"),
            state => panic!("{on_uncertain:?}: {state:?}"),
        }
        match stage.state(ids[1]).await {
            State::Held { reason, .. } => {
                assert_eq!(
                    (reason.as_str(), on_uncertain),
                    ("uncertain", OnUncertain::Hold)
                );
            }
            State::Ready { .. } => assert_ne!(on_uncertain, OnUncertain::Hold),
            state => panic!("{on_uncertain:?}: {state:?}"),
        }
        assert_eq!(stage.kind(ids[2]).await, StateKind::Ready, "not uncertain");
        stage.advance(s(2)).await;
        stage.drain().await;
    }
}

pub(crate) async fn doubt_lasts_until_the_sink_has_answered(harness: &dyn Harness) {
    let stage = Stage::with(
        harness,
        QueuePolicy {
            attempts_max: 9,
            ..uncertain(OnUncertain::Probe)
        },
    );
    let stage = stage.await;
    stage.enqueue_one().await;
    assert!(
        !next_is_in_doubt(&stage, Outcome::Uncertain).await,
        "nothing was sent before"
    );
    let lease = stage.claim(1).await;
    assert!(lease.messages[0].in_doubt, "ask the sink first");
    stage.crash().await;
    assert!(
        next_is_in_doubt(&stage, Outcome::Retry).await,
        "an expired attempt did not probe"
    );
    assert!(
        !next_is_in_doubt(&stage, Outcome::Uncertain).await,
        "a retry means: not there"
    );
    assert!(
        next_is_in_doubt(&stage, Outcome::Delivered).await,
        "in doubt again"
    );
}

pub(crate) async fn doubt_survives_a_requeue(harness: &dyn Harness) {
    // A queue that probes would hold it.
    let stage = Stage::with(harness, uncertain(OnUncertain::Resend)).await;
    let id = stage.enqueue_one().await;
    for _ in 0..3 {
        next_is_in_doubt(&stage, Outcome::Uncertain).await;
    }
    assert_eq!(stage.kind(id).await, StateKind::Dead);
    stage
        .store
        .requeue(&[id], &by())
        .await
        .expect("requeue answers");
    assert!(next_is_in_doubt(&stage, Outcome::Delivered).await);
}

pub(crate) async fn an_uncertain_report_is_held_under_on_uncertain_hold(harness: &dyn Harness) {
    let stage = Stage::with(harness, uncertain(OnUncertain::Hold)).await;
    let id = stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    stage.advance(s(1)).await;
    let record = stage.report(&lease, id, Outcome::Uncertain).await;
    assert_eq!(record.outcome, AttemptOutcome::Uncertain);
    assert_eq!((record.state, record.next_due_at), (StateKind::Held, None));
    let held = State::Held {
        at: stage.now().await,
        reason: "uncertain".into(),
    };
    assert_eq!(stage.state(id).await, held);
    stage.advance(s(3600)).await;
    stage.claim_nothing("a person decides").await;
    stage
        .store
        .unhold(&[id], &by())
        .await
        .expect("unhold answers");
    let claimed = &stage.claim(1).await.messages[0];
    assert_eq!(
        (claimed.attempt_no, claimed.tries),
        (2, 1),
        "the try counts"
    );
    assert!(claimed.in_doubt, "the operator may not know either");
}

pub(crate) async fn an_uncertain_last_try_is_held_rather_than_dead(harness: &dyn Harness) {
    let rules = QueuePolicy {
        attempts_max: 1,
        ..uncertain(OnUncertain::Hold)
    };
    let stage = Stage::with(harness, rules).await;
    let id = stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    let record = stage.report(&lease, id, Outcome::Uncertain).await;
    assert_eq!(record.state, StateKind::Held);
}

/// Begins all and loses the lease.
async fn begin_and_crash(stage: &Stage<'_>, count: usize) -> Vec<MessageId> {
    let sent = stage.enqueue(count).await;
    let lease = stage.claim(count as u32).await;
    stage
        .store
        .begin(lease.token, &sent)
        .await
        .expect("begin answers");
    stage.crash().await;
    for id in &sent {
        let attempt = stage.history(*id).await.remove(0);
        assert_eq!(
            attempt.outcome,
            AttemptOutcome::Uncertain,
            "its call had begun"
        );
        assert_eq!(attempt.code.as_deref(), Some("lease_expired"));
    }
    sent
}

pub(crate) async fn a_begun_message_is_resent_after_a_crash(harness: &dyn Harness) {
    let stage = Stage::with(harness, uncertain(OnUncertain::Resend)).await;
    let sent = begin_and_crash(&stage, 2).await;
    assert_eq!(stage.drain().await, sent, "the sink is idempotent");
}

pub(crate) async fn a_begun_message_is_in_doubt_after_a_crash(harness: &dyn Harness) {
    let stage = Stage::with(harness, uncertain(OnUncertain::Probe)).await;
    begin_and_crash(&stage, 1).await;
    assert!(next_is_in_doubt(&stage, Outcome::Delivered).await);
}

pub(crate) async fn a_begun_message_is_held_after_a_crash(harness: &dyn Harness) {
    let stage = Stage::with(harness, uncertain(OnUncertain::Hold)).await;
    let sent = stage.enqueue(3).await;
    let lease = stage.claim(3).await;
    stage
        .store
        .begin(lease.token, &sent[1..2])
        .await
        .expect("begin answers");
    stage.crash().await;
    use StateKind::{Held, Ready};
    assert_eq!(
        stage.kinds(&sent).await,
        [Ready, Held, Ready],
        "only what had begun"
    );
    let at = stage.now().await;
    let reason = "uncertain".to_owned();
    assert_eq!(stage.state(sent[1]).await, State::Held { at, reason });
    let attempt = stage.history(sent[1]).await.remove(0);
    assert_eq!(
        (attempt.outcome, attempt.next_due_at),
        (AttemptOutcome::Uncertain, None)
    );
    stage.advance(TTL).await;
    assert_eq!(stage.drain().await, [sent[0], sent[2]]);
}

pub(crate) async fn a_begun_message_alone_is_held_even_on_its_last_try(harness: &dyn Harness) {
    let rules = QueuePolicy {
        attempts_max: 1,
        ..uncertain(OnUncertain::Hold)
    };
    let stage = Stage::with(harness, rules).await;
    let sent = begin_and_crash(&stage, 1).await;
    assert_eq!(stage.kind(sent[0]).await, StateKind::Held);
    stage
        .store
        .unhold(&sent, &by())
        .await
        .expect("unhold answers");
    assert_eq!(stage.claim(1).await.messages[0].tries, 1, "the loss counts");
}
