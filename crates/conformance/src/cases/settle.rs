//! Settling: outcomes, and where they lead.

use std::time::Duration;

use consign_kernel::{
    AttemptOutcome, OnUncertain, Outcome, QueuePolicy, RecordedOutcome, Report, RetrySchedule,
    State, StateKind, codes,
};
use serde_json::json;

use crate::{
    Harness,
    stage::{Stage, after, ids, policy, refused, s, settled},
};

pub(crate) async fn a_delivery_is_recorded_in_full(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    stage.advance(s(3)).await;
    let report = Report {
        code: Some("http_200".into()),
        detail: Some("taken".into()),
        result: Some(json!({"receipt": [1, "x"]})),
        ..Report::delivered(id)
    };
    let records = settled(stage.settle(&lease, std::slice::from_ref(&report)).await);
    let expected = RecordedOutcome {
        id,
        attempt_no: 1,
        outcome: AttemptOutcome::Delivered,
        next_due_at: None,
        state: StateKind::Delivered,
    };
    assert_eq!(records, [expected]);
    let now = stage.now().await;
    let attempt = stage.history(id).await.remove(0);
    assert_eq!(attempt.message_id, id);
    assert_eq!(attempt.outcome, AttemptOutcome::Delivered);
    assert_eq!(attempt.owner, "worker-1");
    assert_eq!((attempt.fence, attempt.token), (lease.fence, lease.token));
    assert_eq!(
        (attempt.claimed_at, attempt.finished_at),
        (lease.claimed_at, now)
    );
    assert_eq!((attempt.code, attempt.detail), (report.code, report.detail));
    assert_eq!(attempt.result, report.result);
    assert_eq!(attempt.next_due_at, None);
    assert_eq!(stage.state(id).await, State::Delivered { at: now });
    stage.claim_nothing("it is done").await;
}

pub(crate) async fn a_retry_waits_for_the_delay_of_the_schedule(harness: &dyn Harness) {
    let schedule = |retry| QueuePolicy {
        retry,
        attempts_max: 6,
        ..policy()
    };
    let table = RetrySchedule::Table {
        delays_ms: vec![5_000, 500],
    };
    let exponential = RetrySchedule::Exponential {
        base_ms: 1_000,
        factor: 2.0,
        max_ms: 5_000,
        jitter: 0.0,
    };
    let rules = [
        (table, [5_000, 500, 500, 500, 500]),
        (RetrySchedule::Fixed { delay_ms: 700 }, [700; 5]),
        (exponential, [1_000, 2_000, 4_000, 5_000, 5_000]),
    ];
    let stage = Stage::new(harness).await;
    for (retry, delays_ms) in rules {
        stage.add_queue("mail", &schedule(retry.clone())).await;
        let id = stage.enqueue_one().await;
        for (tries, delay_ms) in (0..).zip(delays_ms) {
            let lease = stage.claim(1).await;
            let claimed = &lease.messages[0];
            assert_eq!((claimed.attempt_no, claimed.tries), (tries + 1, tries));
            let record = stage.report(&lease, id, Outcome::Retry).await;
            let due_at = after(stage.now().await, Duration::from_millis(delay_ms));
            assert_eq!(
                record.next_due_at,
                Some(due_at),
                "{retry:?} after try {}",
                tries + 1
            );
            assert_eq!(
                (record.outcome, record.state),
                (AttemptOutcome::Retry, StateKind::Ready)
            );
            assert_eq!(stage.state(id).await, State::Ready { due_at });
            stage.claim_nothing("it rests").await;
            stage.advance(Duration::from_millis(delay_ms)).await;
        }
        assert_eq!(stage.drain().await, [id]);
    }
}

pub(crate) async fn jitter_stays_within_its_fraction(harness: &dyn Harness) {
    let retry = RetrySchedule::Exponential {
        base_ms: 10_000,
        factor: 2.0,
        max_ms: 60_000,
        jitter: 0.3,
    };
    let stage = Stage::with(harness, QueuePolicy { retry, ..policy() }).await;
    let sent = stage.enqueue(50).await;
    let now = stage.now().await;
    for id in sent {
        let lease = stage.claim(1).await;
        let record = stage.report(&lease, id, Outcome::Retry).await;
        let due_at = record.next_due_at.expect("a retry is due again");
        let (least, most) = (after(now, s(7)), after(now, s(13)));
        assert!(
            (least..=most).contains(&due_at),
            "70 % to 130 % of 10 s: {due_at}"
        );
    }
}

