//! Order within groups, by turns: only the message whose turn it is may be ready.

use jiff::Timestamp;

use super::{Entry, Reference, WaitingRow};
use crate::{MessageId, OnDead, QueueName};

/// Where a message that wants to be tried belongs.
pub(super) enum Place {
    Ready,
    Waiting,
}

impl Reference {
    /// Takes the group's turn for a message if it is free, or puts the message in `waiting`.
    pub(super) fn take_turn(&mut self, entry: Entry, due_at: Timestamp) -> Place {
        let Some((queue, group)) = self.group_of(entry.id) else {
            return Place::Ready;
        };
        let turn = *self
            .turns
            .entry((queue.clone(), group.clone()))
            .or_insert(entry.id);
        if turn == entry.id {
            return Place::Ready;
        }
        self.waiting
            .insert((queue, group, entry.id), WaitingRow { entry, due_at });
        Place::Waiting
    }

    /// Passes the turn on after a message was delivered or died, where its queue lets it.
    pub(super) fn pass_turn(&mut self, now: Timestamp, id: MessageId, died: bool) {
        let Some((queue, group)) = self.group_of(id) else {
            return;
        };
        if died && self.policy(&queue).on_dead == OnDead::Block {
            return;
        }
        assert_eq!(
            self.turns.get(&(queue.clone(), group.clone())),
            Some(&id),
            "turn of the finished"
        );
        let first = (queue.clone(), group.clone(), MessageId(i64::MIN));
        let last = (queue.clone(), group.clone(), MessageId(i64::MAX));
        let waiting = self.waiting.range(first..=last).next();
        let waiting = waiting.map(|((_, _, id), _)| *id);
        let held = self.held.keys().copied().find(|id| {
            let of_group = self.group_of(*id);
            of_group.is_some_and(|(l, g)| l == queue && g == group)
        });
        // Whoever is held keeps its place: the turn comes to it and waits there for a person.
        match waiting.into_iter().chain(held).min() {
            Some(next) => {
                self.turns.insert((queue.clone(), group.clone()), next);
                if let Some(row) = self.waiting.remove(&(queue.clone(), group, next)) {
                    self.make_ready(&queue, row.due_at.max(now), &[row.entry], false);
                }
            }
            None => {
                self.turns.remove(&(queue, group));
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
