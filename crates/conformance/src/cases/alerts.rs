//! Alerts: messages about a queue in another one, with the number they stand for.

use std::{sync::Arc, time::Duration};

use consign_kernel::{
    ALERT_CODES_MAX, ALERT_HEADER, Alert, AlertReason, AlertStep, Claim, MessageId, QueuePolicy,
    Report, Resolution,
};
use tokio::task::JoinSet;

use crate::{
    Harness,
    stage::{Stage, TTL, after, all, by, ids, policy, queue, refused, s},
};

use AlertReason::{BreakerOpen, Died, LeaseLost, QueueOld};

/// The interval of every queue here.
pub(super) const INTERVAL: Duration = Duration::from_secs(60);

/// The usual rules with alerts in the queue `ops`.
pub(super) fn alerting() -> QueuePolicy {
    QueuePolicy {
        alert_queue: Some(queue("ops")),
        alert_interval_ms: INTERVAL.as_millis() as u64,
        ..policy()
    }
}

/// The queue `mail`, whose alerts go to `ops`.
pub(super) async fn watched(harness: &dyn Harness) -> Stage<'_> {
    watched_with(harness, alerting()).await
}

async fn watched_with(harness: &dyn Harness, rules: QueuePolicy) -> Stage<'_> {
    let stage = Stage::new(harness).await;
    stage.add_queue("ops", &policy()).await;
    stage.add_queue("mail", &rules).await;
    stage
}

impl Stage<'_> {
    pub(super) async fn step_alerts(&self) -> AlertStep {
        let step = self.store.step_alerts(1_000).await;
        step.expect("step_alerts answers")
    }

    /// The alerts in `ops`, which are delivered.
    pub(super) async fn in_ops(&self) -> Vec<Alert> {
        let mut alerts = Vec::new();
        loop {
            let claim = Claim::new(queue("ops"), "messenger", 1_000);
            let claimed = self.store.claim(&claim).await.expect("claim answers");
            let Some(lease) = claimed else { return alerts };
            for claimed in &lease.messages {
                let payload = claimed.message.payload.as_str();
                let alert: Alert = serde_json::from_str(payload).expect("the payload of an alert");
                let reason = alert.reason.as_str();
                assert_eq!(claimed.message.headers[ALERT_HEADER], reason, "{alert:?}");
                alerts.push(alert);
            }
            self.deliver(&lease).await;
        }
    }

    /// Takes a step, and answers with the alerts it enqueued.
    pub(super) async fn alerts(&self) -> Vec<Alert> {
        let step = self.step_alerts().await;
        assert!(step.refused.is_empty(), "{step:?}");
        assert_eq!(
            self.in_ops().await,
            step.raised,
            "what was raised is in ops"
        );
        step.raised
    }

    /// Takes a step, and answers with reason, code and number of each alert it enqueued.
    pub(super) async fn numbers(&self) -> Vec<(AlertReason, String, u64)> {
        let alerts = self.alerts().await.into_iter();
        let number = |alert: Alert| (alert.reason, alert.code.unwrap_or_default(), alert.count);
        alerts.map(number).collect()
    }

    async fn nothing(&self, why: &str) {
        assert_eq!(self.numbers().await, [], "no alert: {why}");
    }
}

fn died(code: &str, count: u64) -> (AlertReason, String, u64) {
    (Died, code.to_owned(), count)
}

fn lost(count: u64) -> (AlertReason, String, u64) {
    (LeaseLost, String::new(), count)
}

pub(crate) async fn deaths_are_alerted_with_their_number(harness: &dyn Harness) {
    let stage = watched(harness).await;
    let at = stage.now().await;
    let dead = stage.dead(5).await;
    stage.advance(s(2)).await;
    let later = stage.dead(2).await;
    let alerts = stage.alerts().await;
    let expected = Alert {
        reason: Died,
        queue: queue("mail"),
        code: Some("gone".into()),
        count: 7,
        first_at: at,
        last_at: after(at, s(2)),
        message_id: later.last().copied(),
        oldest_at: None,
        text: "7 messages of queue mail died with gone: \
               `consign ls --queue mail --state dead --code gone`"
            .into(),
    };
    assert_eq!(alerts, [expected]);
    assert!(dead < later, "the example is the latest");
    stage.nothing("all were counted").await;
}

