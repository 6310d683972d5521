//! Progress of long commands, on the terminal that the program `script` makes.

use std::process::Command;

use consign_kernel::Outcome;

use crate::support::{CommandOutput, Consign, finish, queue, work};

/// Runs a line on a terminal of 100 columns: what it prints has standard output and standard error.
fn on_terminal(consign: &Consign, line: &str) -> CommandOutput {
    let own = consign.command();
    let program = own.get_program().to_str().unwrap();
    let database = consign.database();
    let line = format!("stty cols 100; {program} --database '{database}' {line}");
    let mut command = Command::new("script");
    command
        .args(["-qec", &line, "/dev/null"])
        .current_dir(consign.folder())
        .env("TERM", "xterm");
    for (name, value) in own.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    finish(command, b"")
}

/// A file of so many lines to enqueue.
fn lines(consign: &Consign, count: usize) {
    let lines: String = (0..count)
        .map(|n| format!("{{\"payload\": {n}}}\n"))
        .collect();
    std::fs::write(consign.folder().join("lines"), lines).unwrap();
}

#[tokio::test]
async fn long_commands_show_how_far_they_are() {
    let consign = Consign::new();
    lines(&consign, 1_000);
    let shows = |line: &str, texts: &[&str]| {
        let printed = on_terminal(&consign, line).expect(0).stdout;
        for text in texts {
            assert!(printed.contains(text), "{line}: {text}: {printed:?}");
        }
    };
    shows(
        "enqueue < lines",
        &[" messages, ", "1000 messages were enqueued"],
    );
    work(
        &*consign.store().await,
        &queue("default"),
        Outcome::Dead,
        "gone",
    )
    .await;
    shows("dead", &["grouping dead messages, ", "gone"]);
    let requeue = "requeue --queue default --yes";
    shows(requeue, &["/1000 messages, ", "1000 messages requeued"]);
    work(
        &*consign.store().await,
        &queue("default"),
        Outcome::Dead,
        "gone",
    )
    .await;
    let discard = "discard --queue default --yes --reason gone";
    shows(discard, &["/1000 messages, ", "1000 of 1000"]);
    shows("doctor", &["checking every invariant, ", "All is well"]);
}

#[tokio::test]
async fn programs_get_no_progress() {
    let consign = Consign::new();
    lines(&consign, 1_000);
    let printed = on_terminal(&consign, "enqueue --json < lines")
        .expect(0)
        .stdout;
    assert!(!printed.contains(" messages, "), "{printed:?}");
    work(
        &*consign.store().await,
        &queue("default"),
        Outcome::Dead,
        "gone",
    )
    .await;
    // Standard error is no terminal.
    let ran = consign
        .run(["requeue", "--queue", "default", "--yes"])
        .expect(0);
    assert_eq!(ran.stderr, "");
}
