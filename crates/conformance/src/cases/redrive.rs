//! Requeueing the dead by filter: by id, within a rate, each message once (G6).

use std::sync::Arc;

use consign_kernel::{
    By, Filter, MessageId, OnDead, Outcome, QueueName, Redrive, RedriveId, RedrivePlan,
    RedriveState, Report, StateKind,
};

use crate::{
    Harness,
    stage::{Stage, by, ids, ordered, policy, queue, refused, s, settled},
};

use RedriveState::{Done, Running};

/// Everything that is dead, as fast as it goes.
pub(super) fn everything() -> RedrivePlan {
    RedrivePlan::default()
}

pub(super) fn at_rate(rate: u32) -> RedrivePlan {
    RedrivePlan {
        rate_per_second: Some(rate),
        ..everything()
    }
}

impl Stage<'_> {
    /// Lets `count` messages of a queue die with a code.
    pub(super) async fn dead_in(
        &self,
        name: &QueueName,
        count: usize,
        code: &str,
    ) -> Vec<MessageId> {
        let stage = Stage {
            harness: self.harness,
            store: Arc::clone(&self.store),
            queue: name.clone(),
        };
        let sent = stage.enqueue(count).await;
        let lease = stage.claim(1_000).await;
        assert_eq!(ids(&lease), sent, "nothing else is due");
        stage.bury(&lease, code).await;
        sent
    }

    pub(super) async fn bury(&self, lease: &consign_kernel::Lease, code: &str) {
        let report = |id| Report {
            code: Some(code.into()),
            ..Report::new(id, Outcome::Dead)
        };
        let reports: Vec<Report> = ids(lease).into_iter().map(report).collect();
        settled(self.settle(lease, &reports).await);
    }

    pub(super) async fn dead(&self, count: usize) -> Vec<MessageId> {
        self.dead_in(&self.queue, count, "gone").await
    }

    pub(super) async fn start(&self, plan: &RedrivePlan) -> Redrive {
        let started = self.store.start_redrive(plan, &by()).await;
        started.expect("start_redrive answers")
    }

    pub(super) async fn step(&self, limit: u32) -> Option<Redrive> {
        let stepped = self.store.step_redrive(limit).await;
        stepped.expect("step_redrive answers")
    }

    /// Takes a step that must move this many messages.
    pub(super) async fn step_moving(&self, redrive: &Redrive, limit: u32, count: u64) -> Redrive {
        let after = self.step(limit).await.expect("there is something to do");
        assert_eq!(after.id, redrive.id);
        assert_eq!(after.moved - redrive.moved, count, "{after:?}");
        after
    }

    pub(super) async fn step_nothing(&self, why: &str) {
        assert_eq!(self.step(1_000).await, None, "nothing to do: {why}");
    }

    pub(super) async fn count_dead(&self, filter: &Filter, at_most: u64) -> u64 {
        let count = self.store.count_dead(filter, at_most).await;
        count.expect("count_dead answers")
    }
}

pub(crate) async fn a_redrive_requeues_the_dead_by_id(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let dead = stage.dead(5).await;
    stage.advance(s(1)).await;
    let now = stage.now().await;
    let started = stage.start(&everything()).await;
    let expected = Redrive {
        id: started.id,
        plan: everything(),
        state: Running,
        total: 5,
        moved: 0,
        skipped: 0,
        cursor: None,
        by: by(),
        started_at: now,
        updated_at: now,
        finished_at: None,
    };
    assert_eq!(started, expected);
    stage.claim_nothing("a start moves nothing").await;
    stage.advance(s(1)).await;
    let first = stage.step_moving(&started, 2, 2).await;
    let expected = Redrive {
        moved: 2,
        cursor: Some(dead[1]),
        updated_at: stage.now().await,
        ..started.clone()
    };
    assert_eq!(first, expected);
    let stored = stage.store.redrive(started.id).await;
    assert_eq!(stored.expect("redrive answers"), Some(first.clone()));
    let second = stage.step_moving(&first, 2, 2).await;
    assert_eq!(second.state, Running);
    let third = stage.step_moving(&second, 2, 1).await;
    assert_eq!((third.state, third.skipped), (Done, 0));
    assert_eq!(third.finished_at, Some(stage.now().await));
    stage.step_nothing("it is done").await;
    let lease = stage.claim(10).await;
    assert_eq!(ids(&lease), dead);
    let fresh = lease
        .messages
        .iter()
        .all(|m| (m.tries, m.attempt_no) == (0, 2));
    assert!(fresh, "fresh tries, history kept: {lease:?}");
    stage.deliver(&lease).await;
}

