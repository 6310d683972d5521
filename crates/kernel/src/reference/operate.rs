//! What people do: queues, pausing, requeueing, holding.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{Entry, HeldRow, Reference, groups::Place};
use crate::{
    By, MessageId, Move, Moved, Queue, QueueName, QueuePolicy, StateKind,
    error::{Error, Result},
};

impl Reference {
    /// Creates a queue or changes its policy.
    pub fn put_queue(
        &mut self,
        now: Timestamp,
        name: &QueueName,
        policy: &QueuePolicy,
        by: &By,
    ) -> Result<Queue> {
        by.validate()?;
        policy.validate()?;
        if let Some(queue) = self.queues.get(name) {
            let order = |policy: &QueuePolicy| (policy.ordered, policy.on_dead);
            if order(&queue.policy) != order(policy) && !self.is_idle(name) {
                return Err(Error::QueueNotEmpty {
                    queue: name.clone(),
                });
            }
        }
        let queue = self.queues.entry(name.clone()).or_insert_with(|| Queue {
            name: name.clone(),
            policy: policy.clone(),
            paused_at: None,
        });
        queue.policy = policy.clone();
        let queue = queue.clone();
        self.record_action(now, by, "queue", Some(name), None);
        Ok(queue)
    }

    fn is_idle(&self, name: &QueueName) -> bool {
        let blocked = self.turns.keys().any(|(queue, _)| queue == name);
        self.counts(Timestamp::MAX, name).unfinished() == 0 && !blocked
    }

    /// Stops claims.
    pub fn pause(&mut self, now: Timestamp, name: &QueueName, by: &By) -> Result<Queue> {
        self.set_paused(now, name, by, true)
    }

    /// Lets the queue be claimed again.
    pub fn resume(&mut self, now: Timestamp, name: &QueueName, by: &By) -> Result<Queue> {
        self.set_paused(now, name, by, false)
    }

    fn set_paused(
        &mut self,
        now: Timestamp,
        name: &QueueName,
        by: &By,
        paused: bool,
    ) -> Result<Queue> {
        by.validate()?;
        self.known_queue(name)?;
        let queue = self.queues.get_mut(name).expect("invariant: just found");
        queue.paused_at = if paused {
            queue.paused_at.or(Some(now))
        } else {
            None
        };
        let queue = queue.clone();
        let action = if paused { "pause" } else { "resume" };
        self.record_action(now, by, action, Some(name), None);
        Ok(queue)
    }

    /// Gives dead messages a fresh set of tries.
    pub fn requeue(&mut self, now: Timestamp, ids: &[MessageId], by: &By) -> Result<Vec<Moved>> {
        self.put_back(now, ids, by, "requeue", |store, id| {
            let dead = store.dead.remove(&id)?;
            Some(Entry {
                id,
                tries: 0,
                attempts: dead.attempt_no,
            })
        })
    }

    /// Puts held messages back.
    pub fn unhold(&mut self, now: Timestamp, ids: &[MessageId], by: &By) -> Result<Vec<Moved>> {
        self.put_back(now, ids, by, "unhold", |store, id| {
            store.held.remove(&id).map(|held| held.entry)
        })
    }

    /// Moves messages to ready, or to waiting where it is not their turn; one run per queue.
    fn put_back(
        &mut self,
        now: Timestamp,
        ids: &[MessageId],
        by: &By,
        action: &str,
        take_out: impl Fn(&mut Self, MessageId) -> Option<Entry>,
    ) -> Result<Vec<Moved>> {
        by.validate()?;
        let mut answers = Vec::new();
        let mut runs: BTreeMap<QueueName, Vec<Entry>> = BTreeMap::new();
        for id in ids.iter().copied().collect::<BTreeSet<_>>() {
            let Some(state) = self.state(id).map(|state| state.kind()) else {
                answers.push(Moved {
                    id,
                    answer: Move::NoSuchMessage,
                });
                continue;
            };
            let answer = match take_out(self, id) {
                None if action == "requeue" => Move::NotDead { state },
                None => Move::NotHeld { state },
                Some(entry) => {
                    let queue = self.messages[&id].queue.clone();
                    self.record_action(now, by, action, Some(&queue), Some(id));
                    match self.take_turn(entry, now) {
                        Place::Waiting => Move::Moved {
                            state: StateKind::Waiting,
                        },
                        Place::Ready => {
                            runs.entry(queue).or_default().push(entry);
                            Move::Moved {
                                state: StateKind::Ready,
                            }
                        }
                    }
                }
            };
            answers.push(Moved { id, answer });
        }
        for (queue, entries) in runs {
            self.make_ready(&queue, now, &entries, false);
        }
        Ok(answers)
    }

    /// Parks ready and waiting messages. A parked message keeps its turn, or its place before it.
    pub fn hold(&mut self, now: Timestamp, ids: &[MessageId], by: &By) -> Result<Vec<Moved>> {
        by.validate()?;
        let mut answers = Vec::new();
        for id in ids.iter().copied().collect::<BTreeSet<_>>() {
            let answer = match self.state(id).map(|state| state.kind()) {
                None => Move::NoSuchMessage,
                Some(StateKind::Ready | StateKind::Waiting) => {
                    let entry = self
                        .take_from_ready(id)
                        .or_else(|| self.take_from_waiting(id));
                    let entry = entry.expect("invariant: ready or waiting");
                    let reason = by.reason.clone();
                    self.held.insert(
                        id,
                        HeldRow {
                            at: now,
                            reason,
                            entry,
                        },
                    );
                    let queue = self.messages[&id].queue.clone();
                    self.record_action(now, by, "hold", Some(&queue), Some(id));
                    Move::Moved {
                        state: StateKind::Held,
                    }
                }
                Some(state) => Move::NotHoldable { state },
            };
            answers.push(Moved { id, answer });
        }
        Ok(answers)
    }

    fn take_from_ready(&mut self, id: MessageId) -> Option<Entry> {
        let (key, run) = self
            .ready
            .iter_mut()
            .find(|(_, run)| run.entries.iter().any(|e| e.id == id))?;
        let key = key.clone();
        let index = run.entries.iter().position(|entry| entry.id == id)?;
        let entry = run.entries.remove(index);
        if run.entries.is_empty() {
            self.ready.remove(&key);
        }
        Some(entry)
    }

    fn take_from_waiting(&mut self, id: MessageId) -> Option<Entry> {
        let key = self
            .waiting
            .keys()
            .find(|(_, _, waiting)| *waiting == id)?
            .clone();
        self.waiting.remove(&key).map(|row| row.entry)
    }
}
