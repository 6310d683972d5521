//! What makes a terminal comfortable: completion, colours, manual pages, and commands that follow.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Stdio},
};

use consign_kernel::Outcome;
use serde_json::Value;

use crate::{
    service::signal,
    support::{CommandOutput, Consign, finish, migrated_database, queue, work},
};

/// What a shell gets for a line that ends with the word that is being typed.
fn completed(consign: &Consign, words: &[&str]) -> CommandOutput {
    let mut command = consign.command();
    command
        .env("_CONSIGN_COMPLETE", "fish")
        .args(["--", "consign"])
        .args(words);
    finish(command, b"")
}

fn with_database<'a>(consign: &'a Consign, words: &[&'a str]) -> Vec<&'a str> {
    let mut line = vec!["--database", consign.database()];
    line.extend(words);
    line
}

#[tokio::test]
async fn queues_and_messages_are_completed() {
    let consign = Consign::new();
    for name in ["mail", "mail-bulk", "events"] {
        consign.run(["queues", "set", name]).expect(0);
    }
    let dead = consign.enqueue_one().to_string();
    work(
        &*consign.store().await,
        &queue("default"),
        Outcome::Dead,
        "gone",
    )
    .await;
    let ready = consign.enqueue_one().to_string();
    let check = |words: &[&str], expected: &[&str], absent: &[&str]| {
        let ran = completed(&consign, &with_database(&consign, words)).expect(0);
        let found: Vec<&str> = (ran.stdout.lines())
            .filter_map(|line| line.split('\t').next())
            .collect();
        for word in expected {
            assert!(found.contains(word), "{words:?}: {word}: {ran:#?}");
        }
        for word in absent {
            assert!(!found.contains(word), "{words:?}: {word}: {ran:#?}");
        }
        assert_eq!(ran.stderr, "", "{words:?}");
    };
    check(
        &["ls", "--queue", "ma"],
        &["mail", "mail-bulk"],
        &["events"],
    );
    check(&["tail", "e"], &["events"], &["mail"]);
    check(&["pause", ""], &["default", "mail"], &[]);
    check(&["explain", ""], &[&dead, &ready], &[]);
    check(&["requeue", ""], &[&dead], &[&ready]);
    check(&["queues", "show", "ev"], &["events"], &["mail"]);
    check(&["discard", ""], &[&dead], &[&ready]);
    check(&["cancel", ""], &[&ready], &[&dead]);
    check(&["hold", ""], &[&ready], &[&dead]);
    check(
        &["queues", "set", "mail", "--alert-queue", "e"],
        &["events"],
        &["mail"],
    );
    check(&["re"], &["requeue", "redrive"], &["ls"]);
}

#[test]
fn schedules_redrives_and_groups_are_completed() {
    let consign = Consign::new();
    for name in ["letters", "parcels"] {
        consign.run(["queues", "set", name, "--ordered"]).expect(0);
    }
    for (queue, group) in [("letters", "ada"), ("letters", "ada"), ("parcels", "bob")] {
        consign
            .run(["enqueue", "1", "--queue", queue, "--group", group])
            .expect(0);
    }
    let cron = ["--cron", "0 8 * * *", "--payload", "1"];
    let add = ["schedules", "add", "report"].into_iter();
    consign.run(add.chain(cron)).expect(0);
    consign
        .run(["redrive", "start", "--rate", "1", "--yes"])
        .expect(0);
    for (words, expected) in [
        (
            &["schedules", "show", ""][..],
            &["report\t0 8 * * *, default"][..],
        ),
        (&["schedules", "pause", ""], &["report\t0 8 * * *, default"]),
        (&["schedules", "resume", "x"], &[]),
        (
            &["redrive", "show", ""],
            &["1\trequeue, running: redriven by hand"],
        ),
        (
            &["redrive", "stop", ""],
            &["1\trequeue, running: redriven by hand"],
        ),
        (&["skip", "letters", ""], &["ada\tready"]),
        (&["skip", "parcels", ""], &["bob\tready"]),
        (&["skip", "pa"], &["parcels\t1 unfinished, 0 dead"]),
    ] {
        let ran = completed(&consign, &with_database(&consign, words)).expect(0);
        let found: Vec<&str> = ran.stdout.lines().collect();
        let found: Vec<&str> = found
            .into_iter()
            .filter(|it| !it.starts_with('-'))
            .collect();
        assert_eq!(found, expected, "{words:?}: {ran:#?}");
    }
}

#[test]
fn a_completion_makes_no_database_and_prints_no_error() {
    let consign = Consign::unmigrated();
    let nowhere = ["--database", "postgres://127.0.0.1:1/none"];
    for words in [
        &["ls", "--queue", ""][..],
        &["explain", ""],
        &[nowhere[0], nowhere[1], "ls", "--queue", ""],
        &["--config", "missing.toml", "ls", "--queue", ""],
    ] {
        let ran = completed(&consign, words).expect(0);
        assert_eq!(ran.stderr, "", "{words:?}");
        let made = std::fs::read_dir(consign.folder()).unwrap().count();
        assert_eq!(made, 0, "{words:?}");
    }
}

#[tokio::test]
async fn colours_are_for_terminals_unless_asked_for() {
    let consign = Consign::new();
    consign.enqueue_one();
    work(
        &*consign.store().await,
        &queue("default"),
        Outcome::Dead,
        "gone",
    )
    .await;
    let red = "\u{1b}[31mdead\u{1b}[0m";
    let painted = |arguments: &[&str], variable: Option<(&str, &str)>| {
        let mut command = consign.command();
        command.arg("--database").arg(consign.database());
        command.args(arguments).envs(variable);
        finish(command, b"").expect(0).stdout.contains(red)
    };
    assert!(!painted(&["ls"], None));
    assert!(painted(&["ls", "--color", "always"], None));
    assert!(painted(&["ls"], Some(("CLICOLOR_FORCE", "1"))));
    assert!(!painted(
        &["ls", "--color", "never"],
        Some(("CLICOLOR_FORCE", "1"))
    ));
    assert!(!painted(&["ls", "--json", "--color", "always"], None));
    let ran = consign.run(["show", "9", "--color", "always"]).expect(4);
    assert!(
        ran.stderr.starts_with("\u{1b}[31mconsign:\u{1b}[0m "),
        "{ran:#?}"
    );
    let ran = consign.run(["show", "9"]).expect(4);
    assert!(ran.stderr.starts_with("consign: "), "{ran:#?}");
}

#[test]
fn manual_pages_are_written_for_every_command() {
    let consign = Consign::unmigrated();
    consign.run(["man", "pages/man1"]).expect(0);
    let folder = consign.folder().join("pages/man1");
    for name in [
        "consign",
        "consign-ls",
        "consign-redrive-start",
        "consign-orders-ls",
    ] {
        let page = std::fs::read_to_string(folder.join(format!("{name}.1"))).unwrap();
        assert!(page.contains(".TH"), "{name}: {page}");
    }
    assert!(!consign.folder().join("test.db").exists());
}

/// A command that goes on until Ctrl-C.
struct Following {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Following {
    fn start(consign: &Consign, arguments: &[&str]) -> Self {
        let mut command = consign.command();
        command.arg("--database").arg(consign.database());
        let mut child = command
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }

    /// The first line on standard error.
    fn remark(&mut self) -> String {
        let stderr = self.child.stderr.take().unwrap();
        BufReader::new(stderr).lines().next().unwrap().unwrap()
    }

    fn json(&mut self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    fn interrupt(mut self) {
        signal(self.child.id(), "INT");
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

/// Commands that follow look at the database again and again, so each store is looked at.
async fn on_both(scenario: impl AsyncFn(Consign)) {
    scenario(Consign::new()).await;
    let database = migrated_database().await;
    scenario(Consign::at(database.url())).await;
}

#[tokio::test]
async fn a_queue_is_followed_until_it_is_interrupted() {
    on_both(is_followed).await;
}

async fn is_followed(consign: Consign) {
    consign.run(["queues", "set", "other"]).expect(0);
    let before = consign.enqueue_one();
    let arguments = ["tail", "default", "--interval", "100ms"];
    let mut tail = Following::start(&consign, &arguments);
    assert!(tail.remark().starts_with("following queue default"));
    let mut json = Following::start(&consign, &[&arguments[..], &["--json"]].concat());
    assert!(json.remark().starts_with("{\"note\":"));
    consign.run(["enqueue", "2", "--queue", "other"]).expect(0);
    consign.run(["enqueue", "2", "--key", "k\u{1b}"]).expect(0);
    let first = json.json();
    assert_eq!(first["event"], "enqueued", "{first}");
    // Both have looked: what one look finds is in the order of the messages.
    let line = tail.line();
    assert!(line.contains("enqueued  key k\\u{1b}"), "{line}");
    let store = consign.store().await;
    work(&*store, &queue("default"), Outcome::Retry, "http_503").await;
    let tried: Vec<Value> = [json.json(), json.json()].into();
    for event in &tried {
        assert_eq!(
            (&event["event"], &event["code"]),
            (&"attempt".into(), &"http_503".into())
        );
    }
    assert_eq!(tried[0]["id"], before.0);
    let line = tail.line();
    assert!(
        line.contains("attempt 1: retry, http_503 (the sink said http_503); due "),
        "{line}"
    );
    tail.interrupt();
    json.interrupt();
}

#[tokio::test]
async fn a_watched_list_is_printed_again_until_it_is_interrupted() {
    on_both(is_watched).await;
}

async fn is_watched(consign: Consign) {
    consign.enqueue_one();
    let mut watched = Following::start(&consign, &["ls", "--watch", "1"]);
    for _ in 0..2 {
        let line = watched.line();
        assert!(line.ends_with("every 1 s, until Ctrl-C"), "{line:?}");
        assert!(watched.line().contains("enqueued"), "the headings");
        assert!(watched.line().contains("ready"));
    }
    watched.interrupt();
    let mut watched = Following::start(&consign, &["ls", "--json", "--watch"]);
    assert_eq!(watched.json()["items"][0]["id"], 1);
    watched.interrupt();
}