pub(crate) async fn a_redrive_takes_its_queue_and_code_only(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let other = stage.add_queue("other", &policy()).await;
    let gone = stage.dead(2).await;
    let busy = stage.dead_in(&stage.queue, 2, "busy").await;
    let elsewhere = stage.dead_in(&other, 2, "gone").await;
    let plan = RedrivePlan {
        queue: Some(stage.queue.clone()),
        code: Some("gone".into()),
        ..everything()
    };
    let started = stage.start(&plan).await;
    assert_eq!((started.total, &started.plan), (2, &plan));
    let done = stage.step_moving(&started, 1_000, 2).await;
    assert_eq!((done.state, done.cursor), (Done, Some(gone[1])));
    use StateKind::{Dead, Ready};
    assert_eq!(stage.kinds(&gone).await, [Ready, Ready]);
    assert_eq!(stage.kinds(&busy).await, [Dead, Dead]);
    assert_eq!(stage.kinds(&elsewhere).await, [Dead, Dead]);
    let rest = stage.start(&everything()).await;
    stage.step_moving(&rest, 1_000, 4).await;
    assert_eq!(stage.counts_of(&other).await.ready, 2, "every queue");
    assert_eq!(stage.drain().await, [gone, busy].concat());
}

pub(crate) async fn every_requeue_of_a_redrive_is_recorded(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let dead = stage.dead(2).await;
    let why = By::new("grace", "the receiver is back");
    let plan = RedrivePlan {
        queue: Some(stage.queue.clone()),
        ..everything()
    };
    let started = stage.store.start_redrive(&plan, &why).await;
    let id = started.expect("start_redrive answers").id;
    stage.step(1).await;
    let stopped = stage.store.stop_redrive(id, &by()).await;
    assert_eq!(stopped.expect("stop_redrive answers").by, why);
    let resumed = stage.store.resume_redrive(id, &by()).await;
    resumed.expect("resume_redrive answers");
    stage.step(1).await;
    let audit = stage.store.audit(None, None, 5).await;
    let audit = audit.expect("audit answers");
    let own = format!("redrive {id}: the receiver is back");
    let hers = format!("redrive {id}: checking the rules");
    let expected = [
        ("requeue", Some(dead[1]), "grace", &own),
        ("resume_redrive", None, "ada", &hers),
        ("stop_redrive", None, "ada", &hers),
        ("requeue", Some(dead[0]), "grace", &own),
        ("start_redrive", None, "grace", &own),
    ];
    for (entry, (action, message_id, actor, reason)) in audit.iter().zip(expected) {
        assert_eq!(entry.action, action, "{audit:#?}");
        assert_eq!((entry.message_id, &entry.reason), (message_id, reason));
        assert_eq!(entry.actor, actor);
        assert_eq!(entry.queue.as_ref(), Some(&stage.queue));
        assert_eq!(entry.at, stage.now().await);
    }
    let everywhere = stage.start(&everything()).await;
    let audit = stage.store.audit(None, None, 1).await;
    let audit = audit.expect("audit answers").remove(0);
    assert_eq!(
        (audit.queue, audit.action.as_str()),
        (None, "start_redrive")
    );
    stage
        .store
        .stop_redrive(everywhere.id, &by())
        .await
        .expect("it stops");
}

pub(crate) async fn a_redrive_takes_only_what_was_dead_at_its_start(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let dead = stage.dead(2).await;
    let started = stage.start(&everything()).await;
    stage.advance(s(1)).await;
    let after = stage.dead(1).await;
    let r = stage.step_moving(&started, 1, 1).await;
    let lease = stage.claim(1).await;
    assert_eq!(ids(&lease), [dead[0]]);
    stage.bury(&lease, "gone").await;
    let r = stage.step_moving(&r, 1_000, 1).await;
    assert_eq!((r.state, r.moved, r.total), (Done, 2, 2));
    use StateKind::{Dead, Ready};
    assert_eq!(stage.kinds(&dead).await, [Dead, Ready], "not taken again");
    assert_eq!(stage.kinds(&after).await, [Dead], "died too late");
    let next = stage.start(&everything()).await;
    let r = stage.step_moving(&next, 1_000, 2).await;
    assert_eq!((r.state, r.total), (Done, 2), "another takes them");
}

pub(crate) async fn what_died_in_the_moment_of_the_start_is_not_taken_twice(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let dead = stage.dead(2).await;
    let started = stage.start(&everything()).await;
    let r = stage.step_moving(&started, 1, 1).await;
    // The clock does not move: by time alone this one was dead at the start.
    let lease = stage.claim(1).await;
    stage.bury(&lease, "gone").await;
    let r = stage.step_moving(&r, 1_000, 1).await;
    assert_eq!((r.state, r.moved), (Done, 2));
    assert_eq!(stage.kind(dead[0]).await, StateKind::Dead);
}

