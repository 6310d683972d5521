//! Processes killed at the worst moments.

use std::{os::unix::process::ExitStatusExt, process::Command, time::Duration};

use consign_kernel::{
    AttemptOutcome, By, DepartureCause, MessageId, NextTick, Outcome, QueuePolicy, Redrive,
    RedriveState, Report, Schedule, SchedulePlan, SettleAnswer, StateKind, Step, Tick, TickPlan,
    Token, prelude::*,
};
use consign_sqlite::{SqliteOptions, SqliteStore};
use consign_testkit::Child;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::{
    harness::{SqliteFixture, claim, drain, fixture, messages, queue},
    retention,
};

/// The name of a variable that turns a test of this binary into a victim.
const FILE: &str = "CONSIGN_TEST_VICTIM_FILE";
/// The token of the maintenance's lease, for a victim that goes on with a departure.
const TOKEN: &str = "CONSIGN_TEST_VICTIM_TOKEN";

/// Runs a worker that takes the steps of redrives and alerts, enqueues three messages, claims and delivers them,
/// until it dies at `point`.
async fn die_at(bench: &SqliteFixture, point: &str) {
    run_until(bench, point, None).await;
}

/// The same, after it has taken over the lease of the maintenance and gone on with its departure.
async fn run_until(bench: &SqliteFixture, point: &str, token: Option<Token>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "failpoints::a_victim", "--nocapture"]);
    command.env(FILE, bench.path());
    command.env("CONSIGN_FAILPOINT", format!("{point}:kill"));
    if let Some(Token(token)) = token {
        command.env(TOKEN, token.to_string());
    }
    let status = Child::start(command).wait(Duration::from_secs(60)).await;
    assert_eq!(status.signal(), Some(9), "killed at {point}: {status}");
}

/// Not a test by itself: what the victims of the tests below run.
#[tokio::test]
async fn a_victim() {
    let Ok(path) = std::env::var(FILE) else {
        return;
    };
    let options = SqliteOptions::new(path).unwrap();
    let options = options.hold_max(Duration::from_secs(60));
    let store = SqliteStore::open(&options).await.unwrap();
    if let Ok(token) = std::env::var(TOKEN) {
        maintain(&store, Token(token.parse().unwrap())).await;
    }
    // A redrive the test has started is stepped; everything else happens to messages of its own.
    while store.step_redrive(2).await.unwrap().is_some() {}
    // So is a schedule.
    if let Some(from) = store.upcoming(None, 1).await.unwrap().ticks.first() {
        store.tick(&one_tick(from)).await.unwrap();
    }
    store.step_alerts(100).await.unwrap();
    store.enqueue(&messages(3)).await.unwrap();
    drain(&store, 3).await;
}

async fn states(bench: &SqliteFixture) -> Vec<StateKind> {
    let page = bench
        .store
        .list(&Default::default(), None, 10)
        .await
        .unwrap();
    page.items.iter().map(|listed| listed.state).collect()
}

async fn check_and_drain(bench: &SqliteFixture) {
    assert_eq!(bench.store.doctor().await.unwrap(), []);
    // The victim went by the machine's clock; go well past its lease.
    bench
        .clock
        .advance(SignedDuration::from_hours(24 * 365 * 100));
    drain(&bench.store, 10).await;
    assert_eq!(states(bench).await, [StateKind::Delivered; 3]);
    assert_eq!(bench.store.doctor().await.unwrap(), []);
}

#[tokio::test]
async fn a_committed_enqueue_survives_the_death_of_its_process() {
    let bench = fixture().await;
    die_at(&bench, "enqueue_committed").await;
    assert_eq!(states(&bench).await, [StateKind::Ready; 3]);
    check_and_drain(&bench).await;
}

#[tokio::test]
async fn a_claim_whose_reply_was_lost_expires() {
    let bench = fixture().await;
    die_at(&bench, "claim_committed").await;
    assert_eq!(states(&bench).await, [StateKind::Leased; 3]);
    check_and_drain(&bench).await;
    let history = bench.store.history(MessageId(1)).await.unwrap();
    assert_eq!(history[0].outcome, AttemptOutcome::Expired, "explained");
}

#[tokio::test]
async fn a_settle_that_did_not_commit_left_nothing() {
    let bench = fixture().await;
    die_at(&bench, "settle_before_commit").await;
    assert_eq!(states(&bench).await, [StateKind::Leased; 3]);
    assert_eq!(bench.store.history(MessageId(1)).await.unwrap(), []);
    check_and_drain(&bench).await;
}

#[tokio::test]
async fn a_repeated_settle_returns_the_recorded_result() {
    let bench = fixture().await;
    die_at(&bench, "settle_committed").await;
    assert_eq!(states(&bench).await, [StateKind::Delivered; 3]);
    let token = bench.store.history(MessageId(1)).await.unwrap()[0].token;
    let answer = bench
        .store
        .settle(token, &[Report::delivered(MessageId(1))])
        .await
        .unwrap();
    assert!(
        matches!(answer, SettleAnswer::AlreadySettled(_)),
        "{answer:?}"
    );
    assert!(bench.store.claim(&claim(1)).await.unwrap().is_none());
}