pub(crate) async fn a_report_may_name_its_own_delay(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(3).await;
    let lease = stage.claim(3).await;
    let delays = [s(77), Duration::ZERO, s(3)];
    let report = |(id, delay): (&consign_kernel::MessageId, Duration)| Report {
        retry_in: Some(delay),
        ..Report::retry(*id, "busy")
    };
    let reports: Vec<Report> = sent.iter().zip(delays).map(report).collect();
    let records = settled(stage.settle(&lease, &reports).await);
    let now = stage.now().await;
    for (record, delay) in records.iter().zip(delays) {
        assert_eq!(record.next_due_at, Some(after(now, delay)));
    }
    assert_eq!(ids(&stage.claim(10).await), [sent[1]], "due at once");
    stage.advance(s(3)).await;
    assert_eq!(
        ids(&stage.claim(10).await),
        [sent[2]],
        "due after its own delay"
    );
}

pub(crate) async fn the_last_try_ends_dead(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_one().await;
    for _ in 0..2 {
        let lease = stage.claim(1).await;
        stage.report(&lease, id, Outcome::Retry).await;
        stage.advance(s(2)).await;
    }
    let lease = stage.claim(1).await;
    assert_eq!(lease.messages[0].tries, 2, "the third of three tries");
    let report = Report {
        detail: Some("still down".into()),
        retry_in: Some(s(1)),
        ..Report::retry(id, "http_503")
    };
    let record = settled(stage.settle(&lease, &[report]).await).remove(0);
    assert_eq!(
        record.state,
        StateKind::Dead,
        "whatever the requested delay"
    );
    assert_eq!(record.next_due_at, None);
    assert_eq!(record.outcome, AttemptOutcome::Retry, "what was reported");
    let dead = State::Dead {
        at: stage.now().await,
        code: "http_503".into(),
        detail: Some("still down".into()),
    };
    assert_eq!(stage.state(id).await, dead);
    let last = stage.history(id).await.pop().expect("three attempts");
    assert_eq!(last.code.as_deref(), Some("http_503"));
    stage.advance(s(3600)).await;
    stage.claim_nothing("dead is dead").await;
}

pub(crate) async fn a_dead_report_ends_at_once(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(2).await;
    let lease = stage.claim(2).await;
    let coded = Report {
        code: Some("no_such_user".into()),
        detail: Some("gone".into()),
        ..Report::new(sent[0], Outcome::Dead)
    };
    let plain = Report::new(sent[1], Outcome::Dead);
    let records = settled(stage.settle(&lease, &[coded, plain]).await);
    assert!(
        records.iter().all(|r| r.state == StateKind::Dead),
        "{records:?}"
    );
    assert!(
        records.iter().all(|r| r.outcome == AttemptOutcome::Dead),
        "{records:?}"
    );
    let at = stage.now().await;
    let dead = |code: &str, detail: Option<&str>| State::Dead {
        at,
        code: code.into(),
        detail: detail.map(Into::into),
    };
    assert_eq!(
        stage.state(sent[0]).await,
        dead("no_such_user", Some("gone"))
    );
    assert_eq!(
        stage.state(sent[1]).await,
        dead("dead", None),
        "a code of last resort"
    );
    let attempt = stage.history(sent[1]).await.remove(0);
    assert_eq!(attempt.code, None, "the attempt has the reported outcome");
}

pub(crate) async fn a_partial_settle_leaves_the_rest_leased(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(4).await;
    let lease = stage.claim(4).await;
    let part = [Report::retry(sent[3], "x"), Report::delivered(sent[1])];
    let records = settled(stage.settle(&lease, &part).await);
    let order: Vec<_> = records.iter().map(|r| r.id).collect();
    assert_eq!(order, [sent[3], sent[1]], "in the order of the reports");
    let views = stage.store.leases(10).await.expect("leases answers");
    assert_eq!(views[0].ids, [sent[0], sent[2]]);
    let rest = [Report::delivered(sent[0]), Report::delivered(sent[2])];
    settled(stage.settle(&lease, &rest).await);
    let leases = stage.store.leases(10).await.expect("leases answers");
    assert_eq!(leases, [], "an empty lease is over");
}

pub(crate) async fn retries_of_one_settle_come_back_in_report_order(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(3).await;
    let lease = stage.claim(3).await;
    let reports: Vec<Report> = sent
        .iter()
        .rev()
        .map(|id| Report::retry(*id, "x"))
        .collect();
    settled(stage.settle(&lease, &reports).await);
    stage.advance(s(1)).await;
    let expected: Vec<_> = sent.iter().rev().copied().collect();
    assert_eq!(ids(&stage.claim(10).await), expected);
}

pub(crate) async fn an_empty_settle_checks_the_lease(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    assert_eq!(settled(stage.settle(&lease, &[]).await), []);
    stage.advance(s(10)).await;
    let answer = stage.settle(&lease, &[]).await;
    assert_eq!(answer, consign_kernel::SettleAnswer::LeaseLost);
}

