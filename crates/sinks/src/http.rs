//! The http sink: webhooks, with the care they need.

mod client;
mod config;
mod failure;
mod headers;
mod outcome;
mod probe;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use consign_kernel::{Outcome, QueueName};
use consign_outbound::{Exceptions, ReadLimit, Signer, http_url, read_body, send};
use consign_worker::{About, Delivery, Probe, Sink, Verdict};
use jiff::Timestamp;
use reqwest::{
    Client, Method, Request, Response, Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderValue},
};
use serde_json::{Value, json};
use tokio::time::Instant;

use self::{headers::ForwardedHeaders, outcome::Outcomes, probe::Prober};
use crate::{
    SinkError,
    cloudevents::{self, EventDefaults, EventMode},
    config::Kind,
    limit::own_limit,
};

pub use self::config::{HttpConfig, HttpMethod};

/// A body this short is read to its end, so that the connection can be used again.
const READ_BYTES_MAX: usize = 64 * 1024;
/// As much of it is kept, if any.
const KEPT_BYTES_MAX: usize = 4 * 1024;
/// The outcome is known by then; the rest is worth little time.
const PATIENCE: Duration = Duration::from_secs(1);

impl Kind for HttpConfig {
    const SECRETS: &'static [&'static str] = &[
        "url",
        "bearer_token",
        "signing_secret",
        "proxy",
        "probe_url",
    ];

    async fn build(&self, queue: &QueueName) -> Result<Arc<dyn Sink>, SinkError> {
        let allowed = Exceptions::parse(&self.allow);
        let allowed = allowed.map_err(|why| SinkError::invalid("allow", why))?;
        let url = http_url(self.url.read("url")?.reveal());
        let url = url.map_err(|why| SinkError::invalid("url", why))?;
        config::check_https("url", &url, self.https_only)?;
        let checked = allowed.check_literal(&url);
        checked.map_err(|why| SinkError::invalid("url", why))?;
        let signer = self.signing_secret.as_ref().map(|secret| {
            let secrets = secret.read("signing_secret")?;
            Signer::parse(secrets.reveal()).map_err(|why| SinkError::invalid("signing_secret", why))
        });
        let source = self.event_source.clone();
        let event_type = self.event_type.clone();
        let event = EventDefaults {
            source: source.unwrap_or_else(|| format!("/consign/{queue}")),
            event_type: event_type.unwrap_or_else(|| format!("consign.{queue}")),
        };
        Ok(Arc::new(Http {
            destination: config::destination(&self.url, &url),
            url,
            method: self.method.into(),
            fixed: headers::fixed(self)?,
            forwarded: ForwardedHeaders::parse(self)?,
            signer: signer.transpose()?,
            event: self.cloudevents.map(|mode| (mode, event)),
            outcomes: Outcomes::new(self)?,
            keep_response: self.keep_response,
            prober: Prober::new(self, &allowed)?,
            client: client::build(self, allowed)?,
        }))
    }
}

/// One queue's http sink. Everything that can be checked or computed once has been.
struct Http {
    destination: String,
    url: Url,
    method: Method,
    /// The configuration's headers.
    fixed: HeaderMap,
    forwarded: ForwardedHeaders,
    signer: Option<Signer>,
    event: Option<(EventMode, EventDefaults)>,
    outcomes: Outcomes,
    keep_response: bool,
    prober: Option<Prober>,
    client: Client,
}

impl fmt::Debug for Http {
    /// The address itself may hold secrets, and the rest is of little use.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http")
            .field("destination", &self.destination)
            .field("method", &self.method)
            .finish_non_exhaustive()
    }
}

impl Http {
    /// The request of a delivery and its body, or why there can be none.
    fn request(&self, delivery: &Delivery) -> Result<(Request, Vec<u8>), String> {
        let mut headers = self.fixed.clone();
        self.forwarded.add(&delivery.message, &mut headers)?;
        let body = match &self.event {
            Some((EventMode::Structured, event)) => {
                let media_type = HeaderValue::from_static("application/cloudevents+json");
                headers.insert(CONTENT_TYPE, media_type);
                cloudevents::document(delivery, event)
            }
            other => {
                if let Some((_, event)) = other {
                    headers::describe(delivery, event, &mut headers);
                }
                // Once, here: what is signed is what is sent, byte for byte.
                delivery.message.payload.as_str().into()
            }
        };
        headers::identify(delivery, &mut headers);
        if let Some(signer) = &self.signer {
            let id = headers::webhook_id(delivery);
            headers.extend(signer.headers(&id, Timestamp::now().as_second(), &body));
        }
        let mut request = Request::new(self.method.clone(), self.url.clone());
        *request.headers_mut() = headers;
        Ok((request, body))
    }
}

#[async_trait]
impl Sink for Http {
    fn kind(&self) -> &'static str {
        "http"
    }

    fn destination(&self) -> &str {
        &self.destination
    }

    async fn deliver(&self, delivery: &Delivery) -> Verdict {
        let (request, body) = match self.request(delivery) {
            Ok(request) => request,
            Err(why) => {
                return Verdict::failed(Outcome::Dead, About::Message, "header_invalid", why);
            }
        };
        let limit = own_limit(delivery.timeout);
        let ends = Instant::now() + limit;
        let response = match send(&self.client, request, Some(body), ends).await {
            Ok(response) => response,
            Err(error) => return failure::unanswered(&error, limit),
        };
        let verdict = self.outcomes.verdict(response.status(), response.headers());
        let answer = read_answer(response, ends).await;
        if self.keep_response {
            verdict.with_result(answer)
        } else {
            verdict
        }
    }

    async fn probe(&self, delivery: &Delivery) -> Probe {
        let Some(prober) = &self.prober else {
            return Probe::CannotTell("the sink has no `probe_url`".into());
        };
        let ends = Instant::now() + own_limit(delivery.timeout);
        prober
            .probe(&self.client, &self.fixed, delivery, ends)
            .await
    }
}

/// Reads what there is to read before `ends` and answers what is worth keeping.
///
/// Whatever fails here, the status has been received and decides the verdict.
async fn read_answer(response: Response, ends: Instant) -> Value {
    let status = response.status().as_u16();
    let ends = ends.min(Instant::now() + PATIENCE);
    let read = read_body(response, READ_BYTES_MAX, ReadLimit::Until(ends)).await;
    let is_complete = read.error.is_none() && read.bytes.len() <= KEPT_BYTES_MAX;
    let kept = &read.bytes[..read.bytes.len().min(KEPT_BYTES_MAX)];
    let text = || Value::String(String::from_utf8_lossy(kept).into_owned());
    if !is_complete {
        return json!({ "status": status, "body": text(), "cut": true });
    }
    let body = serde_json::from_slice(kept).unwrap_or_else(|_| text());
    json!({ "status": status, "body": body })
}
