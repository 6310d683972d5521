//! Asking the far side whether a message has arrived.

use consign_outbound::Allowed;
use consign_worker::{Delivery, Probe};
use reqwest::{Client, StatusCode, Url, header::HeaderMap};
use tokio::time::{Instant, timeout_at};

use super::{HttpConfig, answer, config::parse_url, headers};
use crate::{SinkError, text::url_component};

/// Where to ask. The places for `{key}`, `{id}` and `{queue}` are filled for each message.
pub(super) struct Prober {
    template: String,
    keep_response: bool,
}

impl std::fmt::Debug for Prober {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Prober")
    }
}

impl Prober {
    pub(super) fn new(config: &HttpConfig, allowed: &Allowed) -> Result<Option<Self>, SinkError> {
        let Some(secret) = &config.probe_url else {
            return Ok(None);
        };
        let prober = Self {
            template: secret.reveal("probe_url")?,
            keep_response: config.keep_response,
        };
        let example = parse_url("probe_url", &prober.fill("a", "b", "c"), config.https_only)?;
        let other = parse_url("probe_url", &prober.fill("x", "y", "z"), config.https_only)?;
        if example.origin() != other.origin() {
            let why = "must not let a message choose the host";
            return Err(SinkError::invalid("probe_url", why));
        }
        if example == other {
            let why = "must hold {key} or {id}, or every message has the same answer";
            return Err(SinkError::invalid("probe_url", why));
        }
        let checked = allowed.check_literal(&example);
        checked.map_err(|why| SinkError::invalid("probe_url", why))?;
        Ok(Some(prober))
    }

    fn fill(&self, key: &str, id: &str, queue: &str) -> String {
        // In one pass: a key may itself look like a place to fill.
        let mut filled = String::new();
        let mut rest = self.template.as_str();
        while let Some(start) = rest.find('{') {
            filled.push_str(&rest[..start]);
            let (text, length) = match &rest[start..] {
                place if place.starts_with("{key}") => (key, "{key}".len()),
                place if place.starts_with("{id}") => (id, "{id}".len()),
                place if place.starts_with("{queue}") => (queue, "{queue}".len()),
                _ => ("%7B", 1),
            };
            filled.push_str(text);
            rest = &rest[start + length..];
        }
        filled.push_str(rest);
        filled
    }

    fn url(&self, delivery: &Delivery) -> Result<Url, String> {
        let message = &*delivery.message;
        let key = url_component(&headers::idempotency_key(delivery));
        let filled = self.fill(&key, &message.id.to_string(), message.queue.as_str());
        filled
            .parse()
            .map_err(|_| "`probe_url` is not a URL for this message".to_owned())
    }

    /// 200 or 204: it has arrived. 404: it has not. Anything else says nothing.
    pub(super) async fn ask(
        &self,
        client: &Client,
        fixed: &HeaderMap,
        delivery: &Delivery,
        ends: Instant,
    ) -> Probe {
        let url = match self.url(delivery) {
            Ok(url) => url,
            Err(why) => return Probe::CannotTell(why),
        };
        let request = client.get(url).headers(fixed.clone());
        let response = match timeout_at(ends, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                let why = format!("the probe failed: {}", error.without_url());
                return Probe::CannotTell(why);
            }
            Err(_) => return Probe::CannotTell("the probe was not answered in time".into()),
        };
        let status = response.status();
        let body = answer::read(response, ends).await;
        match status {
            StatusCode::OK | StatusCode::NO_CONTENT => {
                Probe::Delivered(self.keep_response.then_some(body))
            }
            StatusCode::NOT_FOUND => Probe::NotDelivered,
            _ => Probe::CannotTell(format!("the probe was answered {}", status.as_u16())),
        }
    }
}
