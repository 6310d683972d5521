//! Messages on their way, and sinks made as a configuration file would make them.

use std::{sync::Arc, time::Duration};

use consign_kernel::{Fence, Message, MessageId, Payload};
use consign_sinks::{SinkConfig, SinkError};
use consign_worker::{Delivery, Sink};
use serde_json::{Map, json};

/// Long enough for a slow machine: whatever needs as long has failed.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// A document that floating point would alter.
pub(crate) const EXACT: &str = r#"{"d":0.12345678901234567890,"n":12345678901234567890123}"#;

/// A delivery of [`EXACT`].
pub(crate) fn exact(change: impl FnOnce(&mut Message)) -> Delivery {
    delivery_of(Payload::parse(EXACT).unwrap(), change)
}

/// A delivery of `payload` that may be changed by `change` first.
pub(crate) fn delivery_of(
    payload: impl Into<Payload>,
    change: impl FnOnce(&mut Message),
) -> Delivery {
    let mut message = Message {
        id: MessageId(7),
        queue: "orders".parse().unwrap(),
        key: Some("order-7".into()),
        group: None,
        payload: payload.into(),
        headers: Map::new(),
        created_at: "2026-11-16T00:00:00Z".parse().unwrap(),
        expires_at: None,
    };
    change(&mut message);
    Delivery {
        message: Arc::new(message),
        attempt_no: 3,
        in_doubt: false,
        fence: Fence(41),
        timeout: DEADLINE,
    }
}

/// A delivery with default values.
pub(crate) fn delivery() -> Delivery {
    delivery_of(json!({"amount": 12.5, "name": "Grüße"}), |_| ())
}

/// The same, with less time.
pub(crate) fn delivery_within(timeout: Duration) -> Delivery {
    Delivery {
        timeout,
        ..delivery()
    }
}

/// The configuration in `text`, as TOML.
pub(crate) fn config(text: &str) -> Result<SinkConfig, String> {
    toml::from_str(text).map_err(|error| error.to_string())
}

/// The sink that `text` describes.
pub(crate) async fn sink(text: &str) -> Arc<dyn Sink> {
    try_sink(text).await.unwrap()
}

/// The sink that `text` describes, or why there is none.
pub(crate) async fn try_sink(text: &str) -> Result<Arc<dyn Sink>, SinkError> {
    let queue = "orders".parse().unwrap();
    config(text).unwrap().build(&queue).await
}

/// An http sink to a server of the tests, which is on loopback and so must be allowed.
pub(crate) async fn http_sink(url: &str, more: &str) -> Arc<dyn Sink> {
    sink(&format!(
        "kind = \"http\"\nurl = \"{url}\"\nallow = [\"127.0.0.1\"]\n{more}\n"
    ))
    .await
}
