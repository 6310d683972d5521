//! How long a lease may live, and ending one by hand.

use std::time::Duration;

use consign_kernel::{
    AttemptOutcome, By, EndedLease, Lease, MessageId, OnUncertain, QueuePolicy, RenewAnswer,
    Report, SettleAnswer, StateKind, TokenPrefix,
};

use crate::{
    Harness,
    stage::{Stage, TTL, after, by, ids, policy, refused, s},
};

fn bounded(seconds: u64) -> QueuePolicy {
    QueuePolicy {
        lease_ttl_max_ms: seconds * 1_000,
        ..policy()
    }
}

fn prefix(text: &str) -> TokenPrefix {
    text.parse().expect("a part of a token")
}

fn named(lease: &Lease) -> TokenPrefix {
    prefix(&lease.token.shown())
}

async fn end(stage: &Stage<'_>, lease: &Lease) -> EndedLease {
    let ended = stage.store.end_lease(&named(lease), &by()).await;
    ended.expect("end_lease answers")
}

fn delivered(ids: &[MessageId]) -> Vec<Report> {
    ids.iter().copied().map(Report::delivered).collect()
}

pub(crate) async fn a_claim_cannot_ask_for_more_time_than_its_queue_allows(harness: &dyn Harness) {
    let stage = Stage::with(harness, bounded(20)).await;
    let id = stage.enqueue_one().await;
    let longer = stage.ask(1).with_ttl(s(20) + Duration::from_millis(1));
    let error = refused(stage.store.claim(&longer).await, "invalid_input");
    let words = error.to_string();
    assert!(
        words.contains("20001 ms") && words.contains("20000 ms"),
        "{words}"
    );
    assert_eq!(stage.kind(id).await, StateKind::Ready, "nothing was leased");
    let longest = stage.ask(1).with_ttl(s(20));
    let lease = stage.store.claim(&longest).await.expect("claim answers");
    let expected = after(stage.now().await, s(20));
    assert_eq!(lease.map(|lease| lease.expires_at), Some(expected));
}

pub(crate) async fn a_renewal_cannot_ask_for_more_time_than_its_queue_allows(
    harness: &dyn Harness,
) {
    let stage = Stage::with(harness, bounded(20)).await;
    stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    let longer = s(20) + Duration::from_millis(1);
    refused(
        stage.store.renew(lease.token, longer).await,
        "invalid_input",
    );
    let views = stage.store.leases(10).await.expect("leases answers");
    assert_eq!(views[0].expires_at, lease.expires_at, "as it was");
    let expires_at = after(stage.now().await, s(20));
    let answer = stage.store.renew(lease.token, s(20)).await;
    assert_eq!(
        answer.expect("renew answers"),
        RenewAnswer::Renewed { expires_at }
    );
    // A bound that was lowered holds for leases that were there before.
    stage.add_queue("mail", &bounded(15)).await;
    refused(stage.store.renew(lease.token, s(20)).await, "invalid_input");
    stage.deliver(&lease).await;
}

pub(crate) async fn an_ended_lease_comes_back_as_by_expiry(harness: &dyn Harness) {
    let stage = Stage::with(harness, bounded(3_600)).await;
    let sent = stage.enqueue(2).await;
    let claim = stage.ask(2).with_ttl(s(3_600));
    let lease = stage.store.claim(&claim).await.expect("claim answers");
    let lease = lease.expect("something is due");
    stage.advance(s(1)).await;
    let expected = EndedLease {
        fence: lease.fence,
        queue: stage.queue.clone(),
        owner: "worker-1".into(),
        messages: 2,
    };
    assert_eq!(end(&stage, &lease).await, expected);
    for id in &sent {
        let history = stage.history(*id).await;
        assert_eq!(history.len(), 1);
        assert_eq!(history[0].outcome, AttemptOutcome::Expired);
        assert_eq!(history[0].finished_at, stage.now().await);
    }
    assert_eq!(stage.store.leases(10).await.expect("leases answers"), []);
    assert_eq!(
        ids(&stage.claim(10).await),
        sent[..1],
        "in halves, each alone"
    );
    assert_eq!(ids(&stage.claim(10).await), sent[1..]);
}

pub(crate) async fn results_of_an_ended_lease_are_late(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_one().await;
    let lost = stage.claim(1).await;
    end(&stage, &lost).await;
    let reports = delivered(&[id]);
    assert_eq!(stage.settle(&lost, &reports).await, SettleAnswer::LeaseLost);
    let renewed = stage.store.renew(lost.token, TTL).await;
    assert_eq!(renewed.expect("renew answers"), RenewAnswer::LeaseLost);
    let kept = stage.store.record_late(lost.token, &reports).await;
    assert_eq!(kept.expect("record_late answers"), [id]);
    let lease = stage.claim(1).await;
    assert!(
        lease.messages[0].in_doubt,
        "its holder reports it delivered"
    );
    stage.deliver(&lease).await;
    assert_eq!(stage.history(id).await.len(), 2);
}

pub(crate) async fn what_had_begun_is_uncertain_when_its_lease_is_ended(harness: &dyn Harness) {
    let rules = QueuePolicy {
        on_uncertain: OnUncertain::Hold,
        ..policy()
    };
    let stage = Stage::with(harness, rules).await;
    let sent = stage.enqueue(2).await;
    let lease = stage.claim(2).await;
    let begun = stage.store.begin(lease.token, &sent[..1]).await;
    begun.expect("begin answers");
    end(&stage, &lease).await;
    assert_eq!(
        stage.kinds(&sent).await,
        [StateKind::Held, StateKind::Ready]
    );
}

pub(crate) async fn an_ended_lease_is_recorded_with_who_and_why(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    let store = &stage.store;
    for nobody in [
        By::new("", "why"),
        By::new("ada", " "),
        By::new("ada", "x".repeat(4_096)),
    ] {
        refused(
            store.end_lease(&named(&lease), &nobody).await,
            "invalid_input",
        );
    }
    assert_eq!(store.leases(10).await.expect("leases answers").len(), 1);
    end(&stage, &lease).await;
    let audit = store.audit(None, None, 1).await.expect("audit answers");
    let entry = &audit[0];
    let what = (entry.actor.as_str(), entry.action.as_str());
    assert_eq!(what, ("ada", "end_lease"));
    assert_eq!(
        (entry.queue.as_ref(), entry.message_id),
        (Some(&stage.queue), None)
    );
    let reason = format!("checking the rules (lease {} of worker-1)", lease.fence);
    assert_eq!(entry.reason, reason);
}

pub(crate) async fn a_lease_is_named_by_its_token_alone(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    stage.enqueue(2).await;
    let (one, other) = (stage.claim(1).await, stage.claim(1).await);
    let views = stage.store.leases(10).await.expect("leases answers");
    let shown: Vec<String> = views.into_iter().map(|view| view.token_prefix).collect();
    assert_eq!(shown, [one.token.shown(), other.token.shown()]);
    assert_eq!(shown[0].len(), 8, "too short to settle with");
    let whole = prefix(&one.token.to_string().to_uppercase());
    let ended = stage.store.end_lease(&whole, &by()).await;
    assert_eq!(ended.expect("end_lease answers").fence, one.fence);
    let again = stage.store.end_lease(&whole, &by()).await;
    refused(again, "unknown_lease");
    stage.deliver(&other).await;
    refused(
        stage.store.end_lease(&named(&other), &by()).await,
        "unknown_lease",
    );
    for wrong in ["", "abc", "abcg", "%%%%", "x' OR true --", &"a".repeat(37)] {
        assert!(wrong.parse::<TokenPrefix>().is_err(), "{wrong:?}");
    }
}
