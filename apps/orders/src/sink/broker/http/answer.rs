//! Parses a broker's HTTP answer, which may be endless, slow, malformed or missing.

use std::time::Duration;

use consign_outbound::{ReadLimit, read_body, retry_after};
use jiff::Timestamp;
use reqwest::{Response, StatusCode};
use serde::Deserialize;
use tokio::time::Instant;

use super::failure::{unread, unreadable};
use crate::{BrokerFailure, BrokerLookup, ExecResult, ExecStatus, Reason};

/// Longer than any result. Bounds the memory that a broker can make us use.
const BYTES_MAX: usize = 256 * 1024;
/// Upper bound of a broker's Retry-After.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3_600);
/// Error codes that brokers use for a repeated order.
const REPEAT_CODES: [&str; 3] = [
    "BROKER_ALREADY_PROCESSED",
    "ALREADY_PROCESSED",
    "CONFLICT_PROCESSED",
];

/// A complete answer.
#[derive(Debug)]
pub(super) struct Answer {
    status: StatusCode,
    retry_after: Option<Duration>,
    body: String,
}

/// Fields that error answers of brokers have in common.
#[derive(Debug, Default, Deserialize)]
struct ErrorBody {
    error: Option<serde_json::Value>,
    code: Option<String>,
    reason_code: Option<String>,
    message: Option<String>,
}

/// Reads the answer before `ends`.
pub(super) async fn read(response: Response, ends: Instant) -> Result<Answer, BrokerFailure> {
    let status = response.status();
    let retry_after = retry_after(response.headers(), Timestamp::now());
    let retry_after = retry_after.map(|wait| wait.min(RETRY_AFTER_MAX));
    let body = read_body(response, BYTES_MAX, ReadLimit::Until(ends)).await;
    let body = body.complete().map_err(|error| unread(&error));
    let body =
        body.and_then(|bytes| String::from_utf8(bytes).map_err(|_| unreadable("it is not UTF-8")));
    let body = match body {
        Ok(body) => body,
        // The status alone means that the order was not taken.
        Err(_) if is_refusal(status) => String::new(),
        Err(failure) => return Err(failure),
    };
    Ok(Answer {
        status,
        retry_after,
        body,
    })
}

/// Statuses of proxies and gateways that did not forward the request.
const GATES: [u16; 3] = [401, 403, 407];

fn is_refusal(status: StatusCode) -> bool {
    status.is_client_error() || status == StatusCode::SERVICE_UNAVAILABLE
}

impl Answer {
    fn error_body(&self) -> ErrorBody {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// Whether the broker reports a repeated order without its result.
    pub(super) fn is_repeat(&self) -> bool {
        let body = self.error_body();
        let error = body.error.as_ref().and_then(|error| error.as_str());
        let mut codes = [error, body.code.as_deref(), body.reason_code.as_deref()]
            .into_iter()
            .flatten();
        codes.any(|code| REPEAT_CODES.contains(&code)) && !self.is_executed()
    }

    fn is_executed(&self) -> bool {
        ExecResult::parse(&self.body).is_ok_and(|result| result.status == ExecStatus::Ok)
    }

    /// The result, or the failure for the status. A broker without idempotency keys would execute a
    /// repeat, so any failure that it did not report itself is uncertain.
    pub(super) fn result(self, takes_keys: bool) -> Result<ExecResult, BrokerFailure> {
        let is_certain = takes_keys || self.is_refused();
        self.read().map_err(|failure| {
            if is_certain {
                failure
            } else {
                failure.uncertain()
            }
        })
    }

    fn read(self) -> Result<ExecResult, BrokerFailure> {
        if self.is_repeat() {
            let why = "the broker reported a repeated order without its result";
            return Err(BrokerFailure::new(Reason::InternalError, why).uncertain());
        }
        let parsed = ExecResult::parse(&self.body);
        if self.status.is_success() {
            return parsed.map_err(|_| unreadable("it is not an ExecResult"));
        }
        match parsed {
            // A repeat that contains the first result.
            Ok(result)
                if result.status == ExecStatus::Ok && self.status == StatusCode::CONFLICT =>
            {
                Ok(result)
            }
            Ok(result) if result.status == ExecStatus::Ok => Err(unreadable(
                "its status is an error, but its body is an executed order",
            )),
            Ok(result) if self.status.is_client_error() && result.reason_code.is_some() => {
                Ok(result)
            }
            _ => Err(self.failure()),
        }
    }

    /// The failure for a status without a result.
    fn failure(&self) -> BrokerFailure {
        let (reason, is_uncertain) = match self.status.as_u16() {
            422 => (Reason::ValidationError, false),
            429 => (Reason::RateLimited, false),
            // A proxy got no answer from the broker.
            408 | 502 | 504 => (Reason::BrokerTimeout, true),
            503 => (Reason::BrokerDown, false),
            // Wrong address, or the broker moved: the order was not taken.
            300..=399 | 404 | 405 | 410 | 421 => (Reason::BrokerDown, false),
            // The server asks for a later retry.
            423 | 425 => (Reason::InternalError, false),
            400..=499 => (Reason::BrokerRejected, false),
            // The broker failed while it processed the order.
            _ => (Reason::InternalError, true),
        };
        let failure = BrokerFailure::new(reason, self.describe()).with_retry_in(self.retry_after);
        let failure = if self.has_error_body() && !GATES.contains(&self.status.as_u16()) {
            failure
        } else {
            failure.not_from_broker()
        };
        if is_uncertain {
            failure.uncertain()
        } else {
            failure
        }
    }

    /// Whether the broker itself rejected the order. Any proxy may answer with a status; only the
    /// broker sends an error body.
    fn is_refused(&self) -> bool {
        let failure = self.failure();
        match failure.reason {
            Reason::RateLimited => self.has_error_body() || self.retry_after.is_some(),
            reason => !reason.is_retried() && self.has_error_body(),
        }
    }

    fn has_error_body(&self) -> bool {
        let body = self.error_body();
        let fields = [&body.code, &body.reason_code, &body.message];
        body.error.is_some() || fields.into_iter().any(Option::is_some)
    }

    /// The status, and the broker's message if it sent one.
    fn describe(&self) -> String {
        let name = self.status.canonical_reason().unwrap_or("unknown status");
        let answered = format!("the broker answered {} {name}", self.status.as_u16());
        let body = self.error_body();
        let error = body.error.as_ref().and_then(|error| error.as_str());
        match body.message.as_deref().or(error) {
            Some(message) if !message.is_empty() => format!("{answered}: {message}"),
            _ => answered,
        }
    }
}

/// The result of a status query.
pub(super) async fn status_result(response: Response, ends: Instant) -> BrokerLookup {
    let status = response.status();
    if status == StatusCode::NOT_FOUND {
        return BrokerLookup::NotExecuted;
    }
    if status != StatusCode::OK {
        return BrokerLookup::Unknown(format!("the status query returned {}", status.as_u16()));
    }
    let answer = match read(response, ends).await {
        Ok(answer) => answer,
        Err(failure) => return BrokerLookup::Unknown(failure.message),
    };
    match ExecResult::parse(&answer.body) {
        Ok(result) => BrokerLookup::Executed(Box::new(result)),
        Err(_) => BrokerLookup::Unknown("the answer is not an ExecResult".into()),
    }
}
