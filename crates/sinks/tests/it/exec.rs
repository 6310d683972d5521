//! The exec sink against real scripts.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use consign_kernel::{Outcome, Payload};
use consign_testkit::{eventually, eventually_some};
use consign_worker::About;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fixture::{DEADLINE, delivery, delivery_of, delivery_within, sink, try_sink};

/// A script in a folder of its own.
struct Script {
    folder: TempDir,
}

impl Script {
    fn new(body: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deliver");
        // Renamed into place: another test's fork may hold a file open that is being written, and
        // the system does not run such a file.
        let draft = folder.path().join("draft");
        fs::write(&draft, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&draft, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(&draft, &path).unwrap();
        Self { folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn config(&self, more: &str) -> String {
        let folder = self.folder.path().display();
        // Run by the shell rather than on its own, for the same reason.
        format!(
            "kind = \"exec\"\ncommand = \"/bin/sh\"\nargs = [\"{folder}/deliver\", \"$HOME *\"]\n\
             working_dir = \"{folder}\"\n{more}"
        )
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    /// Waits for a file with a process's number in it.
    async fn pid(&self, name: &str) -> String {
        eventually_some("the script has written its pid", DEADLINE, || async {
            let text = self.read(name);
            text.ends_with('\n').then(|| text.trim().to_owned())
        })
        .await
    }
}

/// Whether a process lives. A zombie does not, but must not stay either.
fn exists(pid: &str) -> bool {
    Path::new("/proc").join(pid).exists()
}

#[tokio::test]
async fn the_payload_is_the_input_and_the_environment_has_the_rest() {
    let script = Script::new("cat > input; env > environment; printf '%s' \"$1\" > argument");
    let payload = Payload::parse(r#"{"a": "ü", "n": 12345678901234567890123}"#).unwrap();
    let delivery = delivery_of(payload, |message| {
        message.group = Some("g".into());
        message
            .headers
            .insert("traceparent".into(), json!("00-ab-cd-01"));
    });
    let sink = sink(&script.config("env = { TOKEN = \"tulip\" }")).await;
    assert_eq!(sink.deliver(&delivery).await.outcome, Outcome::Delivered);
    assert_eq!(
        script.read("input"),
        "{\"a\":\"ü\",\"n\":12345678901234567890123}"
    );
    assert_eq!(
        script.read("argument"),
        "$HOME *",
        "no shell touches arguments"
    );
    let environment = script.read("environment");
    let mut names: Vec<&str> = Vec::new();
    for line in environment.lines() {
        let (name, value) = line.split_once('=').unwrap();
        let expected = match name {
            "CONSIGN_MESSAGE_ID" => "7",
            "CONSIGN_QUEUE" => "orders",
            "CONSIGN_KEY" => "orders:order-7",
            "CONSIGN_GROUP" => "g",
            "CONSIGN_FENCE" => "41",
            "CONSIGN_ATTEMPT" => "3",
            "CONSIGN_IN_DOUBT" => "false",
            "TRACEPARENT" => "00-ab-cd-01",
            "TOKEN" => "tulip",
            // Set by the shell itself, or inherited.
            "PWD" | "OLDPWD" | "SHLVL" | "_" | "PATH" => continue,
            other => panic!("{other} should not be there"),
        };
        assert_eq!(value, expected, "{name}");
        names.push(name);
    }
    assert_eq!(names.len(), 9, "{names:?}");
}

#[tokio::test]
async fn an_exit_code_leads_to_the_outcome_of_the_table() {
    let script = Script::new("exit $(cat)");
    let sink = sink(&script.config("")).await;
    let table = [
        (0, Outcome::Delivered, About::Message),
        (1, Outcome::Retry, About::Sink),
        (2, Outcome::Retry, About::Sink),
        (64, Outcome::Dead, About::Message),
        (65, Outcome::Dead, About::Message),
        (66, Outcome::Retry, About::Sink),
        (69, Outcome::Retry, About::Sink),
        (75, Outcome::Retry, About::Sink),
        (78, Outcome::Retry, About::Sink),
        (127, Outcome::Retry, About::Sink),
        (255, Outcome::Retry, About::Sink),
    ];
    for (exit_code, outcome, about) in table {
        let verdict = sink.deliver(&delivery_of(json!(exit_code), |_| ())).await;
        assert_eq!(
            (verdict.outcome, verdict.about),
            (outcome, about),
            "{exit_code}"
        );
        let code = (exit_code != 0).then(|| format!("exec_exit_{exit_code}"));
        assert_eq!(verdict.code, code);
    }
}

#[tokio::test]
async fn the_configuration_overrides_the_table() {
    let script = Script::new("exit $(cat)");
    let options = "delivered_exit_codes = [3]\nretry_exit_codes = [65]\n\
                   dead_exit_codes = [1]\nuncertain_exit_codes = [4]";
    let sink = sink(&script.config(options)).await;
    for (exit_code, outcome) in [
        (3, Outcome::Delivered),
        (65, Outcome::Retry),
        (1, Outcome::Dead),
        (4, Outcome::Uncertain),
    ] {
        let verdict = sink.deliver(&delivery_of(json!(exit_code), |_| ())).await;
        assert_eq!(verdict.outcome, outcome, "{exit_code}");
    }
    for options in [
        "dead_exit_codes = [256]",
        "dead_exit_codes = [-1]",
        "dead_exit_codes = [1]\nretry_exit_codes = [1]",
        "env = { CONSIGN_KEY = \"x\" }",
        "env = { \"A=B\" = \"x\" }",
        "inherit_env = [\"TRACEPARENT\"]",
    ] {
        assert!(
            try_sink(&script.config(options)).await.is_err(),
            "{options}"
        );
    }
}

#[tokio::test]
async fn a_command_killed_by_a_signal_leaves_uncertainty() {
    let script = Script::new("kill -9 $$");
    let verdict = sink(&script.config("")).await.deliver(&delivery()).await;
    assert_eq!(verdict.outcome, Outcome::Uncertain, "{verdict:?}");
    assert_eq!(verdict.code.as_deref(), Some("exec_signal_9"));
}

#[tokio::test]
async fn a_command_that_cannot_be_started_is_retried() {
    for command in ["/nowhere/at/all", "/etc/passwd"] {
        let sink = sink(&format!("kind = \"exec\"\ncommand = \"{command}\"")).await;
        let verdict = sink.deliver(&delivery()).await;
        assert_eq!(verdict.outcome, Outcome::Retry, "{verdict:?}");
        assert_eq!(verdict.about, About::Sink, "{verdict:?}");
        assert_eq!(
            verdict.code.as_deref(),
            Some("exec_not_started"),
            "{verdict:?}"
        );
    }
}

#[tokio::test]
async fn a_command_that_takes_too_long_dies_with_all_it_started() {
    let script = Script::new("sleep 600 & echo $! > child; echo $$ > parent; wait");
    let sink = sink(&script.config("")).await;
    let verdict = sink.deliver(&delivery_within(Duration::from_secs(1))).await;
    assert_eq!(verdict.outcome, Outcome::Uncertain, "{verdict:?}");
    assert_eq!(verdict.code.as_deref(), Some("timeout"), "{verdict:?}");
    let (parent, child) = (script.pid("parent").await, script.pid("child").await);
    assert!(!exists(&parent), "not even a zombie is left");
    eventually("the child is gone", DEADLINE, || async { !alive(&child) }).await;
}

#[tokio::test]
async fn a_delivery_that_is_dropped_kills_what_it_started() {
    let script = Script::new("sleep 600 & echo $! > child; echo $$ > parent; wait");
    let sink = sink(&script.config("")).await;
    let delivery = delivery();
    let (parent, child) = tokio::select! {
        verdict = sink.deliver(&delivery) => panic!("{verdict:?}"),
        pids = async { (script.pid("parent").await, script.pid("child").await) } => pids,
    };
    eventually("the child is gone", DEADLINE, || async { !alive(&child) }).await;
    eventually("the parent is gone and buried", DEADLINE, || async {
        !exists(&parent)
    })
    .await;
}

/// A grandchild's zombie is reaped by init, which a container may not have.
fn alive(pid: &str) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    let state = stat
        .rsplit(") ")
        .next()
        .and_then(|rest| rest.chars().next());
    state.is_some_and(|state| state != 'Z')
}

#[tokio::test]
async fn output_is_kept_only_if_configured_and_bounded() {
    let script = Script::new(
        "cat > /dev/null; echo fine; echo 'a word' >&2; head -c 300000 /dev/zero | tr '\\0' x; exit 65",
    );
    let verdict = sink(&script.config("")).await.deliver(&delivery()).await;
    assert_eq!((verdict.outcome, verdict.result), (Outcome::Dead, None));
    let verdict = sink(&script.config("keep_output = true"))
        .await
        .deliver(&delivery())
        .await;
    let kept = verdict.result.unwrap();
    assert_eq!(kept["exit_code"], 65);
    assert_eq!(kept["stderr"], "a word\n");
    assert_eq!(kept["cut"], true);
    let stdout = kept["stdout"].as_str().unwrap();
    assert!(
        stdout.starts_with("fine\nxxx") && stdout.len() == 4096,
        "{}",
        stdout.len()
    );
}

#[tokio::test]
async fn a_command_need_not_read_what_it_is_given() {
    let large = Value::String("x".repeat(2_000_000));
    let ignoring = Script::new("exit 0");
    let verdict = sink(&ignoring.config(""))
        .await
        .deliver(&delivery_of(large.clone(), |_| ()))
        .await;
    assert_eq!(verdict.outcome, Outcome::Delivered, "{verdict:?}");
    let reading = Script::new("cat > input");
    let verdict = sink(&reading.config(""))
        .await
        .deliver(&delivery_of(large, |_| ()))
        .await;
    assert_eq!(verdict.outcome, Outcome::Delivered, "{verdict:?}");
    assert_eq!(reading.read("input").len(), 2_000_002);
}

#[tokio::test]
async fn a_daemon_left_behind_delays_no_delivery() {
    let script = Script::new("sleep 600 & echo $! > child; echo started");
    let sink = sink(&script.config("keep_output = true")).await;
    let verdict = sink.deliver(&delivery()).await;
    assert_eq!(verdict.outcome, Outcome::Delivered, "{verdict:?}");
    assert_eq!(verdict.result.unwrap()["stdout"], "started\n");
    let child = script.pid("child").await;
    assert!(
        alive(&child),
        "what has been left running on purpose is left alone"
    );
    let killed = std::process::Command::new("kill")
        .arg(&child)
        .status()
        .unwrap();
    assert!(killed.success());
}
