//! A rail behind JSON over HTTP.
//!
//! `POST url` with a [`Dispatch`] as its body and the reference as idempotency key; the answer is a
//! [`RailReply`]. `GET status_url` (with `{reference}` filled in) answers the same, or
//! `{"found": false}`, or `{"found": true, "pending": true}`.

mod answer;
mod client;

use std::{fmt, path::PathBuf, time::Duration};

use async_trait::async_trait;
use consign_kernel::{Error, Result};
use consign_outbound::{Begun, Secret, Signer, WatchedBody, causes};
use jiff::Timestamp;
use reqwest::{
    Body, Client, Method, Request, RequestBuilder, Url,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use tokio::time::{Instant, timeout_at};

use self::answer::{Answer, read};
use super::{Dispatch, Known, Rail, Submitted};
use crate::{
    OutboxId,
    classify::{DISPATCH_ERROR, DISPATCH_TIMEOUT},
    options::PaymentsOptions,
};

/// See the module.
pub struct HttpRail {
    client: Client,
    url: Url,
    /// The address for people: no user, no password, no query.
    destination: String,
    /// Where to ask, with a place for `{reference}`.
    status_url: Option<String>,
    /// What every request carries: who we are.
    fixed: HeaderMap,
    key_header: HeaderName,
    signer: Option<Signer>,
}

impl fmt::Debug for HttpRail {
    /// The addresses themselves may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpRail")
            .field("destination", &self.destination)
            .finish_non_exhaustive()
    }
}

impl HttpRail {
    /// The rail the options describe; they have been validated.
    pub fn new(options: &PaymentsOptions) -> Result<Self> {
        let url = parse_url("rail_url", options.rail_url.as_deref().unwrap_or_default())?;
        let mut fixed = HeaderMap::new();
        fixed.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let token = credential("rail_token", &options.rail_token, &options.rail_token_file)?;
        if let Some(token) = token {
            let value = HeaderValue::from_str(&format!("Bearer {}", token.reveal()));
            let mut value = value.map_err(|_| refuse("rail_token", "is not a header's value"))?;
            value.set_sensitive(true);
            fixed.insert(AUTHORIZATION, value);
        }
        if let Some(template) = &options.rail_status_url {
            check_template("rail_status_url", template)?;
        }
        let key_header = options.rail_key_header.parse();
        let secret = credential(
            "rail_signing_secret",
            &options.rail_signing_secret,
            &options.rail_signing_secret_file,
        )?;
        let signer = secret.map(|secret| Signer::parse(secret.reveal()));
        let signer = signer.transpose();
        Ok(Self {
            signer: signer.map_err(|why| refuse("rail_signing_secret", why))?,
            client: client::build(options)?,
            destination: plain(&url),
            url,
            status_url: options.rail_status_url.clone(),
            fixed,
            key_header: key_header.map_err(|_| refuse("rail_key_header", "is no header's name"))?,
        })
    }

    /// The request of a dispatch, and what tells whether it has left.
    fn request(&self, dispatch: &Dispatch) -> (Request, Begun) {
        let body = serde_json::to_vec(dispatch).expect("invariant: a dispatch is JSON");
        let own = self.headers(dispatch.reference, &body);
        let (body, begun) = WatchedBody::new(body);
        let mut request = Request::new(Method::POST, self.url.clone());
        let headers = request.headers_mut();
        headers.extend(own);
        let reference = HeaderValue::from_str(&dispatch.reference.to_string());
        let reference = reference.expect("invariant: a UUID is plain");
        headers.insert(self.key_header.clone(), reference);
        headers.insert("consign-fence", dispatch.fence.0.into());
        headers.insert("consign-attempt", dispatch.attempt_no.into());
        *request.body_mut() = Some(Body::wrap(body));
        (request, begun)
    }

    /// Who we are, and that it is us who ask.
    fn headers(&self, reference: OutboxId, body: &[u8]) -> HeaderMap {
        let mut headers = self.fixed.clone();
        if let Some(signer) = &self.signer {
            let (id, at) = (reference.to_string(), Timestamp::now().as_second());
            for (name, text) in [
                ("webhook-signature", signer.sign(&id, at, body)),
                ("webhook-timestamp", at.to_string()),
                ("webhook-id", id),
            ] {
                let value = HeaderValue::from_str(&text).expect("invariant: printable text");
                headers.insert(name, value);
            }
        }
        headers
    }

