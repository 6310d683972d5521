//! What `consign serve` suggests when it starts from nothing, pasted into a shell that has `curl`.

use std::process::Command;

use consign_testkit::Child;
use serde_json::json;

use crate::{
    serve,
    service::SOON,
    support::{Consign, finish},
};

/// Starts without `--database`, as the README does, and answers with what it printed.
async fn from_nothing(consign: &Consign) -> (Child, Vec<String>) {
    let mut command = consign.command();
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    let mut child = Child::start(command);
    child.expect_line("Try it:").await;
    let mut lines = Vec::new();
    for _ in 0..5 {
        lines.push(child.expect_line("  curl ").await);
    }
    (child, lines)
}

/// Runs a line as pasted into a shell.
fn paste(line: &str, variables: &[(&str, &str)]) -> String {
    let mut command = Command::new("sh");
    command.arg("-c").arg(line).envs(variables.iter().copied());
    finish(command, b"").expect(0).stdout
}

#[tokio::test]
async fn it_starts_from_nothing_and_what_it_suggests_works() {
    let consign = Consign::unmigrated();
    let (mut child, lines) = from_nothing(&consign).await;
    assert!(consign.folder().join("consign.db").exists());

    let enqueued = serve::json(&paste(&lines[0], &[]));
    assert_eq!(
        (&enqueued["id"], &enqueued["state"]),
        (&json!(1), &json!("ready"))
    );
    let delivered = child.expect_line("{").await;
    assert_eq!(serve::json(&delivered)["payload"], json!({"text": "hello"}));

    let listed = serve::json(&paste(&lines[1], &[]));
    assert_eq!(listed["messages"][0]["id"], 1, "{listed}");
    let queues = serve::json(&paste(&lines[2], &[]));
    let names = queues["queues"]
        .as_array()
        .unwrap()
        .iter()
        .map(|queue| &queue["name"]);
    assert!(names.clone().any(|name| name == "hello"), "{queues}");
    let metrics = paste(&lines[3], &[]);
    assert!(
        metrics.contains("consign_claimed_total{queue=\"hello\"} 1"),
        "{metrics}"
    );
    assert!(
        metrics.contains("consign_messages{queue=\"hello\",state=\"ready\"}"),
        "{metrics}"
    );
    assert!(metrics.contains("\nconsign_database_up 1"), "{metrics}");
    let order = serve::json(&paste(&lines[4], &[]));
    assert_eq!(order["status"], "ok", "{order}");
    assert_eq!(order["broker"]["name"], "paper", "{order}");

    child.terminate();
    let status = child.wait(SOON).await;
    assert_eq!(status.code(), Some(0));
    let (_child, again) = from_nothing(&consign).await;
    assert_eq!(again.len(), 5, "the file is used again");
}
