//! The http sink: webhooks, with the care they need.

mod answer;
mod client;
mod config;
mod failure;
mod headers;
mod outcome;
mod probe;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use consign_kernel::{Outcome, QueueName};
use consign_outbound::{Allowed, Begun, Signer, WatchedBody};
use consign_worker::{About, Delivery, Probe, Sink, Verdict};
use jiff::Timestamp;
use reqwest::{
    Body, Client, Method, Request, Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderValue},
};
use tokio::time::{Instant, timeout_at};

use self::{headers::Forwarded, outcome::Outcomes, probe::Prober};
use crate::{
    Secret, SinkError,
    cloudevents::{self, EventDefaults, EventMode},
    config::Kind,
    limit::own_limit,
};

pub use self::config::{HttpConfig, HttpMethod};

impl Kind for HttpConfig {
    const SECRETS: &'static [&'static str] = &[
        "url",
        "bearer_token",
        "signing_secret",
        "proxy",
        "probe_url",
    ];

    async fn build(&self, queue: &QueueName) -> Result<Arc<dyn Sink>, SinkError> {
        let allowed = Allowed::parse(&self.allow);
        let allowed = allowed.map_err(|why| SinkError::invalid("allow", why))?;
        let url = config::parse_url("url", &self.url.reveal("url")?, self.https_only)?;
        let checked = allowed.check_literal(&url);
        checked.map_err(|why| SinkError::invalid("url", why))?;
        let signer = self.signing_secret.as_ref().map(|secret| {
            let secrets = secret.reveal("signing_secret")?;
            Signer::parse(&secrets).map_err(|why| SinkError::invalid("signing_secret", why))
        });
        let source = self.event_source.clone();
        let event_type = self.event_type.clone();
        let event = EventDefaults {
            source: source.unwrap_or_else(|| format!("/consign/{queue}")),
            event_type: event_type.unwrap_or_else(|| format!("consign.{queue}")),
        };
        Ok(Arc::new(Http {
            destination: config::without_secrets(&url, matches!(self.url, Secret::Value(_))),
            url,
            method: self.method.into(),
            fixed: headers::fixed(self)?,
            forwarded: Forwarded::parse(self)?,
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
    forwarded: Forwarded,
    signer: Option<Signer>,
    event: Option<(EventMode, EventDefaults)>,
    outcomes: Outcomes,
    keep_response: bool,
    prober: Option<Prober>,
    client: Client,
}

impl fmt::Debug for Http {
    /// The address itself may hold secrets, and the rest says little.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http")
            .field("destination", &self.destination)
            .field("method", &self.method)
            .finish_non_exhaustive()
    }
}

impl Http {
    /// The request of a delivery, and what tells whether it has left; or why there can be none.
    fn request(&self, delivery: &Delivery) -> Result<(Request, Begun), String> {
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
            let timestamp = Timestamp::now().as_second();
            let signature = signer.sign(&id, timestamp, &body);
            headers::sign(&id, timestamp, &signature, &mut headers);
        }
        let (body, begun) = WatchedBody::new(body);
        let mut request = Request::new(self.method.clone(), self.url.clone());
        *request.headers_mut() = headers;
        *request.body_mut() = Some(Body::wrap(body));
        Ok((request, begun))
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
        let (request, begun) = match self.request(delivery) {
            Ok(request) => request,
            Err(why) => {
                return Verdict::failed(Outcome::Dead, About::Message, "header_invalid", why);
            }
        };
        let limit = own_limit(delivery.timeout);
        let ends = Instant::now() + limit;
        let response = match timeout_at(ends, self.client.execute(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return failure::broken(error, &begun),
            Err(_) => return failure::timed_out(limit, &begun),
        };
        let verdict = self.outcomes.verdict(response.status(), response.headers());
        let answer = answer::read(response, ends).await;
        if self.keep_response {
            verdict.with_result(answer)
        } else {
            verdict
        }
    }

    async fn probe(&self, delivery: &Delivery) -> Probe {
        let Some(prober) = &self.prober else {
            return Probe::CannotTell("the sink has no `probe_url` to ask".into());
        };
        let ends = Instant::now() + own_limit(delivery.timeout);
        prober.ask(&self.client, &self.fixed, delivery, ends).await
    }
}
