//! Which message of a group may be ready.

use jiff::Timestamp;

use super::Entry;
use crate::{MessageId, OnDead, QueuePolicy};

/// The state of a group after its head finished.
#[derive(Debug, PartialEq, Eq)]
pub enum Promotion {
    /// This message is the head, and ready from `due_at` on.
    Ready {
        /// The message that waited.
        entry: Entry,
        /// When it may be tried.
        due_at: Timestamp,
    },
    /// This message keeps its place: it is the head and blocks the group until an operator decides.
    Held(MessageId),
    /// Nothing of the group is left.
    Ended,
}

/// The next head: the oldest waiting message, unless an older one is held.
pub fn next_head(
    now: Timestamp,
    waiting: Option<(Entry, Timestamp)>,
    held: Option<MessageId>,
) -> Promotion {
    match (waiting, held) {
        (Some((entry, _)), Some(held)) if held < entry.id => Promotion::Held(held),
        (Some((entry, due_at)), _) => Promotion::Ready {
            entry,
            due_at: due_at.max(now),
        },
        (None, Some(held)) => Promotion::Held(held),
        (None, None) => Promotion::Ended,
    }
}

/// Whether a group goes on after its head was delivered, discarded or cancelled, or died.
pub fn group_moves_on(policy: &QueuePolicy, died: bool) -> bool {
    policy.ordered && (!died || policy.on_dead == OnDead::Continue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_comes_next_and_a_held_one_blocks() {
        let (early, now) = (Timestamp::UNIX_EPOCH, Timestamp::MAX);
        let entry = Entry::new(MessageId(5));
        let ready = || Promotion::Ready { entry, due_at: now };
        let waiting = Some((entry, early));
        for (waiting, held, next) in [
            (waiting, None, ready()),
            (waiting, Some(6), ready()),
            (waiting, Some(4), Promotion::Held(MessageId(4))),
            (None, Some(6), Promotion::Held(MessageId(6))),
            (None, None, Promotion::Ended),
        ] {
            assert_eq!(next_head(now, waiting, held.map(MessageId)), next);
        }
    }
}
