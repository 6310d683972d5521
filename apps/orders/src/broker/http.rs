//! A broker over HTTP: the order as JSON, its key in a header, an ExecResult as the answer.
//!
//! The body is canonical JSON and the same for every attempt. An adapter that knows whether the
//! order left can tell a broker that was not there from one that did not answer.

mod answer;
mod client;
mod failure;
mod headers;
mod sign;

use async_trait::async_trait;
use consign_kernel::Result;
use consign_outbound::{Begun, WatchedBody, causes};
use jiff::Timestamp;
use reqwest::{
    Body, Client, Method, Request, Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use self::{client::refuse, sign::Signer};
use super::{Asked, Broker, BrokerFailure, Outgoing};
use crate::{ExecResult, Order, OrdersOptions, canonical::canonical, json};

/// The placeholder of an order's key in the address questions go to.
const KEY: &str = "{key}";
/// Headers of messages that travel on.
const TRACE_HEADERS: [&str; 2] = ["traceparent", "tracestate"];

/// The http adapter.
#[derive(Debug)]
pub struct Http {
    url: Url,
    status_url: Option<String>,
    /// Headers of every request.
    fixed: HeaderMap,
    key_header: HeaderName,
    signer: Option<Signer>,
    takes_keys: bool,
    client: Client,
}

impl Http {
    /// An adapter by these settings.
    ///
    /// Where orders go is the operator's word alone, so any address will do, inside or outside.
    pub fn new(options: &OrdersOptions) -> Result<Self> {
        let url = client::url("broker_url", options.broker_url().unwrap_or_default())?;
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
            client: client::build(options)?,
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

    fn request(&self, outgoing: &Outgoing<'_>) -> (Request, Begun) {
        let text = body_of(outgoing.order);
        let mut headers = self.headers(&Method::POST, &self.url, &text);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let mut key = headers::value(outgoing.key);
        // Nor is a key for the eyes of whoever reads a log of requests.
        key.set_sensitive(true);
        headers.insert(self.key_header.clone(), key);
        for name in TRACE_HEADERS {
            let text = outgoing.headers.get(name).and_then(|value| value.as_str());
            if let Some(value) = text.and_then(|text| HeaderValue::from_str(text).ok()) {
                headers.insert(name, value);
            }
        }
        let (body, begun) = WatchedBody::new(text.into_bytes());
        let mut request = Request::new(Method::POST, self.url.clone());
        *request.headers_mut() = headers;
        *request.body_mut() = Some(Body::wrap(body));
        (request, begun)
    }
}

/// Equal for every attempt, and what a signature is made of.
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
        let value = HeaderValue::from_str(&format!("Bearer {}", key.reveal()));
        let mut value =
            value.map_err(|_| refuse("broker_api_key", "cannot stand in a header".into()))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}

/// Where questions go. An order must not choose whom we ask.
fn status_url(options: &OrdersOptions, url: &Url) -> Result<Option<String>> {
    let Some(template) = options.broker_status_url() else {
        return Ok(None);
    };
    if !template.contains(KEY) {
        let why = "must hold {key}, or every order has the same answer";
        return Err(refuse("broker_status_url", why.into()));
    }
    let example = client::url("broker_status_url", &template.replace(KEY, "a"))?;
    let other = client::url("broker_status_url", &template.replace(KEY, "b"))?;
    if example.origin() != other.origin() {
        let why = "must not let an order choose the host";
        return Err(refuse("broker_status_url", why.into()));
    }
    // Our credentials go along.
    if example.origin() != url.origin() {
        let why = "must lead to the same host as broker_url";
        return Err(refuse("broker_status_url", why.into()));
    }
    Ok(Some(template.to_owned()))
}

#[async_trait]
impl Broker for Http {
    fn name(&self) -> &'static str {
        "http"
    }

    fn takes_keys(&self) -> bool {
        self.takes_keys
    }

    fn can_be_asked(&self) -> bool {
        self.status_url.is_some()
    }

    async fn send(
        &self,
        outgoing: &Outgoing<'_>,
    ) -> std::result::Result<ExecResult, BrokerFailure> {
        let ends = Instant::now() + outgoing.timeout;
        let (request, begun) = self.request(outgoing);
        let response = match timeout_at(ends, self.client.execute(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(failure::broken(error, &begun)),
            Err(_) => return Err(failure::timed_out(outgoing.timeout, &begun)),
        };
        let answer = answer::read(response, ends).await?;
        if answer.is_repeat() && self.can_be_asked() {
            // It has the order already and does not say what became of it.
            let asked = timeout_at(ends, self.status(outgoing.key)).await;
            if let Ok(Asked::Executed(result)) = asked {
                return Ok(*result);
            }
        }
        answer.result(self.takes_keys)
    }

    /// 200: the result. 404: it does not know the key. Anything else says nothing.
    async fn status(&self, key: &str) -> Asked {
        let Some(template) = &self.status_url else {
            return Asked::Unknown("there is no broker_status_url to ask".into());
        };
        let Ok(url) = template
            .replace(KEY, &headers::path_part(key))
            .parse::<Url>()
        else {
            return Asked::Unknown("broker_status_url is not a URL for this key".into());
        };
        let mut request = Request::new(Method::GET, url.clone());
        *request.headers_mut() = self.headers(&Method::GET, &url, "");
        let response = match self.client.execute(request).await {
            Ok(response) => response,
            Err(error) => {
                let why = causes(&error.without_url());
                return Asked::Unknown(format!("the broker could not be asked: {why}"));
            }
        };
        answer::asked(response).await
    }
}
