//! `consign config`, and configurations that do not fit.

use std::process::Command;

use serde_json::json;

use crate::support::{Consign, assert_stable, finish};

#[test]
fn every_value_is_shown_with_its_origin_and_without_secrets() {
    let consign = Consign::new();
    consign.configure(
        "[worker]\nowner = \"w-1\"\n\n[queues.events.sink]\nkind = \"http\"\n\
         url = \"https://u:s3cret@shop.example/x?sig=s3cret\"\nbearer_token = \"s3cret\"\n",
    );
    let mut command = consign.command();
    command
        .args(["config", "show"])
        .env("CONSIGN_LOG__FORMAT", "json");
    let ran = finish(command, b"").expect(0);
    assert!(!ran.stdout.contains("s3cret"), "{ran:#?}");
    assert_stable("config_show", &ran.stdout);
    let shown = consign.json(["config", "show"]);
    let item = |key: &str| {
        let items = shown["items"].as_array().unwrap();
        items
            .iter()
            .find(|item| item["key"] == key)
            .unwrap()
            .clone()
    };
    assert_eq!(
        item("database.url")["origin"],
        json!({"kind": "flag", "name": "--database"})
    );
    let expected = json!({"kind": "file", "file": "consign.toml", "line": 2});
    assert_eq!(item("worker.owner")["origin"], expected);
    assert_eq!(item("log.format")["origin"], json!({"kind": "default"}));
}

#[test]
fn a_mistake_is_named_by_every_command() {
    let consign = Consign::new();
    consign.configure("[database]\nurrl = \"x.db\"\n");
    for command in ["ls", "serve", "config show", "config check"] {
        let arguments = command.split(' ').chain(["--json"]);
        let (code, message) = consign.run(arguments).expect(2).error();
        assert_eq!(code, "config");
        let expected = "consign.toml:2: database.urrl: unknown setting; did you mean database.url?";
        assert_eq!(message, expected, "{command}");
    }
}

#[test]
fn check_looks_as_far_as_serve_would() {
    let consign = Consign::new();
    consign.configure("[queues.a.sink]\nkind = \"discard\"\n");
    let ran = consign.run(["config", "check"]).expect(0);
    assert!(ran.stdout.contains("all is well; 1 queue"), "{ran:#?}");
    consign.configure(
        "[queues.a.sink]\nkind = \"http\"\nurl = \"https://x.example/\"\n\
         bearer_token_env = \"CONSIGN_NO_SUCH_VARIABLE\"\n",
    );
    let ran = consign.run(["config", "check"]).expect(2);
    assert!(
        ran.stderr.contains("consign.toml:1: queues.a.sink"),
        "{ran:#?}"
    );
    assert!(ran.stderr.contains("CONSIGN_NO_SUCH_VARIABLE"), "{ran:#?}");
    consign.configure("[server]\nlisten = \"0.0.0.0:80\"\n");
    let ran = consign.run(["config", "check"]).expect(2);
    assert!(ran.stderr.contains("server.tokens"), "{ran:#?}");
}

#[test]
fn the_file_can_be_elsewhere_and_names_the_database() {
    let consign = Consign::new();
    let path = consign.folder().join("other.toml");
    std::fs::write(&path, "[database]\nurl = \"test.db\"\n").unwrap();
    let run = |change: &dyn Fn(&mut Command) -> &mut Command| {
        let mut command = consign.command();
        change(&mut command);
        command.args(["enqueue", "1"]);
        finish(command, b"")
    };
    run(&|command| command.arg("--config").arg(&path)).expect(0);
    run(&|command| command.env("CONSIGN_CONFIG", &path)).expect(0);
    assert_eq!(consign.json(["ls"])["items"].as_array().unwrap().len(), 2);
    let ran = run(&|command| command.args(["--config", "nowhere.toml"])).expect(2);
    assert!(ran.stderr.contains("nowhere.toml"), "{ran:#?}");
    assert!(!consign.folder().join("consign.db").exists());
}

#[test]
fn the_printed_defaults_are_a_configuration() {
    let consign = Consign::new();
    let printed = consign.run(["config", "print-default"]).expect(0).stdout;
    consign.configure(&printed);
    consign.run(["config", "check"]).expect(0);
}
