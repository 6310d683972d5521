//! Sending a request once, and what is certain when it has no answer.

use reqwest::{Body, Client, Request, Response};
use tokio::time::{Instant, timeout_at};

use crate::{body::WatchedBody, causes};

/// Why a request has no answer.
///
/// `was_sent` is the line between failures: a body that was never asked for cannot have arrived,
/// whatever broke. A connection that is refused, a name that is not found, TLS that fails and a
/// connection that takes too long are on the safe side of it. After that nothing is certain. A
/// request without a body changes nothing at the other end and never counts as sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The connection could not be made, or broke. The error does not hold the URL.
    #[error("{}", causes(error))]
    Broken {
        /// What broke.
        error: reqwest::Error,
        /// Whether the body has left.
        was_sent: bool,
    },
    /// No answer in time.
    #[error("timed out")]
    TimedOut {
        /// Whether the body has left.
        was_sent: bool,
    },
}

impl SendError {
    /// Whether the body has left, so that the request may have been executed.
    pub fn was_sent(&self) -> bool {
        match self {
            Self::Broken { was_sent, .. } | Self::TimedOut { was_sent } => *was_sent,
        }
    }
}

/// Sends a request once and returns the head of the response. `body` is not empty.
pub async fn send(
    client: &Client,
    mut request: Request,
    body: Option<Vec<u8>>,
    ends: Instant,
) -> Result<Response, SendError> {
    let progress = body.map(|bytes| {
        let (body, progress) = WatchedBody::new(bytes);
        *request.body_mut() = Some(Body::wrap(body));
        progress
    });
    let was_sent = || {
        progress
            .as_ref()
            .is_some_and(|progress| progress.has_begun())
    };
    match timeout_at(ends, client.execute(request)).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(error)) => Err(SendError::Broken {
            error: error.without_url(),
            was_sent: was_sent(),
        }),
        Err(_) => Err(SendError::TimedOut {
            was_sent: was_sent(),
        }),
    }
}
