//! What a request that got no answer comes to.
//!
//! The line is drawn by [`Left`]: an order whose body was never asked for has not been sent,
//! whatever broke. After that nothing is certain.

use std::{error::Error, fmt::Write, time::Duration};

use super::body::Left;
use crate::{BrokerFailure, Reason};

/// The request broke.
pub(super) fn broken(error: reqwest::Error, left: &Left) -> BrokerFailure {
    let why = causes(&error.without_url());
    match left.get() {
        true => lost(&why),
        false => {
            let why = format!("the broker cannot be reached, nothing was sent: {why}");
            BrokerFailure::new(Reason::BrokerDown, why)
        }
    }
}

/// The request took too long.
pub(super) fn timed_out(limit: Duration, left: &Left) -> BrokerFailure {
    let limit = limit.as_millis();
    match left.get() {
        true => {
            let why = format!("no answer within {limit} ms");
            BrokerFailure::new(Reason::BrokerTimeout, why).uncertain()
        }
        false => {
            let why = format!("no connection within {limit} ms, nothing was sent");
            BrokerFailure::new(Reason::BrokerDown, why)
        }
    }
}

/// The answer was lost on the way: the order may have been executed.
pub(super) fn lost(why: &str) -> BrokerFailure {
    let why = format!("the connection broke before the answer was there: {why}");
    BrokerFailure::new(Reason::BrokerTimeout, why).uncertain()
}

/// What lies at the bottom of an error. The layers above only repeat that something failed.
pub(super) fn causes(error: &dyn Error) -> String {
    let mut text = String::new();
    let mut source = error.source();
    while let Some(cause) = source {
        let separator = if text.is_empty() { "" } else { ": " };
        write!(text, "{separator}{cause}").expect("invariant: writing to a string does not fail");
        source = cause.source();
    }
    match text.is_empty() {
        true => error.to_string(),
        false => text,
    }
}
