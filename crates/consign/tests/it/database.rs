//! Which database is used, made, migrated or refused.

use serde_json::json;

use crate::support::{Consign, finish};

#[test]
fn the_default_file_is_made_on_first_use_with_a_note() {
    let consign = Consign::unmigrated();
    let mut command = consign.command();
    command.args(["enqueue", "1"]);
    let ran = finish(command, b"").expect(0);
    assert_eq!(ran.stdout, "message 1 is ready\n");
    assert!(ran.stderr.contains("created consign.db"), "{ran:#?}");
    assert!(consign.folder().join("consign.db").exists());
    let mut command = consign.command();
    command.args(["ls", "--json"]);
    let ran = finish(command, b"").expect(0);
    assert_eq!(ran.stderr, "", "only the first time");
    assert_eq!(ran.json()["items"][0]["id"], 1);
}

#[test]
fn commands_that_read_create_no_database() {
    let consign = Consign::unmigrated();
    for arguments in [
        &["ls"][..],
        &["ls", "--watch"],
        &["dead"],
        &["doctor"],
        &["explain", "1"],
        &["leases"],
        &["queues"],
        &["redrive", "ls"],
        &["requeue", "1"],
        &["retention", "plan"],
        &["retention", "status"],
        &["schedules"],
        &["show", "1"],
        &["tail", "default"],
        &["orders", "ls"],
        &["memory", "ls"],
        &["payments", "status"],
        &["scm", "status"],
    ] {
        let mut command = consign.command();
        command.args(arguments);
        let ran = finish(command, b"").expect(5);
        assert!(ran.stderr.contains("consign.db"), "{ran:#?}");
        assert!(
            ran.stderr.contains("`consign enqueue` create it"),
            "{ran:#?}"
        );
        assert!(
            !consign.folder().join("consign.db").exists(),
            "{arguments:?}"
        );
    }
}

#[test]
fn a_named_file_that_is_not_there_is_not_made_by_mistake() {
    let consign = Consign::unmigrated();
    let (code, message) = consign.run(["ls", "--json"]).expect(5).error();
    assert_eq!(code, "database_unavailable");
    assert!(message.contains("test.db"), "{message}");
    assert!(message.contains("migrate"), "what to do: {message}");
    assert!(!consign.folder().join("test.db").exists());
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let consign = Consign::at("sqlite:no/such/folder/test.db");
    for command in ["ls", "migrate"] {
        let ran = consign.run([command]).expect(5);
        assert!(ran.stderr.contains("no/such/folder"), "{ran:#?}");
    }
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let consign = Consign::unmigrated();
    let path = consign.folder().join("test.db");
    std::fs::write(
        &path,
        "this is a letter to my aunt, long enough to be a page of its own",
    )
    .unwrap();
    for command in ["ls", "migrate"] {
        let (code, message) = consign.run([command, "--json"]).expect(1).error();
        assert_eq!(code, "corrupt", "{message}");
    }
    let found = consign.run(["doctor", "--json"]).expect(1).json();
    assert_eq!(found["findings"][0]["code"], "file", "{found}");
    assert!(
        std::fs::read_to_string(&path)
            .unwrap()
            .starts_with("this is a letter")
    );
}

#[test]
fn the_variables_are_looked_at_in_order() {
    let consign = Consign::new();
    let path = consign.folder().join("test.db").display().to_string();
    let ls = |variables: &[(&str, &str)]| {
        let mut command = consign.command();
        command
            .args(["ls", "--json"])
            .envs(variables.iter().copied());
        finish(command, b"")
    };
    ls(&[("DATABASE_URL", &path)]).expect(0);
    ls(&[("DATABASE_URL", "nowhere.db")]).expect(5);
    ls(&[
        ("CONSIGN_DATABASE_URL", &path),
        ("DATABASE_URL", "nowhere.db"),
    ])
    .expect(0);
    let ran = ls(&[("DATABASE_URL", "mysql://me:s3cret@db/x")]).expect(2);
    let (_, message) = ran.error();
    assert!(
        message.contains("DATABASE_URL") && message.contains("mysql"),
        "{message}"
    );
    assert!(!message.contains("s3cret"), "{message}");
    let ran = ls(&[("CONSIGN_DATABASE_URL", ""), ("DATABASE_URL", "")]).expect(5);
    let (_, message) = ran.error();
    assert!(
        message.contains("sqlite:consign.db"),
        "empty variables count as absent: {message}"
    );
}

#[test]
fn a_migration_is_done_once_and_can_be_looked_at() {
    let consign = Consign::unmigrated();
    let before = consign.json(["migrate", "status"]);
    assert_eq!(before["versions"]["engine"], 0);
    assert!(
        !consign.folder().join("test.db").exists(),
        "looking makes nothing"
    );
    let up = consign.json(["migrate"]);
    assert!(!up["applied"].as_array().unwrap().is_empty(), "{up}");
    assert_eq!(consign.json(["migrate", "up"])["applied"], json!([]));
    let after = consign.json(["migrate", "status"]);
    assert_eq!(after["versions"], after["needed"]);
    assert_eq!(after["pending"], json!([]));
    let ran = consign.run(["migrate"]).expect(0);
    assert!(ran.stdout.contains("up to date"), "{ran:#?}");
    let print = consign.run(["migrate", "print"]).expect(0);
    assert!(print.stdout.contains("CREATE TABLE"), "{print:#?}");
    assert!(consign.json(["migrate", "print"])["migrations"][0]["sql"].is_string());
}