pub(crate) async fn an_interval_has_one_alert_and_the_next_counts_the_rest(harness: &dyn Harness) {
    let stage = watched(harness).await;
    stage.dead(1).await;
    assert_eq!(stage.numbers().await, [died("gone", 1)]);
    for _ in 0..5 {
        stage.advance(s(10)).await;
        stage.dead(3).await;
        stage.nothing("the interval is not over").await;
    }
    stage.advance(s(9)).await;
    stage.nothing("a second before the interval is over").await;
    stage.advance(s(1)).await;
    assert_eq!(stage.numbers().await, [died("gone", 15)]);
    stage.advance(INTERVAL * 10).await;
    stage.nothing("nothing has happened since").await;
    stage.dead(1).await;
    assert_eq!(stage.numbers().await, [died("gone", 1)], "without delay");
}

pub(crate) async fn each_reason_and_code_has_its_own_interval(harness: &dyn Harness) {
    let stage = watched(harness).await;
    stage.dead_in(&stage.queue, 2, "gone").await;
    assert_eq!(stage.numbers().await, [died("gone", 2)]);
    stage.dead_in(&stage.queue, 1, "gone").await;
    stage.dead_in(&stage.queue, 3, "full").await;
    let opened = stage
        .store
        .record_breaker_open(&stage.queue, Some("http_503"));
    opened.await.expect("record_breaker_open answers");
    let breaker = (BreakerOpen, "http_503".to_owned(), 1);
    assert_eq!(stage.numbers().await, [breaker, died("full", 3)]);
    stage.advance(INTERVAL).await;
    assert_eq!(stage.numbers().await, [died("gone", 1)]);
}

pub(crate) async fn codes_beyond_the_most_share_an_alert(harness: &dyn Harness) {
    let stage = watched(harness).await;
    for n in 0..ALERT_CODES_MAX + 5 {
        stage
            .dead_in(&stage.queue, 1, &format!("code-{n:02}"))
            .await;
    }
    let numbers = stage.numbers().await;
    assert_eq!(numbers.len(), ALERT_CODES_MAX + 1, "{numbers:?}");
    assert_eq!(numbers.last(), Some(&died("other", 5)));
    stage.dead_in(&stage.queue, 1, "code-00").await;
    stage.dead_in(&stage.queue, 1, "new").await;
    stage.advance(INTERVAL).await;
    let expected = [died("code-00", 1), died("other", 1)];
    assert_eq!(stage.numbers().await, expected);
    stage.advance(INTERVAL).await;
    stage.nothing("and the codes are forgotten").await;
    stage.dead_in(&stage.queue, 1, "new").await;
    assert_eq!(stage.numbers().await, [died("new", 1)]);
}

pub(crate) async fn three_lost_leases_within_the_interval_are_alerted(harness: &dyn Harness) {
    let stage = watched(harness).await;
    let sent = stage.enqueue(1).await;
    for _ in 0..2 {
        stage.claim(1).await;
        stage.crash().await;
        stage.nothing("two lost leases happen").await;
    }
    // The third try is the last: the message dies of it.
    stage.claim(1).await;
    stage.crash().await;
    let alerts = stage.alerts().await;
    let summary: Vec<_> = alerts.iter().map(|it| (it.reason, it.count)).collect();
    assert_eq!(summary, [(Died, 1), (LeaseLost, 3)]);
    let now = stage.now().await;
    assert_eq!(alerts[0].code.as_deref(), Some("lease_expired"));
    assert_eq!(alerts[1].code, None);
    assert_eq!(alerts[1].message_id, Some(sent[0]));
    assert_eq!(
        (alerts[1].first_at, alerts[1].last_at),
        (now - TTL * 2, now)
    );
}

pub(crate) async fn lost_leases_older_than_the_interval_are_dropped(harness: &dyn Harness) {
    let stage = watched(harness).await;
    let crash = async || {
        stage.enqueue(1).await;
        let lease = stage.claim(1).await;
        let prefix = lease
            .token
            .to_string()
            .parse()
            .expect("the start of a token");
        let ended = stage.store.end_lease(&prefix, &by()).await;
        ended.expect("end_lease answers");
        stage.drain().await;
    };
    for _ in 0..4 {
        crash().await;
        stage.advance(s(1)).await;
        crash().await;
        stage.advance(INTERVAL).await;
        stage.nothing("never three within the interval").await;
    }
    crash().await;
    stage.advance(INTERVAL - s(1)).await;
    crash().await;
    stage.nothing("two").await;
    stage.advance(s(1)).await;
    crash().await;
    stage.nothing("the first of three is an interval old").await;
    crash().await;
    assert_eq!(stage.numbers().await, [lost(3)]);
    crash().await;
    crash().await;
    crash().await;
    crash().await;
    stage.advance(INTERVAL).await;
    assert_eq!(stage.numbers().await, [lost(4)], "kept: they were enough");
}