pub(crate) async fn a_message_named_twice_refuses_the_settle(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(2).await;
    let lease = stage.claim(2).await;
    let twice = [
        Report::delivered(sent[0]),
        Report::delivered(sent[1]),
        Report::retry(sent[0], "x"),
    ];
    refused(
        stage.store.settle(lease.token, &twice).await,
        "invalid_input",
    );
    for id in sent {
        assert_eq!(stage.history(id).await, [], "nothing was written");
    }
    stage.deliver(&lease).await;
}

pub(crate) async fn a_changed_policy_applies_to_leases_in_flight(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.enqueue_one().await;
    let lease = stage.claim(1).await;
    let stricter = QueuePolicy {
        attempts_max: 1,
        ..policy()
    };
    stage.add_queue("mail", &stricter).await;
    let record = stage.report(&lease, id, Outcome::Retry).await;
    assert_eq!(record.state, StateKind::Dead, "one try was allowed");
}

pub(crate) async fn a_thousand_messages_settle_in_one_call(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let sent = stage.enqueue(1_000).await;
    let lease = stage.claim(1_000).await;
    let outcome = |n: usize| match n % 3 {
        0 => Outcome::Delivered,
        1 => Outcome::Retry,
        _ => Outcome::Dead,
    };
    let report = |(n, id): (usize, &consign_kernel::MessageId)| Report::new(*id, outcome(n));
    let reports: Vec<Report> = sent.iter().enumerate().map(report).collect();
    let records = settled(stage.settle(&lease, &reports).await);
    assert!(
        records
            .iter()
            .zip(&sent)
            .all(|(record, id)| record.id == *id),
        "in order"
    );
    let counts = stage.counts().await;
    assert_eq!(
        (counts.scheduled, counts.dead, counts.leased),
        (333, 333, 0)
    );
    stage.advance(s(1)).await;
    assert_eq!(stage.drain().await.len(), 333);
}

/// A worker that is not set up for a message gives it back without using up a try, and without
/// forgetting a doubt.
pub(crate) async fn a_message_meant_for_another_destination_keeps_its_tries(harness: &dyn Harness) {
    let rules = QueuePolicy {
        attempts_max: 2,
        on_uncertain: OnUncertain::Probe,
        ..policy()
    };
    let stage = Stage::with(harness, rules).await;
    let id = stage.enqueue_one().await;
    for (tries, outcome) in [
        (0, Outcome::Retry),
        (0, Outcome::Uncertain),
        (0, Outcome::Retry),
    ] {
        let lease = stage.claim(1).await;
        assert_eq!(lease.messages[0].tries, tries);
        let report = Report {
            code: Some(codes::MISDIRECTED.to_owned()),
            retry_in: Some(s(60)),
            ..Report::new(id, outcome)
        };
        let recorded = settled(stage.settle(&lease, &[report]).await).remove(0);
        assert_eq!(recorded.state, StateKind::Ready, "{outcome:?}");
        stage.advance(s(59)).await;
        stage.claim_nothing("it rests").await;
        stage.advance(s(1)).await;
    }
    let lease = stage.claim(1).await;
    let claimed = &lease.messages[0];
    assert_eq!((claimed.tries, claimed.attempt_no), (0, 4));
    // Without a word about when, it rests as after a first failure.
    let report = Report {
        code: Some(codes::MISDIRECTED.to_owned()),
        ..Report::new(id, Outcome::Retry)
    };
    let recorded = settled(stage.settle(&lease, &[report]).await).remove(0);
    assert!(recorded.next_due_at > Some(stage.now().await));
}

/// The rest of a message that is sent on follows from its counted tries, this one included.
pub(crate) async fn a_misdirected_message_rests_as_after_its_next_failure(harness: &dyn Harness) {
    let rules = QueuePolicy {
        attempts_max: 5,
        retry: RetrySchedule::Table {
            delays_ms: vec![1_000, 100_000, 1_000_000],
        },
        ..policy()
    };
    let stage = Stage::with(harness, rules).await;
    let id = stage.enqueue_one().await;
    for (code, rest) in [(None, s(1)), (Some(codes::MISDIRECTED), s(100))] {
        let lease = stage.claim(1).await;
        let report = Report {
            code: code.map(str::to_owned),
            ..Report::new(id, Outcome::Retry)
        };
        settled(stage.settle(&lease, &[report]).await);
        stage.advance(rest - Duration::from_millis(10)).await;
        stage.claim_nothing("it rests").await;
        stage.advance(Duration::from_millis(10)).await;
    }
    assert_eq!(stage.claim(1).await.messages[0].tries, 1);
}
