//! Broker over HTTP: the order as JSON, its key in a header, an ExecResult as the answer.
//!
//! The body is canonical JSON and the same for every attempt. The adapter records whether the body
//! was sent, so that an unreachable broker differs from one that did not answer.

mod answer;
mod failure;
mod sign;

use std::time::Duration;

use async_trait::async_trait;
use consign_kernel::{Error, Result};
use consign_outbound::{UrlTemplate, bearer, build, http_url, send, sensitive};
use consign_worker::{printable, url_component};
use jiff::Timestamp;
use reqwest::{
    Client, Method, Request, Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use self::sign::Signer;
use super::{Broker, BrokerFailure, BrokerLookup, OutgoingOrder};
use crate::{ExecResult, Order, OrdersOptions, canonical::canonical, json};

/// Time limit of a status query; callers set their own limit too.
const STATUS_MAX: Duration = Duration::from_secs(60);
/// Message headers that are forwarded.
const TRACE_HEADERS: [&str; 2] = ["traceparent", "tracestate"];

/// The `http` adapter.
#[derive(Debug)]
pub struct Http {
    url: Url,
    status_url: Option<UrlTemplate>,
    /// Headers of every request.
    fixed: HeaderMap,
    key_header: HeaderName,
    signer: Option<Signer>,
    takes_keys: bool,
    client: Client,
}

impl Http {
    /// An adapter with these settings.
    ///
    /// Only the operator sets the broker's address, so internal addresses are allowed.
    pub fn new(options: &OrdersOptions) -> Result<Self> {
        let url = http_url(options.broker_url().unwrap_or_default());
        let url = url.map_err(|why| refuse("broker_url", why.into()))?;
        let key_header = options.broker_idem_header.parse();
        let key_header: HeaderName = key_header
            .map_err(|_| refuse("broker_idem_header", "is not the name of a header".into()))?;
        let secret = options.broker_api_secret.as_ref();
        let secret = secret.filter(|secret| !secret.is_empty());
        Ok(Self {
            status_url: status_url(options, &url)?,
            url,
            fixed: fixed_headers(options)?,
            key_header,
            signer: secret.map(|secret| Signer::new(secret.reveal())),
            takes_keys: options.broker_takes_keys,
            client: client(options)?,
        })
    }

    fn headers(&self, method: &Method, url: &Url, body: &str) -> HeaderMap {
        let mut headers = self.fixed.clone();
        if let Some(signer) = &self.signer {
            let nonce = Uuid::new_v4().to_string();
            let at = (Timestamp::now().as_millisecond(), nonce.as_str());
            signer.sign(method.as_str(), url, body, at, &mut headers);
        }
        headers
    }

    fn request(&self, outgoing: &OutgoingOrder<'_>) -> (Request, Vec<u8>) {
        let text = body_of(outgoing.order);
        let mut headers = self.headers(&Method::POST, &self.url, &text);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let key = sensitive(&printable(outgoing.key, &[])).expect("invariant: printable ASCII");
        headers.insert(self.key_header.clone(), key);
        for name in TRACE_HEADERS {
            let text = outgoing.headers.get(name).and_then(|value| value.as_str());
            if let Some(value) = text.and_then(|text| HeaderValue::from_str(text).ok()) {
                headers.insert(name, value);
            }
        }
        let mut request = Request::new(Method::POST, self.url.clone());
        *request.headers_mut() = headers;
        (request, text.into_bytes())
    }
}

/// The same for every attempt; signatures cover it.
fn body_of(order: &Order) -> String {
    let text = order.to_json();
    let document = json::parse(text.as_bytes()).expect("invariant: an order is plain JSON");
    canonical(&document.root)
}

fn fixed_headers(options: &OrdersOptions) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    if let Some(key) = &options.broker_api_key
        && !key.is_empty()
    {
        let refuse = |_| {
            refuse(
                "broker_api_key",
                "holds a character that a header cannot carry".into(),
            )
        };
        headers.insert(AUTHORIZATION, bearer(key).map_err(refuse)?);
    }
    Ok(headers)
}

fn client(options: &OrdersOptions) -> Result<Client> {
    let builder = consign_outbound::client(options.broker_ca_file.as_deref())
        .map_err(|error| refuse("broker_ca_file", error.to_string()))?;
    build(builder).map_err(|why| refuse("broker_url", why))
}

fn refuse(option: &str, why: String) -> Error {
    Error::invalid(format!("orders.{option}"), why)
}

/// The URL of status queries. An order's key must not change the host.
fn status_url(options: &OrdersOptions, url: &Url) -> Result<Option<UrlTemplate>> {
    let Some(template) = options.broker_status_url() else {
        return Ok(None);
    };
    let refuse = |why: String| refuse("broker_status_url", why);
    let template = UrlTemplate::parse(template, &["key"]).map_err(refuse)?;
    let example = template.example("a").map_err(|why| refuse(why.into()))?;
    // Requests carry our credentials.
    if example.origin() != url.origin() {
        return Err(refuse("must lead to the same host as broker_url".into()));
    }
    Ok(Some(template))
}

#[async_trait]
impl Broker for Http {
    fn name(&self) -> &'static str {
        "http"
    }

    fn takes_keys(&self) -> bool {
        self.takes_keys
    }

    fn has_status_query(&self) -> bool {
        self.status_url.is_some()
    }

    async fn send(
        &self,
        outgoing: &OutgoingOrder<'_>,
    ) -> std::result::Result<ExecResult, BrokerFailure> {
        let ends = Instant::now() + outgoing.timeout;
        let (request, body) = self.request(outgoing);
        let response = send(&self.client, request, Some(body), ends).await;
        let response = response.map_err(|error| failure::unanswered(&error, outgoing.timeout))?;
        let answer = answer::read(response, ends).await?;
        if answer.is_repeat() && self.has_status_query() {
            // The broker has the order already but did not return its result.
            let queried = timeout_at(ends, self.status(outgoing.key)).await;
            if let Ok(BrokerLookup::Executed(result)) = queried {
                return Ok(*result);
            }
        }
        answer.result(self.takes_keys)
    }

    /// 200: the result. 404: the broker has no order with this key. Any other status: unknown.
    async fn status(&self, key: &str) -> BrokerLookup {
        let Some(template) = &self.status_url else {
            return BrokerLookup::Unknown("broker_status_url is not set".into());
        };
        let Ok(url) = template.fill(&[&url_component(key)]) else {
            return BrokerLookup::Unknown(
                "broker_status_url is not a valid URL with this key".into(),
            );
        };
        let mut request = Request::new(Method::GET, url.clone());
        *request.headers_mut() = self.headers(&Method::GET, &url, "");
        let ends = Instant::now() + STATUS_MAX;
        match send(&self.client, request, None, ends).await {
            Ok(response) => answer::status_result(response, ends).await,
            Err(error) => BrokerLookup::Unknown(format!("the status query failed: {error}")),
        }
    }
}
