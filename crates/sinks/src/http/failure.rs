//! What a request that got no answer leads to.

use std::{error::Error, io, time::Duration};

use consign_kernel::Outcome;
use consign_outbound::{Refusal, SendError, causes};
use consign_worker::{About, Verdict, is_local};

/// The verdict on a request that has no answer.
pub(super) fn unanswered(error: &SendError, limit: Duration) -> Verdict {
    let limit = limit.as_millis();
    let (outcome, code, detail) = match error {
        SendError::Broken {
            error,
            was_sent: false,
        } => return not_sent(error),
        SendError::Broken { error, .. } => {
            let causes = causes(error);
            let detail = format!("the connection broke before an answer came: {causes}");
            (Outcome::Uncertain, "connection_broken", detail)
        }
        SendError::TimedOut { was_sent: true } => {
            let detail = format!("no answer within {limit} ms");
            (Outcome::Uncertain, "timeout", detail)
        }
        SendError::TimedOut { .. } => {
            let detail = format!("no connection within {limit} ms; nothing was sent");
            (Outcome::Retry, "connect_timeout", detail)
        }
    };
    Verdict::failed(outcome, About::Sink, code, detail)
}

/// The verdict on a connection that could not be made.
fn not_sent(error: &reqwest::Error) -> Verdict {
    if is_local(error) {
        return Verdict::local(format!("could not connect: {}", causes(error)));
    }
    let (code, detail) = if let Some(refusal) = find::<Refusal>(error) {
        let code = match refusal {
            Refusal::NotFound { .. } => "dns_failed",
            Refusal::Blocked { .. } => "address_blocked",
        };
        (code, refusal.to_string())
    } else {
        let (code, what) = if find::<rustls::Error>(error).is_some() {
            ("tls_failed", "TLS could not be established")
        } else if error.is_timeout() {
            ("connect_timeout", "no connection in time")
        } else {
            ("connect_failed", "could not connect")
        };
        (code, format!("{what}: {}", causes(error)))
    };
    Verdict::failed(Outcome::Retry, About::Sink, code, detail)
}

/// The first error of a kind in a chain. Those inside `io::Error` are not sources of it.
fn find<'e, T: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        let inside = error
            .downcast_ref::<io::Error>()
            .and_then(|error| error.get_ref());
        if let Some(found) = inside.and_then(|inside| find(inside)) {
            return Some(found);
        }
        next = error.source();
    }
    None
}
