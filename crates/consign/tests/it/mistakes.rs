//! Mistakes on the command line and their errors: what failed, why, and what
//! to do.

use std::{fs::File, process::Stdio};

use consign_kernel::Outcome;
use consign_testkit::TestDatabase;

use crate::{
    http,
    service::Service,
    support::{Consign, finish, queue, work},
};

const QUEUE_OF_FILE: &str =
    "consign.toml:1 has this queue: `consign serve` and `consign work` create it";

#[tokio::test]
async fn a_queue_of_the_file_that_was_never_served_is_explained() {
    let consign = Consign::new();
    consign.configure("[queues.mail.sink]\nkind = \"discard\"\n");
    for command in [
        &["enqueue", "1", "--queue", "mail"][..],
        &["ls", "--queue", "mail"],
        &["queues", "show", "mail"],
        &["pause", "mail"],
    ] {
        let ran = consign.run(command.iter().copied()).expect(3);
        assert!(ran.stderr.contains(QUEUE_OF_FILE), "{command:?}: {ran:#?}");
    }
    let line = br#"{"payload": 1, "queue": "mail"}"#;
    let ran = consign.run_with(["enqueue"], line).expect(3);
    assert!(ran.stderr.contains(QUEUE_OF_FILE), "{ran:#?}");
    let ran = consign.run(["queues"]).expect(0);
    assert!(
        ran.stderr.contains("queue mail is not in the database yet"),
        "{ran:#?}"
    );
    assert!(ran.stderr.contains(QUEUE_OF_FILE), "{ran:#?}");
    let ran = consign.run(["ls", "--queue", "letters"]).expect(3);
    assert!(!ran.stderr.contains("has this queue"), "{ran:#?}");

    consign.run(["queues", "set", "mail"]).expect(0);
    assert_eq!(consign.run(["queues"]).expect(0).stderr, "");
    consign.run(["enqueue", "1", "--queue", "mail"]).expect(0);
    let told = consign.run(["explain", "1"]).expect(0).stdout;
    let sink = "consign.toml:1 gives queue mail a sink: run `consign work`";
    assert!(told.contains(sink), "{told}");
    consign.run(["work", "--once"]).expect(0);
    assert_eq!(consign.json(["show", "1"])["state"]["state"], "delivered");
}

#[tokio::test]
async fn explain_names_the_last_attempt_and_who_works_on_the_queue() {
    let consign = Consign::new();
    consign
        .run(["queues", "set", "default", "--retry", "fixed:0s"])
        .expect(0);
    consign.run(["enqueue", "1"]).expect(0);
    let store = consign.store().await;
    work(&*store, &queue("default"), Outcome::Retry, "http_503").await;
    let told = consign.run(["explain", "1"]).expect(0).stdout;
    assert!(told.starts_with("Ready and due again since"), "{told}");
    for words in [
        "attempt 1 by ",
        "ended in retry (http_503: the sink said http_503)",
        "last      attempt 1: retry, http_503",
        "give queue default a sink in consign.toml",
    ] {
        assert!(told.contains(words), "{words:?}: {told}");
    }
    let told = consign.json(["explain", "1"]);
    let last = &told["last_attempt"];
    assert_eq!(
        (&last["outcome"], &last["code"]),
        (&"retry".into(), &"http_503".into())
    );
    assert!(
        last["finished_at"].is_string() && last["owner"].is_string(),
        "{told}"
    );
    assert_eq!(last.get("token"), None, "a token is a permission");
}

