//! A message with what travels beside it, for brokers whose messages have headers.

use consign_kernel::{Message, QueueName};
use consign_worker::{Delivery, printable};

use crate::{
    SinkError,
    cloudevents::{self, EventDefaults, EventMode, scalar},
};

/// Headers that are ours or the broker's. A trailing dash matches any suffix.
const RESERVED: &[&str] = &[
    "ce-",
    "consign-",
    "idempotency-key",
    "nats-",
    "traceparent",
    "tracestate",
];

/// How messages are put into envelopes.
#[derive(Debug)]
pub(crate) struct Envelope {
    event: Option<(EventMode, EventDefaults)>,
    forwarded: Vec<String>,
}

/// A message ready to be published.
#[derive(Debug, PartialEq)]
pub(crate) struct EnclosedMessage {
    pub(crate) body: Vec<u8>,
    pub(crate) content_type: &'static str,
    /// Names are printable ASCII without a colon; values hold no control characters.
    pub(crate) headers: Vec<(String, String)>,
}

impl Envelope {
    pub(crate) fn new(
        queue: &QueueName,
        mode: Option<EventMode>,
        source: Option<&str>,
        event_type: Option<&str>,
        forward_headers: &[String],
    ) -> Result<Self, SinkError> {
        let defaults = EventDefaults {
            source: source.map_or_else(|| format!("/consign/{queue}"), str::to_owned),
            event_type: event_type.map_or_else(|| format!("consign.{queue}"), str::to_owned),
        };
        let mut forwarded = Vec::new();
        for entry in forward_headers {
            let lower = entry.to_ascii_lowercase();
            let name = lower.strip_suffix('*').unwrap_or(&lower);
            if is_reserved(&lower) || !(name.is_empty() || is_name(name)) || lower.is_empty() {
                return Err(SinkError::invalid(
                    "forward_headers",
                    format!("names {entry:?}, which is reserved or not a header name"),
                ));
            }
            forwarded.push(lower);
        }
        Ok(Self {
            event: mode.map(|mode| (mode, defaults)),
            forwarded,
        })
    }

    /// Puts a message into its envelope; the error names the header that does not fit.
    pub(crate) fn enclose(&self, delivery: &Delivery) -> Result<EnclosedMessage, String> {
        let mut headers = identity(delivery);
        self.forward(&delivery.message, &mut headers)?;
        let plain = || delivery.message.payload.as_str().into();
        let (content_type, body) = match &self.event {
            None => ("application/json", plain()),
            Some((EventMode::Structured, defaults)) => (
                "application/cloudevents+json",
                cloudevents::document(delivery, defaults),
            ),
            Some((EventMode::Binary, defaults)) => {
                for (name, value) in cloudevents::attributes(delivery, defaults) {
                    headers.push((format!("ce-{name}"), printable(&value, &[])));
                }
                ("application/json", plain())
            }
        };
        Ok(EnclosedMessage {
            body,
            content_type,
            headers,
        })
    }

    fn forward(
        &self,
        message: &Message,
        headers: &mut Vec<(String, String)>,
    ) -> Result<(), String> {
        for (name, value) in &message.headers {
            let lower = name.to_ascii_lowercase();
            let listed = self
                .forwarded
                .iter()
                .any(|entry| match entry.strip_suffix('*') {
                    Some(prefix) => lower.starts_with(prefix),
                    None => lower == *entry,
                });
            if !listed || is_reserved(&lower) {
                continue;
            }
            let text = scalar(value).unwrap_or_else(|| value.to_string());
            if !is_name(name) || text.chars().any(char::is_control) {
                return Err(format!("the message's header {name:?} cannot be a header"));
            }
            headers.push((name.clone(), text));
        }
        Ok(())
    }
}

/// What receivers recognise repeats by: the same for every attempt, and printable.
pub(crate) fn idempotency_key(delivery: &Delivery) -> String {
    printable(&delivery.idempotency_key(), &[])
}

fn identity(delivery: &Delivery) -> Vec<(String, String)> {
    let message = &*delivery.message;
    let mut headers = vec![
        ("Consign-Message-Id".to_owned(), message.id.to_string()),
        (
            "Consign-Attempt".to_owned(),
            delivery.attempt_no.to_string(),
        ),
        ("Consign-Fence".to_owned(), delivery.fence.to_string()),
    ];
    for name in ["traceparent", "tracestate"] {
        let correlation = message
            .headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name));
        // A trace that cannot be carried is no reason not to deliver.
        let text = correlation.and_then(|(_, value)| value.as_str());
        if let Some(text) = text.filter(|text| !text.chars().any(char::is_control)) {
            headers.push((name.to_owned(), text.to_owned()));
        }
    }
    headers
}

fn is_reserved(name: &str) -> bool {
    RESERVED.iter().any(|reserved| {
        if reserved.ends_with('-') {
            name.starts_with(reserved)
        } else {
            name == *reserved
        }
    })
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 128 && name.bytes().all(|b| b.is_ascii_graphic() && b != b':')
}
