//! Limits: how much, how fast, how long, how many.

use std::{sync::Arc, time::Duration};

use axum::http::Method;
use consign_server::{RateLimit, ServerOptions};
use consign_testkit::eventually;
use serde_json::json;
use tokio::{io::AsyncWriteExt, sync::Semaphore};

use crate::{
    bench::{Bench, request},
    faults::{Fault, FaultyStore},
    http::{TestServer, answer, post, rest, send},
};

const SOON: Duration = Duration::from_secs(20);
const PATH: &str = "/v1/queues/mail/messages";

/// Slow clients are disconnected long before this.
async fn within(reading: impl Future<Output = String>) -> String {
    let read = tokio::time::timeout(Duration::from_secs(10), reading).await;
    read.expect("cut off in time")
}

#[tokio::test]
async fn a_body_too_large_is_refused_before_it_is_sent() {
    let bench = Bench::reference().await;
    let options = ServerOptions {
        body_max_bytes: 1_000,
        ..ServerOptions::default()
    };
    let bench = bench.with_options(&options);
    let server = TestServer::start(bench.router.clone(), &options).await;
    let mut declared = server.connect().await;
    let head = format!(
        "POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: 5000000\r\n\r\n"
    );
    declared.write_all(head.as_bytes()).await.unwrap();
    let text = answer(&mut declared).await;
    assert!(text.starts_with("HTTP/1.1 413"), "{text}");
    assert!(text.contains("body_too_large"), "{text}");
    let mut chunked = server.connect().await;
    let head = format!(
        "POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         transfer-encoding: chunked\r\n\r\n"
    );
    chunked.write_all(head.as_bytes()).await.unwrap();
    let chunk = format!("400\r\n{}\r\n", "x".repeat(0x400));
    chunked.write_all(chunk.as_bytes()).await.unwrap();
    let text = answer(&mut chunked).await;
    assert!(text.starts_with("HTTP/1.1 413"), "{text}");
    server.stopped().await;
}

#[tokio::test]
async fn a_long_head_is_refused() {
    let bench = Bench::reference().await;
    let server = TestServer::start(bench.router.clone(), &ServerOptions::default()).await;
    let head = |length: usize, end: &str| {
        let line = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
        format!("{line}x-padding: {}{end}", "x".repeat(length))
    };
    for (request, status) in [
        (head(15_000, "\r\n\r\n"), "200"),
        (head(17_000, "\r\n\r\n"), "431"),
        // Half a head is not kept either.
        (head(17_000, ""), "431"),
    ] {
        let mut stream = server.connect().await;
        let text = within(send(&mut stream, &request)).await;
        assert!(text.starts_with(&format!("HTTP/1.1 {status}")), "{text}");
    }
    server.stopped().await;
}

#[tokio::test]
async fn a_body_of_too_many_values_is_refused_and_a_payload_is_not() {
    let bench = Bench::sqlite().await;
    let many = format!("[{}0]", "{\"\":0},".repeat(60_000));
    let token = uuid::Uuid::nil();
    let reports =
        format!("{{\"reports\": [{{\"id\": 1, \"outcome\": \"delivered\", \"result\": {many}}}]}}");
    let path = format!("/v1/leases/{token}/settle");
    let mut settle = request(Method::POST, &path, Some(json!(0)));
    *settle.body_mut() = reports.into();
    let refused = bench.call(settle).await;
    assert_eq!(refused.status, 413, "{path}: {}", refused.text);
    assert!(
        refused.text.contains("values; maximum 100000"),
        "{}",
        refused.text
    );
    let mut request = request(Method::POST, PATH, Some(json!(0)));
    *request.body_mut() = format!("{{\"payload\": {many}}}").into();
    bench.call(request).await.is(202);
}

#[tokio::test(flavor = "current_thread")]
async fn a_large_request_does_not_take_the_threads_of_others() {
    let bench = Bench::reference().await;
    let store = FaultyStore::new(bench.store.clone());
    store.inject("enqueue", Fault::Blocks);
    let options = ServerOptions {
        request_timeout_ms: 100,
        ..ServerOptions::default()
    };
    let bench = bench.with_store(store.clone()).with_options(&options);
    let large = json!({"payload": "x".repeat(100_000)});
    // The deadline of the request comes although the request blocks its thread.
    let answer = bench.post(PATH, large).await;
    answer.is_problem(504, "request_timeout");
    store.mend();
}

