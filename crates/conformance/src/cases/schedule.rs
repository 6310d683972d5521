//! Schedules: each tick once, whoever takes it and whatever the clock does.

use std::{collections::BTreeMap, sync::Arc};

use consign_kernel::{
    By, Error, Message, MissedPolicy, NextTick, QueuePolicy, Result, Schedule, ScheduleName,
    SchedulePlan, Store, TICKS_MAX, Tick, TickPlan,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    Harness,
    stage::{Stage, after, all, by, policy, refused, s},
};

fn name(text: &str) -> ScheduleName {
    text.parse().expect("a name of a schedule")
}

/// Ticks every `step` seconds from the schedule's next one on, those that are due at `now`.
fn every(step: u64, from: &NextTick, now: Timestamp) -> TickPlan {
    let (mut ticks, mut next_at) = (Vec::new(), from.at);
    while next_at <= now && ticks.len() < TICKS_MAX {
        ticks.push(Tick {
            at: next_at,
            missed: 0,
        });
        next_at = after(next_at, s(step));
    }
    TickPlan {
        from: from.clone(),
        ticks,
        missed: 0,
        dropped: 0,
        next_at,
    }
}

impl Stage<'_> {
    fn scheduled(&self) -> SchedulePlan {
        SchedulePlan::new(self.queue.clone(), "* * * * *", json!({"n": 1}))
    }

    /// A schedule whose first tick is in ten seconds.
    async fn put(&self, text: &str) -> Schedule {
        let next_at = after(self.now().await, s(10));
        let plan = self.scheduled();
        let put = self.put_plan(text, &plan, next_at).await;
        put.expect("put_schedule answers")
    }

    async fn put_plan(
        &self,
        text: &str,
        plan: &SchedulePlan,
        next_at: Timestamp,
    ) -> Result<Schedule> {
        let (name, by) = (name(text), by());
        self.store.put_schedule(&name, plan, next_at, &by).await
    }

    async fn tick(&self, plan: &TickPlan) -> Option<Schedule> {
        self.store.tick(plan).await.expect("tick answers")
    }

    async fn schedule(&self, text: &str) -> Schedule {
        let found = self.store.schedule(&name(text)).await;
        found.expect("schedule answers").expect("it exists")
    }

    /// Every message that is due, delivered.
    async fn messages(&self) -> Vec<Message> {
        let mut messages = Vec::new();
        while let Some(lease) = self.try_claim(1_000).await {
            self.deliver(&lease).await;
            messages.extend(lease.messages.into_iter().map(|claimed| claimed.message));
        }
        messages
    }

    /// Actions on schedules with their reasons, newest first.
    async fn acts(&self) -> Vec<(String, String)> {
        let audit = self.store.audit(None, None, 100).await;
        let audit = audit.expect("audit answers").into_iter();
        let acts = audit
            .filter(|entry| entry.action.ends_with("schedule") || entry.action == "missed_ticks");
        acts.map(|entry| (entry.action, entry.reason)).collect()
    }
}

pub(crate) async fn a_schedule_is_kept_as_it_was_put(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let now = stage.now().await;
    let mut plan = stage.scheduled();
    plan.time_zone = "Europe/Berlin".to_owned();
    plan.group = Some("g".to_owned());
    plan.headers.insert("trace".into(), json!(["ä", null]));
    (plan.missed, plan.missed_max) = (MissedPolicy::All, 7);
    let next_at = after(now, s(60));
    let put = stage.put_plan("b", &plan, next_at).await;
    let put = put.expect("put_schedule answers");
    assert_eq!(put, Schedule::new(name("b"), plan.clone(), next_at, now));
    stage.advance(s(1)).await;
    for other in ["a", "c"] {
        stage.put(other).await;
    }
    let listed = |after: Option<&'static str>, limit| {
        let store = Arc::clone(&stage.store);
        async move {
            let after = after.map(name);
            let listed = store.schedules(after.as_ref(), limit).await;
            let listed = listed.expect("schedules answers").into_iter();
            listed.map(|one| one.name.to_string()).collect::<Vec<_>>()
        }
    };
    assert_eq!(listed(None, 10).await, ["a", "b", "c"]);
    assert_eq!(listed(Some("a"), 1).await, ["b"]);
    assert_eq!(stage.schedule("b").await, put);
    let missing = stage.store.schedule(&name("d")).await;
    assert_eq!(missing.expect("schedule answers"), None);
    let entry = (
        "put_schedule".to_owned(),
        format!("schedule b: {}", by().reason),
    );
    assert_eq!(stage.acts().await[2], entry);
}

