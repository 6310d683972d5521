//! What a status leads to.

use std::{collections::BTreeMap, time::Duration};

use consign_kernel::Outcome;
use consign_outbound::retry_after;
use consign_worker::{About, Verdict};
use jiff::Timestamp;
use reqwest::{
    StatusCode,
    header::{HeaderMap, LOCATION},
};

use super::HttpConfig;
use crate::SinkError;

/// The table of outcomes by status, with the configuration's exceptions.
#[derive(Debug)]
pub(super) struct Outcomes {
    exceptions: BTreeMap<u16, Outcome>,
    retry_after_max: Duration,
}

impl Outcomes {
    pub(super) fn new(config: &HttpConfig) -> Result<Self, SinkError> {
        let mut exceptions = BTreeMap::new();
        let lists = [
            (
                "delivered_statuses",
                &config.delivered_statuses,
                Outcome::Delivered,
            ),
            ("retry_statuses", &config.retry_statuses, Outcome::Retry),
            ("dead_statuses", &config.dead_statuses, Outcome::Dead),
            (
                "uncertain_statuses",
                &config.uncertain_statuses,
                Outcome::Uncertain,
            ),
        ];
        for (option, statuses, outcome) in lists {
            for &status in statuses {
                if !(200..=599).contains(&status) {
                    let reason = format!("names {status}; a final status is 200 to 599");
                    return Err(SinkError::invalid(option, reason));
                }
                if exceptions
                    .insert(status, outcome)
                    .is_some_and(|other| other != outcome)
                {
                    let reason = format!("names {status}, which another list names too");
                    return Err(SinkError::invalid(option, reason));
                }
            }
        }
        Ok(Self {
            exceptions,
            retry_after_max: Duration::from_millis(config.retry_after_max_ms),
        })
    }

    /// The verdict on an answer, by its status and headers alone.
    pub(super) fn verdict(&self, status: StatusCode, headers: &HeaderMap) -> Verdict {
        let number = status.as_u16();
        let outcome = self
            .exceptions
            .get(&number)
            .copied()
            .unwrap_or_else(|| usual(number));
        if outcome == Outcome::Delivered {
            return Verdict::delivered();
        }
        let code = format!("http_{number}");
        let verdict = Verdict::failed(outcome, about(number), code, detail(status, headers));
        if outcome == Outcome::Dead {
            return verdict;
        }
        let delay = retry_after(headers, Timestamp::now());
        verdict.with_retry_in(delay.map(|delay| delay.min(self.retry_after_max)))
    }
}

/// The default outcome of a status.
fn usual(status: u16) -> Outcome {
    match status {
        200..=299 => Outcome::Delivered,
        // A redirect, a wrong address or wrong credentials are mistakes of the configuration, and
        // the messages must not be dead once it is corrected.
        300..=399 | 401 | 403 | 404 | 405 | 407 | 421 => Outcome::Retry,
        // Try later, for any reason: timeout, first request still running, locked, too early,
        // too many.
        408 | 409 | 423 | 425 | 429 => Outcome::Retry,
        // After a bad answer to a gateway, the outcome of the request is unknown.
        502 | 504 => Outcome::Uncertain,
        400..=499 => Outcome::Dead,
        500..=599 => Outcome::Retry,
        // Not a status of HTTP.
        _ => Outcome::Uncertain,
    }
}

/// What a status is about.
fn about(status: u16) -> About {
    match status {
        429 => About::Pace,
        401 | 403 | 404 | 405 | 407 | 408 | 410 | 421 => About::Sink,
        400..=499 => About::Message,
        _ => About::Sink,
    }
}

fn detail(status: StatusCode, headers: &HeaderMap) -> String {
    let reason = status
        .canonical_reason()
        .unwrap_or("a status without a name");
    let answered = format!("answered {} {reason}", status.as_u16());
    if !status.is_redirection() {
        return answered;
    }
    let target = headers.get(LOCATION).and_then(|value| value.to_str().ok());
    let target = target.and_then(|target| target.parse::<reqwest::Url>().ok());
    match target.as_ref().and_then(|target| target.host_str()) {
        Some(host) => format!("{answered} to {host}; redirects are not followed, correct `url`"),
        None => format!("{answered}; redirects are not followed, correct `url`"),
    }
}