#[tokio::test]
async fn a_compressed_body_is_refused() {
    let bench = Bench::reference().await;
    for (coding, status) in [("gzip", 415), ("br, gzip", 415), ("Identity", 202)] {
        let coding = [("content-encoding", coding)];
        let answer = bench.post_with(PATH, &coding, json!({"payload": 1})).await;
        answer.is(status);
        assert_eq!(
            answer.header("accept-encoding") == "identity",
            status == 415
        );
    }
}

#[tokio::test]
async fn a_slow_client_is_cut_off() {
    let bench = Bench::reference().await;
    let options = ServerOptions {
        header_timeout_ms: 100,
        body_timeout_ms: 100,
        ..ServerOptions::default()
    };
    let bench = bench.with_options(&options);
    let server = TestServer::start(bench.router.clone(), &options).await;
    let mut headers = server.connect().await;
    headers
        .write_all(b"POST / HTTP/1.1\r\nhost: loc")
        .await
        .unwrap();
    let text = within(rest(&mut headers)).await;
    assert!(text.is_empty() || text.contains(" 408 "), "{text}");
    let mut body = server.connect().await;
    let head = format!(
        "POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: 100\r\n\r\n{{\"payl"
    );
    body.write_all(head.as_bytes()).await.unwrap();
    let text = within(answer(&mut body)).await;
    assert!(text.starts_with("HTTP/1.1 408"), "{text}");
    assert!(text.contains("body_timeout"), "{text}");
    let mut idle = server.connect().await;
    assert_eq!(
        within(rest(&mut idle)).await,
        "",
        "idle connections are closed"
    );
    let mut well = server.connect().await;
    let text = send(&mut well, &post(PATH, "{\"payload\": 1}")).await;
    assert!(text.starts_with("HTTP/1.1 202"), "{text}");
    server.stopped().await;
}

#[tokio::test]
async fn strangers_send_no_bodies() {
    let bench = Bench::reference().await;
    for path in ["/", "/healthz", "/openapi.json", "/metrics"] {
        let request = request(Method::GET, path, Some(json!("x")));
        bench.call(request).await.is_problem(413, "body_too_large");
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_its_answers_is_cut_off() {
    let bench = Bench::reference().await;
    let options = ServerOptions {
        body_timeout_ms: 200,
        connections_max: 1,
        ..ServerOptions::default()
    };
    let server = TestServer::start(bench.router.clone(), &options).await;
    let mut greedy = server.connect().await;
    // More than any socket buffers on the way.
    let ask = "GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(500);
    greedy.write_all(ask.as_bytes()).await.unwrap();
    let text = "GET /openapi.json HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    eventually("others are let in at last", SOON, || async {
        let mut second = server.connect().await;
        send(&mut second, text).await.starts_with("HTTP/1.1 200")
    })
    .await;
    drop(greedy);
    server.stopped().await;
}

#[tokio::test]
async fn a_client_over_its_rate_gets_429_with_retry_after() {
    let options = ServerOptions {
        rate_limit: RateLimit {
            per_second: 1,
            burst: 2,
        },
        ..ServerOptions::default()
    };
    let bench = Bench::reference().await.with_options(&options);
    let first = bench.get("/v1/queues").await;
    assert_eq!(first.header("ratelimit-policy"), "\"client\";q=2;w=2");
    assert!(first.header("ratelimit").starts_with("\"client\";r=1;"));
    bench.get("/v1/queues").await.is(200);
    let refused = bench.get("/v1/queues").await;
    refused.is_problem(429, "rate_limited");
    assert_eq!(refused.header("retry-after"), "1");
    assert!(refused.header("ratelimit").starts_with("\"client\";r=0;"));
    bench.get("/healthz").await.is(200);
    bench.get("/readyz").await.is(200);
    let mut other = request(Method::GET, "/v1/queues", None);
    other
        .extensions_mut()
        .insert(crate::bench::peer("127.0.0.2:1"));
    bench.call(other).await.is(200);
}

#[tokio::test]
async fn too_much_at_once_is_refused_and_probes_still_answer() {
    let bench = Bench::reference().await;
    let store = FaultyStore::new(bench.store.clone());
    let gate = Arc::new(Semaphore::new(0));
    store.inject("leases", Fault::Waits(gate.clone()));
    let options = ServerOptions {
        concurrency_max: 2,
        ..ServerOptions::default()
    };
    let bench = Arc::new(bench.with_store(store.clone()).with_options(&options));
    let busy: Vec<_> = (0..2)
        .map(|_| {
            let bench = Arc::clone(&bench);
            tokio::spawn(async move { bench.get("/v1/leases").await })
        })
        .collect();
    eventually("both are being worked on", SOON, || async {
        store.calls("leases") == 2
    })
    .await;
    let refused = bench.post(PATH, json!({"payload": 1})).await;
    refused.is_problem(503, "overloaded");
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(refused.json["outcome"], "not_done");
    bench.get("/healthz").await.is(200);
    bench.get("/metrics").await.is(200);
    gate.add_permits(2);
    for request in busy {
        request.await.unwrap().is(200);
    }
    bench.post(PATH, json!({"payload": 1})).await.is(202);
}

