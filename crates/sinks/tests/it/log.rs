//! The log sink against real files.

use std::{
    fs,
    path::{Path, PathBuf},
};

use consign_kernel::Outcome;
use consign_worker::About;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use crate::fixture::{EXACT, delivery, delivery_of, exact, sink, try_sink};

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.jsonl");
    (folder, path)
}

fn to(path: &Path, more: &str) -> String {
    format!("kind = \"log\"\npath = \"{}\"\n{more}", path.display())
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "{text:?}");
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test]
async fn a_payload_is_written_to_the_last_digit() {
    let (_folder, path) = folder();
    let sink = sink(&to(&path, "payload = true")).await;
    let delivered = sink.deliver(&exact(|_| ())).await;
    assert_eq!(delivered.outcome, Outcome::Delivered);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(&format!(r#""payload":{EXACT}"#)), "{text}");
}

#[tokio::test]
async fn a_line_identifies_the_message_and_has_the_payload_only_if_configured() {
    let (_folder, path) = folder();
    let delivery = delivery_of(json!({"text": "two\nlines"}), |message| {
        message.headers.insert("tenant".into(), json!("blue"));
        message.group = Some("g".into());
    });
    let quiet = sink(&to(&path, "")).await;
    assert_eq!(quiet.deliver(&delivery).await.outcome, Outcome::Delivered);
    let telling = sink(&to(&path, "payload = true\nsync = true")).await;
    assert_eq!(telling.deliver(&delivery).await.outcome, Outcome::Delivered);
    let mut lines = lines(&path);
    assert!(
        lines[0]
            .as_object_mut()
            .unwrap()
            .remove("at")
            .unwrap()
            .is_string()
    );
    assert_eq!(
        lines[0],
        json!({
            "queue": "orders", "message_id": 7, "idempotency_key": "orders:order-7", "group": "g",
            "attempt_no": 3, "fence": 41, "created_at": "2026-11-16T00:00:00Z",
        })
    );
    assert_eq!(lines[1]["payload"], json!({"text": "two\nlines"}));
    assert_eq!(lines[1]["headers"], json!({"tenant": "blue"}));
    assert_eq!(quiet.destination(), path.display().to_string());
}

#[tokio::test]
async fn a_renamed_or_deleted_log_is_begun_anew() {
    let (folder, path) = folder();
    let sink = sink(&to(&path, "")).await;
    sink.deliver(&delivery()).await;
    let rotated = folder.path().join("out.1.jsonl");
    fs::rename(&path, &rotated).unwrap();
    sink.deliver(&delivery()).await;
    assert_eq!((lines(&rotated).len(), lines(&path).len()), (1, 1));
    // As logrotate does it: a new file exists before the next line.
    fs::rename(&path, folder.path().join("out.2.jsonl")).unwrap();
    fs::write(&path, "").unwrap();
    sink.deliver(&delivery()).await;
    assert_eq!(lines(&path).len(), 1);
    fs::remove_file(&path).unwrap();
    sink.deliver(&delivery()).await;
    assert_eq!(lines(&path).len(), 1);
    // As copytruncate does it: the file stays, its content goes.
    fs::write(&path, "").unwrap();
    sink.deliver(&delivery()).await;
    assert_eq!(lines(&path).len(), 1);
}

#[tokio::test]
async fn a_torn_last_line_is_ended_before_the_next() {
    let (_folder, path) = folder();
    fs::write(&path, "{\"half\":").unwrap();
    sink(&to(&path, "")).await.deliver(&delivery()).await;
    let text = fs::read_to_string(&path).unwrap();
    let (torn, whole) = text.split_once('\n').unwrap();
    assert_eq!(torn, "{\"half\":");
    assert!(serde_json::from_str::<Value>(whole).is_ok(), "{whole}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_of_several_writers_do_not_mix() {
    let (_folder, path) = folder();
    let payload = json!("x".repeat(20_000));
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let sink = sink(&to(&path, "payload = true")).await;
        let delivery = delivery_of(payload.clone(), |_| ());
        writers.spawn(async move {
            for _ in 0..25 {
                assert_eq!(sink.deliver(&delivery).await.outcome, Outcome::Delivered);
            }
        });
    }
    while let Some(writer) = writers.join_next().await {
        writer.unwrap();
    }
    let lines = lines(&path);
    assert_eq!(lines.len(), 100);
    assert!(lines.iter().all(|line| line["payload"] == payload));
}

#[tokio::test]
async fn what_cannot_be_opened_or_written_is_retried() {
    let (folder, path) = folder();
    let nowhere = folder.path().join("missing").join("out.jsonl");
    let table = [
        (nowhere, "log_open_failed"),
        (folder.path().to_owned(), "log_open_failed"),
        // A disk that is always full.
        (PathBuf::from("/dev/full"), "log_write_failed"),
    ];
    for (path, code) in table {
        let verdict = sink(&to(&path, "")).await.deliver(&delivery()).await;
        assert_eq!(verdict.outcome, Outcome::Retry, "{verdict:?}");
        assert_eq!(verdict.about, About::Sink, "{verdict:?}");
        assert_eq!(verdict.code.as_deref(), Some(code), "{verdict:?}");
    }
    // It may be there tomorrow, so that is no reason not to start; this one is.
    assert!(try_sink("kind = \"log\"\nsync = true").await.is_err());
    drop(path);
}

/// The output of a test belongs to the test runner, so the test runs itself again to see its own.
#[tokio::test]
async fn without_a_path_lines_go_to_standard_output() {
    if std::env::var("CONSIGN_TEST_INNER").is_ok() {
        sink("kind = \"log\"\npayload = true")
            .await
            .deliver(&delivery())
            .await;
        return;
    }
    let again = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "--nocapture",
            "log::without_a_path_lines_go_to_standard_output",
        ])
        .env("CONSIGN_TEST_INNER", "1")
        .output()
        .await
        .unwrap();
    let text = String::from_utf8(again.stdout).unwrap();
    let line = text.lines().find(|line| line.contains("\"message_id\":7"));
    let start = line.unwrap().find('{').unwrap();
    let line: Value = serde_json::from_str(&line.unwrap()[start..]).unwrap();
    assert_eq!(line["payload"]["name"], "Grüße");
}

#[tokio::test]
async fn a_new_file_is_its_owners_only_and_an_old_one_keeps_its_rights() {
    use std::os::unix::fs::PermissionsExt;
    let (_folder, path) = folder();
    let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    let sink = sink(&to(&path, "")).await;
    sink.deliver(&delivery()).await;
    assert_eq!(mode(), 0o600);
    fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
    sink.deliver(&delivery()).await;
    assert_eq!(mode(), 0o640);
}
