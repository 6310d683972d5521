//! The binary with this app and no other.

use std::{path::Path, process::Command};

use serde_json::{Value, json};

/// Runs the binary on the file in this folder; it ends with this exit code.
fn newsletter(folder: &Path, exit: i32, arguments: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_newsletter"));
    command.args(arguments).arg("--json").current_dir(folder);
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(exit), "{arguments:?}: {error}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .next()
        .map_or(Value::Null, |line| serde_json::from_str(line).unwrap())
}

fn subscriber(address: &str, status: &str, id: i64) -> Value {
    json!({"address": address, "status": status, "message_id": id})
}

#[test]
fn delivers_welcomes_and_shows_what_became_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // The first start creates the file and the queue.
    newsletter(folder, 0, &["work", "--once"]);
    let added = newsletter(folder, 0, &["newsletter", "subscribe", "ada@example.org"]);
    let pending = json!({"subscribers": [subscriber("ada@example.org", "pending", 1)]});
    assert_eq!(added, pending);
    newsletter(folder, 0, &["newsletter", "subscribe", "bob@shop.invalid"]);
    // 1: the second is dead.
    newsletter(folder, 1, &["work", "--once"]);
    let listed = newsletter(folder, 0, &["newsletter", "ls"]);
    let ended = [
        subscriber("ada@example.org", "welcomed", 1),
        subscriber("bob@shop.invalid", "unreachable", 2),
    ];
    assert_eq!(listed, json!({ "subscribers": ended }));
    newsletter(folder, 0, &["doctor"]);
}
