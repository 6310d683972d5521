//! `consign schedules`, and the processes that run them.

use std::time::Duration;

use consign_kernel::{By, MissedPolicy, ScheduleName, SchedulePlan, Store, TICKS_MAX};
use consign_testkit::eventually;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{
    orders::bench::{Bench, Kind, on_both},
    service::{SOON, Service},
    support::{Consign, queue},
};

/// A clock that runs so much faster than the machine's: a minute every 25 ms.
const SPEED: u32 = 2_400;
const TICKS: u64 = 1_000;
/// Of a file, as many steps as this are killed, each of up to a hundred ticks.
const STEPS_KILLED: u64 = 5;
/// In PostgreSQL a step takes long enough to be killed in.
const SLOW_STEPS: &str = "
    CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM pg_sleep(0.05); RETURN NULL; END $$;
    CREATE TRIGGER slow AFTER INSERT ON consign.message FOR EACH STATEMENT EXECUTE FUNCTION public.slow()";
const STEPS_UNDER_WAY: &str = "SELECT count(*) AS n FROM pg_stat_activity \
    WHERE datname = current_database() AND state = 'active' AND query LIKE '%FROM consign.tick(%' \
    AND pid <> pg_backend_pid()";
/// How long a hundred ticks may take on a busy machine.
const LONG: Duration = Duration::from_secs(60);

fn name(text: &str) -> ScheduleName {
    text.parse().unwrap()
}

/// A thousand ticks and more that come within seconds.
struct Compressed {
    plan: SchedulePlan,
    first: Timestamp,
    /// Seconds from one tick to the next.
    step_s: i64,
}

/// Makes the database's clock run fast. SQLite has the machine's, which no test may change: there, ticks of every
/// second have been missed, not more than the policy allows, however long the processes take to start.
async fn compress_time(bench: &Bench) -> Compressed {
    let every = |cron: &str| SchedulePlan {
        time_zone: "Europe/Berlin".to_owned(),
        missed: MissedPolicy::All,
        ..SchedulePlan::new(queue("ticks"), cron, json!({"n": 1}))
    };
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap();
    if bench.consign.database().starts_with("sqlite:") {
        return Compressed {
            plan: every("* * * * * *"),
            first: now - SignedDuration::from_secs(TICKS as i64 + 20),
            step_s: 1,
        };
    }
    let clock = format!(
        "CREATE OR REPLACE FUNCTION consign.clock() RETURNS timestamptz LANGUAGE sql VOLATILE
             RETURN timestamptz '{now}' + (clock_timestamp() - timestamptz '{now}') * {SPEED}"
    );
    bench.eye().await.run(&clock).await;
    bench.eye().await.run(SLOW_STEPS).await;
    let now = bench
        .consign
        .store()
        .await
        .upcoming(None, 1)
        .await
        .unwrap()
        .now;
    Compressed {
        plan: every("* * * * *"),
        first: Timestamp::from_second(now.as_second() / 60 * 60 + 60).unwrap(),
        step_s: 60,
    }
}

fn start(consign: &Consign) -> Service {
    Service::launch(consign, &["serve", "--listen", "127.0.0.1:0"], |_| {})
}

/// Three processes at a time die in a step: two before its commit, the third behind it. So each three take the
/// ticks of one step, and of another where it shares the transaction of another job, which is no point to die
/// at. Returns how many were killed.
async fn die_in_steps(consign: &Consign) -> u32 {
    let mut kills = 0;
    for _ in 0..STEPS_KILLED {
        let launch = |point: &str| {
            let arguments = ["serve", "--listen", "127.0.0.1:0"];
            Service::launch(consign, &arguments, |command| {
                command.env("CONSIGN_FAILPOINT", format!("{point}:kill"));
            })
        };
        let points = ["tick_before_commit", "tick_committed", "tick_before_commit"];
        for mut doomed in points.map(launch) {
            let status = doomed.child.wait(LONG).await;
            assert_eq!(status.code(), None, "killed, not ended: {}", doomed.log());
            kills += 1;
        }
    }
    kills
}

