//! The far side of mail and webhooks: it does with a message what the message's header `demo` says.

use std::{net::SocketAddr, time::Duration};

use anyhow::Result;
use axum::{
    Router,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use tokio::time::sleep;

use crate::far_side::{FarSide, Reserved};

/// The header of a message that tells the receiver how to behave.
pub(crate) const HEADER: &str = "demo";

/// Where mail and webhooks go, and where a partner used to be.
#[derive(Debug)]
pub(crate) struct Receiver {
    server: FarSide,
    partner: Reserved,
}

impl Receiver {
    pub(crate) async fn start() -> Result<Self> {
        Ok(Self {
            server: FarSide::start(Router::new().fallback(take)).await?,
            partner: Reserved::new()?,
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// An address where nobody listens, for as long as this lives.
    pub(crate) fn nobody(&self) -> SocketAddr {
        self.partner.address()
    }
}

/// What a message wants to happen to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Taken after this long.
    Taken(Duration),
    /// A failure of the receiver, at this attempt and earlier ones.
    FailsUntil(u32),
    /// Never taken.
    Refused,
}

impl Fate {
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
    match Fate::read(text(HEADER).unwrap_or_default()) {
        Fate::Taken(after) => {
            sleep(after).await;
            StatusCode::ACCEPTED.into_response()
        }
        Fate::FailsUntil(last) if attempt.unwrap_or(1) <= last => {
            (StatusCode::INTERNAL_SERVER_ERROR, "something broke here").into_response()
        }
        Fate::FailsUntil(_) => StatusCode::ACCEPTED.into_response(),
        Fate::Refused => {
            (StatusCode::UNPROCESSABLE_ENTITY, "nobody here by that name").into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_gets_what_it_asks_for() {
        let after = |ms| Fate::Taken(Duration::from_millis(ms));
        for (word, fate) in [
            ("", after(0)),
            ("slow=800", after(800)),
            ("slow", after(1_000)),
            ("fail=2", Fate::FailsUntil(2)),
            ("fail", Fate::FailsUntil(u32::MAX)),
            ("refuse", Fate::Refused),
            ("whatever", after(0)),
        ] {
            assert_eq!(Fate::read(word), fate, "{word}");
        }
    }
}
