//! Reading a broker's answer: it may be endless, slow, broken, or none at all.

use std::time::Duration;

use consign_outbound::{causes, retry_after};
use jiff::Timestamp;
use reqwest::{Response, StatusCode};
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

use super::failure;
use crate::{Asked, BrokerFailure, ExecResult, ExecStatus, Reason};

/// No result is longer. Reading on would let a broker fill our memory.
const BYTES_MAX: usize = 256 * 1024;
/// The longest wait a broker may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3_600);
/// How long the answer to a question may take; whoever asks has a limit of its own.
const ASKED_MAX: Duration = Duration::from_secs(60);
/// Words of brokers for an order they have had before.
const REPEAT_WORDS: [&str; 3] = [
    "BROKER_ALREADY_PROCESSED",
    "ALREADY_PROCESSED",
    "CONFLICT_PROCESSED",
];

/// A whole answer.
#[derive(Debug)]
pub(super) struct Answer {
    status: StatusCode,
    retry_after: Option<Duration>,
    body: String,
}

/// What error answers have in common, as far as they have.
#[derive(Debug, Default, Deserialize)]
struct Words {
    error: Option<serde_json::Value>,
    code: Option<String>,
    reason_code: Option<String>,
    message: Option<String>,
}

/// Reads an answer before `ends`.
pub(super) async fn read(response: Response, ends: Instant) -> Result<Answer, BrokerFailure> {
    let status = response.status();
    let retry_after = retry_after(response.headers(), Timestamp::now());
    let retry_after = retry_after.map(|wait| wait.min(RETRY_AFTER_MAX));
    let body = match timeout_at(ends, read_body(response)).await {
        Ok(body) => body,
        Err(_) => Err(failure::lost("the answer did not end in time")),
    };
    let body = match body {
        Ok(body) => body,
        // A status that says the order was not taken needs no body.
        Err(_) if is_refusal(status) => String::new(),
        Err(failure) => return Err(failure),
    };
    Ok(Answer {
        status,
        retry_after,
        body,
    })
}

async fn read_body(mut response: Response) -> Result<String, BrokerFailure> {
    let mut bytes = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if bytes.len() + chunk.len() > BYTES_MAX => {
                return Err(unreadable("it is longer than a result can be"));
            }
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Ok(None) => break,
            Err(error) => return Err(failure::lost(&causes(&error.without_url()))),
        }
    }
    String::from_utf8(bytes).map_err(|_| unreadable("it is not UTF-8"))
}

/// The broker said something, but not what: the order may have been executed.
fn unreadable(why: &str) -> BrokerFailure {
    let why = format!("the broker's answer cannot be read: {why}");
    BrokerFailure::new(Reason::InternalError, why).uncertain()
}

/// Statuses by which whoever stands in front of the broker says that it let nothing pass.
const GATES: [u16; 3] = [401, 403, 407];

fn is_refusal(status: StatusCode) -> bool {
    status.is_client_error() || status == StatusCode::SERVICE_UNAVAILABLE
}