pub(crate) async fn a_change_keeps_the_next_tick_unless_it_is_computed_otherwise(
    harness: &dyn Harness,
) {
    let stage = Stage::new(harness).await;
    let put = stage.put("daily").await;
    stage
        .store
        .pause_schedule(&name("daily"), &by())
        .await
        .expect("pause_schedule answers");
    stage.advance(s(100)).await;
    let later = after(stage.now().await, s(500));
    let mut plan = stage.scheduled();
    plan.payload = json!({"n": 2}).into();
    let store = &stage.store;
    let changed = store.put_schedule(&put.name, &plan, later, &by()).await;
    let changed = changed.expect("put_schedule answers");
    assert_eq!((changed.next_at, &changed.plan), (put.next_at, &plan));
    assert_eq!(changed.created_at, put.created_at);
    assert_eq!(changed.updated_at, stage.now().await);
    assert!(changed.paused_at.is_some(), "it stays paused");
    for change in [("0 * * * *", "UTC"), ("0 * * * *", "Asia/Kolkata")] {
        (plan.cron, plan.time_zone) = (change.0.to_owned(), change.1.to_owned());
        let next_at = after(later, s(change.1.len() as u64));
        let changed = store.put_schedule(&put.name, &plan, next_at, &by()).await;
        assert_eq!(changed.expect("put_schedule answers").next_at, next_at);
    }
}

pub(crate) async fn a_tick_enqueues_its_message_and_moves_on(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let put = stage.put("daily").await;
    stage.advance(s(10)).await;
    let (now, from) = (stage.now().await, put.next_tick());
    let plan = every(60, &from, now);
    let ticked = stage.tick(&plan).await.expect("the tick is due");
    let messages = stage.messages().await;
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].payload, put.plan.payload);
    assert_eq!((&messages[0].key, &messages[0].group), (&None, &None));
    let headers = json!({"consign_schedule": "daily", "consign_tick": from.at.to_string()});
    assert_eq!(Value::Object(messages[0].headers.clone()), headers);
    let expected = Schedule {
        next_at: after(from.at, s(60)),
        last_tick: Some(from.at),
        last_at: Some(now),
        last_message_id: Some(messages[0].id),
        ticks: 1,
        ..put
    };
    assert_eq!(ticked, expected);
    assert_eq!(stage.schedule("daily").await, expected);
    assert_eq!(stage.tick(&plan).await, None, "once");
    assert_eq!(stage.messages().await, []);
    assert_eq!(
        stage.acts().await.len(),
        1,
        "a tick is not an operator's action"
    );
}

pub(crate) async fn a_step_takes_several_ticks_in_order(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let mut plan = stage.scheduled();
    plan.group = Some("g".to_owned());
    plan.headers.insert("own".into(), json!(null));
    let first = after(stage.now().await, s(10));
    let put = stage.put_plan("daily", &plan, first).await;
    let put = put.expect("put_schedule answers");
    stage.advance(s(100)).await;
    let mut step = every(30, &put.next_tick(), stage.now().await);
    step.ticks.remove(0);
    step.ticks[0].missed = 1;
    (step.missed, step.dropped) = (2, 1);
    let ticked = stage.tick(&step).await.expect("the ticks are due");
    assert_eq!((ticked.ticks, ticked.dropped), (3, 1));
    let messages = stage.messages().await;
    let tick_of = |message: &Message| message.headers["consign_tick"].clone();
    let ticks: Vec<Value> = messages.iter().map(tick_of).collect();
    let expected = [30, 60, 90].map(|n| json!(after(first, s(n)).to_string()));
    assert_eq!(ticks, expected);
    let missed: Vec<_> = messages
        .iter()
        .map(|m| m.headers.get("consign_missed"))
        .collect();
    assert_eq!(missed, [Some(&json!(1)), None, None]);
    for message in &messages {
        assert_eq!(message.group.as_deref(), Some("g"));
        assert_eq!(message.headers["own"], json!(null));
    }
    let reason = format!(
        "schedule daily: 2 missed from {first} on, 1 of them without a message of their own (policy once)"
    );
    assert_eq!(stage.acts().await[0], ("missed_ticks".to_owned(), reason));
}

