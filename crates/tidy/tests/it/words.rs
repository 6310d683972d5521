//! Words that the code must not contain.

use crate::repository::{File, demand, files};

/// Written apart, so that this file does not contain them.
const BANNED: &[(&str, &str)] = &[
    (concat!("to", "do!"), "finish it, or leave it out"),
    (concat!("unimple", "mented!"), "finish it, or leave it out"),
    (concat!("db", "g!"), "remove it"),
    (concat!("#[", "ignore"), "fix the test, or delete it"),
];

/// Who may sleep, and why. Tests wait for a state with `eventually`, never for a time.
const SLEEPERS: &[(&str, &str)] = &[
    (
        "crates/consign/src/commands/watch.rs",
        "looks again every few seconds, as it was asked to",
    ),
    (
        "crates/consign/src/commands/demo.rs",
        "polls with a deadline",
    ),
    (
        "crates/demo/src/printers.rs",
        "slow printers are what it plays",
    ),
    (
        "crates/demo/src/receiver.rs",
        "a slow receiver is what it plays",
    ),
    (
        "crates/consign/src/commands/demo/poison.rs",
        "polls with a deadline",
    ),
    (
        "crates/consign/src/commands/demo/tests.rs",
        "a clock that keeps up with the real one",
    ),
    (
        "apps/memory/src/cli/verify/stack.rs",
        "polls with a deadline",
    ),
    (
        "crates/consign/src/service/retention.rs",
        "rests before it looks again whether the login may",
    ),
    (
        "crates/bench/src/scenarios/retention.rs",
        "rests before it tries again to get a lock or the lease",
    ),
    (
        "crates/bench/src/scenarios/retention/departures.rs",
        "measures for so long",
    ),
    (
        "crates/retention/src/maintenance.rs",
        "rests before it tries again to get a lock",
    ),
    (
        "crates/consign/src/commands/close.rs",
        "rests before it looks again whether another process has taken its step",
    ),
    (
        "crates/consign/src/commands/erase.rs",
        "rests before it tries again to lock the archive",
    ),
    (
        "crates/consign/src/service/opening.rs",
        "rests before it looks for the database again",
    ),
    (
        "apps/memory/src/gateway/store/write/finish.rs",
        "rests between two tries to end an audit",
    ),
    (
        "apps/memory/src/write_lock/process.rs",
        "rests before it asks for the write lock again",
    ),
    (
        "apps/orders/src/sink/broker/paper.rs",
        "a slow broker is what it plays",
    ),
    (
        "crates/postgres/src/wakes.rs",
        "rests before it connects again",
    ),
    ("apps/scm/src/retry.rs", "rests before it tries again"),
    ("crates/schedule/src/runner.rs", "rests until the next tick"),
    (
        "crates/server/src/serve.rs",
        "rests when no connection can be accepted",
    ),
    (
        "crates/sqlite/src/migrate.rs",
        "polls a busy file with a deadline",
    ),
    (
        "crates/testkit/src/proxy/link.rs",
        "a slow network is what it makes",
    ),
    ("crates/testkit/src/template.rs", "polls with a deadline"),
    ("crates/testkit/src/wait.rs", "`eventually` itself"),
];

#[test]
fn nothing_is_unfinished_or_ignored() {
    let mut complaints = Vec::new();
    for file in files(&["rs"]) {
        for (number, line) in code(&file) {
            for (word, remedy) in BANNED.iter().filter(|(word, _)| line.contains(word)) {
                complaints.push(format!("{}:{number}: {word}: {remedy}", file.path));
            }
        }
    }
    demand(&complaints, "What is committed is finished.");
}

#[test]
fn no_result_is_thrown_away() {
    let throws = concat!("let ", "_ = ");
    let mut complaints = Vec::new();
    for file in files(&["rs"]) {
        for (number, line) in code(&file) {
            if line.contains(throws) {
                complaints.push(format!("{}:{number}: {}", file.path, line.trim()));
            }
        }
    }
    demand(
        &complaints,
        "Handle the error, or say in code why it does not matter (`unwrap_or_default`, `drop`).",
    );
}

#[test]
fn only_those_who_have_a_reason_sleep() {
    let mut complaints = Vec::new();
    let mut seen = Vec::new();
    for file in files(&["rs"]) {
        let Some((number, _)) = code(&file).find(|(_, line)| sleeps(line)) else {
            continue;
        };
        if !SLEEPERS.iter().any(|(path, _)| *path == file.path) {
            complaints.push(format!("{}:{number}: sleeps", file.path));
        }
        seen.push(file.path);
    }
    for (path, _) in SLEEPERS {
        if !seen.iter().any(|file| file == path) {
            complaints.push(format!("{path} no longer sleeps: take it off the list"));
        }
    }
    demand(
        &complaints,
        "Wait for a signal or with `eventually`. Who really has to sleep is listed in SLEEPERS in \
         this test, with the reason.",
    );
}

/// A call of `sleep`, whatever it is a method or a function of.
fn sleeps(line: &str) -> bool {
    let call = concat!("sle", "ep(");
    line.match_indices(call).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && c != '_')
    })
}

/// The lines that are not comments.
fn code(file: &File) -> impl Iterator<Item = (usize, &str)> {
    file.lines()
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
}
