//! What a request that got no answer comes to.
//!
//! The line is drawn by [`Begun`]: an order whose body was never asked for has not been sent,
//! whatever broke. After that nothing is certain.

use std::time::Duration;

use consign_outbound::{Begun, causes};

use crate::{BrokerFailure, Reason};

/// The request broke.
pub(super) fn broken(error: reqwest::Error, begun: &Begun) -> BrokerFailure {
    let why = causes(&error.without_url());
    match begun.get() {
        true => lost(&why),
        false => {
            let why = format!("the broker cannot be reached, nothing was sent: {why}");
            BrokerFailure::new(Reason::BrokerDown, why)
        }
    }
}

/// The request took too long.
pub(super) fn timed_out(limit: Duration, begun: &Begun) -> BrokerFailure {
    let limit = limit.as_millis();
    match begun.get() {
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