pub(crate) async fn missed_ticks_may_pass_without_a_message(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let put = stage.put("daily").await;
    stage.advance(s(3_600)).await;
    let step = TickPlan {
        from: put.next_tick(),
        ticks: Vec::new(),
        missed: 59,
        dropped: 59,
        next_at: after(stage.now().await, s(10)),
    };
    let ticked = stage.tick(&step).await.expect("its ticks have passed");
    assert_eq!((ticked.ticks, ticked.dropped), (0, 59));
    assert_eq!((ticked.last_tick, ticked.last_at), (None, None));
    assert_eq!(ticked.next_at, step.next_at);
    assert_eq!(stage.messages().await, []);
    assert_eq!(stage.acts().await[0].0, "missed_ticks");
}

pub(crate) async fn only_the_databases_clock_makes_a_tick_due(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let put = stage.put("daily").await;
    let plan = every(60, &put.next_tick(), put.next_at);
    stage.advance(s(9)).await;
    assert_eq!(stage.tick(&plan).await, None, "a second too early");
    stage.advance(s(1)).await;
    // Planned when the clock showed an hour more.
    let ahead = every(60, &put.next_tick(), after(put.next_at, s(3_600)));
    assert_eq!(stage.tick(&ahead).await, None, "not all of them are due");
    let nothing = TickPlan {
        ticks: Vec::new(),
        ..plan.clone()
    };
    harness.advance(SignedDuration::from_secs(-1)).await;
    assert_eq!(stage.tick(&nothing).await, None, "dropping is early too");
    stage.advance(s(1)).await;
    assert!(stage.tick(&plan).await.is_some());
    // Set back over the tick: it has been taken, and the next one has not come.
    harness.advance(SignedDuration::from_secs(-3_600)).await;
    let upcoming = stage.store.upcoming(None, 10).await;
    let upcoming = upcoming.expect("upcoming answers");
    assert_eq!(upcoming.now, stage.now().await);
    assert!(upcoming.ticks[0].at > put.next_at, "no tick twice");
    stage.advance(s(3_600)).await;
    assert_eq!(stage.messages().await.len(), 1);
}

pub(crate) async fn a_paused_schedule_has_no_ticks(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let put = stage.put("daily").await;
    let store = &stage.store;
    let paused = store.pause_schedule(&put.name, &by()).await;
    let paused_at = paused.expect("pause_schedule answers").paused_at;
    assert_eq!(paused_at, Some(stage.now().await));
    stage.advance(s(20)).await;
    let again = store.pause_schedule(&put.name, &by()).await;
    let again = again.expect("pause_schedule answers");
    assert_eq!(again.paused_at, paused_at, "since the first time");
    let plan = every(60, &put.next_tick(), stage.now().await);
    assert_eq!(stage.tick(&plan).await, None);
    let upcoming = store.upcoming(None, 10).await.expect("upcoming answers");
    assert_eq!(upcoming.ticks, []);
    let resumed = store.resume_schedule(&put.name, &by()).await;
    let resumed = resumed.expect("resume_schedule answers");
    assert_eq!((resumed.paused_at, resumed.next_at), (None, put.next_at));
    assert!(stage.tick(&plan).await.is_some(), "it goes on where it was");
    let acts: Vec<String> = stage.acts().await.into_iter().map(|act| act.0).collect();
    assert_eq!(
        acts,
        [
            "resume_schedule",
            "pause_schedule",
            "pause_schedule",
            "put_schedule"
        ]
    );
}

pub(crate) async fn a_plan_for_what_has_changed_is_not_taken(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let put = stage.put("daily").await;
    stage.advance(s(30)).await;
    let plan = every(10, &put.next_tick(), stage.now().await);
    let mut changed = stage.scheduled();
    changed.cron = "*/5 * * * *".to_owned();
    let put_again = async |plan: &SchedulePlan| {
        let again = stage.put_plan(put.name.as_str(), plan, put.next_at).await;
        again.expect("put_schedule answers")
    };
    // The same next tick, but those after it are others.
    put_again(&changed).await;
    assert_eq!(stage.tick(&plan).await, None, "another expression");
    changed.cron = put.plan.cron.clone();
    changed.time_zone = "Asia/Kolkata".to_owned();
    put_again(&changed).await;
    assert_eq!(stage.tick(&plan).await, None, "another time zone");
    let removed = stage.store.remove_schedule(&put.name, &by()).await;
    assert_eq!(removed.expect("remove_schedule answers").plan, changed);
    assert_eq!(stage.tick(&plan).await, None, "none at all");
    assert_eq!(stage.messages().await, []);
    put_again(&put.plan).await;
    assert!(stage.tick(&plan).await.is_some(), "as it was");
}

