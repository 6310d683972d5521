//! What may be shown of a value.

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

/// A value fit to be shown: secrets hidden, passwords cut out of addresses.
pub(crate) fn shown(path: &KeyPath, value: &Value) -> Value {
    let found = key::find(path);
    let is_kind = |kind: fn(&Kind) -> bool| matches!(found, Found::Key(key) if kind(&key.kind));
    let url = is_kind(|kind| matches!(kind, Kind::Url));
    let secret = is_kind(|kind| matches!(kind, Kind::Secret));
    let sink = matches!(found, Found::Open);
    let name = path.last().to_lowercase();
    let only_where = name.ends_with("_env") || name.ends_with("_file");
    let telling = || {
        let mut names = path.segments().iter().map(|segment| segment.to_lowercase());
        names.any(|segment| {
            segment == "headers" || TELLING.iter().any(|word| segment.contains(word))
        })
    };
    match value {
        _ if sink && !only_where && telling() => HIDDEN.into(),
        _ if secret || name == "hash" => HIDDEN.into(),
        Value::String(text) if url => address(text).into(),
        Value::String(text) if sink => without_query(&address(text)).into(),
        Value::Array(items) if sink => items.iter().map(|item| shown(path, item)).collect(),
        other => other.clone(),
    }
}

fn address(text: &str) -> String {
    match text.contains("://") {
        true => without_password(text),
        false => text.to_owned(),
    }
}

/// What stands behind the question mark of a webhook is often its secret.
fn without_query(address: &str) -> String {
    match address.split_once('?') {
        Some((place, _)) if place.contains("://") => format!("{place}?{HIDDEN}"),
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
        check("lanes.a.sink.secrets", json!(["whsec_x"]), json!(HIDDEN));
        check("lanes.a.sink.secret_env", json!("NAME"), json!("NAME"));
        check(
            "lanes.a.sink.headers.Authorization",
            json!("Bearer x"),
            json!(HIDDEN),
        );
        check(
            "lanes.a.sink.urls",
            json!(["nats://u:p@h"]),
            json!(["nats://u@h"]),
        );
        check(
            "lanes.a.sink.url",
            json!("https://u:p@h/x?sig=1"),
            json!("https://u@h/x?[hidden]"),
        );
        check("lanes.a.sink.headers.X-Tenant", json!("x"), json!(HIDDEN));
        check("lanes.a.sink.subject", json!("x"), json!("x"));
        check("lanes.keys.concurrency", json!(3), json!(3));
        check("orders.idempo_secret", json!("x"), json!(HIDDEN));
        check("orders.broker_api_key", json!("x"), json!(HIDDEN));
        check("orders.broker_api_secret", json!("x"), json!(HIDDEN));
        check("payments.rail_token", json!("x"), json!(HIDDEN));
        let rail = json!("https://u:p@rail.example/pay");
        let shown_rail = json!("https://u@rail.example/pay");
        check("payments.rail_url", rail, shown_rail);
        let broker = json!("https://u:p@broker.example/orders");
        check(
            "orders.broker_url",
            broker,
            json!("https://u@broker.example/orders"),
        );
    }
}
