//! Closing messages without delivery: discarding the dead and held, cancelling the ready and waiting.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{DiscardedRow, Reference};
use crate::{
    By, MessageId, Move, MoveResult, QueueName, StateKind,
    error::{Error, Result},
    plan::OperatorMove,
};

impl Reference {
    /// Discards dead and held messages.
    pub fn discard(
        &mut self,
        now: Timestamp,
        ids: &[MessageId],
        by: &By,
    ) -> Result<Vec<MoveResult>> {
        self.close(now, ids, by, OperatorMove::Discard)
    }

    /// Cancels ready and waiting messages.
    pub fn cancel(
        &mut self,
        now: Timestamp,
        ids: &[MessageId],
        by: &By,
    ) -> Result<Vec<MoveResult>> {
        self.close(now, ids, by, OperatorMove::Cancel)
    }

    /// Discards or cancels the head of a group.
    pub fn skip(
        &mut self,
        now: Timestamp,
        queue: &QueueName,
        group: &str,
        by: &By,
    ) -> Result<Option<MoveResult>> {
        by.validate()?;
        if !self.known_queue(queue)?.policy.ordered {
            return Err(Error::not_ordered(queue));
        }
        let Some(head) = self.heads.get(&(queue.clone(), group.to_owned())).copied() else {
            return Ok(None);
        };
        let kind = OperatorMove::of_skip(self.kind(head));
        Ok(self.close(now, &[head], by, kind)?.pop())
    }

    /// Moves messages to `discarded`; then the groups go on whose heads they were.
    pub(super) fn close(
        &mut self,
        now: Timestamp,
        ids: &[MessageId],
        by: &By,
        kind: OperatorMove,
    ) -> Result<Vec<MoveResult>> {
        by.validate()?;
        let (mut answers, mut heads) = (Vec::new(), Vec::new());
        for id in ids.iter().copied().collect::<BTreeSet<_>>() {
            let state = self.state(id).map(|state| state.kind());
            let answer = kind.refusal(state).unwrap_or_else(|| {
                self.close_one(now, id, by, kind);
                let is_head =
                    self.group_of(id).and_then(|group| self.heads.get(&group)) == Some(&id);
                heads.extend(is_head.then_some(id));
                Move::Moved {
                    state: StateKind::Discarded,
                }
            });
            answers.push(MoveResult { id, answer });
        }
        for id in heads {
            self.promote_next(now, id, false);
        }
        Ok(answers)
    }

    fn close_one(&mut self, now: Timestamp, id: MessageId, by: &By, kind: OperatorMove) {
        let queue = self.messages[&id].queue.clone();
        let dead = self.dead.remove(&id).map(|dead| dead.attempt_no);
        if dead.is_some() {
            // Its death stays in the total of the queue.
            self.departed.entry(queue.clone()).or_default().revived += 1;
        }
        let attempts = dead
            .or_else(|| self.held.remove(&id).map(|held| held.entry.attempts))
            .or_else(|| self.take_from_ready(id).map(|entry| entry.attempts))
            .or_else(|| self.take_from_waiting(id).map(|entry| entry.attempts));
        let row = DiscardedRow {
            at: now,
            attempts: attempts.expect("invariant: in a state it is taken from"),
            by: by.clone(),
        };
        self.discarded.insert(id, row);
        self.record_action(now, by, kind.as_str(), Some(&queue), Some(id));
    }
}
