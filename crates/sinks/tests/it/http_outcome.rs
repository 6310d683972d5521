//! Which answer leads to which outcome.

use std::time::{Duration, Instant};

use consign_kernel::Outcome;
use consign_worker::About;
use serde_json::json;

use crate::{
    fixture::{DEADLINE, delivery, http_sink, try_sink},
    server::{Act, Server, respond, status},
};

/// A server that answers the status its path names, and a sink to it.
async fn outcome(answer: u16, options: &str) -> (Outcome, About, Option<String>) {
    let server = Server::start(move |_, _| status(answer)).await;
    let verdict = http_sink(&server.url(), options)
        .await
        .deliver(&delivery())
        .await;
    (verdict.outcome, verdict.about, verdict.code)
}

#[tokio::test]
async fn a_status_leads_to_the_outcome_of_the_table() {
    use Outcome::{Dead, Delivered, Retry, Uncertain};
    let table = [
        (200, Delivered, About::Message),
        (201, Delivered, About::Message),
        (202, Delivered, About::Message),
        (204, Delivered, About::Message),
        (299, Delivered, About::Message),
        (300, Retry, About::Sink),
        (301, Retry, About::Sink),
        (302, Retry, About::Sink),
        (304, Retry, About::Sink),
        (308, Retry, About::Sink),
        (400, Dead, About::Message),
        (401, Retry, About::Sink),
        (402, Dead, About::Message),
        (403, Retry, About::Sink),
        (404, Retry, About::Sink),
        (405, Retry, About::Sink),
        (406, Dead, About::Message),
        (407, Retry, About::Sink),
        (408, Retry, About::Sink),
        (409, Retry, About::Message),
        (410, Dead, About::Sink),
        (411, Dead, About::Message),
        (413, Dead, About::Message),
        (415, Dead, About::Message),
        (421, Retry, About::Sink),
        (422, Dead, About::Message),
        (423, Retry, About::Message),
        (425, Retry, About::Message),
        (429, Retry, About::Pace),
        (451, Dead, About::Message),
        (499, Dead, About::Message),
        (500, Retry, About::Sink),
        (501, Retry, About::Sink),
        (502, Uncertain, About::Sink),
        (503, Retry, About::Sink),
        (504, Uncertain, About::Sink),
        (507, Retry, About::Sink),
        (599, Retry, About::Sink),
        (600, Uncertain, About::Sink),
    ];
    for (answer, expected, about) in table {
        let code = (expected != Delivered).then(|| format!("http_{answer}"));
        assert_eq!(
            outcome(answer, "").await,
            (expected, about, code),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn the_configuration_overrides_the_table() {
    let options = r#"
        delivered_statuses = [409]
        retry_statuses = [422, 502]
        dead_statuses = [404, 202]
        uncertain_statuses = [500]
    "#;
    for (answer, expected) in [
        (409, Outcome::Delivered),
        (422, Outcome::Retry),
        (502, Outcome::Retry),
        (404, Outcome::Dead),
        (202, Outcome::Dead),
        (500, Outcome::Uncertain),
        (400, Outcome::Dead),
    ] {
        assert_eq!(outcome(answer, options).await.0, expected, "{answer}");
    }
    for options in [
        "retry_statuses = [404]\ndead_statuses = [404]",
        "dead_statuses = [100]",
        "dead_statuses = [600]",
    ] {
        let text = format!("kind = \"http\"\nurl = \"https://hooks.example\"\n{options}");
        assert!(try_sink(&text).await.is_err(), "{options}");
    }
}

#[tokio::test]
async fn a_requested_retry_delay_is_bounded() {
    let table = [
        (429, "120", Some(120)),
        (503, "7", Some(7)),
        (503, "99999999", Some(3_600)),
        (429, "Fri, 31 Dec 2100 23:59:59 GMT", Some(3_600)),
        (503, "Sat, 01 Jan 2000 00:00:00 GMT", Some(0)),
        (429, "later", None),
        (422, "120", None),
        (200, "120", None),
    ];
    for (answer, wait, seconds) in table {
        let server = Server::start(move |_, _| respond(answer, &[("Retry-After", wait)], "")).await;
        let verdict = http_sink(&server.url(), "")
            .await
            .deliver(&delivery())
            .await;
        assert_eq!(
            verdict.retry_in,
            seconds.map(Duration::from_secs),
            "{answer} {wait}"
        );
    }
    let server = Server::start(|_, _| respond(429, &[("Retry-After", "120")], "")).await;
    let sink = http_sink(&server.url(), "retry_after_max_ms = 1500").await;
    assert_eq!(
        sink.deliver(&delivery()).await.retry_in,
        Some(Duration::from_millis(1_500))
    );
}

#[tokio::test]
async fn a_redirect_is_explained_and_not_followed() {
    let location = "https://elsewhere.example/x?token=tulip";
    let server = Server::start(move |_, _| respond(307, &[("Location", location)], "")).await;
    let verdict = http_sink(&server.url(), "")
        .await
        .deliver(&delivery())
        .await;
    let detail = verdict.detail.unwrap();
    assert!(
        detail.contains("to elsewhere.example; redirects are not followed"),
        "{detail}"
    );
    assert!(!detail.contains("tulip"), "{detail}");

    let server = Server::start(|_, request| {
        let location = format!("http://{}/again", request.header("host"));
        respond(302, &[("Location", &location)], "")
    })
    .await;
    http_sink(&server.url(), "")
        .await
        .deliver(&delivery())
        .await;
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn an_answer_is_kept_only_if_configured_and_truncated() {
    let server = Server::start(|number, _| match number {
        0 => respond(200, &[], r#"{"ok":true}"#),
        1 => respond(200, &[], r#"{"ok":true}"#),
        2 => respond(422, &[], "no such order"),
        _ => respond(200, &[], &"x".repeat(10_000)),
    })
    .await;
    let forgetful = http_sink(&server.url(), "").await;
    assert_eq!(forgetful.deliver(&delivery()).await.result, None);
    let sink = http_sink(&server.url(), "keep_response = true").await;
    let mut kept = Vec::new();
    for _ in 0..3 {
        kept.push(sink.deliver(&delivery()).await.result.unwrap());
    }
    assert_eq!(kept[0], json!({"status": 200, "body": {"ok": true}}));
    assert_eq!(kept[1], json!({"status": 422, "body": "no such order"}));
    assert_eq!(kept[2]["cut"], true);
    assert_eq!(kept[2]["body"].as_str().unwrap().len(), 4096);
    assert_eq!(
        server.connections(),
        2,
        "bodies were read to their end: one connection per sink"
    );
}

#[tokio::test]
async fn a_body_without_end_costs_neither_the_outcome_nor_the_time() {
    let head = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
    let flooding = head.clone();
    let flood = Server::start(move |_, _| Act::Flood(flooding.clone())).await;
    let stalled = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n".to_vec();
    let stall = Server::start(move |_, _| Act::Send(stalled.clone())).await;
    let dripping = [head, vec![b'x'; 1_000]].concat();
    let drip = Server::start(move |_, _| {
        let (head, rest) = dripping.split_at(19);
        // The head in one piece would be all the same; what matters is the endless rest.
        Act::Drip([head, rest].concat())
    })
    .await;
    for server in [flood, stall, drip] {
        let started = Instant::now();
        let sink = http_sink(&server.url(), "keep_response = true").await;
        let verdict = sink.deliver(&delivery()).await;
        assert_eq!(verdict.outcome, Outcome::Delivered);
        assert_eq!(verdict.result.unwrap()["cut"], true);
        assert!(started.elapsed() < DEADLINE / 2, "{:?}", started.elapsed());
    }
}
