//! Failures of requests without an answer.

use std::time::Duration;

use consign_outbound::{ReadError, SendError};

use crate::{BrokerFailure, Reason};

/// The request failed or timed out.
pub(super) fn unanswered(error: &SendError, limit: Duration) -> BrokerFailure {
    let limit = limit.as_millis();
    match (error, error.was_sent()) {
        (SendError::Broken { .. }, true) => lost(&error.to_string()),
        (SendError::Broken { .. }, false) => {
            let why = format!("broker unreachable, nothing was sent: {error}");
            BrokerFailure::new(Reason::BrokerDown, why)
        }
        (SendError::TimedOut { .. }, true) => {
            let why = format!("no answer within {limit} ms");
            BrokerFailure::new(Reason::BrokerTimeout, why).uncertain()
        }
        (SendError::TimedOut { .. }, false) => {
            let why = format!("no connection within {limit} ms, nothing was sent");
            BrokerFailure::new(Reason::BrokerDown, why)
        }
    }
}

/// The answer is incomplete.
pub(super) fn unread(error: &ReadError) -> BrokerFailure {
    match error {
        ReadError::TooLong { .. } => unreadable("it is longer than 256 KiB"),
        ReadError::Broken(why) => lost(why),
        ReadError::TimedOut => lost("the answer was incomplete at the timeout"),
    }
}

/// The broker answered, but the answer is unreadable: the order may have been executed.
pub(super) fn unreadable(why: &str) -> BrokerFailure {
    let why = format!("cannot parse the broker's answer: {why}");
    BrokerFailure::new(Reason::InternalError, why).uncertain()
}

/// The answer was lost: the order may have been executed.
fn lost(why: &str) -> BrokerFailure {
    let why = format!("connection lost before the answer was complete: {why}");
    BrokerFailure::new(Reason::BrokerTimeout, why).uncertain()
}
