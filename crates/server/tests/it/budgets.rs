//! Memory for large bodies and for the answers of claims, and who gets it.

use std::time::Duration;

use axum::http::Method;
use consign_server::{Scope, ServerOptions, Token, TokenEntry};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tower::ServiceExt as _;

use crate::{
    bench::{Bench, LOCAL, peer, request},
    http::{TestServer, answer, post, send},
};

const PATH: &str = "/v1/queues/mail/messages";

/// Refusals come long before this.
async fn within(reading: impl Future<Output = String>) -> String {
    let read = tokio::time::timeout(Duration::from_secs(10), reading).await;
    read.expect("answered in time")
}

fn producer(name: &str) -> TokenEntry {
    TokenEntry {
        name: name.to_owned(),
        hash: Token::new(format!("secret of {name}")).hash(),
        scopes: vec![Scope::Producer],
    }
}

/// A request of about so many bytes, divided after its first `sent` bytes.
fn divided(length: usize, sent: usize) -> (String, String) {
    let body = format!("{{\"payload\": \"{}\"}}", "x".repeat(length));
    let mut request = post(PATH, &body);
    let rest = request.split_off(sent);
    (request, rest)
}

#[tokio::test]
async fn large_bodies_share_a_memory_and_small_ones_need_none_of_it() {
    let bench = Bench::reference().await;
    let options = ServerOptions {
        body_max_bytes: 1_000_000,
        bodies_max_bytes: 1_000_000,
        ..ServerOptions::default()
    };
    let bench = bench.with_options(&options);
    let server = TestServer::start(bench.router.clone(), &options).await;
    let (begin, end) = divided(600_000, 590_000);
    let large = format!("{begin}{end}");
    let mut first = server.connect().await;
    first.write_all(begin.as_bytes()).await.unwrap();
    let length = large.split_once("{").unwrap().1.len() + 1;
    let declared = format!("content-length: {length}");
    let (head, body) = large.split_once("\r\n\r\n").unwrap();
    let head = head.replace(&declared, "transfer-encoding: chunked");
    let chunked = format!("{head}\r\n\r\n{length:x}\r\n{body}");
    let refused = async |request: &str| {
        let mut stream = server.connect().await;
        let sending = stream.write_all(request.as_bytes()).await;
        sending.unwrap_or_default();
        let text = within(answer(&mut stream)).await;
        assert!(text.starts_with("HTTP/1.1 503"), "{text}");
        assert!(text.contains("bodies_max_bytes"), "{text}");
        assert!(text.contains("retry-after: 1"), "{text}");
    };
    tokio::join!(refused(&large), refused(&chunked));
    let mut small = server.connect().await;
    let text = post(PATH, "{\"payload\": 1}").replace("host: ", "connection: close\r\nhost: ");
    let text = within(send(&mut small, &text)).await;
    assert!(text.starts_with("HTTP/1.1 202"), "{text}");
    first.write_all(end.as_bytes()).await.unwrap();
    assert!(answer(&mut first).await.starts_with("HTTP/1.1 202"));
    let mut third = server.connect().await;
    third.write_all(large.as_bytes()).await.unwrap();
    let text = within(answer(&mut third)).await;
    assert!(text.starts_with("HTTP/1.1 202"), "released: {text}");
    server.stopped().await;
}

#[tokio::test]
async fn a_body_that_stalls_keeps_no_more_than_it_has_sent() {
    let bench = Bench::reference().await;
    let options = ServerOptions {
        body_max_bytes: 1_000_000,
        bodies_max_bytes: 1_000_000,
        ..ServerOptions::default()
    };
    let bench = bench.with_options(&options);
    let server = TestServer::start(bench.router.clone(), &options).await;
    let mut stalled = Vec::new();
    // The first two do not need any memory yet.
    for sent in [200, 60_000, 100_000] {
        let (begin, end) = divided(600_000, sent);
        let mut stream = server.connect().await;
        stream.write_all(begin.as_bytes()).await.unwrap();
        stalled.push((stream, end));
    }
    let (begin, end) = divided(600_000, 1_000);
    let mut whole = server.connect().await;
    let request = format!("{begin}{end}");
    whole.write_all(request.as_bytes()).await.unwrap();
    let text = within(answer(&mut whole)).await;
    assert!(text.starts_with("HTTP/1.1 202"), "{text}");
    for (mut stream, end) in stalled {
        stream.write_all(end.as_bytes()).await.unwrap();
        let text = within(answer(&mut stream)).await;
        assert!(text.starts_with("HTTP/1.1 202"), "nothing is lost: {text}");
    }
    server.stopped().await;
}

#[tokio::test]
async fn one_client_does_not_keep_the_memory_of_all_others() {
    let options = ServerOptions {
        body_max_bytes: 1_000_000,
        bodies_max_bytes: 2_000_000,
        tokens: ["greedy", "modest"].map(producer).into(),
        ..ServerOptions::default()
    };
    let bench = Bench::reference().await.with_options(&options);
    let server = TestServer::start(bench.router.clone(), &options).await;
    let of = |name: &str, request: &str| {
        let token = format!("authorization: Bearer secret of {name}\r\nhost: ");
        request.replacen("host: ", &token, 1)
    };
    let (begin, end) = divided(900_000, 899_000);
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut stream = server.connect().await;
        let sending = stream.write_all(of("greedy", &begin).as_bytes()).await;
        sending.unwrap_or_default();
        held.push(stream);
    }
    let mut modest = server.connect().await;
    let request = of("modest", &format!("{begin}{end}"));
    modest.write_all(request.as_bytes()).await.unwrap();
    let text = within(answer(&mut modest)).await;
    assert!(text.starts_with("HTTP/1.1 202"), "{text}");
    for mut stream in held {
        stream.write_all(end.as_bytes()).await.unwrap_or_default();
        let text = within(answer(&mut stream)).await;
        let is_refused = text.contains("other requests of this client");
        assert!(is_refused || text.starts_with("HTTP/1.1 202"), "{text}");
    }
    server.stopped().await;
}

#[tokio::test]
async fn answers_of_claims_share_a_memory() {
    let options = ServerOptions {
        claims_max_bytes: 8 * 1024 * 1024,
        ..ServerOptions::default()
    };
    let bench = Bench::reference().await.with_options(&options);
    for _ in 0..12 {
        bench.enqueue("mail", json!("x".repeat(500_000))).await;
    }
    let claim = json!({"queue": "mail", "owner": "w1", "limit": 10});
    let mut unsent = Vec::new();
    for _ in 0..3 {
        let mut request = request(Method::POST, "/v1/claims", Some(claim.clone()));
        request.extensions_mut().insert(peer(LOCAL));
        let answer = bench.router.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.status(), 200);
        unsent.push(answer);
    }
    let leases = || async { bench.store.leases(10).await.unwrap() };
    let claimed: Vec<_> = leases().await.iter().map(|it| it.ids.len()).collect();
    assert_eq!(claimed.iter().sum::<usize>(), 8, "{claimed:?}");
    // They are all that one client may have at once.
    let refused = bench.post("/v1/claims", claim).await;
    refused.is_problem(503, "overloaded");
    assert!(
        refused.detail().contains("claims_max_bytes"),
        "{}",
        refused.text
    );
    assert_eq!(leases().await.len(), 3, "nothing was claimed");
    unsent.pop();
    let lease = bench.claim("mail", 10).await;
    assert_eq!(lease["messages"].as_array().unwrap().len(), 2);
}