/// Five dead messages and a redrive that has them all before it.
async fn start_redrive(bench: &SqliteFixture) -> Redrive {
    bench.store.enqueue(&messages(5)).await.unwrap();
    let lease = bench.store.claim(&claim(5)).await.unwrap().unwrap();
    let dead = |n| Report::new(MessageId(n), Outcome::Dead);
    let reports: Vec<Report> = (1..=5).map(dead).collect();
    bench.store.settle(lease.token, &reports).await.unwrap();
    let by = By::new("ada", "the receiver is back");
    let started = bench.store.start_redrive(&Default::default(), &by).await;
    started.unwrap()
}

/// Finishes a redrive whose stepper died, and finds every message requeued and recorded once.
async fn finish_redrive(bench: &SqliteFixture, moved_by_the_victim: u64) {
    assert_eq!(bench.store.doctor().await.unwrap(), []);
    let left = bench.store.redrives(1).await.unwrap().remove(0);
    assert_eq!(left.moved, moved_by_the_victim, "{left:?}");
    let counts = bench.store.queues(None, 1_000).await.unwrap()[0].1;
    assert_eq!(counts.dead, 5 - left.moved, "all of a step or nothing");
    let mut last = left;
    while let Some(redrive) = bench.store.step_redrive(2).await.unwrap() {
        last = redrive;
    }
    assert_eq!((last.state, last.moved), (RedriveState::Done, 5));
    for n in 1..=5 {
        let audit = bench.store.audit(Some(MessageId(n)), None, 10).await;
        assert_eq!(audit.unwrap().len(), 1, "message {n} was requeued once");
    }
    assert_eq!(bench.store.doctor().await.unwrap(), []);
}

#[tokio::test]
async fn a_step_of_a_redrive_that_did_not_commit_left_nothing() {
    let bench = fixture().await;
    start_redrive(&bench).await;
    die_at(&bench, "redrive_before_commit").await;
    finish_redrive(&bench, 0).await;
}

#[tokio::test]
async fn a_redrive_goes_on_after_the_death_of_its_stepper() {
    let bench = fixture().await;
    start_redrive(&bench).await;
    die_at(&bench, "redrive_committed").await;
    finish_redrive(&bench, 2).await;
}

/// The next tick of a schedule, with another one a second later.
fn one_tick(from: &NextTick) -> TickPlan {
    let at = from.at;
    TickPlan {
        from: from.clone(),
        ticks: vec![Tick { at, missed: 0 }],
        missed: 0,
        dropped: 0,
        next_at: at + SignedDuration::from_secs(1),
    }
}

/// A schedule whose tick is due by every clock.
async fn put_schedule(bench: &SqliteFixture) -> Schedule {
    let plan = SchedulePlan::new("default".parse().unwrap(), "* * * * * *", json!(1));
    let (name, by) = ("often".parse().unwrap(), By::new("ada", "a test"));
    let next_at = Timestamp::UNIX_EPOCH;
    let put = bench.store.put_schedule(&name, &plan, next_at, &by).await;
    put.unwrap()
}

#[tokio::test]
async fn a_tick_that_did_not_commit_left_nothing() {
    let bench = fixture().await;
    let put = put_schedule(&bench).await;
    die_at(&bench, "tick_before_commit").await;
    assert_eq!(states(&bench).await, [], "neither the message");
    let left = bench.store.schedule(&put.name).await.unwrap().unwrap();
    assert_eq!(left, put, "nor the next tick");
    let ticked = bench.store.tick(&one_tick(&put.next_tick())).await.unwrap();
    assert_eq!(ticked.unwrap().ticks, 1);
    assert_eq!(states(&bench).await, [StateKind::Ready]);
    assert_eq!(bench.store.doctor().await.unwrap(), []);
}

#[tokio::test]
async fn a_tick_whose_process_died_is_not_taken_again() {
    let bench = fixture().await;
    let put = put_schedule(&bench).await;
    die_at(&bench, "tick_committed").await;
    assert_eq!(states(&bench).await, [StateKind::Ready]);
    let again = bench.store.tick(&one_tick(&put.next_tick())).await.unwrap();
    assert_eq!(again, None);
    let left = bench.store.schedule(&put.name).await.unwrap().unwrap();
    assert_eq!((left.ticks, left.next_at > put.next_at), (1, true));
    assert_eq!(states(&bench).await, [StateKind::Ready]);
}

