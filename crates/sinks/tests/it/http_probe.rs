//! Asking whether a message has arrived.

use std::time::Duration;

use consign_worker::Probe;
use serde_json::json;

use crate::{
    fixture::{delivery, delivery_of, delivery_within, http_sink},
    server::{Act, Server, respond, status},
};

#[tokio::test]
async fn the_receiver_is_probed_by_key() {
    let server = Server::start(|_, _| status(404)).await;
    let probe_url = format!(
        "http://{}/seen/{{queue}}/{{id}}?key={{key}}&x={{y",
        server.address
    );
    let options = format!("bearer_token = \"tulip\"\nprobe_url = \"{probe_url}\"");
    let sink = http_sink(&server.url(), &options).await;
    let delivery = delivery_of(json!(1), |message| message.key = Some("a/{id}&b é".into()));
    assert_eq!(sink.probe(&delivery).await, Probe::NotDelivered);
    let request = server.request();
    assert_eq!(
        request.line,
        "GET /seen/orders/7?key=orders%3Aa%2F%7Bid%7D%26b%2520%25C3%25A9&x=%7By HTTP/1.1"
    );
    assert_eq!(request.header("authorization"), "Bearer tulip");
    assert_eq!(request.body, b"");
}

#[tokio::test]
async fn only_a_clear_answer_decides() {
    for answer in [200, 204, 404, 202, 302, 401, 410, 500, 503] {
        let server = Server::start(move |_, _| respond(answer, &[], "")).await;
        let options = format!("probe_url = \"http://{}/{{id}}\"", server.address);
        let sink = http_sink(&server.url(), &options).await;
        let probe = sink.probe(&delivery()).await;
        match answer {
            200 | 204 => assert_eq!(probe, Probe::Delivered(None)),
            404 => assert_eq!(probe, Probe::NotDelivered),
            _ => assert!(
                matches!(&probe, Probe::CannotTell(why) if why.contains(&answer.to_string())),
                "{answer}: {probe:?}"
            ),
        }
    }
}

#[tokio::test]
async fn silence_does_not_decide() {
    let server = Server::start(|_, _| Act::Hang).await;
    let options = format!(
        "probe_url = \"http://{}/{{id}}?token=tulip\"",
        server.address
    );
    let sink = http_sink(&server.url(), &options).await;
    let probe = sink
        .probe(&delivery_within(Duration::from_millis(200)))
        .await;
    assert!(matches!(probe, Probe::CannotTell(_)), "{probe:?}");
    drop(server);
    let probe = sink.probe(&delivery()).await;
    assert!(
        matches!(&probe, Probe::CannotTell(why) if !why.contains("tulip")),
        "{probe:?}"
    );
    let sink = http_sink("http://127.0.0.1:9/", "").await;
    let probe = sink.probe(&delivery()).await;
    assert!(
        matches!(&probe, Probe::CannotTell(why) if why.contains("probe_url")),
        "{probe:?}"
    );
}