#[test]
fn a_database_that_cannot_be_meant_is_refused() {
    let consign = Consign::new();
    let told = |database: &str, exit: i32| {
        let mut command = consign.command();
        command.args(["ls", "--database", database]);
        let ran = finish(command, b"").expect(exit);
        assert_eq!(
            ran.stderr.matches("os error").count().max(1),
            1,
            "once: {ran:#?}"
        );
        ran.stderr
    };
    let empty = told("", 2);
    assert!(empty.contains("--database: is empty"), "{empty}");
    assert!(
        !consign.folder().join("consign.db").exists(),
        "nothing else was used"
    );
    assert!(told("postgres:localhost", 2).contains("has // after its first colon"));
    assert!(told("host=db dbname=shop", 2).contains("keywords"));
    let missing = told("other.db", 5);
    assert!(
        missing.contains("`consign migrate --database sqlite:other.db` creates it"),
        "{missing}"
    );
    let folder = told(".", 5);
    assert!(
        folder.ends_with("it is a folder; name a file in it\n"),
        "{folder}"
    );
    let refused = told("postgres://127.0.0.1:1/x", 5);
    assert!(refused.ends_with("is the server running?\n"), "{refused}");
    let socket = told("postgres:///x?host=/nowhere", 5);
    assert!(!socket.contains("may have happened"), "{socket}");
}

#[tokio::test]
async fn distinguishes_a_rejecting_server_from_an_absent_one() {
    let database = TestDatabase::create(async |_| {}).await;
    let missing = database.url().replace(database.name(), "no_such_database");
    for command in [&["ls"][..], &["migrate"], &["migrate", "status"]] {
        let json = command.iter().copied().chain(["--json"]);
        let (code, message) = Consign::at(&missing).run(json).expect(5).error();
        assert_eq!(code, "forbidden", "{message}");
        assert!(message.ends_with("create it, or name another"), "{message}");
        assert_eq!(message.matches("does not exist").count(), 1, "{message}");
        assert!(!message.contains("at line"), "{message}");
    }
}