pub(crate) async fn a_queue_older_than_its_limit_is_alerted(harness: &dyn Harness) {
    let rules = QueuePolicy {
        alert_age_ms: Some(5_000),
        ..alerting()
    };
    let stage = watched_with(harness, rules).await;
    let at = stage.now().await;
    let sent = stage.enqueue(3).await;
    let delayed = stage.message(4).with_delay(s(600));
    stage.enqueue_all(&[delayed]).await;
    stage.advance(Duration::from_millis(4_999)).await;
    stage.nothing("a millisecond is left").await;
    stage.advance(Duration::from_millis(1)).await;
    let now = stage.now().await;
    let expected = Alert {
        reason: QueueOld,
        queue: queue("mail"),
        code: None,
        count: 3,
        first_at: at,
        last_at: now,
        message_id: Some(sent[0]),
        oldest_at: Some(at),
        text: "queue mail is older than its limit, 3 messages due: \
               `consign ls --queue mail --state ready`"
            .into(),
    };
    assert_eq!(stage.alerts().await, [expected]);
    stage.nothing("once per interval").await;
    let paused = stage.store.pause(&stage.queue, &by()).await;
    paused.expect("pause answers");
    stage.enqueue(1).await;
    stage.advance(INTERVAL).await;
    let old = (QueueOld, String::new(), 4);
    assert_eq!(stage.numbers().await, [old], "also while it is paused");
    let resumed = stage.store.resume(&stage.queue, &by()).await;
    resumed.expect("resume answers");
    stage.drain().await;
    stage.advance(INTERVAL).await;
    stage.nothing("what is left is not due").await;
}

/// Of a code that a worker or a receiver made up; `code` has it as it is.
pub(crate) async fn the_text_of_an_alert_has_no_markup_of_others(harness: &dyn Harness) {
    let stage = watched(harness).await;
    let code = "x\n`rm` <!channel>\u{9b}";
    let opened = stage.store.record_breaker_open(&stage.queue, Some(code));
    opened.await.expect("record_breaker_open answers");
    stage.dead_in(&stage.queue, 1, code).await;
    for alert in stage.alerts().await {
        assert_eq!(alert.code.as_deref(), Some(code));
        let text = alert.text.as_str();
        assert!(text.contains("with x??rm? ?!channel??: "), "{text:?}");
        assert_eq!(alert, alert.clone().with_text(), "as the kernel has it");
    }
}

pub(crate) async fn an_open_breaker_is_alerted(harness: &dyn Harness) {
    let stage = watched(harness).await;
    let open = async |code: Option<&str>| {
        let recorded = stage.store.record_breaker_open(&stage.queue, code).await;
        recorded.expect("record_breaker_open answers");
    };
    open(Some("timeout")).await;
    open(Some("timeout")).await;
    open(None).await;
    let numbers = stage.numbers().await;
    let named = |code: &str, count| (BreakerOpen, code.to_owned(), count);
    assert_eq!(numbers, [named("", 1), named("timeout", 2)]);
    let unknown = queue("nowhere");
    let unknown = stage.store.record_breaker_open(&unknown, None).await;
    refused(unknown, "unknown_queue");
}

pub(crate) async fn a_queue_without_alerts_records_nothing(harness: &dyn Harness) {
    let stage = watched_with(harness, policy()).await;
    stage.dead(3).await;
    stage.enqueue(1).await;
    for _ in 0..3 {
        stage.claim(1).await;
        stage.crash().await;
    }
    let opened = stage.store.record_breaker_open(&stage.queue, None).await;
    opened.expect("record_breaker_open answers");
    assert_eq!(stage.step_alerts().await, AlertStep::default());
    stage.add_queue("mail", &alerting()).await;
    assert_eq!(stage.step_alerts().await, AlertStep::default(), "nor later");
}

