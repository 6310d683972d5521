//! What needs an operator, and what operators acknowledged of it.

use consign_kernel::{
    ACKNOWLEDGED_MAX, AlertReason, Attention, BlockedGroups, By, Filter, OnDead, Outcome,
    ProblemMark, SchedulePlan, Severity,
};
use serde_json::json;

use crate::{
    Harness,
    stage::{Stage, after, by, ordered, queue, refused, s},
};

impl Stage<'_> {
    async fn attention(&self) -> Attention {
        let attention = self.store.attention().await.expect("attention answers");
        assert_eq!(attention.now, self.now().await);
        attention
    }
}

fn mark(problem: &str, severity: Severity) -> ProblemMark {
    ProblemMark {
        problem: problem.into(),
        severity,
        queue: Some(queue("mail")),
        lasts: s(600),
    }
}

pub(crate) async fn blocked_groups_show_until_they_go_on(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    stage.enqueue_groups("aabbc").await;
    let mut dead = Vec::new();
    for _ in 0..2 {
        let lease = stage.claim(1).await;
        let id = lease.messages[0].message.id;
        stage.report(&lease, id, Outcome::Dead).await;
        dead.push((id, lease.claimed_at));
        stage.advance(s(5)).await;
    }
    let blocked = |groups, since| BlockedGroups {
        queue: stage.queue.clone(),
        groups,
        since,
    };
    let attention = stage.attention().await;
    assert_eq!(attention.blocked, [blocked(2, dead[0].1)]);
    let requeued = stage.store.requeue(&[dead[0].0], &by()).await;
    requeued.expect("requeue answers");
    assert_eq!(stage.attention().await.blocked, [blocked(1, dead[1].1)]);
    let discarded = stage.store.discard(&[dead[1].0], &by()).await;
    discarded.expect("discard answers");
    assert_eq!(stage.attention().await.blocked, []);
}

pub(crate) async fn overdue_schedules_and_stuck_alerts_show(harness: &dyn Harness) {
    let stage = super::alerts::watched(harness).await;
    let due_at = after(stage.now().await, s(10));
    for name in ["nightly", "paused"] {
        let name = name.parse().expect("a name of a schedule");
        let plan = SchedulePlan::new(stage.queue.clone(), "* * * * *", json!(1));
        let put = stage.store.put_schedule(&name, &plan, due_at, &by()).await;
        put.expect("put_schedule answers");
    }
    let paused = "paused".parse().expect("a name of a schedule");
    let answer = stage.store.pause_schedule(&paused, &by()).await;
    answer.expect("pause_schedule answers");
    stage.advance(s(70)).await;
    assert_eq!(
        stage.attention().await.overdue,
        [],
        "a minute late is not yet"
    );
    stage.advance(s(1)).await;
    let overdue = stage.attention().await.overdue;
    let [late] = &overdue[..] else {
        panic!("one is overdue: {overdue:?}");
    };
    assert_eq!((late.name.as_str(), late.due_at), ("nightly", due_at));

    // An alert that is too large for its queue.
    let small = consign_kernel::QueuePolicy {
        payload_max_bytes: 10,
        ..crate::stage::policy()
    };
    stage.add_queue("ops", &small).await;
    stage.dead_one().await;
    let died_at = stage.now().await;
    let step = stage.step_alerts().await;
    assert_eq!(step.refused.len(), 1, "{step:?}");
    let alerts = stage.attention().await.alerts;
    let [stuck] = &alerts[..] else {
        panic!("one is stuck: {alerts:?}");
    };
    assert_eq!((stuck.reason, stuck.pending), (AlertReason::Died, 1));
    assert_eq!((stuck.since, &stuck.queue), (died_at, &stage.queue));
    assert_eq!(stuck.failure, step.refused[0].failure);
    stage.add_queue("ops", &crate::stage::policy()).await;
    stage.step_alerts().await;
    assert_eq!(stage.attention().await.alerts, [], "the queue takes it");
}

