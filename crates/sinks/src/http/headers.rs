//! The headers of a request: ours, the configuration's, the message's.

use consign_kernel::Message;
use consign_worker::{Delivery, printable};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use super::HttpConfig;
use crate::{
    SinkError,
    cloudevents::{self, EventDefaults, scalar},
};

/// Headers that belong to the connection or to us. A trailing dash matches any suffix.
const RESERVED: &[&str] = &[
    "ce-",
    "connection",
    "consign-",
    "content-length",
    "expect",
    "host",
    "idempotency-key",
    "keep-alive",
    "proxy-",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "webhook-",
];

/// Headers a message may not bring, though the configuration may.
const RESERVED_FROM_MESSAGES: &[&str] = &[
    "authorization",
    "content-encoding",
    "content-type",
    "cookie",
    "user-agent",
];

fn is_reserved(name: &str, reserved: &[&str]) -> bool {
    reserved
        .iter()
        .any(|reserved| match reserved.strip_suffix('-') {
            Some(_) => name.starts_with(reserved),
            None => name == *reserved,
        })
}

/// The headers every request of a sink has.
pub(super) fn fixed(config: &HttpConfig) -> Result<HeaderMap, SinkError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, secret) in &config.headers {
        let option = format!("headers.{name}");
        let refuse = |why: &str| SinkError::invalid(&option, why);
        let name: HeaderName = name.parse().map_err(|_| refuse("is not a header's name"))?;
        if is_reserved(name.as_str(), RESERVED) {
            return Err(refuse("is set by consign or belongs to the connection"));
        }
        headers.insert(name, sensitive(&option, secret.read(&option)?.reveal())?);
    }
    if let Some(token) = &config.bearer_token {
        let token = format!("Bearer {}", token.read("bearer_token")?.reveal());
        if headers
            .insert(AUTHORIZATION, sensitive("bearer_token", &token)?)
            .is_some()
        {
            let why = "and a header `authorization` exclude each other";
            return Err(SinkError::invalid("bearer_token", why));
        }
    }
    Ok(headers)
}

fn sensitive(option: &str, text: &str) -> Result<HeaderValue, SinkError> {
    let refuse = |_| SinkError::invalid(option, "holds characters that a header does not allow");
    consign_outbound::sensitive(text).map_err(refuse)
}

/// Which headers of messages become headers of requests.
#[derive(Debug)]
pub(super) struct ForwardedHeaders {
    names: Vec<String>,
    prefixes: Vec<String>,
}

impl ForwardedHeaders {
    pub(super) fn parse(config: &HttpConfig) -> Result<Self, SinkError> {
        let (mut names, mut prefixes) = (Vec::new(), Vec::new());
        for entry in &config.forward_headers {
            let lower = entry.to_ascii_lowercase();
            let refuse = |why: &str| {
                Err(SinkError::invalid(
                    "forward_headers",
                    format!("names {entry:?}, which {why}"),
                ))
            };
            match lower.strip_suffix('*') {
                Some(prefix) if prefix.is_empty() || prefix.parse::<HeaderName>().is_ok() => {
                    prefixes.push(prefix.to_owned());
                }
                None if is_ours(&lower) => {
                    return refuse("is set by consign or the connection, not by messages");
                }
                None if lower.parse::<HeaderName>().is_ok() => names.push(lower),
                _ => return refuse("is not a header's name, nor the start of one and a *"),
            }
        }
        Ok(Self { names, prefixes })
    }

    fn includes(&self, name: &str) -> bool {
        let listed = self.names.iter().any(|listed| listed == name)
            || self.prefixes.iter().any(|prefix| name.starts_with(prefix));
        listed && !is_ours(name)
    }

    /// Adds a message's headers that are listed; configured headers win.
    ///
    /// A value that cannot be a header's is an error, which names the header and not the value.
    pub(super) fn add(&self, message: &Message, headers: &mut HeaderMap) -> Result<(), String> {
        if self.names.is_empty() && self.prefixes.is_empty() {
            return Ok(());
        }
        for (name, value) in &message.headers {
            let lower = name.to_ascii_lowercase();
            if !self.includes(&lower) {
                continue;
            }
            let Ok(header) = lower.parse::<HeaderName>() else {
                return Err(format!(
                    "the message's header {name:?} is not a valid HTTP header name"
                ));
            };
            let text = scalar(value).unwrap_or_else(|| value.to_string());
            let Ok(value) = HeaderValue::from_bytes(text.as_bytes()) else {
                return Err(format!(
                    "the message's header {name:?} holds characters that HTTP does not allow"
                ));
            };
            headers.entry(header).or_insert(value);
        }
        Ok(())
    }
}

fn is_ours(name: &str) -> bool {
    is_reserved(name, RESERVED) || is_reserved(name, RESERVED_FROM_MESSAGES)
}

/// What receivers recognise repeats by, in the form of `webhook-id`: a dot would look like a
/// separator of what is signed.
pub(super) fn webhook_id(delivery: &Delivery) -> String {
    printable(&delivery.idempotency_key(), &['.'])
}

/// The same key in the form of `Idempotency-Key`: a quoted string of structured fields.
pub(super) fn idempotency_key(delivery: &Delivery) -> String {
    printable(&delivery.idempotency_key(), &['\\'])
}

/// Adds what identifies a delivery.
pub(super) fn identify(delivery: &Delivery, headers: &mut HeaderMap) {
    let message = &*delivery.message;
    let quoted = format!("\"{}\"", idempotency_key(delivery));
    set(headers, "idempotency-key", &quoted);
    set(headers, "consign-message-id", &message.id.to_string());
    set(headers, "consign-attempt", &delivery.attempt_no.to_string());
    set(headers, "consign-fence", &delivery.fence.to_string());
    for name in ["traceparent", "tracestate"] {
        let correlation = message
            .headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name));
        let text = correlation.and_then(|(_, value)| value.as_str());
        // A trace that cannot be carried is no reason not to deliver.
        if let Some(Ok(value)) = text.map(HeaderValue::from_str) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}

/// Adds the attributes of the event a delivery carries.
pub(super) fn describe(delivery: &Delivery, event: &EventDefaults, headers: &mut HeaderMap) {
    for (name, value) in cloudevents::attributes(delivery, event) {
        let name: HeaderName = format!("ce-{name}")
            .parse()
            .expect("invariant: attributes are named by letters and digits");
        let value = HeaderValue::from_str(&printable(&value, &[]));
        headers.insert(
            name,
            value.expect("invariant: printable text is a header's value"),
        );
    }
}

fn set(headers: &mut HeaderMap, name: &'static str, text: &str) {
    let value = HeaderValue::from_str(text).expect("invariant: printable text is a header's value");
    headers.insert(HeaderName::from_static(name), value);
}
