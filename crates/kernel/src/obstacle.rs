//! What keeps a message from leaving.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::{Explanation, MessageId, QueueName, State, StateKind};

/// Why a message has not left yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Obstacle {
    /// Number that the store gave the message; never reused.
    pub message_id: MessageId,
    /// Queue whose policy applies.
    pub queue: QueueName,
    /// Why.
    #[serde(flatten)]
    pub why: Reason,
}

/// Why a message stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Reason {
    /// The queue has no `keep_ms`.
    KeepsEverything,
    /// It is not finished, and never leaves before.
    Unfinished {
        /// Where it is.
        state: StateKind,
        /// Since when it was enqueued, or held.
        since: Timestamp,
    },
    /// It is dead, and its queue has no `keep_dead_ms`.
    Dead {
        /// Since when.
        since: Timestamp,
    },
    /// It is younger than its queue keeps such messages.
    Young {
        /// Delivered, dead or discarded.
        state: StateKind,
        /// When it may leave, unless something happens to it.
        until: Timestamp,
    },
    /// It may leave, unless it is a dead head that blocks its group or its app needs it: when its range is
    /// closed, no more of it stays than may, and an archive has it if the queue requires one.
    PastItsTime,
}

impl Obstacle {
    /// What keeps a message from leaving, by its last attempt: a late result or an operator's action
    /// after it may keep the message longer.
    pub fn of(explanation: &Explanation) -> Self {
        let policy = &explanation.queue.policy;
        let message = &explanation.message;
        let kept = |state, at: Timestamp, keep_ms: u64| {
            let keep = SignedDuration::from_millis(i64::try_from(keep_ms).unwrap_or(i64::MAX));
            let until = at.saturating_add(keep).unwrap_or(Timestamp::MAX);
            if until > explanation.now {
                Reason::Young { state, until }
            } else {
                Reason::PastItsTime
            }
        };
        let why = match &explanation.state {
            State::Delivered { at } | State::Discarded { at, .. } => match policy.keep_ms {
                Some(keep_ms) => kept(explanation.state.kind(), *at, keep_ms),
                None => Reason::KeepsEverything,
            },
            State::Dead { at, .. } => match policy.keep_dead_ms {
                Some(keep_ms) => kept(StateKind::Dead, *at, keep_ms),
                None => Reason::Dead { since: *at },
            },
            State::Held { at, .. } => Reason::Unfinished {
                state: StateKind::Held,
                since: *at,
            },
            state => Reason::Unfinished {
                state: state.kind(),
                since: message.created_at,
            },
        };
        Self {
            message_id: message.id,
            queue: message.queue.clone(),
            why,
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            message_id, queue, ..
        } = self;
        match self.why {
            Reason::KeepsEverything => write!(f, "queue {queue} keeps everything: no keep_ms"),
            Reason::Unfinished { state, since } => {
                let state = state.as_str();
                let since = day(since);
                write!(
                    f,
                    "message {message_id} of queue {queue} is {state} since {since}"
                )
            }
            Reason::Dead { since } => {
                let since = day(since);
                write!(
                    f,
                    "message {message_id} of queue {queue} is dead since {since}: no keep_dead_ms"
                )
            }
            Reason::Young { state, until } => {
                let (state, until) = (state.as_str(), day(until));
                write!(
                    f,
                    "message {message_id} of queue {queue} is {state} and kept until {until}"
                )
            }
            Reason::PastItsTime => {
                write!(
                    f,
                    "message {message_id} of queue {queue} is past its time: it leaves with its \
                     range, unless it blocks its group or its app needs it"
                )
            }
        }
    }
}

fn day(at: Timestamp) -> impl fmt::Display {
    at.strftime("%Y-%m-%d")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Fence, Message, Payload, Queue, QueuePolicy};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn obstacle(state: State, keep_s: Option<u64>) -> Obstacle {
        let queue: QueueName = "mail".parse().unwrap();
        let keep_ms = keep_s.map(|s| s * 1_000);
        Obstacle::of(&Explanation {
            message: Message {
                id: MessageId(4_711),
                queue: queue.clone(),
                key: None,
                group: None,
                payload: Payload::from(json!({})),
                headers: serde_json::Map::new(),
                created_at: at(1),
                expires_at: None,
            },
            state,
            erased: None,
            queue: Queue {
                name: queue,
                policy: QueuePolicy {
                    keep_ms,
                    keep_dead_ms: keep_ms,
                    ..QueuePolicy::default()
                },
                paused_at: None,
            },
            attempts: 1,
            last_attempt: None,
            now: at(100),
        })
    }

    #[test]
    fn what_keeps_a_message_has_a_name() {
        let delivered = State::Delivered { at: at(50) };
        let dead = State::Dead {
            at: at(50),
            code: "gone".to_owned(),
            detail: None,
        };
        let held = State::Held {
            at: at(7),
            reason: "why".to_owned(),
        };
        let leased = State::Leased {
            owner: "w".to_owned(),
            fence: Fence(1),
            expires_at: at(200),
            begun: false,
        };
        let young = |state| Reason::Young {
            state,
            until: at(101),
        };
        let unfinished = |state, since| Reason::Unfinished {
            state,
            since: at(since),
        };
        let discarded = State::Discarded {
            at: at(50),
            actor: "ada".to_owned(),
            reason: "why".to_owned(),
        };
        for (state, keep_s, expected) in [
            (discarded.clone(), None, Reason::KeepsEverything),
            (discarded.clone(), Some(51), young(StateKind::Discarded)),
            (discarded, Some(50), Reason::PastItsTime),
            (delivered.clone(), None, Reason::KeepsEverything),
            (delivered.clone(), Some(51), young(StateKind::Delivered)),
            (delivered, Some(50), Reason::PastItsTime),
            (dead.clone(), None, Reason::Dead { since: at(50) }),
            (dead.clone(), Some(51), young(StateKind::Dead)),
            (dead.clone(), Some(50), Reason::PastItsTime),
            (held, Some(0), unfinished(StateKind::Held, 7)),
            (leased, Some(0), unfinished(StateKind::Leased, 1)),
        ] {
            assert_eq!(obstacle(state.clone(), keep_s).why, expected, "{state:?}");
        }
        assert_eq!(
            obstacle(dead, None).to_string(),
            "message 4711 of queue mail is dead since 1970-01-01: no keep_dead_ms"
        );
    }
}
