//! The clients of other languages: their own tests, against this binary and a real PostgreSQL.

use std::{path::Path, process::Command};

use crate::support::finish;

/// Runs the suite of a client to its end.
#[track_caller]
fn passes(client: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(root.join("scripts/clients"));
    command
        .args(["test", client])
        .current_dir(root)
        .env("CONSIGN_TEST_BINARY", env!("CARGO_BIN_EXE_consign"));
    let ran = finish(command, b"");
    assert_eq!(ran.status, 0, "{}\n{}", ran.stdout, ran.stderr);
    println!("{}", ran.stdout);
}

#[test]
fn the_suite_of_python_passes() {
    passes("python");
}

#[test]
fn the_suite_of_typescript_passes() {
    passes("typescript");
}
