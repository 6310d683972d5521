//! Rail with JSON over HTTP.
//!
//! `POST url` with a [`Dispatch`] as its body and the reference as idempotency key; the answer is a
//! [`RailReply`]. `GET status_url` (with `{reference}` filled in) returns the same, or `{"found":
//! false}`, or `{"found": true, "pending": true}`.

mod answer;

use std::{fmt, path::PathBuf, time::Duration};

use async_trait::async_trait;
use consign_kernel::{Error, Result};
use consign_outbound::{SendError, Signer, UrlTemplate, bearer, build, http_url, send, shown_url};
use consign_redact::Secret;
use jiff::Timestamp;
use reqwest::{
    Client, Method, Request, Url,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use tokio::time::Instant;

use self::answer::read;
use super::{Dispatch, Rail, RailLookup, SubmitResult};
use crate::{
    OutboxId,
    classify::{DISPATCH_ERROR, DISPATCH_TIMEOUT},
    options::PaymentsOptions,
};

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// See the module.
pub struct HttpRail {
    client: Client,
    url: Url,
    /// The address for people: no user, no password, no query.
    destination: String,
    /// URL of status queries, with `{reference}`.
    status_url: Option<UrlTemplate>,
    /// Headers of every request, with the credential.
    fixed: HeaderMap,
    key_header: HeaderName,
    signer: Option<Signer>,
}

impl fmt::Debug for HttpRail {
    /// The URLs may contain secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpRail")
            .field("destination", &self.destination)
            .finish_non_exhaustive()
    }
}

impl HttpRail {
    /// The rail of these options, which were validated.
    pub fn new(options: &PaymentsOptions) -> Result<Self> {
        let url = http_url(options.rail_url.as_deref().unwrap_or_default());
        let url = url.map_err(|why| refuse("rail_url", why))?;
        let mut fixed = HeaderMap::new();
        fixed.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let token = credential("rail_token", &options.rail_token, &options.rail_token_file)?;
        if let Some(token) = token {
            let refuse = |_| refuse("rail_token", "is not a valid header value");
            fixed.insert(AUTHORIZATION, bearer(&token).map_err(refuse)?);
        }
        let status_url = options.rail_status_url.as_ref();
        let status_url = status_url.map(|text| UrlTemplate::parse(text, &["reference"]));
        let status_url = status_url.transpose();
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
            client: client(options)?,
            destination: shown_url(&url),
            url,
            status_url: status_url.map_err(|why| refuse("rail_status_url", &why))?,
            fixed,
            key_header: key_header
                .map_err(|_| refuse("rail_key_header", "is not a valid header name"))?,
        })
    }

    /// The request of a dispatch, and its body.
    fn request(&self, dispatch: &Dispatch) -> (Request, Vec<u8>) {
        let body = serde_json::to_vec(dispatch).expect("invariant: a dispatch is JSON");
        let mut request = Request::new(Method::POST, self.url.clone());
        let headers = request.headers_mut();
        headers.extend(self.headers(dispatch.reference, &body));
        let reference = HeaderValue::from_str(&dispatch.reference.to_string());
        let reference = reference.expect("invariant: a UUID is plain");
        headers.insert(self.key_header.clone(), reference);
        headers.insert("consign-fence", dispatch.fence.0.into());
        headers.insert("consign-attempt", dispatch.attempt_no.into());
        (request, body)
    }

    /// Credential and signature.
    fn headers(&self, reference: OutboxId, body: &[u8]) -> HeaderMap {
        let mut headers = self.fixed.clone();
        if let Some(signer) = &self.signer {
            let at = Timestamp::now().as_second();
            headers.extend(signer.headers(&reference.to_string(), at, body));
        }
        headers
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

    async fn submit(&self, dispatch: &Dispatch, limit: Duration) -> SubmitResult {
        let (request, body) = self.request(dispatch);
        let ends = Instant::now() + limit;
        match send(&self.client, request, Some(body), ends).await {
            Ok(response) => read(response, ends).await.submitted(),
            Err(error) => unanswered(&error, limit),
        }
    }

    async fn query(&self, reference: OutboxId, limit: Duration) -> RailLookup {
        let Some(template) = &self.status_url else {
            return RailLookup::CannotTell("rail_status_url is not set".to_owned());
        };
        let url = template.fill(&[&reference.to_string()]);
        let url = url.expect("invariant: a UUID fits where examples did");
        let mut request = Request::new(Method::GET, url);
        *request.headers_mut() = self.headers(reference, b"");
        let ends = Instant::now() + limit;
        match send(&self.client, request, None, ends).await {
            Ok(response) => read(response, ends).await.lookup(),
            Err(error @ SendError::Broken { .. }) => {
                RailLookup::CannotTell(format!("rail unreachable: {error}"))
            }
            Err(SendError::TimedOut { .. }) => {
                RailLookup::CannotTell(format!("no answer within {} ms", limit.as_millis()))
            }
        }
    }
}

/// The result of a request without an answer.
fn unanswered(error: &SendError, limit: Duration) -> SubmitResult {
    let limit = limit.as_millis();
    let was_sent = error.was_sent();
    let (code, why) = match (error, was_sent) {
        (SendError::Broken { .. }, true) => {
            let why = format!("connection lost before the answer: {error}");
            (DISPATCH_ERROR, why)
        }
        (SendError::Broken { .. }, false) => (
            DISPATCH_ERROR,
            format!("rail unreachable, nothing was sent: {error}"),
        ),
        (SendError::TimedOut { .. }, true) => {
            (DISPATCH_TIMEOUT, format!("no answer within {limit} ms"))
        }
        (SendError::TimedOut { .. }, false) => {
            let why = format!("no connection within {limit} ms; nothing was sent");
            (DISPATCH_TIMEOUT, why)
        }
    };
    if was_sent {
        SubmitResult::Lost { code, why }
    } else {
        SubmitResult::NotSent { code, why }
    }
}

fn client(options: &PaymentsOptions) -> Result<Client> {
    let builder = consign_outbound::client(options.rail_ca_file.as_deref())
        .map_err(|error| refuse("rail_ca_file", &error.to_string()))?
        .connect_timeout(CONNECT_TIMEOUT);
    build(builder).map_err(|why| refuse("rail_url", &why))
}

fn credential(key: &str, value: &Option<Secret>, file: &Option<PathBuf>) -> Result<Option<Secret>> {
    let given = Secret::given(key, value.as_ref(), file.as_deref());
    given.map_err(|why| refuse(&format!("{key}_file"), &why))
}

fn refuse(key: &str, why: &str) -> Error {
    Error::invalid(format!("payments.{key}"), why)
}