/// Three processes run the schedules; one after another is killed and replaced, until so many ticks are taken.
/// On PostgreSQL each kill comes while a step is under way, of the one that is killed or of another.
async fn take_and_kill(bench: &Bench, store: &dyn Store, schedule: &ScheduleName) -> u32 {
    let consign = &bench.consign;
    let mut services: Vec<Service> = (0..3).map(|_| start(consign)).collect();
    let (mut goal, mut kills) = (0, 0);
    while goal < TICKS {
        goal += TICKS / 10;
        eventually("more ticks are taken", LONG, async || {
            store.schedule(schedule).await.unwrap().unwrap().ticks >= goal
        })
        .await;
        if bench.kind == Kind::Postgres {
            eventually("a step is under way", LONG, async || {
                bench.eye().await.number(STEPS_UNDER_WAY).await > 0
            })
            .await;
        }
        let victim = &mut services[kills as usize % 3];
        victim.child.kill9();
        *victim = start(consign);
        kills += 1;
    }
    kills
}

/// A thousand ticks, three processes, ten of them killed and in SQLite fifteen more in steps: each tick has one
/// message.
#[test]
fn processes_that_are_killed_take_each_tick_once() {
    on_both(async |mut bench| {
        bench.configure("[retention]\nenabled = false\n");
        let store = bench.consign.store().await;
        let by = By::new("tess", "test");
        store
            .put_queue(&queue("ticks"), &Default::default(), &by)
            .await
            .unwrap();
        let Compressed {
            plan,
            first,
            step_s,
        } = compress_time(&bench).await;
        let often = name("often");
        store.put_schedule(&often, &plan, first, &by).await.unwrap();
        if bench.kind == Kind::Sqlite {
            assert_eq!(die_in_steps(&bench.consign).await, 15);
            let taken = store.schedule(&often).await.unwrap().unwrap().ticks;
            assert!(taken >= STEPS_KILLED * TICKS_MAX as u64, "{taken}");
        }
        assert_eq!(take_and_kill(&bench, &*store, &often).await, 10);

        let paused = store.pause_schedule(&often, &by).await.unwrap();
        assert!(paused.ticks >= TICKS, "{paused:?}");
        assert_eq!(paused.dropped, 0);
        let last = first + SignedDuration::from_secs(step_s * (paused.ticks as i64 - 1));
        assert_eq!(paused.last_tick, Some(last), "no gap");
        for what in ["*", "DISTINCT headers ->> 'consign_tick'"] {
            let sql = format!("SELECT count({what}) AS n FROM message WHERE queue = 'ticks'");
            let found = bench.eye().await.number(&sql).await;
            assert_eq!(found as u64, paused.ticks, "{what}");
        }
        if bench.kind == Kind::Postgres {
            let drop = "DROP TRIGGER slow ON consign.message";
            bench.eye().await.run(drop).await;
        }
        bench.doctor();
        // What the queue's app takes from nobody else, it does not take from a schedule.
        let orders = SchedulePlan::new(queue("orders"), "@daily", json!(1));
        let refused = store
            .put_schedule(&name("daily"), &orders, first, &by)
            .await;
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("takes orders only"), "{error}");
    });
}

