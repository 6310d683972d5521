//! Help, usage errors, completions, broken pipes.

use std::process::Stdio;

use crate::support::{Consign, assert_stable};

#[test]
fn help_lists_every_command_and_exit_code() {
    let ran = Consign::unmigrated().run(["--help"]).expect(0);
    assert_stable("help", &ran.stdout);
}

#[test]
fn help_does_not_print_a_password_from_the_environment() {
    let consign = Consign::unmigrated();
    let mut command = consign.command();
    command
        .env("CONSIGN_DATABASE_URL", "postgres://me:s3cret@db/x")
        .arg("--help");
    let ran = crate::support::finish(command, b"").expect(0);
    assert!(!ran.stdout.contains("s3cret"), "{ran:#?}");
}

#[test]
fn a_mistyped_command_is_a_usage_error_with_a_suggestion() {
    let consign = Consign::unmigrated();
    let ran = consign.run(["requeu"]).expect(2);
    assert!(ran.stderr.contains("requeue"), "{ran:#?}");
    assert_eq!(ran.stdout, "");
    let (code, message) = consign.run(["requeu", "--json"]).expect(2).error();
    assert_eq!(code, "usage");
    assert!(message.contains("requeue"), "{message}");
}

#[test]
fn completions_are_printed_for_every_shell() {
    let consign = Consign::unmigrated();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = consign.run(["completions", shell]).expect(0);
        assert!(ran.stdout.contains("_CONSIGN_COMPLETE"), "{shell}");
    }
    consign.run(["completions", "cobol"]).expect(2);
}

#[test]
fn a_reader_that_goes_away_is_not_an_error() {
    let consign = Consign::unmigrated();
    for arguments in [&["completions", "bash"][..], &["--help"], &["demo"]] {
        let mut command = consign.command();
        command
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
}