pub(crate) async fn what_a_person_requeued_is_passed_over(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let dead = stage.dead(6).await;
    let started = stage.start(&everything()).await;
    let r = stage.step_moving(&started, 1, 1).await;
    let by_hand = [dead[1], dead[3], dead[4]];
    stage
        .store
        .requeue(&by_hand, &by())
        .await
        .expect("requeue answers");
    stage.advance(s(1)).await;
    let lease = stage.claim(3).await;
    let again = ids(&lease).contains(&dead[3]);
    assert!(again, "one of them dies again, later: {lease:?}");
    stage.bury(&lease, "gone").await;
    let r = stage.step_moving(&r, 1, 1).await;
    assert_eq!((r.cursor, r.skipped), (Some(dead[2]), 0));
    let r = stage.step_moving(&r, 1_000, 1).await;
    assert_eq!((r.state, r.moved, r.skipped), (Done, 3, 3));
    assert_eq!(stage.kind(dead[3]).await, StateKind::Dead);
}

pub(crate) async fn a_redrive_ends_at_its_limit(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let dead = stage.dead(5).await;
    let plan = RedrivePlan {
        limit: Some(3),
        ..everything()
    };
    let started = stage.start(&plan).await;
    assert_eq!(started.total, 5, "what fits, whatever the limit");
    stage
        .store
        .requeue(&dead[..1], &by())
        .await
        .expect("requeue answers");
    let r = stage.step_moving(&started, 2, 2).await;
    let r = stage.step_moving(&r, 1_000, 1).await;
    assert_eq!((r.state, r.cursor), (Done, Some(dead[3])));
    assert_eq!(r.finished_at, Some(stage.now().await));
    assert_eq!(stage.kind(dead[4]).await, StateKind::Dead);
    stage.step_nothing("the limit is reached").await;
}

pub(crate) async fn a_redrive_of_nothing_is_done_at_once(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let started = stage.start(&everything()).await;
    assert_eq!((started.state, started.total), (Running, 0));
    let done = stage.step_moving(&started, 1, 0).await;
    assert_eq!((done.state, done.cursor), (Done, None));
    stage.step_nothing("nothing existed").await;
}

pub(crate) async fn a_redrive_keeps_groups_in_order(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Continue)).await;
    let sent = stage.enqueue_groups("aabab").await;
    while let Some(lease) = stage.try_claim(1_000).await {
        stage.bury(&lease, "gone").await;
    }
    let started = stage.start(&everything()).await;
    let r = stage.step_moving(&started, 2, 2).await;
    use StateKind::{Dead, Ready, Waiting};
    assert_eq!(stage.kinds(&sent).await, [Ready, Waiting, Dead, Dead, Dead]);
    let r = stage.step_moving(&r, 1_000, 3).await;
    assert_eq!(r.state, Done);
    let a = stage.kinds(&sent).await;
    assert_eq!(a, [Ready, Waiting, Ready, Waiting, Waiting]);
    let drained = stage.drain().await;
    let of = |group: &[usize]| -> Vec<MessageId> {
        let wanted: Vec<MessageId> = group.iter().map(|n| sent[*n]).collect();
        drained
            .iter()
            .copied()
            .filter(|id| wanted.contains(id))
            .collect()
    };
    assert_eq!(of(&[0, 1, 3]), [sent[0], sent[1], sent[3]]);
    assert_eq!(of(&[2, 4]), [sent[2], sent[4]]);
}

pub(crate) async fn a_redrive_opens_blocked_groups(harness: &dyn Harness) {
    let stage = Stage::with(harness, ordered(OnDead::Block)).await;
    let sent = stage.enqueue_groups("aab").await;
    let lease = stage.claim(2).await;
    stage.bury(&lease, "gone").await;
    stage.claim_nothing("both groups are blocked").await;
    let started = stage.start(&everything()).await;
    stage.step_moving(&started, 1_000, 2).await;
    assert_eq!(stage.drain().await, [sent[0], sent[2], sent[1]]);
}

