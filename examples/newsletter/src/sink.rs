//! What a welcome is delivered to. A real one would hand it to a mail server; this one logs it.

use async_trait::async_trait;
use consign_kernel::Outcome;
use consign_worker::{About, Delivery, Sink, Verdict};
use serde::Deserialize;

use crate::Address;

/// Sends welcomes.
#[derive(Debug)]
pub struct WelcomeSink {
    sender: String,
}

/// The payload of a welcome.
#[derive(Deserialize)]
struct Welcome {
    address: Address,
}

impl WelcomeSink {
    /// With this sender.
    pub fn new(sender: impl Into<String>) -> Self {
        let sender = sender.into();
        Self { sender }
    }
}

#[async_trait]
impl Sink for WelcomeSink {
    fn kind(&self) -> &'static str {
        "newsletter"
    }

    fn destination(&self) -> &str {
        &self.sender
    }

    /// The outcome decides what the engine does next; the hook follows it.
    async fn deliver(&self, delivery: &Delivery) -> Verdict {
        let dead =
            |code, detail: String| Verdict::failed(Outcome::Dead, About::Message, code, detail);
        let welcome: Welcome = match serde_json::from_str(delivery.message.payload.as_str()) {
            Ok(welcome) => welcome,
            Err(error) => return dead("invalid_payload", error.to_string()),
        };
        // RFC 2606 reserves this domain: no mail server ever has it.
        if welcome.address.domain().ends_with(".invalid") {
            return dead("no_such_domain", "the domain does not exist".to_owned());
        }
        tracing::info!(
            message = delivery.message.id.0,
            sender = self.sender,
            "welcome sent"
        );
        Verdict::delivered()
    }
}
