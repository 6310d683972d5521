//! Messages whose time passes before they are delivered.

use crate::{ClaimedMessage, MessageId, Outcome, Report, codes};

/// A transaction takes messages so many times while the time of all it took has passed. Then a claim goes on in
/// another one: others write in between.
pub const EXPIRED_ROUNDS_MAX: u32 = 10;

/// Divides claimed messages into those whose time has not passed when their lease is taken, and the
/// reports that settle the others under it.
pub fn split_expired(
    claimed: Vec<ClaimedMessage>,
    now: jiff::Timestamp,
) -> (Vec<ClaimedMessage>, Vec<Report>) {
    if !claimed.iter().any(|it| it.message.has_expired(now)) {
        return (claimed, Vec::new());
    }
    let (expired, rest): (Vec<_>, Vec<_>) = claimed
        .into_iter()
        .partition(|claimed| claimed.message.has_expired(now));
    let report = |it: &ClaimedMessage| expired_report(it.message.id, it.in_doubt);
    (rest, expired.iter().map(report).collect())
}

/// The report of a message whose time passed before it was sent. One that may have arrived by an
/// earlier attempt is uncertain, as it was.
pub fn expired_report(id: MessageId, in_doubt: bool) -> Report {
    let outcome = if in_doubt {
        Outcome::Uncertain
    } else {
        Outcome::Dead
    };
    Report {
        code: Some(codes::EXPIRED_BEFORE_DELIVERY.to_owned()),
        ..Report::new(id, outcome)
    }
}