pub(crate) async fn rejects_redrives_that_cannot_run(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    stage.dead(1).await;
    let before = stage.store.audit(None, None, 100).await;
    let before = before.expect("audit answers");
    let nowhere = RedrivePlan {
        queue: Some(queue("mial")),
        ..everything()
    };
    let store = &stage.store;
    refused(store.start_redrive(&nowhere, &by()).await, "unknown_queue");
    let bad = [
        at_rate(0),
        RedrivePlan {
            limit: Some(0),
            ..everything()
        },
        RedrivePlan {
            limit: Some(u64::MAX),
            ..everything()
        },
        RedrivePlan {
            code: Some("a\0b".into()),
            ..everything()
        },
        RedrivePlan {
            code: Some("x".repeat(129)),
            ..everything()
        },
    ];
    for plan in bad {
        refused(store.start_redrive(&plan, &by()).await, "invalid_input");
    }
    for by in [
        By::new("", "why"),
        By::new("ada", " "),
        By::new("ada", "x".repeat(4_001)),
    ] {
        let answer = store.start_redrive(&everything(), &by).await;
        refused(answer, "invalid_input");
        let id = RedriveId(1);
        refused(store.stop_redrive(id, &by).await, "invalid_input");
        refused(store.resume_redrive(id, &by).await, "invalid_input");
    }
    for limit in [0, 1_001] {
        refused(store.step_redrive(limit).await, "invalid_input");
    }
    let nobody = RedriveId(77);
    refused(store.stop_redrive(nobody, &by()).await, "unknown_redrive");
    refused(store.resume_redrive(nobody, &by()).await, "unknown_redrive");
    assert_eq!(store.redrive(nobody).await.expect("redrive answers"), None);
    assert_eq!(store.redrives(10).await.expect("redrives answers"), []);
    let after = stage.store.audit(None, None, 100).await;
    assert_eq!(after.expect("audit answers"), before, "nothing was done");
    let wordy = By::new("ada", "x".repeat(4_000));
    let started = store.start_redrive(&everything(), &wordy).await;
    stage
        .step_moving(&started.expect("at the limit"), 1, 1)
        .await;
}

pub(crate) async fn redrives_are_listed_newest_first(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let mut started = Vec::new();
    for rate in 1..=3 {
        started.push(stage.start(&at_rate(rate)).await);
        stage.advance(s(1)).await;
    }
    started.reverse();
    assert!(started.is_sorted_by_key(|r| std::cmp::Reverse(r.id)));
    let listed = stage.store.redrives(10).await.expect("redrives answers");
    assert_eq!(listed, started);
    let listed = stage.store.redrives(2).await.expect("redrives answers");
    assert_eq!(listed, started[..2]);
    assert_eq!(stage.store.redrives(0).await.expect("redrives answers"), []);
}

pub(crate) async fn the_dead_are_counted(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let other = stage.add_queue("other", &policy()).await;
    let all = Filter::default();
    assert_eq!(stage.count_dead(&all, 10).await, 0);
    stage.dead(3).await;
    stage.dead_in(&stage.queue, 2, "busy").await;
    stage.dead_in(&other, 4, "gone").await;
    let filter = |queue: Option<&QueueName>, code: Option<&str>| Filter {
        queue: queue.cloned(),
        code: code.map(str::to_owned),
        ..Filter::default()
    };
    let counts = [
        (filter(None, None), 9),
        (filter(Some(&stage.queue), None), 5),
        (filter(None, Some("gone")), 7),
        (filter(Some(&other), Some("gone")), 4),
        (filter(Some(&other), Some("busy")), 0),
        (filter(Some(&queue("nowhere")), None), 0),
    ];
    for (filter, count) in counts {
        assert_eq!(
            stage.count_dead(&filter, u64::MAX).await,
            count,
            "{filter:?}"
        );
        assert_eq!(
            stage.count_dead(&filter, 2).await,
            count.min(2),
            "{filter:?}"
        );
        assert_eq!(stage.count_dead(&filter, 0).await, 0, "{filter:?}");
    }
}

/// What a person is shown before a redrive is what it then takes, in its order.
pub(crate) async fn a_redrive_takes_first_what_was_shown_first(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let other = stage.add_queue("other", &policy()).await;
    stage.dead_in(&other, 2, "gone").await;
    stage.dead(1).await;
    stage.dead_in(&stage.queue, 2, "full").await;
    stage.dead(4).await;
    let plan = RedrivePlan {
        queue: Some(stage.queue.clone()),
        code: Some("gone".into()),
        limit: Some(3),
        ..everything()
    };
    let shown = async |plan: &RedrivePlan, limit| {
        let letters = stage.store.first_dead(plan, limit).await;
        let letters = letters.expect("first_dead answers").into_iter();
        letters.map(|letter| letter.message_id).collect::<Vec<_>>()
    };
    let first = shown(&plan, 1_000).await;
    assert_eq!(first.len(), 3, "no more than the plan would take");
    assert_eq!(shown(&plan, 2).await, first[..2], "no more than the limit");
    assert_eq!(shown(&everything(), u32::MAX).await.len(), 9);
    let letter = stage.store.first_dead(&plan, 1).await.expect("an answer");
    assert_eq!(
        (letter[0].queue.clone(), letter[0].code.as_str()),
        (stage.queue.clone(), "gone")
    );
    let redrive = stage.start(&plan).await;
    let after = stage.step_moving(&redrive, 1_000, 3).await;
    assert_eq!(after.state, Done);
    assert_eq!(ids(&stage.claim(10).await), first);
}
