use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::*;
use crate::{
    AlertReason, Backlog, BreakerState, MessageId, OutcomeCounts, ProcessBreaker, QueuePolicy,
};

fn now() -> Timestamp {
    Timestamp::from_second(1_700_000_000).unwrap()
}

fn ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

fn mail() -> QueueName {
    "mail".parse().unwrap()
}

/// One queue, worked by one process, with nothing to do.
fn quiet() -> Situation {
    let queue = Queue {
        name: mail(),
        policy: QueuePolicy::default(),
        paused_at: None,
    };
    Situation {
        queues: vec![(queue, Counts::default())],
        processes: vec![process("w1", 3)],
        causes: Vec::new(),
        minutes: Vec::new(),
        attention: Attention {
            now: now(),
            blocked: Vec::new(),
            alerts: Vec::new(),
            overdue: Vec::new(),
            acknowledgements: Vec::new(),
        },
    }
}

fn process(name: &str, seen_ago: i64) -> Process {
    Process {
        name: name.into(),
        version: "1".into(),
        started_at: ago(9_000),
        seen_at: ago(seen_ago),
        queues: vec![mail()],
        breakers: Vec::new(),
    }
}

fn due(count: u64, oldest_ago: i64) -> Counts {
    Counts {
        ready: count,
        oldest_due_at: Some(ago(oldest_ago)),
        ..Counts::default()
    }
}

fn minute(seconds_ago: i64, delivered: u64, retried: u64, due: u64) -> QueueMinutes {
    QueueMinutes {
        queue: mail(),
        minute: ago(seconds_ago),
        done: OutcomeCounts {
            delivered,
            retried,
            ..OutcomeCounts::default()
        },
        backlog: Backlog { due, oldest_ms: 0 },
    }
}

fn with(counts: Counts, minutes: Vec<QueueMinutes>) -> Situation {
    let mut situation = quiet();
    situation.queues[0].1 = counts;
    situation.minutes = minutes;
    situation
}

fn only(situation: &Situation) -> OpenProblem {
    let problems = situation.problems();
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems.into_iter().next().unwrap()
}

fn cause(messages: u64, recent: u64, before: u64) -> DeadCause {
    DeadCause {
        queue: mail(),
        code: "http_500".into(),
        messages,
        attempts_min: 1,
        attempts_max: 1,
        first_at: ago(600),
        last_at: ago(5),
        recent,
        before,
        example: MessageId(1),
        detail: None,
    }
}

fn acknowledged(problem: &str, severity: Severity, at: Timestamp) -> Acknowledgement {
    Acknowledgement {
        problem: problem.into(),
        severity,
        at,
        until: at + SignedDuration::from_hours(1),
        actor: "ada".into(),
        reason: "known".into(),
    }
}

#[test]
fn a_queue_that_is_worked_has_no_problem() {
    assert_eq!(quiet().problems(), []);
    let busy = with(due(500, 30), vec![minute(60, 100, 3, 480)]);
    assert_eq!(busy.problems(), []);
    let steady = with(
        due(500, 90),
        vec![minute(60, 100, 3, 480), minute(620, 9, 0, 495)],
    );
    assert_eq!(steady.problems(), []);
}

#[test]
fn an_open_breaker_is_a_problem_where_messages_wait() {
    let mut situation = with(due(30, 20), Vec::new());
    situation.processes[0].breakers = vec![ProcessBreaker {
        queue: mail(),
        destination: "https://partner.example".into(),
        state: BreakerState::HalfOpen,
        since: ago(400),
    }];
    situation.queues[0].1.scheduled = 5;
    let problem = only(&situation);
    assert_eq!(
        (problem.kind, problem.severity),
        (ProblemKind::Breaker, Severity::Critical)
    );
    assert_eq!((problem.count, problem.since), (35, Some(ago(400))));
    assert_eq!(
        problem.text,
        "the breaker of https://partner.example is half-open, one message at a time is tried; \
         35 messages behind it"
    );
    situation.processes.push(process("w2", 3));
    assert_eq!(
        only(&situation).severity,
        Severity::High,
        "another process delivers"
    );
    situation.queues[0].1 = Counts::default();
    assert_eq!(situation.problems(), [], "nothing waits behind it");
}

#[test]
fn nothing_delivered_is_critical_and_has_its_cause() {
    let mut situation = with(due(9, 90), Vec::new());
    situation.processes.clear();
    let problem = only(&situation);
    assert_eq!(
        (problem.kind, problem.severity),
        (ProblemKind::NoWorker, Severity::Critical)
    );
    assert_eq!(problem.text, "no process works the queue; 9 messages due");
    assert_eq!(problem.since, Some(ago(90)));

    let failing = with(due(9, 400), vec![minute(120, 0, 40, 0)]);
    let problem = only(&failing);
    assert_eq!(problem.kind, ProblemKind::NothingDelivered);
    assert_eq!(
        problem.text,
        "nothing was delivered for 5 min: 40 attempts failed, 9 messages due"
    );
    assert_eq!(problem.key, "delivery:mail");
}

#[test]
fn a_growing_backlog_and_an_old_one_differ() {
    let minutes = vec![minute(30, 50, 0, 900), minute(630, 50, 0, 500)];
    let problem = only(&with(due(1_000, 200), minutes.clone()));
    assert_eq!(
        (problem.kind, problem.severity),
        (ProblemKind::BacklogGrows, Severity::High)
    );
    assert_eq!(problem.trend, Trend::Worse);
    assert_eq!(problem.text, "1000 messages due, 500 were 10 min ago");

    let problem = only(&with(due(400, 400), minutes));
    assert_eq!(
        (problem.kind, problem.trend),
        (ProblemKind::QueueOld, Trend::Better)
    );
    let mut young = with(due(400, 400), vec![minute(30, 50, 0, 400)]);
    young.queues[0].0.policy.alert_age_ms = Some(600_000);
    assert_eq!(young.problems(), [], "its limit is longer");
}

