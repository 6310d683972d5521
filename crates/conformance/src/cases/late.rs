//! Results that come after their lease has ended: kept as evidence, never as outcomes (G3, G4).

use std::sync::Arc;

use consign_kernel::{
    AttemptOutcome, CODE_BYTES_MAX, DETAIL_BYTES_MAX, LateResult, Lease, MessageId, OnUncertain,
    Outcome, QueuePolicy, Report, StateKind, Token,
};
use serde_json::json;
use tokio::task::JoinSet;

use crate::{
    Harness,
    stage::{Stage, TTL, all, by, ids, policy, refused, s, stranger},
};

/// Reports late results and answers which are on record.
async fn record_late(stage: &Stage<'_>, token: Token, reports: &[Report]) -> Vec<MessageId> {
    let kept = stage.store.record_late(token, reports).await;
    kept.expect("record_late answers")
}

async fn late(stage: &Stage<'_>, id: MessageId) -> Vec<LateResult> {
    stage.store.late(id).await.expect("late answers")
}

fn delivered(ids: &[MessageId]) -> Vec<Report> {
    ids.iter().copied().map(Report::delivered).collect()
}

pub(crate) async fn a_late_result_is_kept_as_evidence(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_one().await;
    let lost = stage.claim(1).await;
    stage.crash().await;
    let lease = stage.claim(1).await;
    stage.advance(s(1)).await;
    let now = stage.now().await;
    let before = (stage.explain(id).await, stage.history(id).await);
    let report = Report {
        code: Some("http_200".into()),
        detail: Some("it had arrived".into()),
        result: Some(json!({"receipt": [7, "ü", null]})),
        retry_in: Some(s(9)),
        ..Report::delivered(id)
    };
    assert_eq!(record_late(&stage, lost.token, &[report]).await, [id]);
    let expected = LateResult {
        message_id: id,
        token: lost.token,
        fence: lost.fence,
        owner: "worker-1".into(),
        outcome: Outcome::Delivered,
        code: Some("http_200".into()),
        detail: Some("it had arrived".into()),
        result: Some(json!({"receipt": [7, "ü", null]})),
        at: now,
    };
    assert_eq!(late(&stage, id).await, [expected]);
    let after = (stage.explain(id).await, stage.history(id).await);
    assert_eq!(after, before, "evidence moves nothing");
    stage.deliver(&lease).await;
    assert_eq!(stage.kind(id).await, StateKind::Delivered);
    assert_eq!(late(&stage, id).await.len(), 1, "and stays");
}

pub(crate) async fn no_late_result_changes_anything(harness: &dyn Harness) {
    use Outcome::{Dead, Delivered, Retry, Uncertain};
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(4).await;
    let lost = stage.claim(4).await;
    stage.crash().await;
    let before = stage.counts().await;
    let said = [Delivered, Retry, Dead, Uncertain];
    let reports: Vec<Report> = sent
        .iter()
        .zip(said)
        .map(|(id, outcome)| Report::new(*id, outcome))
        .collect();
    assert_eq!(record_late(&stage, lost.token, &reports).await, sent);
    assert_eq!(stage.counts().await, before);
    for (id, outcome) in sent.iter().zip(said) {
        let kept = late(&stage, *id).await;
        assert_eq!(
            kept.iter().map(|l| l.outcome).collect::<Vec<_>>(),
            [outcome]
        );
        let history = stage.history(*id).await;
        assert_eq!(history.len(), 1);
        assert_eq!(history[0].outcome, AttemptOutcome::Expired);
    }
    assert_eq!(stage.drain().await, sent, "everything is sent again");
}