    /// Asks at an address with the reference filled in.
    async fn ask(
        &self,
        reference: OutboxId,
        ask: RequestBuilder,
        limit: Duration,
    ) -> std::result::Result<Answer, String> {
        let ends = Instant::now() + limit;
        let headers = self.headers(reference, b"");
        match timeout_at(ends, ask.headers(headers).send()).await {
            Ok(Ok(response)) => Ok(read(response, ends).await),
            Ok(Err(error)) => Err(format!("the rail was not reached: {}", error.without_url())),
            Err(_) => Err(format!("no answer within {} ms", limit.as_millis())),
        }
    }
}

#[async_trait]
impl Rail for HttpRail {
    fn kind(&self) -> &'static str {
        "http"
    }

    fn destination(&self) -> &str {
        &self.destination
    }

    async fn submit(&self, dispatch: &Dispatch, limit: Duration) -> Submitted {
        let (request, begun) = self.request(dispatch);
        let ends = Instant::now() + limit;
        let response = match timeout_at(ends, self.client.execute(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                let why = causes(&error.without_url());
                return match begun.get() {
                    true => Submitted::Lost {
                        code: DISPATCH_ERROR,
                        why: format!("the connection broke before an answer came: {why}"),
                    },
                    false => Submitted::NotSent {
                        code: DISPATCH_ERROR,
                        why: format!("nothing was sent: {why}"),
                    },
                };
            }
            Err(_) => {
                let limit = limit.as_millis();
                return match begun.get() {
                    true => Submitted::Lost {
                        code: DISPATCH_TIMEOUT,
                        why: format!("no answer within {limit} ms"),
                    },
                    false => Submitted::NotSent {
                        code: DISPATCH_TIMEOUT,
                        why: format!("no connection within {limit} ms; nothing was sent"),
                    },
                };
            }
        };
        read(response, ends).await.submitted()
    }

    async fn query(&self, reference: OutboxId, limit: Duration) -> Known {
        let Some(template) = &self.status_url else {
            return Known::CannotTell("there is no `rail_status_url` to ask".to_owned());
        };
        let ask = self.client.get(fill(template, reference));
        match self.ask(reference, ask, limit).await {
            Ok(answer) => answer.known(),
            Err(why) => Known::CannotTell(why),
        }
    }
}

/// A credential: said itself, or in a file.
fn credential(key: &str, value: &Option<Secret>, file: &Option<PathBuf>) -> Result<Option<Secret>> {
    let value = value.as_ref().filter(|value| !value.is_empty());
    let refuse = |why: &str| refuse(&format!("{key}_file"), why);
    match (value, file) {
        (Some(_), Some(_)) => Err(refuse(&format!("is given beside {key}; keep one of them"))),
        (None, Some(file)) => Secret::from_file(file)
            .map(Some)
            .map_err(|why| refuse(&why)),
        (value, None) => Ok(value.cloned()),
    }
}

fn refuse(key: &str, why: &str) -> Error {
    Error::invalid(format!("payments.{key}"), why)
}

fn parse_url(key: &str, text: &str) -> Result<Url> {
    let url: Url = text
        .parse()
        .map_err(|_| refuse(key, "is not a URL such as https://rail.example/payments"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(refuse(key, "must begin with https:// or http://"));
    }
    Ok(url)
}

/// A reference must change where is asked, and never whom.
fn check_template(key: &str, template: &str) -> Result<()> {
    let fill =
        |digit: u128| parse_url(key, &fill(template, OutboxId(uuid::Uuid::from_u128(digit))));
    let (one, other) = (fill(1)?, fill(2)?);
    if one == other {
        return Err(refuse(
            key,
            "must hold {reference}, or every payment has the same answer",
        ));
    }
    if one.origin() != other.origin() {
        return Err(refuse(key, "must not let a reference choose the host"));
    }
    Ok(())
}

fn fill(template: &str, reference: OutboxId) -> String {
    template.replace("{reference}", &reference.to_string())
}

fn plain(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{}://{host}:{port}{}", url.scheme(), url.path()),
        None => format!("{}://{host}{}", url.scheme(), url.path()),
    }
}
