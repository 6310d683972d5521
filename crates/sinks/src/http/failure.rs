//! What a request that got no answer leads to.
//!
//! The line is drawn by [`Begun`]: a request whose body was never asked for has not been
//! delivered, whatever broke. After that nothing is certain. A connection that is refused, a
//! name that is not found, TLS that fails and a connection that takes too long are on the safe
//! side of it; so is the time spent waiting for any of them.

use std::{error::Error, io, time::Duration};

use consign_kernel::Outcome;
use consign_outbound::{Begun, Refusal, causes};
use consign_worker::{About, Verdict, is_local};

/// The verdict on a request that broke.
pub(super) fn broken(error: reqwest::Error, begun: &Begun) -> Verdict {
    let error = error.without_url();
    if !begun.get() && is_local(&error) {
        return Verdict::local(format!("could not connect: {}", causes(&error)));
    }
    let (outcome, code, what) = if begun.get() {
        let what = "the connection broke before an answer came";
        (Outcome::Uncertain, "connection_broken", what)
    } else if let Some(refusal) = find::<Refusal>(&error) {
        let code = match refusal {
            Refusal::NotFound { .. } => "dns_failed",
            Refusal::Blocked { .. } => "address_blocked",
        };
        let detail = refusal.to_string();
        return Verdict::failed(Outcome::Retry, About::Sink, code, detail);
    } else if find::<rustls::Error>(&error).is_some() {
        (Outcome::Retry, "tls_failed", "TLS could not be established")
    } else if error.is_timeout() {
        (Outcome::Retry, "connect_timeout", "no connection in time")
    } else {
        (Outcome::Retry, "connect_failed", "could not connect")
    };
    Verdict::failed(
        outcome,
        About::Sink,
        code,
        format!("{what}: {}", causes(&error)),
    )
}

/// The verdict on a request that took too long.
pub(super) fn timed_out(limit: Duration, begun: &Begun) -> Verdict {
    let limit = limit.as_millis();
    if begun.get() {
        let detail = format!("no answer within {limit} ms");
        return Verdict::failed(Outcome::Uncertain, About::Sink, "timeout", detail);
    }
    let detail = format!("no connection within {limit} ms; nothing was sent");
    Verdict::failed(Outcome::Retry, About::Sink, "connect_timeout", detail)
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