/// Takes ticks of every schedule until all have come to `end`.
async fn take_ticks(store: Arc<dyn Store>, end: Timestamp) {
    loop {
        let upcoming = store.upcoming(None, 10).await.expect("upcoming answers");
        let due = upcoming.ticks.iter().filter(|tick| tick.at <= end);
        let mut is_over = true;
        for from in due {
            is_over = false;
            let mut plan = every(1, from, upcoming.now);
            // A few at a time, so that the others meet it.
            plan.ticks.truncate(3);
            let last = plan.ticks.last().expect("it is due").at;
            plan.next_at = after(last, s(1));
            match store.tick(&plan).await {
                Ok(_) => {}
                Err(error) if error.is_retryable() => {}
                Err(error) => panic!("tick answers: {error}"),
            }
        }
        if is_over {
            return;
        }
        tokio::task::yield_now().await;
    }
}

pub(crate) async fn many_processes_take_each_tick_once(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let start = after(stage.now().await, s(10));
    for text in ["a", "b"] {
        stage.put(text).await;
    }
    stage.advance(s(10 + 99)).await;
    let end = stage.now().await;
    let mut tasks = JoinSet::new();
    for n in 0..6 {
        let store = match n % 2 {
            0 => Arc::clone(&stage.store),
            _ => harness.another().await,
        };
        tasks.spawn(take_ticks(store, end));
    }
    all(tasks).await;
    let mut taken: BTreeMap<(String, String), usize> = BTreeMap::new();
    for message in stage.messages().await {
        let header = |name: &str| message.headers[name].as_str().expect("a text").to_owned();
        let tick = (header("consign_schedule"), header("consign_tick"));
        *taken.entry(tick).or_default() += 1;
    }
    let expected = ["a", "b"].into_iter().flat_map(|text| {
        let tick = move |n| after(start, s(n)).to_string();
        (0..100).map(move |n| ((text.to_owned(), tick(n)), 1))
    });
    assert_eq!(taken, expected.collect(), "each tick has one message");
    for text in ["a", "b"] {
        let schedule = stage.schedule(text).await;
        assert_eq!((schedule.ticks, schedule.next_at), (100, after(end, s(1))));
    }
}

pub(crate) async fn a_schedule_is_run_by_hand_beside_its_ticks(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let put = stage.put("daily").await;
    let paused = stage.store.pause_schedule(&put.name, &by()).await;
    let paused = paused.expect("pause_schedule answers");
    stage.advance(s(1)).await;
    let ran = stage.store.run_schedule(&put.name, &by()).await;
    let ran = ran.expect("run_schedule answers");
    let messages = stage.messages().await;
    let headers = json!({"consign_schedule": "daily"});
    assert_eq!(Value::Object(messages[0].headers.clone()), headers);
    let expected = Schedule {
        last_at: Some(stage.now().await),
        last_message_id: Some(messages[0].id),
        ..paused
    };
    assert_eq!(ran, expected, "its ticks stay");
    let audit = stage.store.audit(Some(messages[0].id), None, 10).await;
    let audit = audit.expect("audit answers");
    assert_eq!(audit[0].action, "run_schedule", "beside the message");
}

pub(crate) async fn upcoming_ticks_are_ordered_and_paged(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let now = stage.now().await;
    let none = stage.store.upcoming(None, 10).await;
    let none = none.expect("upcoming answers");
    assert_eq!((none.now, none.ticks), (now, Vec::new()));
    for (text, seconds) in [("d", 5), ("a", 9), ("b", 5), ("c", 7)] {
        let (plan, next_at) = (stage.scheduled(), after(now, s(seconds)));
        let put = stage.put_plan(text, &plan, next_at).await;
        put.expect("put_schedule answers");
    }
    let (mut seen, mut cursor): (Vec<String>, Option<NextTick>) = (Vec::new(), None);
    loop {
        let page = stage.store.upcoming(cursor.as_ref(), 2).await;
        let page = page.expect("upcoming answers").ticks;
        let Some(last) = page.last().cloned() else {
            break;
        };
        seen.extend(page.iter().map(|tick| tick.name.to_string()));
        cursor = Some(last);
    }
    assert_eq!(seen, ["b", "d", "c", "a"], "by time, then by name");
}