/// Five deaths in a queue whose alerts go to `ops`, stepped by a process that dies at `point`.
async fn step_alerts_until_death(point: &str) -> SqliteFixture {
    let bench = fixture().await;
    let by = By::new("ada", "a test");
    let ops = "ops".parse().unwrap();
    let policy = QueuePolicy::default();
    bench.store.put_queue(&ops, &policy, &by).await.unwrap();
    let alerting = QueuePolicy {
        alert_queue: Some(ops),
        ..policy
    };
    let put = bench.store.put_queue(&queue(), &alerting, &by).await;
    put.unwrap();
    bench.store.enqueue(&messages(5)).await.unwrap();
    let lease = bench.store.claim(&claim(5)).await.unwrap().unwrap();
    let dead = |n| Report::new(MessageId(n), Outcome::Dead);
    let reports: Vec<Report> = (1..=5).map(dead).collect();
    bench.store.settle(lease.token, &reports).await.unwrap();
    die_at(&bench, point).await;
    assert_eq!(bench.store.doctor().await.unwrap(), []);
    bench
}

/// How many messages are in `ops`.
async fn alerts(bench: &SqliteFixture) -> u64 {
    let counts = bench.store.queue_counts(&"ops".parse().unwrap()).await;
    counts.unwrap().unwrap().1.ready
}

#[tokio::test]
async fn a_step_of_the_alerts_that_did_not_commit_left_nothing() {
    let bench = step_alerts_until_death("before_commit:step the alerts").await;
    assert_eq!(alerts(&bench).await, 0);
    let step = bench.store.step_alerts(100).await.unwrap();
    let counts: Vec<u64> = step.raised.iter().map(|alert| alert.count).collect();
    assert_eq!((step.events, counts), (1, vec![5]));
    assert_eq!(alerts(&bench).await, 1);
}

#[tokio::test]
async fn an_alert_is_enqueued_once_although_its_stepper_died() {
    let bench = step_alerts_until_death("alerts_committed").await;
    assert_eq!(alerts(&bench).await, 1);
    let step = bench.store.step_alerts(100).await.unwrap();
    assert_eq!((step.events, step.raised), (0, vec![]));
    assert_eq!(alerts(&bench).await, 1);
}

/// Goes on with the departure under way, by the machine's clock.
async fn maintain(store: &SqliteStore, token: Token) {
    let ttl = Duration::from_secs(60);
    let leased = store.lease_maintenance("victim", Some(token), ttl).await;
    assert_eq!(leased.unwrap(), Some(token));
    let Step::Done(Some(departure)) = store
        .begin_departure(token, DepartureCause::Age, true)
        .await
        .unwrap()
    else {
        panic!("a departure is under way");
    };
    while let Step::Done(progress) = store.depart(token, departure.id).await.unwrap() {
        assert!(!progress.is_over, "killed before the end");
    }
}

/// Kills a process in the middle of a departure of 2,500 messages, and finishes it.
async fn depart_after_death(point: &str, removed_by_the_victim: i64) {
    let bench = retention::forgetful().await;
    let first = retention::maintenance(&bench).await;
    let dead = retention::dead(&bench, 2_500).await;
    let departure = retention::leaving(&first, 2_500).await;
    let stays = bench.store.enqueue(&messages(1)).await.unwrap()[0].id;
    run_until(&bench, point, Some(first.token)).await;
    assert_eq!(bench.store.doctor().await.unwrap(), []);
    let mut connection = bench.connect().await;
    for statement in [
        "SELECT 2501 - count(*) FROM message",
        "SELECT 2500 - count(*) FROM attempt",
        "SELECT 2500 - count(*) FROM dead",
        "SELECT sum(messages) FROM (SELECT 0 AS messages UNION ALL SELECT messages FROM departed)",
        "SELECT removed FROM departure",
    ] {
        let removed: i64 = sqlx::query_scalar(statement)
            .fetch_one(&mut connection)
            .await
            .unwrap();
        assert_eq!(removed, removed_by_the_victim, "{statement}");
    }
    // By this clock the victim's lease is over.
    let second = retention::maintenance(&bench).await;
    let found = second.begin().await.unwrap();
    assert_eq!((found.id, found.messages), (departure.id, 2_500));
    let removed = second.depart(&found).await;
    assert_eq!(removed, 2_500 - removed_by_the_victim as u64);
    for id in [dead[0], dead[999], dead[1_000], dead[2_499]] {
        assert_eq!(bench.store.explain(id).await.unwrap(), None);
    }
    let audit = bench.store.audit(None, None, 100).await.unwrap();
    let entries = audit.iter().filter(|entry| entry.action == "depart");
    assert_eq!(entries.count(), 1, "one departure, two processes");
    assert_eq!(drain(&bench.store, 10).await, [stays]);
    assert_eq!(bench.store.doctor().await.unwrap(), []);
}

#[tokio::test]
async fn a_step_of_a_departure_that_did_not_commit_removed_nothing() {
    depart_after_death("before_commit:depart", 0).await;
}

#[tokio::test]
async fn a_departure_goes_on_after_the_death_of_its_process() {
    depart_after_death("depart_committed", 1_000).await;
}
