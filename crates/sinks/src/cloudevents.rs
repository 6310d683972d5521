//! A message as a CloudEvents 1.0 event.

use std::collections::BTreeMap;

use consign_kernel::{Message, Payload};
use consign_worker::Delivery;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// How a message travels as an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EventMode {
    /// Attributes beside the payload: `ce-*` headers in HTTP.
    Binary,
    /// Attributes and payload together in one JSON document.
    Structured,
}

/// The default `source` and `type` of events; a message may override them.
#[derive(Clone, Debug)]
pub(crate) struct EventDefaults {
    pub(crate) source: String,
    pub(crate) event_type: String,
}

/// The attributes of the event a delivery carries, by name, without a prefix.
///
/// A message's headers named `ce-*` become attributes and win over the defaults, except for
/// `specversion`, which is not theirs to say, and `datacontenttype`: payloads are JSON.
pub(crate) fn attributes(
    delivery: &Delivery,
    defaults: &EventDefaults,
) -> BTreeMap<String, String> {
    let message = &*delivery.message;
    let mut attributes = BTreeMap::from([
        ("id".to_owned(), delivery.idempotency_key()),
        ("source".to_owned(), defaults.source.clone()),
        ("type".to_owned(), defaults.event_type.clone()),
        ("time".to_owned(), message.created_at.to_string()),
    ]);
    if let Some(group) = &message.group {
        attributes.insert("partitionkey".to_owned(), group.clone());
    }
    attributes.extend(header_attributes(message));
    attributes.insert("specversion".to_owned(), "1.0".to_owned());
    for not_theirs in ["data", "datacontenttype"] {
        attributes.remove(not_theirs);
    }
    attributes
}

fn header_attributes(message: &Message) -> impl Iterator<Item = (String, String)> {
    message.headers.iter().filter_map(|(name, value)| {
        let name = name.to_ascii_lowercase();
        let attribute = name.strip_prefix("ce-")?;
        let is_name = !attribute.is_empty()
            && attribute
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        let text = scalar(value).filter(|text| !text.is_empty())?;
        is_name.then(|| (attribute.to_owned(), text))
    })
}

/// The event as one JSON document.
pub(crate) fn document(delivery: &Delivery, defaults: &EventDefaults) -> Vec<u8> {
    #[derive(Serialize)]
    struct Document<'a> {
        #[serde(flatten)]
        attributes: Map<String, Value>,
        datacontenttype: &'a str,
        data: &'a Payload,
    }
    let attributes = attributes(delivery, defaults)
        .into_iter()
        .map(|(name, value)| (name, Value::String(value)));
    let document = Document {
        attributes: attributes.collect(),
        datacontenttype: "application/json",
        data: &delivery.message.payload,
    };
    serde_json::to_vec(&document).expect("invariant: JSON values serialise")
}

/// A header's value as text, if it is a single one.
pub(crate) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
