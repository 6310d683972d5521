//! What people do: lanes, pausing, requeueing, holding.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{Entry, HeldRow, Reference, groups::Place};
use crate::{
    By, Lane, LaneName, LanePolicy, MessageId, Move, Moved, StateKind,
    error::{Error, Result},
};

impl Reference {
    /// Creates a lane or changes its policy.
    pub fn put_lane(
        &mut self,
        now: Timestamp,
        name: &LaneName,
        policy: &LanePolicy,
        by: &By,
    ) -> Result<Lane> {
        by.validate()?;
        policy.validate()?;
        if let Some(lane) = self.lanes.get(name) {
            let order = |policy: &LanePolicy| (policy.ordered, policy.on_dead);
            if order(&lane.policy) != order(policy) && !self.is_idle(name) {
                return Err(Error::LaneNotEmpty { lane: name.clone() });
            }
        }
        let lane = self.lanes.entry(name.clone()).or_insert_with(|| Lane {
            name: name.clone(),
            policy: policy.clone(),
            paused_at: None,
        });
        lane.policy = policy.clone();
        let lane = lane.clone();
        self.record_action(now, by, "lane", Some(name), None);
        Ok(lane)
    }

    fn is_idle(&self, name: &LaneName) -> bool {
        let blocked = self.turns.keys().any(|(lane, _)| lane == name);
        self.counts(Timestamp::MAX, name).unfinished() == 0 && !blocked
    }

    /// Stops claims.
    pub fn pause(&mut self, now: Timestamp, name: &LaneName, by: &By) -> Result<Lane> {
        self.set_paused(now, name, by, true)
    }

    /// Lets the lane be claimed again.
    pub fn resume(&mut self, now: Timestamp, name: &LaneName, by: &By) -> Result<Lane> {
        self.set_paused(now, name, by, false)
    }

    fn set_paused(
        &mut self,
        now: Timestamp,
        name: &LaneName,
        by: &By,
        paused: bool,
    ) -> Result<Lane> {
        by.validate()?;
        self.known_lane(name)?;
        let lane = self.lanes.get_mut(name).expect("invariant: just found");
        lane.paused_at = if paused {
            lane.paused_at.or(Some(now))
        } else {
            None
        };
        let lane = lane.clone();
        let action = if paused { "pause" } else { "resume" };
        self.record_action(now, by, action, Some(name), None);
        Ok(lane)
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

    /// Moves messages to ready, or to waiting where it is not their turn; one run per lane.
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
        let mut runs: BTreeMap<LaneName, Vec<Entry>> = BTreeMap::new();
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
                    let lane = self.messages[&id].lane.clone();
                    self.record_action(now, by, action, Some(&lane), Some(id));
                    match self.take_turn(entry, now) {
                        Place::Waiting => Move::Moved {
                            state: StateKind::Waiting,
                        },
                        Place::Ready => {
                            runs.entry(lane).or_default().push(entry);
                            Move::Moved {
                                state: StateKind::Ready,
                            }
                        }
                    }
                }
            };
            answers.push(Moved { id, answer });
        }
        for (lane, entries) in runs {
            self.make_ready(&lane, now, &entries, false);
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
                    let lane = self.messages[&id].lane.clone();
                    self.record_action(now, by, "hold", Some(&lane), Some(id));
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
