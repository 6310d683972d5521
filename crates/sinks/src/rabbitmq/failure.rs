//! What an error of RabbitMQ or of the way to it leads to.

use consign_worker::Verdict;
use lapin::{Error, ErrorKind};

use crate::broker::{impossible, in_doubt, not_sent};

const ACCESS_REFUSED: u16 = 403;
const NOT_FOUND: u16 = 404;
const PRECONDITION_FAILED: u16 = 406;

/// The verdict on an error while connecting or opening a channel: nothing was sent.
pub(super) fn before_publish(error: &Error) -> Verdict {
    match refusal(error) {
        Some((ACCESS_REFUSED, text)) => not_sent("unauthorized", text),
        Some((NOT_FOUND, text)) => not_sent("no_exchange", text),
        Some((code, text)) => not_sent(format!("amqp_{code}"), text),
        None => not_sent("connect_failed", format!("could not connect: {error}")),
    }
}

/// The verdict on an error after `body_bytes` were published on a channel of their own.
///
/// What RabbitMQ refuses by closing the channel it has not stored. Whatever else happened, the
/// message may be in a queue.
pub(super) fn after_publish(error: &Error, body_bytes: usize) -> Verdict {
    if let ErrorKind::InvalidChannelState(..) | ErrorKind::InvalidConnectionState(_) = error.kind()
    {
        let detail = format!("the connection was lost before anything was sent: {error}");
        return not_sent("connect_failed", detail);
    }
    match refusal(error) {
        Some((ACCESS_REFUSED, text)) => not_sent("unauthorized", text),
        Some((NOT_FOUND, text)) => not_sent("no_exchange", text),
        Some((PRECONDITION_FAILED, text)) if is_about_size(&text, body_bytes) => {
            impossible("payload_too_large", text)
        }
        _ => in_doubt(
            "connection_broken",
            format!("the connection broke before RabbitMQ confirmed: {error}"),
        ),
    }
}

fn is_about_size(text: &str, body_bytes: usize) -> bool {
    text.contains("size") && text.contains(&body_bytes.to_string())
}

/// The code and the words with which RabbitMQ closed the channel or the connection.
fn refusal(error: &Error) -> Option<(u16, String)> {
    match error.kind() {
        ErrorKind::ProtocolError(error) => Some((
            error.get_id(),
            format!("RabbitMQ answered: {}", error.get_message()),
        )),
        _ => None,
    }
}