pub(crate) async fn a_late_success_puts_later_claims_in_doubt(harness: &dyn Harness) {
    use Outcome::{Dead, Delivered, Retry, Uncertain};
    for on_uncertain in [OnUncertain::Resend, OnUncertain::Probe, OnUncertain::Hold] {
        let rules = QueuePolicy {
            on_uncertain,
            ..policy()
        };
        let stage = Stage::with(harness, rules).await;
        for said in [Delivered, Retry, Dead, Uncertain] {
            let id = stage.enqueue_one().await;
            let lost = stage.claim(1).await;
            stage.crash().await;
            let now = stage.claim(1).await;
            assert!(!now.messages[0].in_doubt, "no late result yet");
            let report = Report::new(id, said);
            assert_eq!(record_late(&stage, lost.token, &[report]).await, [id]);
            let is_in_doubt = said == Delivered;
            // A later holder reports on its own attempt, not on the lost one.
            stage.report(&now, id, Retry).await;
            stage.advance(s(2)).await;
            let next = stage.claim(1).await;
            let doubt = next.messages[0].in_doubt;
            assert_eq!(doubt, is_in_doubt, "{on_uncertain:?} {said:?}");
            stage.report(&next, id, Dead).await;
            let requeued = stage.store.requeue(&[id], &by()).await;
            requeued.expect("requeue answers");
            let again = stage.claim(1).await;
            assert_eq!(
                again.messages[0].in_doubt, is_in_doubt,
                "requeued: {said:?}"
            );
            stage.deliver(&again).await;
        }
    }
}

pub(crate) async fn a_result_is_late_before_the_lease_is_taken_back(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(2).await;
    let lost = stage.claim(2).await;
    stage.advance(TTL).await;
    let leases = stage.store.leases(10).await.expect("leases answers");
    let reports = delivered(&sent);
    assert_eq!(record_late(&stage, lost.token, &reports).await, sent);
    assert_eq!(late(&stage, sent[0]).await[0].fence, lost.fence);
    let after = stage.store.leases(10).await.expect("leases answers");
    assert_eq!(after, leases, "the lease is ended by others");
    stage.store.expire(10).await.expect("expire answers");
    assert_eq!(record_late(&stage, lost.token, &reports).await, sent);
    assert_eq!(late(&stage, sent[1]).await.len(), 1);
    assert_eq!(stage.drain().await, sent);
}

pub(crate) async fn a_live_lease_has_no_late_results(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    stage.advance(TTL - s(1)).await;
    let kept = record_late(&stage, lease.token, &delivered(&[id])).await;
    assert_eq!(kept, [], "settle while the lease lives");
    assert_eq!(late(&stage, id).await, []);
    stage.deliver(&lease).await;
    let kept = record_late(&stage, lease.token, &delivered(&[id])).await;
    assert_eq!(kept, [], "what was settled was not late");
    assert_eq!(late(&stage, id).await, []);
}

pub(crate) async fn only_a_lost_lease_records_late_results(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(2).await;
    let first = stage.claim(1).await;
    let second = stage.claim(1).await;
    stage.crash().await;
    let everything = delivered(&[sent[1], MessageId(i64::MAX), sent[0]]);
    assert_eq!(record_late(&stage, stranger(), &everything).await, []);
    let own = |lease: &Lease| ids(lease);
    assert_eq!(
        record_late(&stage, first.token, &everything).await,
        own(&first),
        "only what it held"
    );
    assert_eq!(late(&stage, sent[1]).await, []);
    assert_eq!(
        record_late(&stage, second.token, &everything).await,
        own(&second)
    );
    assert_eq!(late(&stage, sent[0]).await[0].token, first.token);
    assert_eq!(late(&stage, MessageId(i64::MAX)).await, []);
    assert_eq!(record_late(&stage, first.token, &[]).await, []);
}

pub(crate) async fn what_was_released_or_settled_was_not_lost(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(3).await;
    let lease = stage.claim(3).await;
    stage.report(&lease, sent[0], Outcome::Retry).await;
    let begun = stage.store.begin(lease.token, &sent[1..2]).await;
    begun.expect("begin answers");
    let released = stage.store.release(lease.token).await;
    released.expect("release answers");
    stage.crash().await;
    let kept = record_late(&stage, lease.token, &delivered(&sent)).await;
    assert_eq!(kept, [sent[1]], "settled, lost, released");
    assert_eq!(
        stage.history(sent[1]).await[0].outcome,
        AttemptOutcome::Uncertain,
        "lost after it had begun"
    );
}