pub(crate) async fn a_schedule_that_its_queue_refuses_is_refused(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let next_at = after(stage.now().await, s(10));
    let put = async |plan: &SchedulePlan| -> Result<Schedule> {
        stage
            .store
            .put_schedule(&name("daily"), plan, next_at, &by())
            .await
    };
    let plan = stage.scheduled();
    let elsewhere = SchedulePlan {
        queue: "nowhere".parse().expect("a name"),
        ..plan.clone()
    };
    refused(put(&elsewhere).await, "unknown_queue");
    let small = QueuePolicy {
        payload_max_bytes: 10,
        ..policy()
    };
    let queue = stage.add_queue("small", &small).await;
    let large = SchedulePlan {
        queue: queue.clone(),
        payload: json!("0123456789").into(),
        ..plan.clone()
    };
    refused(put(&large).await, "payload_too_large");
    let nameless = SchedulePlan {
        group: Some(String::new()),
        ..plan.clone()
    };
    refused(put(&nameless).await, "invalid_input");
    assert_eq!(
        stage
            .store
            .schedules(None, 10)
            .await
            .expect("schedules answers"),
        []
    );
    assert_eq!(stage.acts().await, []);

    // Refused when its tick has come: the tick stays until the queue takes it.
    let fits = SchedulePlan {
        payload: json!("01234567").into(),
        ..large
    };
    let schedule = put(&fits).await.expect("it fits");
    let smaller = QueuePolicy {
        payload_max_bytes: 9,
        ..policy()
    };
    stage.add_queue("small", &smaller).await;
    stage.advance(s(10)).await;
    let step = every(60, &schedule.next_tick(), stage.now().await);
    refused(stage.store.tick(&step).await, "payload_too_large");
    let run = stage.store.run_schedule(&schedule.name, &by()).await;
    refused(run, "payload_too_large");
    assert_eq!(
        stage.schedule("daily").await,
        schedule,
        "nothing was written"
    );
    stage.add_queue("small", &small).await;
    assert!(stage.tick(&step).await.is_some());
}

pub(crate) async fn bad_calls_about_schedules_are_refused(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let put = stage.put("daily").await;
    let store = &stage.store;
    let unknown = name("weekly");
    for result in [
        store.remove_schedule(&unknown, &by()).await,
        store.pause_schedule(&unknown, &by()).await,
        store.resume_schedule(&unknown, &by()).await,
        store.run_schedule(&unknown, &by()).await,
    ] {
        let error = refused(result, "unknown_schedule");
        assert!(matches!(error, Error::UnknownSchedule { name } if name == unknown));
    }
    for bad in [
        By::new("", "why"),
        By::new("ada", " "),
        By::new("ada", "x".repeat(4_001)),
    ] {
        for result in [
            store
                .put_schedule(&put.name, &put.plan, put.next_at, &bad)
                .await,
            store.remove_schedule(&put.name, &bad).await,
            store.pause_schedule(&put.name, &bad).await,
            store.resume_schedule(&put.name, &bad).await,
            store.run_schedule(&put.name, &bad).await,
        ] {
            refused(result, "invalid_input");
        }
    }
    stage.advance(s(10)).await;
    let good = every(60, &put.next_tick(), stage.now().await);
    let back = TickPlan {
        next_at: put.next_at,
        ..good.clone()
    };
    refused(store.tick(&back).await, "invalid_input");
    let many = every(1, &put.next_tick(), after(put.next_at, s(1_000)));
    let mut too_many = many.clone();
    too_many.ticks.push(Tick {
        at: many.next_at,
        missed: 0,
    });
    too_many.next_at = after(many.next_at, s(1));
    refused(store.tick(&too_many).await, "invalid_input");
    assert_eq!(stage.schedule("daily").await, put, "nothing was written");
    assert_eq!(stage.messages().await, []);
}
