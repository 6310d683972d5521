//! Finding the cause of an outage: narrowed lists and the causes of deaths.

use consign_kernel::Outcome;
use serde_json::{Value, json};

use crate::support::{Consign, queue, work};

fn ids(page: &Value) -> Vec<i64> {
    let items = page["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| item["id"].as_i64().unwrap())
        .collect()
}

fn enqueued() -> Consign {
    let consign = Consign::new();
    for arguments in [
        &["1", "--key", "invoice-1", "--header", "tenant=acme"][..],
        &["2", "--key", "invoice-2", "--group", "north"],
        &["3", "--group", "north", "--header", "correlation_id=case-1"],
        &["4", "--header", "tenant=acme", "--header", "kind=a=b"],
    ] {
        let line = ["enqueue"].iter().chain(arguments).copied();
        consign.run(line).expect(0);
    }
    consign
}

#[test]
fn messages_are_found_by_time_group_key_and_headers() {
    let consign = enqueued();
    let page = consign.json(["ls"]);
    let third = page["items"][1]["created_at"].as_str().unwrap().to_owned();
    let check = |arguments: &[&str], expected: &[i64]| {
        let page = consign.json(["ls"].iter().chain(arguments).copied());
        assert_eq!(ids(&page), expected, "{arguments:?}");
    };
    check(&["--group", "north"], &[3, 2]);
    check(&["--key-prefix", "invoice-"], &[2, 1]);
    check(&["--key-prefix", "invoice-", "--group", "north"], &[2]);
    check(&["--header", "tenant=acme"], &[4, 1]);
    check(&["--header", "tenant=acme", "--header", "kind=a=b"], &[4]);
    check(&["--correlation", "case-1"], &[3]);
    check(&["--since", &third], &[4, 3]);
    check(&["--until", &third], &[2, 1]);
    check(&["--since", "1h"], &[4, 3, 2, 1]);
    check(
        &[
            "--since",
            "2001-01-01",
            "--state",
            "ready",
            "--group",
            "north",
        ],
        &[3, 2],
    );
    check(&["--until", "2001-01-01 10:00"], &[]);
}

#[test]
fn a_filter_that_cannot_be_is_refused() {
    let consign = enqueued();
    for (arguments, why) in [
        (&["--since", "yesterday"][..], "a time is written like"),
        (&["--header", "tenant"], "a header is written name=value"),
        (&["--since", "1h", "--until", "2h"], "nothing is between"),
        (
            &["--header", "a=1", "--header", "a=2"],
            "no message has both",
        ),
        (&["--archive", "x", "--group", "g"], "cannot be used with"),
    ] {
        let ran = consign
            .run(["ls"].iter().chain(arguments).copied())
            .expect(2);
        assert!(ran.stderr.contains(why), "{why}: {ran:#?}");
    }
}

#[tokio::test]
async fn the_dead_are_grouped_by_queue_code_and_destination() {
    let consign = Consign::new();
    consign.run(["queues", "set", "mail"]).expect(0);
    consign.configure(
        "[queues.default.sink]\nkind = \"http\"\nurl = \"https://me:s3cret@hooks.example/in\"\n",
    );
    let store = consign.store().await;
    for (name, code, times) in [("default", "http_503", 3), ("mail", "connect_failed", 1)] {
        for _ in 0..times {
            consign.run(["enqueue", "1", "--queue", name]).expect(0);
        }
        work(&*store, &queue(name), Outcome::Dead, code).await;
    }
    let grouped = consign.json(["dead"]);
    let first = &grouped["items"][0];
    assert_eq!(grouped["messages"], 4);
    assert_eq!(grouped["is_whole"], true);
    let facts = [
        "queue",
        "code",
        "messages",
        "attempts_min",
        "attempts_max",
        "example",
    ];
    let facts = facts.map(|name| first[name].clone());
    assert_eq!(json!(facts), json!(["default", "http_503", 3, 1, 1, 3]));
    let destination = first["destination"].as_str().unwrap();
    assert!(destination.contains("hooks.example/in"), "{first}");
    assert!(!destination.contains("s3cret"), "{first}");
    assert_eq!(grouped["items"][1]["destination"], Value::Null);
    let ran = consign.run(["dead", "--queue", "mail"]).expect(0);
    assert!(ran.stdout.contains("connect_failed"), "{ran:#?}");
    assert!(!ran.stdout.contains("http_503"), "{ran:#?}");
    let ran = consign.run(["dead", "--code", "gone"]).expect(0);
    assert_eq!(
        (ran.stdout.as_str(), ran.stderr.as_str()),
        ("", "no message is dead\n")
    );
    let ran = consign.run(["dead", "--queue", "male"]).expect(3);
    assert!(ran.stderr.contains(r#"did you mean "mail"?"#), "{ran:#?}");
}

/// A worker of another program tried it: the command says so.
#[tokio::test]
async fn a_message_that_is_retried_is_explained_by_its_last_attempt() {
    let consign = Consign::new();
    let id = consign.enqueue_one().to_string();
    let store = consign.store().await;
    work(&*store, &queue("default"), Outcome::Retry, "http_503").await;
    let ran = consign.run(["explain", &id]).expect(0);
    let reason = "attempt 1 by worker-1 ended in retry (http_503: the sink said http_503) at ";
    assert!(ran.stdout.starts_with("Due later, at "), "{ran:#?}");
    assert!(ran.stdout.contains(reason), "{ran:#?}");
    assert!(!ran.stdout.contains("no worker"), "{ran:#?}");
    assert!(
        ran.stdout.contains("worker-1 made the last attempt"),
        "{ran:#?}"
    );
}