#[test]
fn output_that_cannot_be_written_is_named() {
    let consign = Consign::new();
    let mut command = consign.command();
    command.args(["queues", "--database", consign.database()]);
    let full = File::options().write(true).open("/dev/full").unwrap();
    let output = command.stdout(Stdio::from(full)).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        told.contains("standard output cannot be written: No space left"),
        "{told}"
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn explains_a_queue_given_as_payload_and_a_single_message() {
    let consign = Consign::new();
    let ran = consign.run(["enqueue", "mail"]).expect(3);
    assert!(
        ran.stderr.contains("a queue is named by --queue mail"),
        "{ran:#?}"
    );
    let ran = consign.run(["enqueue", "1", "--key", ""]).expect(3);
    assert!(ran.stderr.starts_with("consign: key: has "), "{ran:#?}");
}

#[test]
fn reports_every_error_of_sinks_at_once() {
    let consign = Consign::new();
    consign.configure(
        "[queues.a.sink]\nkind = \"http\"\nurl = \"ftp://x\"\n[queues.b.sink]\nkind = \"http\"\nurl = \"x\"\n",
    );
    let ran = consign.run(["config", "check"]).expect(2);
    for place in [
        "consign.toml:1: queues.a.sink",
        "consign.toml:4: queues.b.sink",
    ] {
        assert!(ran.stderr.contains(place), "{ran:#?}");
    }
    consign.configure("[queues.a]\nsink = \"http\"\n");
    let ran = consign.run(["config", "check"]).expect(2);
    assert!(ran.stderr.contains("as in [queues.a.sink]"), "{ran:#?}");
}

#[tokio::test]
async fn localhost_can_be_listened_on_and_a_taken_port_is_explained() {
    let consign = Consign::new();
    let service = Service::start(&consign, &["serve", "--listen", "localhost:0"], |_| {}).await;
    let at = service.address();
    assert!(at.ip().is_loopback(), "{at}");
    let greeting = http::get(at, "/health").await.body;
    assert!(
        greeting.contains(r#""service":"memory-gateway""#),
        "{greeting}"
    );
    let taken = at.to_string();
    let ran = Consign::new().run(["serve", "--listen", &taken]).expect(2);
    assert!(
        ran.stderr.contains("another process listens there"),
        "{ran:#?}"
    );
    service.stop().await;
    let ran = consign
        .run(["serve", "--listen", "shop.example:80"])
        .expect(2);
    assert!(ran.stderr.contains("localhost:8787"), "{ran:#?}");
}

#[tokio::test]
async fn the_variables_of_the_gateway_decide_how_serve_starts() {
    let database = TestDatabase::create(async |_| {}).await;
    let consign = Consign::at(database.url());
    consign.run(["serve", "--listen", "127.0.0.1:0"]).expect(5);
    let waits = |command: &mut std::process::Command| {
        command.env("LOGBOOK_CHECK_ON_STARTUP", "false");
    };
    let mut service = Service::launch(&consign, &["serve", "--listen", "127.0.0.1:0"], waits);
    service.logs("waiting for the database").await;
    consign.run(["migrate"]).expect(0);
    service.child.expect_line("listening").await;
    service.stop().await;

    let fresh = TestDatabase::create(async |_| {}).await;
    let consign = Consign::at(fresh.url());
    let migrates = |command: &mut std::process::Command| {
        command.env("AUTO_MIGRATE_ON_STARTUP", "1");
    };
    let mut service = Service::launch(&consign, &["serve", "--listen", "127.0.0.1:0"], migrates);
    service.child.expect_line("listening").await;
    service.stop().await;
}

#[test]
fn a_damaged_file_is_named_with_what_to_do() {
    let consign = Consign::new();
    let path = consign.folder().join("test.db");
    let mut bytes = std::fs::read(&path).unwrap();
    // The header stays: it is a database, and none of its tables can be read.
    for page in bytes[4096..].chunks_mut(4096) {
        page[..40].fill(b'x');
    }
    std::fs::write(&path, bytes).unwrap();
    let ran = consign.run(["ls"]).expect(1);
    assert!(ran.stderr.contains(consign.database()), "{ran:#?}");
    let advice = "restore the file from a backup\n";
    assert!(ran.stderr.ends_with(advice), "{ran:#?}");
}

#[tokio::test]
async fn an_unknown_login_gets_a_remedy() {
    let database = TestDatabase::create(async |_| {}).await;
    let (_, rest) = database.url().split_once('@').unwrap();
    let stranger = format!("postgres://no_such_login@{rest}");
    let ran = Consign::at(&stranger).run(["ls"]).expect(5);
    assert!(ran.stderr.contains("no_such_login"), "{ran:#?}");
    assert!(
        ran.stderr.contains("check the user and the password"),
        "{ran:#?}"
    );
}

#[test]
fn names_and_numbers_that_do_not_exist_are_refused_with_where_to_look() {
    let consign = Consign::new();
    let cases: [(&[&str], i32, &str); 5] = [
        (
            &["work", "--queue", "nope", "--once"],
            2,
            "add [queues.nope.sink]",
        ),
        (&["redrive", "show", "99"], 4, "`consign redrive ls` lists"),
        (
            &["show", "99999999999999999999"],
            2,
            "up to 9223372036854775807",
        ),
        (
            &["serve", "--listen", "127.0.0.1:80x"],
            2,
            "such as 127.0.0.1:8787",
        ),
        (&["memory", "call", "nope", "{}"], 1, "UNKNOWN_TOOL"),
    ];
    for (command, exit, words) in cases {
        let ran = consign.run(command.iter().copied()).expect(exit);
        let told = ran.stdout + &ran.stderr;
        assert!(told.contains(words), "{command:?}: {told}");
    }
}

#[tokio::test]
async fn trades_belong_only_to_an_order_that_was_executed() {
    let consign = Consign::new();
    consign.run(["enqueue", "1"]).expect(0);
    consign.run(["hold", "1"]).expect(0);
    for outcome in ["--dead", "--unknown"] {
        let fill = "0.1@146.1@2026-11-17T10:00:00Z";
        let arguments = [
            "orders",
            "resolve",
            "1",
            outcome,
            "--fill",
            fill,
            "--order-ref",
            "B",
        ];
        let ran = consign.run(arguments).expect(2);
        assert!(ran.stderr.contains("belong to --delivered"), "{ran:#?}");
    }
    assert_eq!(consign.json(["show", "1"])["state"]["state"], "held");
}