#[tokio::test]
async fn a_schedule_is_added_run_paused_and_removed() {
    let consign = Consign::new();
    let add = |more: &[&'static str]| {
        let words = ["schedules", "add", "report", "--cron", "0 8 * * MON-FRI"];
        let all: Vec<&str> = words.into_iter().chain(more.iter().copied()).collect();
        consign.run(all)
    };
    let zone = [
        "--time-zone",
        "Europe/Berlin",
        "--payload",
        r#"{"kind": "daily"}"#,
    ];
    let added = add(&zone).expect(0).stdout;
    for line in [
        "cron      0 8 * * MON-FRI (Europe/Berlin)",
        "missed    once",
        "last      -",
    ] {
        assert!(added.contains(line), "{added}");
    }
    let shown = consign.json(["schedules", "show", "report"]);
    assert_eq!(shown["time_zone"], "Europe/Berlin");
    assert_eq!(shown["payload"], json!({"kind": "daily"}));
    let ran = consign.run(["schedules", "run", "report"]).expect(0).stdout;
    assert_eq!(ran.trim(), "schedule report enqueued message 1");
    let message = consign.json(["show", "1"]);
    assert_eq!(
        message["message"]["headers"],
        json!({"consign_schedule": "report"})
    );
    let listed = consign.json(["schedules"]);
    assert_eq!(listed["items"][0]["last_message_id"], 1);
    let paused = consign
        .run(["schedules", "pause", "report"])
        .expect(0)
        .stdout;
    assert!(paused.contains("paused"), "{paused}");
    assert!(
        consign
            .run(["schedules"])
            .expect(0)
            .stdout
            .contains("paused")
    );
    consign.run(["schedules", "resume", "report"]).expect(0);
    consign.run(["schedules", "remove", "report"]).expect(0);
    let none = consign.json(["schedules"]);
    assert_eq!(none["items"], json!([]));
    for action in ["show", "pause", "resume", "remove", "run"] {
        let (code, message) = consign
            .run(["schedules", action, "report", "--json"])
            .expect(4)
            .error();
        assert_eq!(code, "unknown_schedule", "{message}");
    }
}

#[test]
fn bad_schedules_are_refused_with_what_to_do() {
    let consign = Consign::new();
    for (more, text) in [
        (vec!["--cron", "61 * * * *"], "cron: is \"61 * * * *\"; "),
        (vec!["--cron", "0 0 30 2 *"], "no day fits it"),
        (
            vec!["--cron", "* * * * *", "--time-zone", "Europe/Berln"],
            "Did you mean \"Europe/Berlin\"?",
        ),
        (
            vec!["--cron", "* * * * *", "--queue", "defalt"],
            "did you mean \"default\"?",
        ),
        (
            vec![
                "--cron",
                "* * * * *",
                "--missed",
                "all",
                "--missed-max",
                "1001",
            ],
            "missed_max: is 1001",
        ),
        (
            vec!["--cron", "* * * * *", "--header", "consign_tick=1"],
            "use another name",
        ),
    ] {
        let words = ["schedules", "add", "x", "--payload", "1", "--json"];
        let ran = consign.run(words.into_iter().chain(more)).expect(3);
        let (_, message) = ran.error();
        assert!(message.contains(text), "{message}");
    }
    let none = consign.json(["schedules"]);
    assert_eq!(none["items"], json!([]), "nothing was added");
}

#[test]
fn a_preview_needs_no_database() {
    let consign = Consign::unmigrated();
    let preview = [
        "schedules",
        "preview",
        "30 2 * * *",
        "--time-zone",
        "Europe/Berlin",
    ];
    let lines = consign.run(preview).expect(0).stdout;
    assert_eq!(lines.lines().count(), 5, "{lines}");
    assert!(lines.lines().all(|line| line.contains(":00 +0")), "{lines}");
    let ticks: Value = consign.json(preview);
    assert_eq!(ticks["ticks"].as_array().unwrap().len(), 5);
}

#[tokio::test]
async fn an_overdue_schedule_is_a_finding_until_a_process_runs_it() {
    let consign = Consign::new();
    let store = consign.store().await;
    let plan = SchedulePlan::new(queue("default"), "0 8 * * *", json!(1));
    let week_ago = Timestamp::now() - SignedDuration::from_hours(7 * 24);
    let by = By::new("tess", "test");
    store
        .put_schedule(&name("daily"), &plan, week_ago, &by)
        .await
        .unwrap();
    let found = consign.run(["doctor"]).expect(1).stdout;
    assert!(
        found.contains("schedule_overdue: schedule daily has had no tick since"),
        "{found}"
    );
    let service = Service::serve(&consign).await;
    eventually("the week is made up for", SOON, async || {
        store.schedule(&name("daily")).await.unwrap().unwrap().ticks == 1
    })
    .await;
    consign.run(["doctor"]).expect(0);
    let audit = store.audit(None, None, 10).await.unwrap();
    assert_eq!(audit[0].action, "missed_ticks", "{audit:?}");
    service.stop().await;
}