pub(crate) async fn a_held_message_may_have_been_delivered_after_all(harness: &dyn Harness) {
    let rules = QueuePolicy {
        on_uncertain: OnUncertain::Hold,
        ..policy()
    };
    let stage = Stage::with(harness, rules).await;
    let id = stage.enqueue_one().await;
    let lost = stage.claim(1).await;
    let begun = stage.store.begin(lost.token, &[id]).await;
    begun.expect("begin answers");
    stage.crash().await;
    assert_eq!(stage.kind(id).await, StateKind::Held);
    assert_eq!(
        record_late(&stage, lost.token, &delivered(&[id])).await,
        [id]
    );
    assert_eq!(late(&stage, id).await[0].outcome, Outcome::Delivered);
    assert_eq!(stage.kind(id).await, StateKind::Held, "a person decides");
}

pub(crate) async fn the_first_late_result_stands(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(2).await;
    let lost = stage.claim(2).await;
    stage.crash().await;
    let first = Report::retry(sent[0], "busy");
    assert_eq!(record_late(&stage, lost.token, &[first]).await, [sent[0]]);
    let kept = late(&stage, sent[0]).await;
    stage.advance(s(5)).await;
    let turned = [sent[1], sent[0]];
    let again = record_late(&stage, lost.token, &delivered(&turned)).await;
    assert_eq!(again, turned, "what is on record, in the order of the call");
    assert_eq!(late(&stage, sent[0]).await, kept, "as first reported");
    assert_eq!(late(&stage, sent[1]).await[0].outcome, Outcome::Delivered);
}

pub(crate) async fn late_results_come_in_order_of_time(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_one().await;
    let first = stage.claim(1).await;
    stage.crash().await;
    let second = stage.claim(1).await;
    stage.crash().await;
    stage.advance(s(1)).await;
    for lease in [&second, &first] {
        assert_eq!(
            record_late(&stage, lease.token, &delivered(&[id])).await,
            [id]
        );
        stage.advance(s(1)).await;
    }
    let kept = late(&stage, id).await;
    let fences: Vec<_> = kept.iter().map(|late| late.fence).collect();
    assert_eq!(fences, [second.fence, first.fence], "as they arrived");
    assert!(kept[0].at < kept[1].at);
}

pub(crate) async fn a_late_result_is_cut_like_any_report(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(2).await;
    let lost = stage.claim(2).await;
    stage.crash().await;
    let babble = Report {
        code: Some("c".repeat(CODE_BYTES_MAX + 1)),
        detail: Some(format!("a\0{}", "ü".repeat(DETAIL_BYTES_MAX))),
        result: Some(json!({"x": "\0"})),
        ..Report::new(sent[0], Outcome::Uncertain)
    };
    let borrowed = Report::retry(sent[1], "lease_expired");
    let reports = [babble.clone(), borrowed.clone()];
    assert_eq!(record_late(&stage, lost.token, &reports).await, sent);
    for (id, report) in sent.iter().zip([babble, borrowed]) {
        let (kept, report) = (late(&stage, *id).await.remove(0), report.bounded());
        assert_eq!(
            (kept.code, kept.detail, kept.result),
            (report.code, report.detail, report.result)
        );
    }
}

pub(crate) async fn a_message_named_twice_refuses_late_results(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(2).await;
    let lost = stage.claim(2).await;
    stage.crash().await;
    let twice = delivered(&[sent[0], sent[1], sent[0]]);
    refused(
        stage.store.record_late(lost.token, &twice).await,
        "invalid_input",
    );
    assert_eq!(late(&stage, sent[0]).await, [], "nothing was kept");
}

pub(crate) async fn late_results_at_once_leave_one_record(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(20).await;
    let lost = stage.claim(20).await;
    stage.advance(TTL).await;
    let mut tasks = JoinSet::new();
    for n in 0..8_usize {
        let store = match n % 2 {
            0 => Arc::clone(&stage.store),
            _ => harness.another().await,
        };
        let mut reports = delivered(&sent);
        reports.rotate_left(n);
        let token = lost.token;
        tasks.spawn(async move {
            let kept = store.record_late(token, &reports).await;
            let expected: Vec<MessageId> = reports.iter().map(|report| report.id).collect();
            assert_eq!(kept.expect("record_late answers"), expected);
        });
    }
    // The lease is taken back in the middle of it.
    let store = Arc::clone(&stage.store);
    tasks.spawn(async move {
        store.expire(10).await.expect("expire answers");
    });
    all(tasks).await;
    for id in &sent {
        assert_eq!(late(&stage, *id).await.len(), 1, "one record of {id}");
    }
}
