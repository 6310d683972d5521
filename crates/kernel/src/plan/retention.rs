//! Which finished messages may leave.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{DepartureCause, MessageId, QueuePolicy, StateKind};

/// The times of one departure for one queue: finished messages may leave whose last event was then
/// or before. A state without a time stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cutoffs {
    /// For delivered and discarded messages.
    pub delivered: Option<Timestamp>,
    /// For dead messages.
    pub dead: Option<Timestamp>,
    /// Whether the messages must be in an archive first.
    pub archive: bool,
}

impl Cutoffs {
    /// The times that follow from a queue's policy; none if it keeps everything.
    pub fn of(policy: &QueuePolicy, now: Timestamp) -> Option<Self> {
        let before = |keep_ms: Option<u64>| keep_ms.map(|keep_ms| earlier(now, keep_ms));
        let cutoffs = Self {
            delivered: before(policy.keep_ms),
            dead: before(policy.keep_dead_ms),
            archive: policy.archive,
        };
        cutoffs.latest().map(|_| cutoffs)
    }

    /// The times while the database is too large: delivered messages of a queue with a `keep_ms` leave at
    /// once. A queue without one keeps everything, and dead messages keep their time.
    pub fn by_size(policy: &QueuePolicy, now: Timestamp) -> Option<Self> {
        let cutoffs = Self::of(policy, now)?;
        let delivered = cutoffs.delivered.map(|_| now);
        Some(Self {
            delivered,
            ..cutoffs
        })
    }

    /// The times for a cause.
    pub fn by(cause: DepartureCause, policy: &QueuePolicy, now: Timestamp) -> Option<Self> {
        match cause {
            DepartureCause::Age => Self::of(policy, now),
            DepartureCause::Size => Self::by_size(policy, now),
        }
    }

    /// Whether messages may leave from a process with an archive, or without.
    pub fn allows(&self, has_archive: bool) -> bool {
        has_archive || !self.archive
    }

    /// The later of its times: no message enqueued after it can leave.
    pub fn latest(&self) -> Option<Timestamp> {
        self.delivered.max(self.dead)
    }
}

/// A message, as far as it matters for whether it may leave and whether it has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Finished {
    /// Number that the store gave the message; never reused.
    pub id: MessageId,
    /// State when it was read.
    pub state: StateKind,
    /// The latest of its attempts, its death or discard, its late results and what operators did to it.
    pub last_event: Timestamp,
    /// Whether it is the head of its group, which would lose its place with it.
    pub is_head: bool,
    /// How many attempts, late results and audit entries it has.
    pub records: u64,
}

/// Whether a message may leave.
pub fn may_leave(message: &Finished, cutoffs: &Cutoffs) -> bool {
    let cutoff = match message.state {
        StateKind::Delivered | StateKind::Discarded => cutoffs.delivered,
        StateKind::Dead if !message.is_head => cutoffs.dead,
        _ => None,
    };
    cutoff.is_some_and(|cutoff| message.last_event <= cutoff)
}

/// A digest of the messages of a departure, by id: another one means that something was recorded
/// about them, or that others may leave.
pub fn fingerprint<'m>(leaving: impl IntoIterator<Item = &'m Finished>) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for message in leaving {
        hasher.update(message.id.0.to_le_bytes());
        hasher.update(message.state.as_str());
        hasher.update(message.last_event.as_microsecond().to_le_bytes());
        hasher.update(message.records.to_le_bytes());
    }
    hasher.finalize().into()
}

/// The time up to which the messages of forgotten keys were enqueued; none if keys stay for ever.
pub fn key_cutoff(policy: &QueuePolicy, now: Timestamp) -> Option<Timestamp> {
    policy.keep_keys_ms.map(|keep_ms| earlier(now, keep_ms))
}

/// The hour of a time, by which samples are kept.
pub fn hour(now: Timestamp) -> Timestamp {
    let seconds = now.as_second().div_euclid(3_600) * 3_600;
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MIN)
}

