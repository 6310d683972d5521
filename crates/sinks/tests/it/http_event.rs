//! Requests as CloudEvents 1.0.

use serde_json::{Value, json};

use crate::{
    fixture::{EXACT, delivery_of, exact, http_sink},
    server::{Server, status},
};

#[tokio::test]
async fn in_binary_mode_attributes_are_headers() {
    let server = Server::start(|_, _| status(200)).await;
    let sink = http_sink(&server.url(), "cloudevents = \"binary\"").await;
    sink.deliver(&exact(|message| message.group = Some("Köln 7".into())))
        .await;
    let request = server.request();
    let table = [
        ("ce-specversion", "1.0"),
        ("ce-id", "orders:order-7"),
        ("ce-source", "/consign/orders"),
        ("ce-type", "consign.orders"),
        ("ce-time", "2026-11-16T00:00:00Z"),
        ("ce-partitionkey", "K%C3%B6ln%207"),
        ("content-type", "application/json"),
    ];
    for (name, value) in table {
        assert_eq!(request.header(name), value);
    }
    assert_eq!(request.body, EXACT.as_bytes());
}

#[tokio::test]
async fn attributes_of_a_message_win_over_settings() {
    let server = Server::start(|_, _| status(200)).await;
    let options = "cloudevents = \"binary\"\nevent_type = \"a.b\"\nevent_source = \"/shop\"";
    let sink = http_sink(&server.url(), options).await;
    sink.deliver(&delivery_of(json!(1), |_| ())).await;
    sink.deliver(&delivery_of(json!(1), |message| {
        let headers = json!({
            "Ce-Type": "order.paid", "ce-source": "/till", "ce-subject": "7", "ce-sequence": 12,
            "ce-specversion": "9", "ce-datacontenttype": "text/plain", "ce-bad-name": "x",
            "ce-list": [1], "ce-data": "x", "ce-empty": "",
        });
        message.headers = headers.as_object().unwrap().clone();
    }))
    .await;
    let requests = server.requests();
    assert_eq!(requests[0].header("ce-type"), "a.b");
    assert_eq!(requests[0].header("ce-source"), "/shop");
    let request = &requests[1];
    assert_eq!(request.header("ce-type"), "order.paid");
    assert_eq!(request.header("ce-source"), "/till");
    assert_eq!(request.header("ce-subject"), "7");
    assert_eq!(request.header("ce-sequence"), "12");
    assert_eq!(request.header("ce-specversion"), "1.0");
    for absent in [
        "ce-datacontenttype",
        "ce-bad-name",
        "ce-list",
        "ce-data",
        "ce-empty",
    ] {
        assert!(!request.headers.contains_key(absent), "{absent}");
    }
}

#[tokio::test]
async fn in_structured_mode_the_data_is_the_payload_to_the_last_digit() {
    let server = Server::start(|_, _| status(200)).await;
    let sink = http_sink(&server.url(), "cloudevents = \"structured\"").await;
    sink.deliver(&exact(|_| ())).await;
    let body = String::from_utf8(server.request().body.clone()).unwrap();
    assert!(body.contains(&format!(r#""data":{EXACT}"#)), "{body}");
}

#[tokio::test]
async fn in_structured_mode_the_body_holds_everything() {
    let server = Server::start(|_, _| status(200)).await;
    let sink = http_sink(&server.url(), "cloudevents = \"structured\"").await;
    sink.deliver(&delivery_of(json!({"a": [1]}), |message| {
        message
            .headers
            .insert("ce-type".into(), json!("order.paid"));
    }))
    .await;
    let request = server.request();
    assert_eq!(
        request.header("content-type"),
        "application/cloudevents+json"
    );
    assert!(!request.headers.contains_key("ce-type"));
    assert_eq!(
        serde_json::from_slice::<Value>(&request.body).unwrap(),
        json!({
            "specversion": "1.0", "id": "orders:order-7", "source": "/consign/orders",
            "type": "order.paid", "time": "2026-11-16T00:00:00Z",
            "datacontenttype": "application/json", "data": {"a": [1]},
        })
    );
}
