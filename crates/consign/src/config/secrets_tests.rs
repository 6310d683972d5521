//! What of a value is shown.

use serde_json::{Value, json};

use super::*;
use crate::apps::REGISTRY;

fn check(path: &str, value: Value, expected: Value) {
    let found = shown(Catalogue(&REGISTRY), &KeyPath::of(path), &value);
    assert_eq!(found, expected, "{path}");
}

#[test]
fn secrets_are_hidden_wherever_they_stand() {
    let url = json!("postgres://me:s3cret@db/x");
    check("database.url", url.clone(), json!("postgres://me@db/x"));
    check("database.listen_url", url, json!("postgres://me@db/x"));
    check(
        "server.tokens.ci.hash",
        json!("sha256:ab"),
        json!("[hidden]"),
    );
    check(
        "server.tokens.ci.scopes",
        json!(["producer"]),
        json!(["producer"]),
    );
    let keywords = json!("host=db user=me password=s3cret");
    check("database.url", keywords, json!("[hidden]"));
    let args = json!(["--api-key=s3cret"]);
    check("queues.a.sink.args", args, json!("[hidden]"));
    let fragment = json!("https://otel.example/x#s3cret");
    check(
        "telemetry.otlp_endpoint",
        fragment,
        json!("https://otel.example/x#[hidden]"),
    );
    check(
        "queues.a.sink.secrets",
        json!(["whsec_x"]),
        json!("[hidden]"),
    );
    check("queues.a.sink.secret_env", json!("NAME"), json!("NAME"));
    check(
        "queues.a.sink.headers.Authorization",
        json!("Bearer x"),
        json!("[hidden]"),
    );
    check(
        "queues.a.sink.urls",
        json!(["nats://u:p@h"]),
        json!(["nats://[REDACTED]@h"]),
    );
    check(
        "queues.a.sink.url",
        json!("https://u:p@h/x?sig=1"),
        json!("https://[REDACTED]@h/x?[hidden]"),
    );
    check(
        "queues.a.sink.headers.X-Tenant",
        json!("x"),
        json!("[hidden]"),
    );
    check("queues.a.sink.subject", json!("x"), json!("x"));
    check("queues.keys.concurrency", json!(3), json!(3));
}

#[test]
fn secrets_of_apps_are_hidden() {
    check("orders.idempo_secret", json!("x"), json!("[hidden]"));
    check("orders.broker_api_key", json!("x"), json!("[hidden]"));
    check("orders.broker_api_secret", json!("x"), json!("[hidden]"));
    check("payments.rail_token", json!("x"), json!("[hidden]"));
    let rail = json!("https://u:p@rail.example/pay?key=s3cret");
    let shown_rail = json!("https://[REDACTED]@rail.example/pay?[hidden]");
    check("payments.rail_url", rail, shown_rail);
    for setting in [
        "orders.broker_url",
        "orders.broker_status_url",
        "payments.rail_status_url",
        "memory.openmemory_base_url",
        "telemetry.otlp_endpoint",
    ] {
        let url = json!("https://broker.example/orders?sig=s3cret#x");
        check(
            setting,
            url,
            json!("https://broker.example/orders?[hidden]"),
        );
    }
    check(
        "queues.a.sink.env.AWS_REGION",
        json!("x"),
        json!("[hidden]"),
    );
    check("queues.a.sink.env.KEY_file", json!("x"), json!("[hidden]"));
}
