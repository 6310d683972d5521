//! What may be shown of a value.

use consign_redact::mask_credentials;
use serde_json::Value;

use super::{Catalogue, KeyPath, kind::Kind, setting::KeyMatch};
use crate::database::without_password;

const HIDDEN: &str = "[hidden]";

/// Names that suggest a secret. Better to hide one too many.
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
pub fn shown(catalogue: Catalogue, path: &KeyPath, value: &Value) -> Value {
    let found = catalogue.find(path);
    let secret = matches!(found, KeyMatch::Key(setting) if matches!(setting.kind, Kind::Secret));
    let sink = matches!(found, KeyMatch::Open);
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
        Value::Array(items) => items
            .iter()
            .map(|item| shown(catalogue, path, item))
            .collect(),
        other => other.clone(),
    }
}

/// Where a database is: who logs in and with which options is no secret.
fn address(text: &str) -> String {
    if text.contains("://") {
        without_password(text)
    } else if text.to_lowercase().contains("password") {
        // Keywords, as in `host=db password=x`: no form that any command takes.
        HIDDEN.to_owned()
    } else {
        text.to_owned()
    }
}

/// The query of a URL often holds a secret.
fn without_query(address: &str) -> String {
    match address.find(['?', '#']) {
        Some(at) if address[..at].contains("://") => format!("{}{HIDDEN}", &address[..=at]),
        _ => address.to_owned(),
    }
}