pub(crate) async fn a_changed_policy_takes_effect_at_the_next_step(harness: &dyn Harness) {
    let stage = watched(harness).await;
    stage.dead(1).await;
    assert_eq!(stage.numbers().await, [died("gone", 1)]);
    stage.dead(2).await;
    stage.advance(s(5)).await;
    stage.nothing("the interval is not over").await;
    let shorter = QueuePolicy {
        alert_interval_ms: 5_000,
        ..alerting()
    };
    stage.add_queue("mail", &shorter).await;
    assert_eq!(stage.numbers().await, [died("gone", 2)]);

    stage.dead(4).await;
    stage.nothing("the interval is not over").await;
    let elsewhere = QueuePolicy {
        alert_queue: Some(stage.add_queue("night", &policy()).await),
        ..alerting()
    };
    stage.add_queue("mail", &elsewhere).await;
    stage.advance(INTERVAL).await;
    assert_eq!(stage.step_alerts().await.raised.len(), 1);
    assert_eq!(stage.counts_of(&queue("night")).await.ready, 1);

    stage.dead(1).await;
    stage.add_queue("mail", &policy()).await;
    stage.advance(INTERVAL).await;
    let step = stage.step_alerts().await;
    assert_eq!((step.events, step.raised), (1, vec![]), "alerts are off");
    stage.add_queue("mail", &alerting()).await;
    stage.nothing("what happened before is forgotten").await;
}

pub(crate) async fn requeued_and_resolved_deaths_count(harness: &dyn Harness) {
    let stage = watched(harness).await;
    let dead = stage.dead(1).await;
    let requeued = stage.store.requeue(&dead, &by()).await;
    requeued.expect("requeue answers");
    let lease = stage.claim(1).await;
    stage.bury(&lease, "gone").await;
    let held = stage.enqueue(2).await;
    let moved = stage.store.hold(&held, &by()).await;
    moved.expect("hold answers");
    let resolved = stage.store.resolve(&held, &Resolution::Dead, &by()).await;
    resolved.expect("resolve answers");
    let expected = [died("gone", 2), died("resolved", 2)];
    assert_eq!(stage.numbers().await, expected);
}

pub(crate) async fn a_death_that_was_not_committed_is_not_counted(harness: &dyn Harness) {
    let stage = watched(harness).await;
    stage.enqueue(1).await;
    let lease = stage.claim(1).await;
    stage.advance(TTL).await;
    stage.settle(&lease, &reports(&ids(&lease))).await;
    stage.nothing("the lease was lost").await;
    let lease = stage.claim(1).await;
    for _ in 0..2 {
        stage.settle(&lease, &reports(&ids(&lease))).await;
    }
    assert_eq!(stage.numbers().await, [died("gone", 1)], "settled twice");
}

fn reports(ids: &[MessageId]) -> Vec<Report> {
    let report = |id: &MessageId| Report {
        code: Some("gone".into()),
        ..Report::new(*id, consign_kernel::Outcome::Dead)
    };
    ids.iter().map(report).collect()
}

pub(crate) async fn an_alert_that_its_queue_refuses_is_kept(harness: &dyn Harness) {
    let stage = watched(harness).await;
    let tight = QueuePolicy {
        payload_max_bytes: 10,
        ..policy()
    };
    let small = stage.add_queue("small", &tight).await;
    let other = stage
        .add_queue(
            "invoices",
            &QueuePolicy {
                alert_queue: Some(small.clone()),
                ..alerting()
            },
        )
        .await;
    stage.dead_in(&other, 2, "gone").await;
    stage.dead(3).await;
    for died_there in [2, 4] {
        let step = stage.step_alerts().await;
        let refused: Vec<_> = step.refused.iter().collect();
        assert_eq!(refused.len(), 1, "{step:?}");
        assert_eq!(refused[0].alert.queue, other);
        assert_eq!(refused[0].alert.count, died_there);
        assert_eq!(refused[0].alert_queue, small);
        assert!(
            refused[0].failure.contains("10"),
            "{:?}",
            refused[0].failure
        );
        stage.dead_in(&other, 2, "gone").await;
    }
    assert_eq!(stage.in_ops().await.len(), 1, "the other queue's went out");
    let findings = stage.store.doctor().await.expect("doctor answers");
    let codes: Vec<&str> = findings.iter().map(|it| it.code.as_str()).collect();
    assert_eq!(codes, ["alerts"], "{findings:?}");
    assert!(findings[0].what.contains("invoices") && findings[0].what.contains("small"));
    stage.add_queue("small", &policy()).await;
    let step = stage.step_alerts().await;
    assert_eq!(step.raised[0].count, 6, "all of them: {step:?}");
}

