//! `consign retention`, the maintenance of a service, and messages that have left.

use consign_kernel::Outcome;
use consign_testkit::eventually;
use serde_json::json;

use crate::{
    deploy::read,
    http,
    service::{SOON, Service},
    support::{Consign, queue, work},
};

/// A message with a key that was delivered, one that is ready, and a queue that keeps nothing.
async fn delivered() -> Consign {
    let consign = Consign::new();
    consign.configure("[retention]\narchive = \"archive\"\ninterval_ms = 100\n");
    let store = consign.store().await;
    consign
        .run(["enqueue", r#"{"amount": 1.50}"#, "--key", "order-1"])
        .expect(0);
    work(&*store, &queue("default"), Outcome::Delivered, "http_200").await;
    consign.run(["enqueue", "2"]).expect(0);
    consign
        .run(["queues", "set", "default", "--keep", "0s"])
        .expect(0);
    consign
}

fn archive(consign: &Consign) -> String {
    consign.folder().join("archive").display().to_string()
}

#[tokio::test]
async fn what_left_is_shown_from_the_archive() {
    let consign = delivered().await;
    let plan = consign.run(["retention", "plan"]).expect(0);
    assert!(
        plan.stdout.contains("1 message of queue default may leave"),
        "{plan:#?}"
    );
    let before = consign.json(["show", "1"]);
    let ran = consign.json(["retention", "run"]);
    assert_eq!(ran["departed"], 1);
    assert_eq!(ran["end"], "done");
    let status = consign.json(["retention", "status"]);
    let default = &status["queues"][0];
    assert_eq!(default["queue"], "default");
    assert_eq!(default["messages"], 1);
    assert_eq!(default["departed"], 1);
    assert_eq!(default["former_keys"], 1);

    consign.run(["show", "1"]).expect(4);
    let folder = archive(&consign);
    let shown = consign.json(["show", "1", "--archive", &folder]);
    assert_eq!(shown["payload"], before["message"]["payload"]);
    assert_eq!(
        shown["attempts"][0]["finished_at"],
        before["attempts"][0]["finished_at"]
    );
    let text = consign.run(["show", "1", "--archive", &folder]).expect(0);
    assert!(text.stdout.contains(r#"{"amount":1.50}"#), "{text:#?}");
    let explained = consign
        .run(["explain", "1", "--archive", &folder])
        .expect(0);
    assert!(
        explained
            .stdout
            .contains("It has left the database: delivered"),
        "{explained:#?}"
    );
    let listed = consign.json(["ls", "--archive", &folder, "--key", "order-1"]);
    assert_eq!(listed["items"][0]["id"], 1);
    consign.run(["show", "2", "--archive", &folder]).expect(4);
    let missing = consign.run(["ls", "--archive", "nowhere"]).expect(4);
    assert!(
        missing.stderr.contains("archive nowhere does not exist"),
        "{missing:#?}"
    );
    assert!(!consign.folder().join("nowhere").exists());

    let again = consign.json(["enqueue", r#"{"amount": 1.5}"#, "--key", "order-1"]);
    assert_eq!(
        (&again["id"], &again["duplicate"]),
        (&json!(1), &json!(true))
    );
    consign.run(["enqueue", "7", "--key", "order-1"]).expect(3);

    consign
        .run(["cancel", "2", "--reason", "not wanted"])
        .expect(0);
    assert_eq!(consign.json(["retention", "run"])["departed"], 1);
    let explained = consign
        .run(["explain", "2", "--archive", &folder])
        .expect(0);
    let why = "by tess: not wanted, after 0 attempt(s).";
    assert!(explained.stdout.contains(why), "{explained:#?}");
    consign.run(["doctor"]).expect(0);
}

#[tokio::test]
async fn without_an_archive_what_requires_one_stays() {
    let consign = delivered().await;
    consign.configure("");
    let ran = consign.run(["retention", "run"]).expect(3);
    assert!(ran.stderr.contains("retention.archive"), "{ran:#?}");
    consign.run(["show", "1"]).expect(0);
    let set = ["queues", "set", "default", "--archive", "false"];
    consign.run(set).expect(0);
    assert_eq!(consign.json(["retention", "run"])["departed"], 1);
}

#[tokio::test]
async fn a_service_lets_messages_leave_by_itself() {
    let consign = delivered().await;
    let service = Service::serve(&consign).await;
    eventually("it left", SOON, async || {
        consign.json(["retention", "status"])["queues"][0]["departed"] == 1
    })
    .await;
    let set = ["queues", "set", "default", "--keep", "forever"];
    consign.run(set).expect(0);
    service.stop().await;
    let folder = archive(&consign);
    assert_eq!(consign.json(["show", "1", "--archive", &folder])["id"], 1);
}

#[tokio::test]
async fn status_shows_growth_totals_and_what_keeps_the_oldest() {
    let consign = delivered().await;
    let status = consign.json(["retention", "status"]);
    let default = &status["queues"][0];
    assert_eq!(default["enqueued"], 2);
    assert_eq!(default["delivered"], 1);
    assert_eq!(default["obstacle"]["reason"], "past_its_time");
    assert!(status["database"]["bytes"].as_u64().unwrap() > 0);
    assert_eq!(status["database"]["room"]["bound"], "disk");
    consign.json(["retention", "run"]);
    let status = consign.json(["retention", "status"]);
    let default = &status["queues"][0];
    assert_eq!(
        (&default["enqueued"], &default["delivered"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(default["obstacle"]["reason"], "unfinished");
    assert_eq!(status["pass"]["end"], "done");
    let text = consign.run(["retention", "status"]).expect(0).stdout;
    // The page has the same columns.
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let header = words(text.lines().next().unwrap());
    let page = read("docs/retention.md");
    assert!(page.lines().any(|line| words(line) == header), "{header}");
    assert!(
        text.contains("oldest of default: message 2 of queue default is ready since"),
        "{text}"
    );
}

#[tokio::test]
async fn a_bound_that_cannot_be_met_is_named() {
    let consign = delivered().await;
    let set = ["queues", "set", "default", "--keep", "forever"];
    consign.run(set).expect(0);
    consign.configure("[retention]\nsize_max_bytes = 1048576\n");
    let large = format!("\"{}\"", "x".repeat(100_000));
    for _ in 0..12 {
        consign.run(["enqueue", &large]).expect(0);
    }
    for _ in 0..3 {
        let ran = consign.run(["retention", "run"]).expect(3);
        assert!(ran.stderr.contains("retention.size_max_bytes"), "{ran:#?}");
    }
    let status = consign.json(["retention", "status"]);
    assert_eq!(status["pass"]["end"], "over_size");
    assert_eq!(
        status["queues"][0]["obstacle"]["reason"],
        "keeps_everything"
    );
    let doctor = consign.run(["doctor"]).expect(0);
    assert!(
        doctor
            .stdout
            .contains("hint: the maintenance ends with over_size since"),
        "{doctor:#?}"
    );
}

#[tokio::test]
async fn a_service_shows_the_history_in_its_metrics() {
    let consign = delivered().await;
    let settings = "[retention]\narchive = \"archive\"\ninterval_ms = 100\n[telemetry]\nsample_interval_ms = 100\n";
    consign.configure(settings);
    let service = Service::serve(&consign).await;
    eventually("the totals are shown", SOON, async || {
        let text = http::get(service.address(), "/metrics").await.body;
        text.contains("consign_messages_total{queue=\"default\",event=\"enqueued\"} 2")
            && text.contains("consign_database_bytes ")
            && text.contains("consign_database_room_bytes ")
            && text.contains("consign_history_messages{queue=\"default\"} 1")
    })
    .await;
    service.stop().await;
}
