//! What may be shown of a value.

use consign_artifacts::uri::mask_credentials;
use serde_json::Value;

use super::{KeyPath, key, key::Found, kind::Kind};
use crate::database::without_password;

const HIDDEN: &str = "[hidden]";

/// Names that speak of secrets. Better to hide one too many.
const TELLING: &[&str] = &[
    "secret",
    "password",
    "token",
    "key",
    "authorization",
    "cookie",
    "credential",
    "hash",
];

/// A value fit to be shown: secrets hidden, credentials and queries cut out of addresses.
pub(crate) fn shown(path: &KeyPath, value: &Value) -> Value {
    let found = key::find(path);
    let secret = matches!(found, Found::Key(key) if matches!(key.kind, Kind::Secret));
    let sink = matches!(found, Found::Open);
    let name = path.last().to_lowercase();
    let only_where = name.ends_with("_env") || name.ends_with("_file");
    let telling = || {
        let mut names = path.segments().iter().map(|segment| segment.to_lowercase());
        names.any(|segment| {
            segment == "headers" || TELLING.iter().any(|word| segment.contains(word))
        })
    };
    let is_database = path
        .segments()
        .first()
        .is_some_and(|table| table == "database");
    match value {
        _ if sink
            && path
                .segments()
                .iter()
                .skip(3)
                .any(|segment| segment == "env" || segment == "args") =>
        {
            HIDDEN.into()
        }
        _ if sink && !only_where && telling() => HIDDEN.into(),
        _ if secret || name == "hash" => HIDDEN.into(),
        Value::String(text) if is_database => address(text).into(),
        Value::String(text) => without_query(&mask_credentials(text)).into(),
        Value::Array(items) => items.iter().map(|item| shown(path, item)).collect(),
        other => other.clone(),
    }
}

/// Where a database is: who logs in and with which options is no secret.
fn address(text: &str) -> String {
    match text.contains("://") {
        true => without_password(text),
        // Keywords, as in `host=db password=x`: no form that any command takes.
        false if text.to_lowercase().contains("password") => HIDDEN.to_owned(),
        false => text.to_owned(),
    }
}

/// What stands behind the question mark of a URL is often its secret.
fn without_query(address: &str) -> String {
    match address.find(['?', '#']) {
        Some(at) if address[..at].contains("://") => format!("{}{HIDDEN}", &address[..=at]),
        _ => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_hidden_wherever_they_stand() {
        let check = |path: &str, value: Value, expected: Value| {
            assert_eq!(shown(&KeyPath::of(path), &value), expected, "{path}");
        };
        let url = json!("postgres://me:s3cret@db/x");
        check("database.url", url.clone(), json!("postgres://me@db/x"));
        check("database.listen_url", url, json!("postgres://me@db/x"));
        check("server.tokens.ci.hash", json!("sha256:ab"), json!(HIDDEN));
        check(
            "server.tokens.ci.scopes",
            json!(["producer"]),
            json!(["producer"]),
        );
        let keywords = json!("host=db user=me password=s3cret");
        check("database.url", keywords, json!(HIDDEN));
        let args = json!(["--api-key=s3cret"]);
        check("queues.a.sink.args", args, json!(HIDDEN));
        let fragment = json!("https://otel.example/x#s3cret");
        check(
            "telemetry.otlp_endpoint",
            fragment,
            json!("https://otel.example/x#[hidden]"),
        );
        check("queues.a.sink.secrets", json!(["whsec_x"]), json!(HIDDEN));
        check("queues.a.sink.secret_env", json!("NAME"), json!("NAME"));
        check(
            "queues.a.sink.headers.Authorization",
            json!("Bearer x"),
            json!(HIDDEN),
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
        check("queues.a.sink.headers.X-Tenant", json!("x"), json!(HIDDEN));
        check("queues.a.sink.subject", json!("x"), json!("x"));
        check("queues.keys.concurrency", json!(3), json!(3));
        check("orders.idempo_secret", json!("x"), json!(HIDDEN));
        check("orders.broker_api_key", json!("x"), json!(HIDDEN));
        check("orders.broker_api_secret", json!("x"), json!(HIDDEN));
        check("payments.rail_token", json!("x"), json!(HIDDEN));
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
        check("queues.a.sink.env.AWS_REGION", json!("x"), json!(HIDDEN));
        check("queues.a.sink.env.KEY_file", json!("x"), json!(HIDDEN));
    }
}
