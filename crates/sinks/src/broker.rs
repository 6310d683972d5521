//! What the sinks for brokers have in common.

pub(crate) mod address;
#[cfg(any(feature = "nats", feature = "rabbitmq"))]
pub(crate) mod envelope;
#[cfg(any(feature = "rabbitmq", feature = "redis"))]
pub(crate) mod slot;
pub(crate) mod template;
pub(crate) mod tls;

use std::time::Duration;

use consign_kernel::Outcome;
use consign_worker::{About, Verdict};

/// The default connect timeout.
pub(crate) fn connect_timeout_ms() -> u64 {
    5_000
}

/// The broker was not reached, or refused, before anything was sent.
pub(crate) fn not_sent(code: impl Into<String>, detail: impl Into<String>) -> Verdict {
    Verdict::failed(Outcome::Retry, About::Sink, code, detail)
}

/// Sent, and the answer was lost: the broker may have it.
pub(crate) fn in_doubt(code: impl Into<String>, detail: impl Into<String>) -> Verdict {
    Verdict::failed(Outcome::Uncertain, About::Sink, code, detail)
}

/// No broker of this configuration will ever take this message.
#[cfg(any(feature = "nats", feature = "rabbitmq"))]
pub(crate) fn impossible(code: impl Into<String>, detail: impl Into<String>) -> Verdict {
    Verdict::failed(Outcome::Dead, About::Message, code, detail)
}

/// The broker has not answered in time.
pub(crate) fn timed_out(limit: Duration) -> Verdict {
    let detail = format!("no acknowledgement within {} ms", limit.as_millis());
    in_doubt("timeout", detail)
}