impl Answer {
    fn words(&self) -> Words {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// Whether the broker says that it has had this order before, but not what became of it.
    pub(super) fn is_repeat(&self) -> bool {
        let words = self.words();
        let error = words.error.as_ref().and_then(|error| error.as_str());
        let mut said = [error, words.code.as_deref(), words.reason_code.as_deref()]
            .into_iter()
            .flatten();
        said.any(|word| REPEAT_WORDS.contains(&word)) && !self.is_executed()
    }

    fn is_executed(&self) -> bool {
        ExecResult::parse(&self.body).is_ok_and(|result| result.status == ExecStatus::Ok)
    }

    /// The result, or what the status comes to. A broker that takes no keys would execute a repeat:
    /// what it has not refused itself may have been executed.
    pub(super) fn result(self, takes_keys: bool) -> Result<ExecResult, BrokerFailure> {
        let is_certain = takes_keys || self.is_refused();
        self.read().map_err(|failure| match is_certain {
            true => failure,
            false => failure.uncertain(),
        })
    }

    fn read(self) -> Result<ExecResult, BrokerFailure> {
        if self.is_repeat() {
            let why = "the broker has had this order before and does not say what became of it";
            return Err(BrokerFailure::new(Reason::InternalError, why).uncertain());
        }
        let parsed = ExecResult::parse(&self.body);
        if self.status.is_success() {
            return parsed.map_err(|_| unreadable("it is not an ExecResult"));
        }
        match parsed {
            // A repeat that brings the first result along.
            Ok(result)
                if result.status == ExecStatus::Ok && self.status == StatusCode::CONFLICT =>
            {
                Ok(result)
            }
            Ok(result) if result.status == ExecStatus::Ok => Err(unreadable(
                "its status says that the order failed, its body that it was executed",
            )),
            Ok(result) if self.status.is_client_error() && result.reason_code.is_some() => {
                Ok(result)
            }
            _ => Err(self.failure()),
        }
    }

    /// What a status without a result means.
    fn failure(&self) -> BrokerFailure {
        let (reason, is_uncertain) = match self.status.as_u16() {
            422 => (Reason::ValidationError, false),
            429 => (Reason::RateLimited, false),
            // Somebody between us and the broker did not get an answer either.
            408 | 502 | 504 => (Reason::BrokerTimeout, true),
            503 => (Reason::BrokerDown, false),
            // A wrong address, or a broker that moved: nobody there took the order.
            300..=399 | 404 | 405 | 410 | 421 => (Reason::BrokerDown, false),
            // Come back later, whatever for.
            423 | 425 => (Reason::InternalError, false),
            400..=499 => (Reason::BrokerRejected, false),
            // It broke while it had the order.
            _ => (Reason::InternalError, true),
        };
        let failure = BrokerFailure::new(reason, self.told()).with_retry_in(self.retry_after);
        let failure = match self.has_words() && !GATES.contains(&self.status.as_u16()) {
            true => failure,
            false => failure.from_a_stranger(),
        };
        match is_uncertain {
            true => failure.uncertain(),
            false => failure,
        }
    }

    /// Whether the broker itself says that it did not take the order. Anybody between it and us may
    /// answer with a status; words are the broker's own.
    fn is_refused(&self) -> bool {
        let failure = self.failure();
        match failure.reason {
            Reason::RateLimited => self.has_words() || self.retry_after.is_some(),
            reason => !reason.is_retried() && self.has_words(),
        }
    }

    fn has_words(&self) -> bool {
        let words = self.words();
        let said = [&words.code, &words.reason_code, &words.message];
        words.error.is_some() || said.into_iter().any(Option::is_some)
    }

    /// The status, and the broker's own sentence if it has one.
    fn told(&self) -> String {
        let name = self.status.canonical_reason().unwrap_or("no name");
        let answered = format!("the broker answered {} {name}", self.status.as_u16());
        let words = self.words();
        let error = words.error.as_ref().and_then(|error| error.as_str());
        match words.message.as_deref().or(error) {
            Some(said) if !said.is_empty() => format!("{answered}: {said}"),
            _ => answered,
        }
    }
}

/// What the answer to a question says.
pub(super) async fn asked(response: Response) -> Asked {
    let status = response.status();
    if status == StatusCode::NOT_FOUND {
        return Asked::NotExecuted;
    }
    if status != StatusCode::OK {
        return Asked::Unknown(format!("the question was answered {}", status.as_u16()));
    }
    let ends = Instant::now() + ASKED_MAX;
    let answer = match read(response, ends).await {
        Ok(answer) => answer,
        Err(failure) => return Asked::Unknown(failure.message),
    };
    match ExecResult::parse(&answer.body) {
        Ok(result) => Asked::Executed(Box::new(result)),
        Err(_) => Asked::Unknown("the answer is not an ExecResult".into()),
    }
}