#[test]
fn a_paused_queue_is_information_only() {
    let mut situation = with(due(400, 4_000), Vec::new());
    situation.queues[0].0.paused_at = Some(ago(4_500));
    let problem = only(&situation);
    assert_eq!(
        (problem.kind, problem.severity),
        (ProblemKind::Paused, Severity::Info)
    );
    assert_eq!((problem.count, problem.since), (400, Some(ago(4_500))));
}

#[test]
fn many_new_deaths_are_worse_than_old_ones() {
    let mut situation = quiet();
    situation.causes = vec![cause(500, 480, 20)];
    let many = only(&situation);
    assert_eq!(
        (many.severity, many.trend),
        (Severity::Medium, Trend::Worse)
    );
    assert_eq!(many.key, "deaths:mail:http_500");
    assert_eq!(
        many.text,
        "500 messages dead with http_500, 480 of them in the last 15 min"
    );
    situation.causes = vec![cause(500, 0, 20)];
    let old = only(&situation);
    assert_eq!((old.severity, old.trend), (Severity::Low, Trend::Better));
    assert_eq!(old.text, "500 messages dead with http_500");
}

#[test]
fn what_shows_in_no_count_is_a_problem_too() {
    let mut situation = with(
        Counts {
            held: 2,
            ..Counts::default()
        },
        Vec::new(),
    );
    situation.attention.blocked = vec![BlockedGroups {
        queue: mail(),
        groups: 3,
        since: ago(60),
    }];
    situation.attention.overdue = vec![OverdueSchedule {
        name: "nightly".parse().unwrap(),
        queue: mail(),
        due_at: ago(7_200),
    }];
    situation.attention.alerts = vec![StuckAlert {
        queue: mail(),
        reason: AlertReason::Died,
        code: "http_500".into(),
        pending: 4,
        since: ago(60),
        failure: "the queue ops does not exist".into(),
    }];
    let problems = situation.problems();
    let texts: Vec<&str> = problems.iter().map(|it| it.text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "alerts about died are not taken: the queue ops does not exist",
            "3 groups wait behind a dead message",
            "the tick of schedule nightly has been due for 2 h and is not taken",
            "2 messages held: resolve or unhold",
        ]
    );
}

#[test]
fn a_process_is_gone_unless_another_works_its_queues() {
    let mut situation = quiet();
    situation.processes = vec![process("w1", 200)];
    let problem = only(&situation);
    assert_eq!(problem.kind, ProblemKind::ProcessGone);
    assert_eq!(
        problem.text,
        "process w1 sent no heartbeat for 3 min, and no other works mail"
    );
    situation.processes.push(process("w2", 1));
    assert_eq!(situation.problems(), []);
    situation.processes.pop();
    situation.processes[0].queues.clear();
    assert_eq!(situation.problems(), [], "it ended with a last heartbeat");
}

#[test]
fn the_worst_comes_first_and_the_acknowledged_last() {
    let mut situation = with(due(9, 400), vec![minute(120, 0, 40, 0)]);
    situation.causes = vec![cause(500, 480, 20)];
    let keys = |situation: &Situation| {
        let problems = situation.problems();
        problems.into_iter().map(|it| it.key).collect::<Vec<_>>()
    };
    assert_eq!(keys(&situation), ["delivery:mail", "deaths:mail:http_500"]);
    let known = acknowledged("delivery:mail", Severity::Critical, ago(60));
    situation.attention.acknowledgements = vec![known.clone()];
    assert_eq!(keys(&situation), ["deaths:mail:http_500", "delivery:mail"]);
    assert_eq!(situation.problems()[1].acknowledged, Some(known));
}

#[test]
fn an_acknowledgement_ends_with_its_time_a_worse_severity_and_a_new_occurrence() {
    let mut situation = quiet();
    situation.causes = vec![cause(500, 0, 0)];
    let key = "deaths:mail:http_500";
    let mut holds = |known: Acknowledgement, recent: u64, first_ago: i64| {
        situation.causes[0].recent = recent;
        situation.causes[0].first_at = ago(first_ago);
        situation.attention.acknowledgements = vec![known];
        only(&situation).acknowledged.is_some()
    };
    let known = acknowledged(key, Severity::Low, ago(60));
    assert!(holds(known.clone(), 0, 600));
    assert!(!holds(known.clone(), 50, 600), "it is worse");
    assert!(!holds(known.clone(), 0, 30), "all of them died since");
    assert!(holds(acknowledged(key, Severity::Medium, ago(60)), 50, 600));
    assert!(
        !holds(acknowledged(key, Severity::Low, ago(3_600)), 0, 6_000),
        "its time is over"
    );
    assert!(!holds(
        acknowledged("deaths:mail:other", Severity::Low, ago(60)),
        0,
        600
    ));
}

#[test]
fn a_mark_has_a_key_and_a_bounded_time() {
    let mark = |problem: &str, seconds| ProblemMark {
        problem: problem.into(),
        severity: Severity::Low,
        queue: None,
        lasts: Duration::from_secs(seconds),
    };
    assert!(mark("deaths:mail:x", 60).validate().is_ok());
    for wrong in [
        mark("", 60),
        mark("a\nb", 60),
        mark("a", 0),
        mark("a", 31 * 86_400),
    ] {
        assert!(wrong.validate().is_err(), "{wrong:?}");
    }
}