#[tokio::test]
async fn a_write_that_takes_too_long_goes_on_and_its_outcome_is_called_unknown() {
    let bench = Bench::reference().await;
    let (inner, gate) = (bench.store.clone(), Arc::new(Semaphore::new(0)));
    let store = FaultyStore::new(inner.clone());
    store.inject("enqueue", Fault::Waits(gate.clone()));
    store.inject("leases", Fault::Waits(gate.clone()));
    let options = ServerOptions {
        request_timeout_ms: 50,
        ..ServerOptions::default()
    };
    let bench = bench.with_store(store.clone()).with_options(&options);
    let late = bench.post(PATH, json!({"payload": 1})).await;
    late.is_problem(504, "request_timeout");
    assert_eq!(late.json["outcome"], "unknown");
    let reading = bench.get("/v1/leases").await;
    reading.is_problem(504, "request_timeout");
    assert!(reading.json["outcome"].is_null(), "{}", reading.text);
    gate.add_permits(1);
    eventually("the write is finished all the same", SOON, || async {
        let listed = inner.list(&Default::default(), None, 10).await.unwrap();
        listed.items.len() == 1
    })
    .await;
}

#[tokio::test]
async fn a_client_that_hangs_up_does_not_cut_a_write_in_half() {
    let bench = Bench::reference().await;
    let (inner, gate) = (bench.store.clone(), Arc::new(Semaphore::new(0)));
    let store = FaultyStore::new(inner.clone());
    store.inject("enqueue", Fault::Waits(gate.clone()));
    let bench = bench.with_store(store.clone());
    let options = ServerOptions::default();
    let server = TestServer::start(bench.router.clone(), &options).await;
    let mut stream = server.connect().await;
    let text = post(PATH, "{\"payload\": 1}");
    stream.write_all(text.as_bytes()).await.unwrap();
    eventually("the write has begun", SOON, || async {
        store.calls("enqueue") == 1
    })
    .await;
    drop(stream);
    gate.add_permits(1);
    eventually("the write is finished", SOON, || async {
        let listed = inner.list(&Default::default(), None, 10).await.unwrap();
        listed.items.len() == 1
    })
    .await;
    server.stopped().await;
}

#[tokio::test]
async fn a_panic_is_one_failed_request() {
    let bench = Bench::reference().await;
    let store = FaultyStore::new(bench.store.clone());
    store.inject("enqueue", Fault::Panics);
    let bench = bench.with_store(store.clone());
    let answer = bench.post(PATH, json!({"payload": 1})).await;
    answer.is_problem(500, "internal");
    assert!(!answer.text.contains("on demand"), "for the log only");
    store.mend();
    bench.post(PATH, json!({"payload": 1})).await.is(202);
}

#[tokio::test]
async fn an_absent_database_is_503_with_the_certainty_of_the_outcome() {
    let bench = Bench::reference().await;
    let store = FaultyStore::new(bench.store.clone());
    let bench = bench.with_store(store.clone());
    store.inject("enqueue", Fault::Refused);
    let body = json!({"payload": 1, "key": "k"});
    let refused = bench.post(PATH, body.clone()).await;
    refused.is_problem(503, "database_unavailable");
    assert_eq!(refused.json["outcome"], "not_done");
    assert_eq!(refused.header("retry-after"), "1");
    assert!(!refused.text.contains("secret-host"), "{}", refused.text);
    store.inject("enqueue", Fault::Locked);
    let locked = bench.post(PATH, body.clone()).await;
    locked.is_problem(503, "locked");
    assert_eq!(locked.json["outcome"], "not_done");
    assert_eq!(locked.header("retry-after"), "1");
    store.inject("enqueue", Fault::ReplyLost);
    let unknown = bench.post(PATH, body.clone()).await;
    unknown.is_problem(503, "database_unavailable");
    assert_eq!(unknown.json["outcome"], "unknown");
    assert!(unknown.detail().contains("same key"), "{}", unknown.text);
    store.mend();
    let found = bench.post(PATH, body).await;
    found.is(200);
    assert_eq!(found.json["duplicate"], true, "it had happened");
}
