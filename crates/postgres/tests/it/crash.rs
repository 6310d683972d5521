//! Real processes, killed for real.

use std::{path::PathBuf, process::Command, time::Duration};

use consign_kernel::{
    AttemptOutcome, By, Claim, MessageId, NewMessage, NextTick, Outcome, RedriveState, Report,
    SchedulePlan, SettleAnswer, StateKind, Tick, TickPlan, Token, prelude::*,
};
use consign_testkit::{ChaosProxy, Child, eventually, eventually_some};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::harness::{connect, database};

const SOON: Duration = Duration::from_secs(20);

/// The example `claimant`, which cargo builds beside these tests.
fn claimant(url: &str) -> Child {
    let tests = std::env::current_exe().unwrap();
    let target: PathBuf = tests
        .parent()
        .and_then(|deps| deps.parent())
        .unwrap()
        .into();
    let mut command = Command::new(target.join("examples/claimant"));
    command.arg(url);
    Child::start(command)
}

fn message() -> NewMessage {
    NewMessage::new("default".parse().unwrap(), json!(1))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_between_claim_and_settle_loses_nothing() {
    let database = database().await;
    let store = connect(&database).await;
    let id = store.enqueue(&[message()]).await.unwrap()[0].id;

    let mut worker = claimant(database.url());
    worker.expect_line("connected").await;
    worker.send_line("claim");
    let claimed = worker.expect_line("claimed ").await;
    worker.kill9();

    let claim = Claim::new("default".parse().unwrap(), "heir", 10);
    let lease = eventually_some("the message comes back", SOON, || async {
        store.claim(&claim).await.unwrap()
    })
    .await;
    assert_eq!(lease.messages[0].message.id, id);
    assert_eq!(lease.messages[0].attempt_no, 2);
    let history = store.history(id).await.unwrap();
    assert_eq!(
        history[0].outcome,
        AttemptOutcome::Expired,
        "the crash is on record"
    );
    // The dead worker's token is rejected.
    let token = Token(
        claimed
            .trim_start_matches("claimed ")
            .trim()
            .parse()
            .unwrap(),
    );
    let stale = store.settle(token, &[Report::delivered(id)]).await.unwrap();
    assert_eq!(stale, SettleAnswer::LeaseLost);
    store
        .settle(lease.token, &[Report::delivered(id)])
        .await
        .unwrap();
    assert_eq!(store.doctor().await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_killed_between_commit_and_reply_has_settled() {
    let database = database().await;
    let store = connect(&database).await;
    let id = store.enqueue(&[message()]).await.unwrap()[0].id;

    let proxy = ChaosProxy::start(database.address().await).await;
    let mut worker = claimant(&database.url_via(proxy.address()));
    worker.expect_line("connected").await;
    worker.send_line("claim");
    let claimed = worker.expect_line("claimed ").await;
    proxy.swallow_replies();
    worker.send_line("settle");
    eventually("the settle is committed", SOON, || async {
        store.explain(id).await.unwrap().unwrap().state.kind() == StateKind::Delivered
    })
    .await;
    worker.kill9();

    // A repeated settle returns what was recorded.
    let token = Token(
        claimed
            .trim_start_matches("claimed ")
            .trim()
            .parse()
            .unwrap(),
    );
    let again = store.settle(token, &[Report::delivered(id)]).await.unwrap();
    let SettleAnswer::AlreadySettled(recorded) = again else {
        panic!("{again:?}")
    };
    assert_eq!((recorded[0].id, recorded[0].attempt_no), (id, 1));
    assert_eq!(store.history(id).await.unwrap().len(), 1, "recorded once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_killed_between_commit_and_reply_may_repeat_its_key() {
    let database = database().await;
    let store = connect(&database).await;
    let proxy = ChaosProxy::start(database.address().await).await;
    let mut producer = claimant(&database.url_via(proxy.address()));
    producer.expect_line("connected").await;
    // Once beforehand, so that the second statement is only an execution.
    producer.send_line("enqueue first");
    producer.expect_line("enqueued ").await;
    proxy.swallow_replies();
    producer.send_line("enqueue order-1");
    let list = || async {
        store
            .list(&Default::default(), None, 10)
            .await
            .unwrap()
            .items
    };
    eventually("the enqueue is committed", SOON, || async {
        list().await.len() == 2
    })
    .await;
    producer.kill9();

    let again = store
        .enqueue(&[message().with_key("order-1")])
        .await
        .unwrap();
    assert!(again[0].duplicate, "one key, one message");
    assert_eq!(list().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_cut_under_a_settle_leaves_an_unknown_outcome_that_can_be_repeated() {
    let database = database().await;
    let direct = connect(&database).await;
    let id = direct.enqueue(&[message()]).await.unwrap()[0].id;
    let proxy = ChaosProxy::start(database.address().await).await;
    let options = consign_postgres::PostgresOptions::new(database.url_via(proxy.address()));
    let store = consign_postgres::PostgresStore::connect(&options)
        .await
        .unwrap();
    let claim = Claim::new("default".parse().unwrap(), "w", 1);
    let lease = store.claim(&claim).await.unwrap().unwrap();
    proxy.swallow_replies();
    let reports = [Report::delivered(id)];
    let cut = async {
        proxy.reply_withheld().await;
        proxy.cut().await;
    };
    let (answer, ()) = tokio::join!(store.settle(lease.token, &reports), cut);
    let error = answer.unwrap_err();
    assert_eq!(
        error.certainty(),
        consign_kernel::Certainty::Unknown,
        "{error:?}"
    );
    proxy.restore();
    proxy.resume();
    let again = eventually_some("the database answers again", SOON, || async {
        store.settle(lease.token, &reports).await.ok()
    })
    .await;
    assert!(
        matches!(
            again,
            SettleAnswer::Settled(_) | SettleAnswer::AlreadySettled(_)
        ),
        "{again:?}"
    );
    assert_eq!(direct.history(id).await.unwrap().len(), 1, "recorded once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redrive_goes_on_after_its_stepper_was_killed() {
    let database = database().await;
    let store = connect(&database).await;
    let messages = vec![message(); 50];
    store.enqueue(&messages).await.unwrap();
    let claim = Claim::new("default".parse().unwrap(), "w", 50);
    let lease = store.claim(&claim).await.unwrap().unwrap();
    let ids: Vec<MessageId> = lease.messages.iter().map(|m| m.message.id).collect();
    let dead = |id: &MessageId| Report::new(*id, Outcome::Dead);
    let reports: Vec<Report> = ids.iter().map(dead).collect();
    store.settle(lease.token, &reports).await.unwrap();
    let by = By::new("ada", "the receiver is back");
    let started = store.start_redrive(&Default::default(), &by).await.unwrap();

    let proxy = ChaosProxy::start(database.address().await).await;
    let mut stepper = claimant(&database.url_via(proxy.address()));
    stepper.expect_line("connected").await;
    stepper.send_line("step 7");
    stepper.expect_line("stepped Some(7)").await;
    // The next step is committed, but its reply is lost.
    proxy.swallow_replies();
    stepper.send_line("step 7");
    eventually("the step is committed", SOON, || async {
        let redrive = store.redrive(started.id).await.unwrap();
        redrive.is_some_and(|redrive| redrive.moved == 14)
    })
    .await;
    stepper.kill9();

    eventually("the redrive is done", SOON, || async {
        while store.step_redrive(7).await.unwrap().is_some() {}
        let redrive = store.redrive(started.id).await.unwrap();
        redrive.is_some_and(|redrive| redrive.state == RedriveState::Done)
    })
    .await;
    let done = store.redrive(started.id).await.unwrap().unwrap();
    assert_eq!((done.moved, done.skipped), (50, 0));
    for id in ids {
        let audit = store.audit(Some(id), None, 10).await.unwrap();
        assert_eq!(audit.len(), 1, "message {id} was requeued once");
    }
    assert_eq!(store.doctor().await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tick_is_taken_once_though_its_process_was_killed() {
    let database = database().await;
    let store = connect(&database).await;
    let plan = SchedulePlan::new("default".parse().unwrap(), "* * * * * *", json!(1));
    let (name, by) = ("often".parse().unwrap(), By::new("ada", "a test"));
    let start = Timestamp::UNIX_EPOCH;
    let put = store.put_schedule(&name, &plan, start, &by).await.unwrap();

    let proxy = ChaosProxy::start(database.address().await).await;
    let mut runner = claimant(&database.url_via(proxy.address()));
    runner.expect_line("connected").await;
    runner.send_line("tick");
    runner.expect_line("ticked Some(1)").await;
    // The next tick is committed, but its reply is lost.
    let ticks = async || store.schedule(&name).await.unwrap().unwrap().ticks;
    proxy.swallow_replies();
    runner.send_line("tick");
    eventually("the tick is committed", SOON, async || ticks().await == 2).await;
    runner.kill9();

    let again = |n: i64| {
        let at = start + SignedDuration::from_secs(n);
        TickPlan {
            from: NextTick {
                at,
                ..put.next_tick()
            },
            ticks: vec![Tick { at, missed: 0 }],
            missed: 0,
            dropped: 0,
            next_at: at + SignedDuration::from_secs(1),
        }
    };
    for n in [0, 1] {
        assert_eq!(
            store.tick(&again(n)).await.unwrap(),
            None,
            "tick {n} was taken"
        );
    }
    assert!(store.tick(&again(2)).await.unwrap().is_some());
    let claim = Claim::new("default".parse().unwrap(), "w", 50);
    let lease = store.claim(&claim).await.unwrap().unwrap();
    assert_eq!(lease.messages.len(), 3);
    assert_eq!(store.doctor().await.unwrap(), []);
}