pub(crate) async fn rejects_alert_policies_that_cannot_work(harness: &dyn Harness) {
    let stage = watched(harness).await;
    let put = async |name: &str, policy: QueuePolicy| {
        let put = stage.store.put_queue(&queue(name), &policy, &by()).await;
        refused(put, "invalid_input").to_string()
    };
    let error = put("ops", alerting()).await;
    assert!(
        error.contains("alert_queue") && error.contains("another queue"),
        "{error}"
    );
    let missing = QueuePolicy {
        alert_queue: Some(queue("nowhere")),
        ..alerting()
    };
    let error = put("mail", missing).await;
    assert!(
        error.contains("nowhere") && error.contains("must exist"),
        "{error}"
    );
    for interval in [0, 999, 30 * 24 * 3_600_000 + 1, u64::MAX] {
        let bad = QueuePolicy {
            alert_interval_ms: interval,
            ..alerting()
        };
        let error = put("mail", bad).await;
        assert!(error.contains("alert_interval_ms"), "{error}");
    }
    for age in [0, 30 * 24 * 3_600_000 + 1, u64::MAX] {
        let bad = QueuePolicy {
            alert_age_ms: Some(age),
            ..alerting()
        };
        let error = put("mail", bad).await;
        assert!(error.contains("alert_age_ms"), "{error}");
    }
    for limit in [0, 1_001] {
        refused(stage.store.step_alerts(limit).await, "invalid_input");
    }
}

pub(crate) async fn a_step_takes_no_more_than_its_limit(harness: &dyn Harness) {
    let stage = watched(harness).await;
    for _ in 0..5 {
        stage.dead(1).await;
    }
    let mut counts = Vec::new();
    for _ in 0..3 {
        let step = stage
            .store
            .step_alerts(2)
            .await
            .expect("step_alerts answers");
        counts.push(step.events);
    }
    assert_eq!(counts, [2, 2, 1]);
    stage.advance(INTERVAL).await;
    stage.step_alerts().await;
    let counts: Vec<u64> = stage.in_ops().await.iter().map(|it| it.count).collect();
    assert_eq!(counts, [2, 3], "each is counted once");
}

pub(crate) async fn queues_that_alert_each_other_are_bounded(harness: &dyn Harness) {
    let stage = watched(harness).await;
    let back = QueuePolicy {
        alert_queue: Some(queue("mail")),
        ..alerting()
    };
    stage.add_queue("ops", &back).await;
    let mut sent = 0;
    stage.dead(1).await;
    for _ in 0..20 {
        sent += stage.step_alerts().await.raised.len();
        // Every alert dies of the same cause as what it is about.
        for name in ["mail", "ops"] {
            let claim = Claim::new(queue(name), "w", 1_000);
            let claimed = stage.store.claim(&claim).await.expect("claim answers");
            if let Some(lease) = claimed {
                stage.bury(&lease, "gone").await;
            }
        }
        stage.advance(s(1)).await;
    }
    assert_eq!(sent, 2, "one of each within the interval");
}

pub(crate) async fn a_clock_set_back_does_not_silence_alerts(harness: &dyn Harness) {
    let stage = watched(harness).await;
    stage.dead(1).await;
    assert_eq!(stage.numbers().await, [died("gone", 1)]);
    let back = jiff::SignedDuration::from_hours(-24);
    harness.advance(back).await;
    stage.dead(1).await;
    assert_eq!(stage.numbers().await, [died("gone", 1)]);
}

pub(crate) async fn steppers_at_once_lose_and_double_nothing(harness: &dyn Harness) {
    let stage = watched(harness).await;
    let mut expected = 0;
    for _ in 0..5 {
        for n in 1..=4 {
            stage.dead(n).await;
            expected += n as u64;
        }
        let mut tasks = JoinSet::new();
        for n in 0..6 {
            let store = match n % 2 {
                0 => Arc::clone(&stage.store),
                _ => harness.another().await,
            };
            tasks.spawn(async move {
                let step = store.step_alerts(1).await.expect("step_alerts answers");
                step.raised.len()
            });
        }
        let raised: usize = all(tasks).await.into_iter().sum();
        assert!(raised <= 1, "{raised} alerts within an interval");
        stage.advance(INTERVAL).await;
    }
    for _ in 0..10 {
        stage.step_alerts().await;
        stage.advance(INTERVAL).await;
    }
    let counts = stage.in_ops().await.into_iter().map(|alert| alert.count);
    assert_eq!(counts.sum::<u64>(), expected);
}
