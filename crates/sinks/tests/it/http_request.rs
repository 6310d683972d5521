//! What a request looks like on the wire.

use serde_json::json;

use crate::{
    fixture::{EXACT, delivery_of, exact, http_sink, try_sink},
    server::{Server, status},
};

#[tokio::test]
async fn the_body_is_the_payload_and_the_headers_identify_the_message() {
    let server = Server::start(|_, _| status(200)).await;
    let sink = http_sink(&server.url(), "").await;
    let delivery = exact(|_| ());
    assert_eq!(
        sink.deliver(&delivery).await.outcome,
        consign_kernel::Outcome::Delivered
    );
    let request = server.request();
    assert_eq!(request.line, "POST /hook HTTP/1.1");
    assert_eq!(request.body, EXACT.as_bytes());
    assert_eq!(request.header("content-type"), "application/json");
    assert_eq!(request.header("idempotency-key"), "\"orders:order-7\"");
    assert_eq!(request.header("consign-message-id"), "7");
    assert_eq!(request.header("consign-attempt"), "3");
    assert_eq!(request.header("consign-fence"), "41");
    assert!(request.header("user-agent").starts_with("consign/"));
    assert!(
        !request.headers.contains_key("webhook-id"),
        "nothing to sign with"
    );
    assert!(
        !request.headers.contains_key("ce-id"),
        "no event by default"
    );
}

#[tokio::test]
async fn any_key_becomes_a_header_and_different_keys_different_ones() {
    let server = Server::start(|_, _| status(200)).await;
    let sink = http_sink(&server.url(), "").await;
    let keys = ["ä\"\\ %\r\nx: y", "a.b", "%C3%A4"];
    for key in keys {
        sink.deliver(&delivery_of(json!(1), |message| {
            message.key = Some(key.into())
        }))
        .await;
    }
    sink.deliver(&delivery_of(json!(1), |message| message.key = None))
        .await;
    let requests = server.requests();
    let sent: Vec<_> = requests
        .iter()
        .map(|request| request.header("idempotency-key"))
        .collect();
    assert_eq!(
        sent,
        [
            "\"orders:%C3%A4%22%5C%20%25%0D%0Ax:%20y\"",
            "\"orders:a.b\"",
            "\"orders:%25C3%25A4\"",
            "\"orders:7\"",
        ]
    );
    assert_eq!(server.connections(), 1, "connections are used again");
}

#[tokio::test]
async fn headers_of_the_configuration_and_of_the_message_travel_but_not_over_ours() {
    let server = Server::start(|_, _| status(200)).await;
    let options = r#"
        method = "PUT"
        bearer_token = "tulip"
        forward_headers = ["x-tenant", "app-*", "con*", "x-fixed"]
        headers = { X-Fixed = "from the configuration", Content-Type = "application/vnd.x+json" }
    "#;
    let sink = http_sink(&server.url(), options).await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let delivery = delivery_of(json!([]), |message| {
        let headers = json!({
            "X-Tenant": "blue", "app-number": 5, "App-List": [1, 2], "other": "stays",
            "x-fixed": "from the message", "Connection": "upgrade", "content-type": "text/plain",
            "consign-fence": "1", "Traceparent": trace, "tracestate": "a=b",
        });
        message.headers = headers.as_object().unwrap().clone();
    });
    sink.deliver(&delivery).await;
    let request = server.request();
    assert_eq!(request.line, "PUT /hook HTTP/1.1");
    assert_eq!(request.header("x-tenant"), "blue");
    assert_eq!(request.header("app-number"), "5");
    assert_eq!(request.header("app-list"), "[1,2]");
    assert_eq!(request.header("x-fixed"), "from the configuration");
    assert_eq!(request.header("content-type"), "application/vnd.x+json");
    assert_eq!(request.header("authorization"), "Bearer tulip");
    assert_eq!(request.header("consign-fence"), "41");
    assert_eq!(request.header("traceparent"), trace);
    assert_eq!(request.header("tracestate"), "a=b");
    for absent in ["other", "connection"] {
        assert!(!request.headers.contains_key(absent), "{absent}");
    }
}

#[tokio::test]
async fn a_forwarded_header_that_http_cannot_carry_is_the_messages_fault() {
    let server = Server::start(|_, _| status(200)).await;
    let sink = http_sink(&server.url(), "forward_headers = [\"x-*\"]").await;
    for (name, value) in [
        ("x-a", "secret\r\nhost: elsewhere"),
        ("x-ü", "1"),
        ("x- b", "1"),
    ] {
        let delivery = delivery_of(json!(1), |message| {
            message.headers.insert(name.into(), value.into());
        });
        let verdict = sink.deliver(&delivery).await;
        assert_eq!(verdict.outcome, consign_kernel::Outcome::Dead, "{name}");
        assert_eq!(verdict.about, consign_worker::About::Message, "{name}");
        assert_eq!(verdict.code.as_deref(), Some("header_invalid"), "{name}");
        assert!(
            !verdict.detail.unwrap().contains("secret"),
            "values are not shown"
        );
    }
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn headers_that_are_not_theirs_to_set_are_refused() {
    for options in [
        "headers = { Host = \"x\" }",
        "headers = { \"Transfer-Encoding\" = \"chunked\" }",
        "headers = { \"webhook-id\" = \"x\" }",
        "headers = { \"Consign-Fence\" = \"9\" }",
        "headers = { \"x y\" = \"1\" }",
        "headers = { x = \"a\\r\\nb: c\" }",
        "bearer_token = \"a\"\nheaders = { Authorization = \"b\" }",
        "forward_headers = [\"Authorization\"]",
        "forward_headers = [\"connection\"]",
        "forward_headers = [\"x y\"]",
    ] {
        let text = format!("kind = \"http\"\nurl = \"https://hooks.example/\"\n{options}");
        assert!(try_sink(&text).await.is_err(), "{options}");
    }
}