/// `now` minus a duration, at the beginning of the calendar at the earliest.
fn earlier(now: Timestamp, by_ms: u64) -> Timestamp {
    let by = SignedDuration::from_millis(i64::try_from(by_ms).unwrap_or(i64::MAX));
    now.saturating_sub(by)
        .expect("invariant: subtracting a duration saturates")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(state: StateKind, last_event: i64) -> Finished {
        Finished {
            id: MessageId(1),
            state,
            last_event: Timestamp::from_second(last_event).unwrap(),
            is_head: false,
            records: 1,
        }
    }

    #[test]
    fn only_finished_messages_past_their_time_may_leave() {
        let now = Timestamp::from_second(1_000).unwrap();
        let policy = QueuePolicy {
            keep_ms: Some(100_000),
            keep_dead_ms: Some(300_000),
            ..QueuePolicy::default()
        };
        let cutoffs = Cutoffs::of(&policy, now).unwrap();
        assert_eq!(cutoffs.latest(), Timestamp::from_second(900).ok());
        for state in StateKind::ALL {
            let last = match state {
                StateKind::Delivered | StateKind::Discarded => 900,
                StateKind::Dead => 700,
                _ => {
                    assert!(!may_leave(&finished(state, 0), &cutoffs), "{state:?}");
                    continue;
                }
            };
            assert!(may_leave(&finished(state, last), &cutoffs), "{state:?}");
            assert!(!may_leave(&finished(state, last + 1), &cutoffs));
        }
        let blocking = Finished {
            is_head: true,
            ..finished(StateKind::Dead, 0)
        };
        assert!(!may_leave(&blocking, &cutoffs), "its group waits for it");
    }

    #[test]
    fn a_queue_without_times_keeps_everything() {
        let policy = QueuePolicy::default();
        assert_eq!(Cutoffs::of(&policy, Timestamp::MAX), None);
        let only_dead = QueuePolicy {
            keep_dead_ms: Some(0),
            ..policy
        };
        let cutoffs = Cutoffs::of(&only_dead, Timestamp::UNIX_EPOCH).unwrap();
        assert!(!may_leave(&finished(StateKind::Delivered, 0), &cutoffs));
        assert!(may_leave(&finished(StateKind::Dead, 0), &cutoffs));
    }

    #[test]
    fn a_bound_by_size_shortens_the_time_of_delivered_messages_only() {
        let now = Timestamp::from_second(1_000).unwrap();
        let policy = |keep_ms| QueuePolicy {
            keep_ms,
            keep_dead_ms: Some(300_000),
            ..QueuePolicy::default()
        };
        let cutoffs = Cutoffs::by_size(&policy(Some(100_000)), now).unwrap();
        assert!(may_leave(&finished(StateKind::Delivered, 1_000), &cutoffs));
        assert!(!may_leave(&finished(StateKind::Dead, 701), &cutoffs));
        assert!(may_leave(&finished(StateKind::Dead, 700), &cutoffs));
        let cutoffs = Cutoffs::by_size(&policy(None), now).unwrap();
        assert!(!may_leave(&finished(StateKind::Delivered, 0), &cutoffs));
        assert_eq!(Cutoffs::by_size(&QueuePolicy::default(), now), None);
    }

    #[test]
    fn a_fingerprint_differs_with_every_change() {
        let first = finished(StateKind::Dead, 5);
        let others = [
            Finished {
                id: MessageId(2),
                ..first
            },
            Finished {
                state: StateKind::Delivered,
                ..first
            },
            Finished {
                records: 2,
                ..first
            },
            finished(StateKind::Dead, 6),
        ];
        for other in others {
            assert_ne!(fingerprint([&first]), fingerprint([&other]), "{other:?}");
        }
        assert_ne!(fingerprint([]), fingerprint([&first]));
    }
}
