//! Probing the receiver whether a message has arrived.

use consign_outbound::{Exceptions, UrlTemplate, send};
use consign_worker::{Delivery, Probe, url_component};
use reqwest::{Client, Method, Request, StatusCode, Url, header::HeaderMap};
use tokio::time::Instant;

use super::{HttpConfig, config::check_https, headers, read_answer};
use crate::SinkError;

/// The URL of the probe. `{key}`, `{id}` and `{queue}` are replaced for each message.
#[derive(Debug)]
pub(super) struct Prober {
    template: UrlTemplate,
    keep_response: bool,
}

impl Prober {
    pub(super) fn new(
        config: &HttpConfig,
        allowed: &Exceptions,
    ) -> Result<Option<Self>, SinkError> {
        let Some(secret) = &config.probe_url else {
            return Ok(None);
        };
        let refuse = |why: String| SinkError::invalid("probe_url", why);
        let template = secret.read("probe_url")?;
        let template =
            UrlTemplate::parse(template.reveal(), &["key", "id", "queue"]).map_err(refuse)?;
        let example = template.example("a").map_err(|why| refuse(why.into()))?;
        check_https("probe_url", &example, config.https_only)?;
        let checked = allowed.check_literal(&example);
        checked.map_err(|why| SinkError::invalid("probe_url", why))?;
        Ok(Some(Self {
            template,
            keep_response: config.keep_response,
        }))
    }

    fn url(&self, delivery: &Delivery) -> Result<Url, String> {
        let message = &*delivery.message;
        let key = url_component(&headers::idempotency_key(delivery));
        let id = message.id.to_string();
        let filled = self.template.fill(&[&key, &id, message.queue.as_str()]);
        filled.map_err(|_| "`probe_url` is not a URL for this message".to_owned())
    }

    /// 200 or 204: it has arrived. 404: it has not. Anything else: unknown.
    pub(super) async fn probe(
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
        let mut request = Request::new(Method::GET, url);
        *request.headers_mut() = fixed.clone();
        let response = match send(client, request, None, ends).await {
            Ok(response) => response,
            Err(error) => return Probe::CannotTell(format!("the probe failed: {error}")),
        };
        let status = response.status();
        let body = read_answer(response, ends).await;
        match status {
            StatusCode::OK | StatusCode::NO_CONTENT => {
                Probe::Delivered(self.keep_response.then_some(body))
            }
            StatusCode::NOT_FOUND => Probe::NotDelivered,
            _ => Probe::CannotTell(format!("the probe was answered {}", status.as_u16())),
        }
    }
}