#[test]
fn a_message_is_enqueued_for_a_time() {
    let consign = Consign::new();
    let at = "2036-01-01T12:00:00+01:00";
    let soon = Timestamp::now().as_second() + 24 * 3_600;
    let soon = Timestamp::from_second(soon).unwrap().to_string();
    consign.run(["enqueue", "1", "--at", &soon]).expect(0);
    let shown = consign.json(["show", "1"]);
    assert_eq!(shown["state"]["due_at"], soon.as_str(), "{shown}");
    consign
        .run(["enqueue", "1", "--at", "2020-01-01T12:00:00+01:00"])
        .expect(0);
    let line = format!("{{\"payload\": 1, \"at\": \"{soon}\"}}\n");
    consign.run_with(["enqueue"], line.as_bytes()).expect(0);
    let counts = consign.json(["queues", "show", "default"])["counts"].clone();
    assert_eq!(
        (&counts["ready"], &counts["scheduled"]),
        (&json!(1), &json!(2))
    );
    let both = format!("{{\"payload\": 1, \"at\": \"{at}\", \"delay_ms\": 5}}\n");
    let (_, message) = consign
        .run_with(["enqueue", "--json"], both.as_bytes())
        .expect(3)
        .error();
    assert!(
        message.starts_with("line 1: at: is ") && message.contains("give one of them"),
        "{message}"
    );
    let far = consign
        .run(["enqueue", "1", "--json", "--at", "2999-01-01T00:00:00Z"])
        .expect(3);
    assert!(far.error().1.contains("at most ten years ahead"), "{far:?}");
    consign
        .run(["enqueue", "1", "--at", at, "--delay", "5s"])
        .expect(2);
    let bare = consign
        .run(["enqueue", "1", "--at", "2026-12-24T18:00:00"])
        .expect(2);
    assert!(bare.stderr.contains("with its offset"), "{bare:?}");
}

#[test]
fn a_message_is_enqueued_until_a_time() {
    let consign = Consign::new();
    let day = Timestamp::now().as_second() + 24 * 3_600;
    let day = Timestamp::from_second(day).unwrap().to_string();
    consign
        .run(["enqueue", "1", "--expires-at", &day])
        .expect(0);
    let line = format!("{{\"payload\": 1, \"expires_at\": \"{day}\"}}\n");
    consign.run_with(["enqueue"], line.as_bytes()).expect(0);
    for id in ["1", "2"] {
        let shown = consign.json(["show", id]);
        assert_eq!(shown["message"]["expires_at"], day.as_str(), "{shown}");
        let shown = consign.run(["show", id]).expect(0);
        assert!(shown.stdout.contains("expires   "), "{shown:?}");
        let explained = consign.run(["explain", id]).expect(0);
        assert!(explained.stdout.contains("It expires in"), "{explained:?}");
    }
    let listed = consign.json(["ls"]);
    assert_eq!(listed["items"][0]["expires_at"], day.as_str(), "{listed}");
    let past = [
        "enqueue",
        "1",
        "--json",
        "--expires-at",
        "2020-01-01T00:00:00Z",
    ];
    let (_, message) = consign.run(past).expect(3).error();
    assert!(
        message.starts_with("expires_at: is ") && message.contains("after the message is due"),
        "{message}"
    );
    let past = b"{\"payload\": 1, \"expires_at\": \"2020-01-01T00:00:00Z\"}\n";
    let (_, message) = consign
        .run_with(["enqueue", "--json"], past)
        .expect(3)
        .error();
    assert!(message.starts_with("line 1: expires_at: is "), "{message}");
}
