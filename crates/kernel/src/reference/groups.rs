//! Order within groups: only the head of a group may be ready.

use jiff::Timestamp;

use super::{Entry, Reference, WaitingRow};
use crate::{
    MessageId, QueueName,
    plan::{Promotion, group_moves_on, next_head},
};

/// Where a message that may be tried is put.
pub(super) enum Admission {
    Ready,
    Waiting,
}

impl Reference {
    /// Makes a message the head of its group if there is none, or puts it in `waiting`.
    pub(super) fn become_head(&mut self, entry: Entry, due_at: Timestamp) -> Admission {
        let Some((queue, group)) = self.group_of(entry.id) else {
            return Admission::Ready;
        };
        let head = *self
            .heads
            .entry((queue.clone(), group.clone()))
            .or_insert(entry.id);
        if head == entry.id {
            return Admission::Ready;
        }
        self.waiting
            .insert((queue, group, entry.id), WaitingRow { entry, due_at });
        Admission::Waiting
    }

    /// Promotes the next message after the head was delivered, closed or died, where the queue's policy
    /// allows it.
    pub(super) fn promote_next(&mut self, now: Timestamp, id: MessageId, died: bool) {
        let Some((queue, group)) = self.group_of(id) else {
            return;
        };
        if !group_moves_on(self.policy(&queue), died) {
            return;
        }
        assert_eq!(
            self.heads.get(&(queue.clone(), group.clone())),
            Some(&id),
            "the finished one was the head"
        );
        let first = (queue.clone(), group.clone(), MessageId(i64::MIN));
        let last = (queue.clone(), group.clone(), MessageId(i64::MAX));
        let waiting = self.waiting.range(first..=last).next();
        let waiting = waiting.map(|(_, row)| (row.entry, row.due_at));
        let held = self.held.keys().copied().find(|id| {
            let of_group = self.group_of(*id);
            of_group.is_some_and(|(l, g)| l == queue && g == group)
        });
        let place = (queue.clone(), group.clone());
        match next_head(now, waiting, held) {
            Promotion::Ready { entry, due_at } => {
                self.heads.insert(place, entry.id);
                self.waiting.remove(&(queue.clone(), group, entry.id));
                self.make_ready(&queue, due_at, &[entry], false);
            }
            Promotion::Held(id) => {
                self.heads.insert(place, id);
            }
            Promotion::Ended => {
                self.heads.remove(&place);
            }
        }
    }

    /// The group that orders a message, if its queue is ordered.
    pub(super) fn group_of(&self, id: MessageId) -> Option<(QueueName, String)> {
        let message = &self.messages[&id];
        let group = message.group.clone()?;
        self.policy(&message.queue)
            .ordered
            .then(|| (message.queue.clone(), group))
    }
}