pub(crate) async fn deaths_are_counted_by_when_they_happened(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let counts = async || {
        let causes = stage.store.dead_causes(&Filter::default(), 100).await;
        let causes = causes.expect("dead_causes answers");
        let [cause] = &causes[..] else {
            panic!("one cause: {causes:?}");
        };
        (cause.messages, cause.recent, cause.before)
    };
    stage.dead_one().await;
    stage.advance(s(15 * 60)).await;
    stage.dead_one().await;
    assert_eq!(
        counts().await,
        (2, 2, 0),
        "a quarter of an hour ago is recent"
    );
    stage.advance(s(1)).await;
    assert_eq!(counts().await, (2, 1, 1));
    stage.advance(s(15 * 60)).await;
    assert_eq!(counts().await, (2, 0, 1));
    stage.advance(s(15 * 60)).await;
    assert_eq!(counts().await, (2, 0, 0));
}

pub(crate) async fn an_acknowledgement_holds_for_its_time(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    assert_eq!(stage.attention().await.acknowledgements, []);
    let ada = By::new("ada", "the partner knows");
    let marked = mark("deaths:mail:http_500", Severity::Medium);
    let known = stage.store.acknowledge(&marked, &ada).await;
    let known = known.expect("acknowledge answers");
    let now = stage.now().await;
    assert_eq!((known.at, known.until), (now, after(now, s(600))));
    assert_eq!(
        (known.problem.as_str(), known.severity),
        (marked.problem.as_str(), Severity::Medium)
    );
    assert_eq!(
        (known.actor.as_str(), known.reason.as_str()),
        ("ada", "the partner knows")
    );
    let listed = stage.attention().await.acknowledgements;
    assert_eq!(listed, [known]);
    let audit = stage
        .store
        .audit(None, None, 1)
        .await
        .expect("audit answers");
    let entry = (audit[0].action.as_str(), audit[0].actor.as_str());
    assert_eq!(entry, ("acknowledge", "ada"));
    assert_eq!(audit[0].queue, marked.queue);
    assert_eq!(
        audit[0].reason,
        "the partner knows (problem deaths:mail:http_500)"
    );
    stage.advance(s(599)).await;
    assert_eq!(stage.attention().await.acknowledgements.len(), 1);
    stage.advance(s(1)).await;
    assert_eq!(stage.attention().await.acknowledgements, []);
}

pub(crate) async fn an_acknowledgement_is_replaced_and_ended(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let put = async |problem: &str, severity| {
        let known = stage
            .store
            .acknowledge(&mark(problem, severity), &by())
            .await;
        known.expect("acknowledge answers")
    };
    put("b", Severity::Low).await;
    stage.advance(s(5)).await;
    let first = put("a", Severity::Info).await;
    let again = put("b", Severity::Critical).await;
    assert_eq!(
        stage.attention().await.acknowledgements,
        [first.clone(), again]
    );
    let reopen = async |problem: &str| {
        let reopened = stage.store.reopen(problem, &by()).await;
        reopened.expect("reopen answers")
    };
    assert!(reopen("b").await);
    let audit = stage
        .store
        .audit(None, None, 10)
        .await
        .expect("audit answers");
    assert_eq!(audit[0].action, "reopen");
    assert!(audit[0].reason.ends_with("(problem b)"), "{audit:?}");
    assert!(!reopen("b").await, "there is none");
    let after = stage
        .store
        .audit(None, None, 10)
        .await
        .expect("audit answers");
    assert_eq!(after, audit, "what changed nothing is not recorded");
    assert_eq!(stage.attention().await.acknowledgements, [first]);
}

pub(crate) async fn an_impossible_acknowledgement_is_refused(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let fine = mark("a", Severity::Low);
    let long = "x".repeat(513);
    for wrong in [
        mark("", Severity::Low),
        mark("a\nb", Severity::Low),
        mark(&long, Severity::Low),
        ProblemMark {
            lasts: s(0),
            ..fine.clone()
        },
        ProblemMark {
            lasts: ACKNOWLEDGED_MAX + s(1),
            ..fine.clone()
        },
    ] {
        refused(
            stage.store.acknowledge(&wrong, &by()).await,
            "invalid_input",
        );
    }
    let nobody = By::new("ada", " ");
    refused(
        stage.store.acknowledge(&fine, &nobody).await,
        "invalid_input",
    );
    refused(stage.store.reopen("a", &nobody).await, "invalid_input");
    let endless = By::new("ada", "x".repeat(4_096));
    refused(
        stage.store.acknowledge(&fine, &endless).await,
        "invalid_input",
    );
    assert_eq!(stage.attention().await.acknowledgements, []);
}
