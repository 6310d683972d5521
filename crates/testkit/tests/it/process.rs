use std::process::Command;
use std::time::Duration;

use consign_testkit::Child;

fn shell(script: &str) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    Child::start(command)
}

fn exists(id: u32) -> bool {
    let command = format!("kill -0 {id} 2>/dev/null");
    Command::new("sh")
        .args(["-c", &command])
        .status()
        .unwrap()
        .success()
}

#[tokio::test]
async fn a_line_is_found_by_its_prefix_and_what_precedes_it_is_passed_over() {
    let mut child = shell("echo starting; echo listening on 7; cat");
    assert_eq!(child.expect_line("listening").await, "listening on 7");
    child.send_line("hello");
    assert_eq!(child.expect_line("hel").await, "hello");
    child.close_stdin();
    assert!(child.wait(Duration::from_secs(10)).await.success());
}

#[tokio::test]
async fn a_missing_line_fails_at_its_deadline_and_shows_the_output() {
    let mut child =
        shell("echo something else; exec cat").with_line_deadline(Duration::from_millis(200));
    let waiting = tokio::spawn(async move { child.expect_line("ready").await });
    let panic = waiting.await.unwrap_err().into_panic();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(
        message.contains("no line \"ready\" within 200ms"),
        "{message}"
    );
    assert!(message.contains("something else"), "{message}");
}

#[tokio::test]
async fn an_ended_output_fails_at_once() {
    let mut child = shell("echo bye");
    let waiting = tokio::spawn(async move { child.expect_line("ready").await });
    let panic = waiting.await.unwrap_err().into_panic();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.contains("output ended"), "{message}");
}

#[tokio::test]
async fn a_dropped_child_is_killed() {
    let mut child = shell("echo ready; exec cat");
    child.expect_line("ready").await;
    let id = child.id();
    assert!(exists(id));
    drop(child);
    assert!(!exists(id));
}

#[tokio::test]
async fn kill9_gives_no_chance_to_clean_up_and_terminate_does() {
    let script = "trap 'echo drained; exit 3' TERM; echo ready; while :; do read line; done";
    let mut killed = shell(script);
    killed.expect_line("ready").await;
    killed.kill9();
    assert!(!exists(killed.id()));

    let mut asked = shell(script);
    asked.expect_line("ready").await;
    asked.terminate();
    // Some shells run a trap only when the command before it has ended.
    asked.close_stdin();
    asked.expect_line("drained").await;
    assert_eq!(asked.wait(Duration::from_secs(10)).await.code(), Some(3));
}

/// Only Linux has a file with the state of a process.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_paused_child_goes_on_where_it_was_when_resumed() {
    let mut child = shell("echo ready; while read line; do echo got $line; done");
    child.expect_line("ready").await;
    child.pause();
    let status = format!("/proc/{}/status", child.id());
    consign_testkit::eventually("it is stopped", Duration::from_secs(10), || async {
        std::fs::read_to_string(&status)
            .unwrap()
            .contains("T (stopped)")
    })
    .await;
    child.send_line("mail");
    child.resume();
    assert_eq!(child.expect_line("got").await, "got mail");
}
