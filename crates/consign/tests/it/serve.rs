//! `consign serve`: its limits, its tokens, what it prints and logs.

use std::{net::SocketAddr, process::Command, time::Duration};

use consign_testkit::{Child, eventually};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, net::TcpStream, time::timeout};

use crate::{
    http,
    receiver::{Receiver, ReplyMode},
    service::{SOON, Service, unfinished},
    support::{Consign, finish},
};

pub(crate) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// `serve` that may open so many files, its log in a file.
fn with_files(consign: &Consign, limits: &str) -> Command {
    let own = consign.command();
    let mut command = Command::new("sh");
    let script = format!("{limits} && exec \"$0\" serve --listen 127.0.0.1:0 2> log");
    command.arg("-c").arg(script);
    command.arg(own.get_program()).current_dir(consign.folder());
    for (name, value) in own.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

#[tokio::test]
async fn the_limit_of_open_files_is_raised_and_connections_stay_below_it() {
    let consign = Consign::unmigrated();
    let command = with_files(&consign, "ulimit -Sn 100 && ulimit -Hn 1000");
    let mut child = Child::start(command);
    child.expect_line("Try it:").await;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", child.id())).unwrap();
    let files = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let files: Vec<&str> = files.unwrap().split_whitespace().collect();
    assert_eq!(files[3..5], ["1000", "1000"], "{limits}");
    let log = std::fs::read_to_string(consign.folder().join("log")).unwrap();
    assert!(log.contains("at most 333 connections"), "{log}");
    child.terminate();
    assert_eq!(child.wait(SOON).await.code(), Some(0));
}

#[tokio::test]
async fn with_few_open_files_probes_are_answered_and_with_fewer_it_does_not_start() {
    let consign = Consign::unmigrated();
    let refused = finish(with_files(&consign, "ulimit -n 88"), b"").expect(2);
    let log = std::fs::read_to_string(consign.folder().join("log")).unwrap();
    assert!(log.contains("may open 88 files"), "{log}{}", refused.stdout);
    assert!(log.contains("needs 89"), "{log}");
    let mut child = Child::start(with_files(&consign, "ulimit -n 89"));
    let line = child.expect_line("listening  ").await;
    let address: SocketAddr = line.rsplit('/').next().unwrap().parse().unwrap();
    let mut half_open = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // Closed for others, as a rule.
        stream.write_all(b"POST /v1/qu").await.unwrap_or_default();
        half_open.push(stream);
        let answer = timeout(SOON, http::get(address, "/healthz")).await.unwrap();
        assert_eq!(answer.status, 200);
    }
    drop(half_open);
    child.terminate();
    assert_eq!(child.wait(SOON).await.code(), Some(0));
}

#[tokio::test]
async fn a_token_made_by_the_command_opens_the_routes_of_its_scopes() {
    let consign = Consign::new();
    let made = consign
        .run(["token", "new", "--name", "ci", "--scope", "producer"])
        .expect(0);
    let token = made.stdout.trim();
    let (_, lines) = made.stderr.split_once("\n\n[").unwrap();
    consign.configure(&format!(
        "[{lines}\n[queues.hello.sink]\nkind = \"discard\"\n"
    ));
    let service = Service::serve(&consign).await;
    let at = service.address();

    let enqueue = |authorization: String| async move {
        let body = r#"{"payload": 1}"#;
        let head = format!(
            "POST /v1/queues/hello/messages HTTP/1.1\r\ncontent-type: application/json\r\n\
             {authorization}content-length: {}\r\n",
            body.len()
        );
        http::send(at, &head, body).await.unwrap().status
    };
    assert_eq!(enqueue(String::new()).await, 401);
    assert_eq!(
        enqueue("authorization: Bearer consign_wrong\r\n".into()).await,
        401
    );
    assert_eq!(
        enqueue(format!("authorization: Bearer {token}\r\n")).await,
        202
    );
    let head = format!("GET /v1/queues HTTP/1.1\r\nauthorization: Bearer {token}\r\n");
    let read = http::send(at, &head, "").await.unwrap();
    assert_eq!(read.status, 403, "a producer does not read: {read:?}");
    service.stop().await;
}

#[test]
fn rejects_an_exposed_server_before_any_change() {
    let consign = Consign::unmigrated();
    let ran = consign
        .run(["serve", "--listen", "0.0.0.0:0", "--json"])
        .expect(2);
    let (code, message) = ran.error();
    assert_eq!(code, "config");
    assert!(message.contains("server.tokens"), "{message}");
    assert!(!consign.folder().join("test.db").exists());
}

#[tokio::test]
async fn a_port_that_is_taken_is_named() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let consign = Consign::new();
    let ran = consign.run(["serve", "--listen", &address]).expect(2);
    assert!(ran.stderr.contains(&address), "{ran:#?}");
}

#[tokio::test]
async fn json_output_has_the_address_and_logs_are_json() {
    let consign = Consign::new();
    consign
        .configure("[log]\nformat = \"json\"\n[queues.a]\n[queues.b.sink]\nkind = \"discard\"\n");
    let arguments = ["--json", "serve", "--listen", "127.0.0.1:0"];
    let mut service = Service::launch(&consign, &arguments, |_| {});
    let said = json(&service.child.expect_line("{").await);
    assert!(
        said["url"]
            .as_str()
            .unwrap()
            .starts_with("http://127.0.0.1:"),
        "{said}"
    );
    assert_eq!(
        said["queues"],
        json!([
            {"queue": "b", "sink": "discard", "destination": "nowhere"},
            {"queue": "orders", "sink": "orders", "destination": "paper"},
            {"queue": "payments", "sink": "rail", "destination": "simulated"},
            {"queue": "memory", "sink": "embedded", "destination": "this database"},
        ])
    );
    assert_eq!(said["orders"], json!({"adapter": "paper", "outbox": true}));
    assert_eq!(said["payments"], json!({"rail": "simulated"}));
    service.logs("queue a was set").await;
    for line in service.log().lines() {
        let line = json(line);
        assert!(
            line["message"].is_string() && line["level"].is_string(),
            "{line}"
        );
    }
    service.stop().await;
}

#[tokio::test]
async fn a_failure_is_retried_and_logged_without_what_was_in_it() {
    let receiver = Receiver::start(ReplyMode::Refuses).await;
    let consign = Consign::new();
    consign.configure(&format!(
        "[log]\nfilter = \"debug\"\n[queues.events]\nretry = {{ kind = \"fixed\", delay_ms = 10 }}\n\
         [queues.events.sink]\n{}bearer_token = \"s3cret-token\"\n",
        receiver.sink()
    ));
    let service = Service::serve(&consign).await;
    let body = r#"{"payload": "s3cret-payload", "headers": {"x": "s3cret-header"}}"#;
    let answer = http::post(service.address(), "/v1/queues/events/messages", body).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    receiver.began(2).await;
    receiver.set(ReplyMode::Takes(Duration::ZERO));
    eventually("it is delivered", SOON, async || {
        unfinished(&consign, "events") == 0
    })
    .await;
    service.logs("http_500").await;
    let log = service.log();
    assert!(!log.contains("s3cret"), "{log}");
    service.stop().await;
}
