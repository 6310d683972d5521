//! The receiver of mail and webhooks: it treats a message as the message's header `demo` requests.

use std::{net::SocketAddr, time::Duration};

use anyhow::Result;
use axum::{
    Router,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use tokio::time::sleep;

use crate::demo_server::{DemoServer, ReservedPort};

/// The header of a message that selects the receiver's behaviour.
pub(crate) const HEADER: &str = "demo";

/// Where mail and webhooks go, and where a partner used to be.
#[derive(Debug)]
pub(crate) struct Receiver {
    server: DemoServer,
    partner: ReservedPort,
}

impl Receiver {
    pub(crate) async fn start() -> Result<Self> {
        Ok(Self {
            server: DemoServer::start(Router::new().fallback(take)).await?,
            partner: ReservedPort::new()?,
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// An address without a listener, for as long as this lives.
    pub(crate) fn closed_address(&self) -> SocketAddr {
        self.partner.address()
    }
}

/// The behaviour that a message selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlannedAnswer {
    /// Taken after this long.
    Taken(Duration),
    /// A failure of the receiver, at this attempt and earlier ones.
    FailsUntil(u32),
    /// Never taken.
    Refused,
}

impl PlannedAnswer {
    /// Reads `slow=800`, `fail=2`, `fail` and `refuse`.
    fn read(word: &str) -> Self {
        let (name, number) = match word.split_once('=') {
            Some((name, number)) => (name, number.parse().ok()),
            None => (word, None),
        };
        match name {
            "slow" => Self::Taken(Duration::from_millis(number.unwrap_or(1_000).into())),
            "fail" => Self::FailsUntil(number.unwrap_or(u32::MAX)),
            "refuse" => Self::Refused,
            _ => Self::Taken(Duration::ZERO),
        }
    }
}

async fn take(headers: HeaderMap) -> Response {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let attempt = text("consign-attempt").and_then(|number| number.parse().ok());
    match PlannedAnswer::read(text(HEADER).unwrap_or_default()) {
        PlannedAnswer::Taken(after) => {
            sleep(after).await;
            StatusCode::ACCEPTED.into_response()
        }
        PlannedAnswer::FailsUntil(last) if attempt.unwrap_or(1) <= last => {
            (StatusCode::INTERNAL_SERVER_ERROR, "something broke here").into_response()
        }
        PlannedAnswer::FailsUntil(_) => StatusCode::ACCEPTED.into_response(),
        PlannedAnswer::Refused => {
            (StatusCode::UNPROCESSABLE_ENTITY, "unknown recipient").into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_gets_the_scripted_answer() {
        let after = |ms| PlannedAnswer::Taken(Duration::from_millis(ms));
        for (word, fate) in [
            ("", after(0)),
            ("slow=800", after(800)),
            ("slow", after(1_000)),
            ("fail=2", PlannedAnswer::FailsUntil(2)),
            ("fail", PlannedAnswer::FailsUntil(u32::MAX)),
            ("refuse", PlannedAnswer::Refused),
            ("whatever", after(0)),
        ] {
            assert_eq!(PlannedAnswer::read(word), fate, "{word}");
        }
    }
}
