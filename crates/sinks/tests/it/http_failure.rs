//! Requests that get no answer: what was certainly not sent is retried, the rest is uncertain.

use std::time::Duration;

use consign_kernel::Outcome;
use consign_worker::{About, Verdict};
use tokio::{net::TcpListener, time::timeout};

use crate::{
    fixture::{DEADLINE, delivery, delivery_within, http_sink, sink},
    server::{Act, Server, status},
};

fn check(verdict: &Verdict, outcome: Outcome, code: &str) {
    assert_eq!(verdict.outcome, outcome, "{verdict:?}");
    assert_eq!(verdict.code.as_deref(), Some(code), "{verdict:?}");
    assert_eq!(verdict.about, About::Sink, "{verdict:?}");
}

#[tokio::test]
async fn a_refused_connection_is_retried() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let verdict = http_sink(&url, "").await.deliver(&delivery()).await;
    check(&verdict, Outcome::Retry, "connect_failed");
    assert!(verdict.detail.unwrap().contains("refused"));
}

#[tokio::test]
async fn a_name_that_does_not_exist_is_retried() {
    let sink = sink("kind = \"http\"\nurl = \"http://nobody.invalid/?token=tulip\"").await;
    let verdict = sink.deliver(&delivery()).await;
    check(&verdict, Outcome::Retry, "dns_failed");
    let detail = verdict.detail.unwrap();
    assert!(
        detail.contains("nobody.invalid") && !detail.contains("tulip"),
        "{detail}"
    );
}

#[tokio::test]
async fn a_server_that_reads_and_goes_away_leaves_uncertainty() {
    let server = Server::start(|_, _| Act::Close).await;
    let verdict = http_sink(&server.url(), "")
        .await
        .deliver(&delivery())
        .await;
    check(&verdict, Outcome::Uncertain, "connection_broken");
    assert_eq!(
        server.requests().len(),
        1,
        "it is not sent again behind the worker's back"
    );
}

#[tokio::test]
async fn half_an_answer_is_none() {
    let server = Server::start(|number, _| match number {
        0 => Act::Drip(b"HTTP/1.1 200".to_vec()),
        _ => Act::Send(b"nonsense\r\n\r\n".to_vec()),
    })
    .await;
    let sink = http_sink(&server.url(), "").await;
    let verdict = sink.deliver(&delivery_within(Duration::from_secs(1))).await;
    check(&verdict, Outcome::Uncertain, "timeout");
    let verdict = sink.deliver(&delivery()).await;
    check(&verdict, Outcome::Uncertain, "connection_broken");
}

#[tokio::test]
async fn no_answer_in_time_leaves_uncertainty_and_closes_the_connection() {
    let server = Server::start(|_, _| Act::Hang).await;
    let sink = http_sink(&server.url(), "").await;
    let verdict = sink
        .deliver(&delivery_within(Duration::from_millis(300)))
        .await;
    check(&verdict, Outcome::Uncertain, "timeout");
    timeout(DEADLINE, server.given_up()).await.unwrap();
}

#[tokio::test]
async fn a_delivery_that_is_dropped_ends_its_request() {
    let server = Server::start(|_, _| Act::Hang).await;
    let sink = http_sink(&server.url(), "").await;
    let delivery = delivery();
    tokio::select! {
        verdict = sink.deliver(&delivery) => panic!("{verdict:?}"),
        () = server.arrived() => {}
    }
    timeout(DEADLINE, server.given_up()).await.unwrap();
}

#[tokio::test]
async fn a_connection_that_takes_too_long_is_retried_at_either_timeout() {
    // It accepts connections but never answers: TLS waits for it.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", silent.local_addr().unwrap());
    let sink = http_sink(&url, "connect_timeout_ms = 200").await;
    let verdict = sink.deliver(&delivery()).await;
    check(&verdict, Outcome::Retry, "connect_timeout");
    let sink = http_sink(&url, "").await;
    let verdict = sink
        .deliver(&delivery_within(Duration::from_millis(200)))
        .await;
    check(&verdict, Outcome::Retry, "connect_timeout");
}

#[tokio::test]
async fn tls_that_fails_is_retried() {
    let server = Server::start(|_, _| status(200)).await;
    let sink = http_sink(&format!("https://{}/", server.address), "").await;
    let verdict = sink.deliver(&delivery_within(Duration::from_secs(5))).await;
    assert_eq!(verdict.outcome, Outcome::Retry, "{verdict:?}");
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn a_connection_closed_while_idle_is_replaced() {
    let server = Server::start(|_, _| status(200)).await;
    let sink = http_sink(&server.url(), "").await;
    assert_eq!(sink.deliver(&delivery()).await.outcome, Outcome::Delivered);
    let address = server.address;
    drop(server);
    // Whether the client has noticed yet or not: nothing answers, so nothing is delivered.
    let verdict = sink.deliver(&delivery()).await;
    assert_ne!(verdict.outcome, Outcome::Delivered, "{address} {verdict:?}");
    assert_ne!(verdict.outcome, Outcome::Dead, "{verdict:?}");
}
