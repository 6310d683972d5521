//! Reading: where a message is, and lists.

use jiff::Timestamp;

use super::Reference;
use crate::{
    Attempt, AttemptOutcome, AuditEntry, Counts, Cursor, DeadLetter, Explanation, Filter,
    LeaseView, Listed, MessageId, PAGE_ENTRIES_MAX, Page, Queue, QueueName, State, StateKind,
    Totals,
};

impl Reference {
    /// One queue.
    pub fn queue(&self, name: &QueueName) -> Option<Queue> {
        self.queues.get(name).cloned()
    }

    /// Every queue with its counts.
    pub fn queues(
        &self,
        now: Timestamp,
        after: Option<&QueueName>,
        limit: u32,
    ) -> Vec<(Queue, Counts)> {
        self.queues
            .values()
            .filter(|queue| after.is_none_or(|after| queue.name > *after))
            .take(limit.min(PAGE_ENTRIES_MAX) as usize)
            .map(|queue| (queue.clone(), self.counts(now, &queue.name)))
            .collect()
    }

    /// One queue with its counts.
    pub fn queue_counts(&self, now: Timestamp, name: &QueueName) -> Option<(Queue, Counts)> {
        let queue = self.queues.get(name)?;
        Some((queue.clone(), self.counts(now, name)))
    }

    /// What is in all queues together.
    pub fn totals(&self, now: Timestamp) -> Totals {
        let all = self.queues.keys().map(|name| self.counts(now, name));
        Totals {
            queues: self.queues.len() as u64,
            counts: all.fold(Counts::default(), Counts::plus),
        }
    }

    pub(super) fn counts(&self, now: Timestamp, name: &QueueName) -> Counts {
        let mut counts = Counts::default();
        for (key, run) in self.ready.iter().filter(|(key, _)| key.queue == *name) {
            let count = run.entries.len() as u64;
            if key.due_at <= now {
                counts.ready += count;
                counts.oldest_due_at = counts.oldest_due_at.or(Some(key.due_at));
            } else {
                counts.scheduled += count;
            }
        }
        let leases = self.leases.values().filter(|lease| lease.queue == *name);
        counts.leased = leases.map(|lease| lease.entries.len() as u64).sum();
        counts.waiting = self
            .waiting
            .keys()
            .filter(|(queue, _, _)| queue == name)
            .count() as u64;
        counts.dead = self
            .dead
            .values()
            .filter(|dead| dead.queue == *name)
            .count() as u64;
        let held = self
            .held
            .keys()
            .filter(|id| self.messages[id].queue == *name);
        counts.held = held.count() as u64;
        counts
    }

    /// Where a message is; `None` if there is no such message.
    pub fn state(&self, id: MessageId) -> Option<State> {
        let message = self.messages.get(&id)?;
        if let Some((key, _)) = self
            .ready
            .iter()
            .find(|(_, run)| run.entries.iter().any(|entry| entry.id == id))
        {
            return Some(State::Ready { due_at: key.due_at });
        }
        if let Some((fence, lease)) = self
            .leases
            .iter()
            .find(|(_, lease)| lease.entries.iter().any(|entry| entry.id == id))
        {
            return Some(State::Leased {
                owner: lease.owner.clone(),
                fence: *fence,
                expires_at: lease.expires_at,
                begun: lease.begun.contains(&id),
            });
        }
        if let Some(held) = self.held.get(&id) {
            return Some(State::Held {
                at: held.at,
                reason: held.reason.clone(),
            });
        }
        if let Some(dead) = self.dead.get(&id) {
            let (code, detail) = (dead.code.clone(), dead.detail.clone());
            return Some(State::Dead {
                at: dead.at,
                code,
                detail,
            });
        }
        if let Some(group) = &message.group {
            let place = (message.queue.clone(), group.clone());
            if self
                .waiting
                .contains_key(&(message.queue.clone(), group.clone(), id))
            {
                return Some(State::Waiting {
                    behind: self.turns.get(&place).copied(),
                });
            }
        }
        let last = self.history(id).pop()?;
        (last.outcome == AttemptOutcome::Delivered).then_some(State::Delivered {
            at: last.finished_at,
        })
    }

    /// A message, where it is, and why.
    pub fn explain(&self, now: Timestamp, id: MessageId) -> Option<Explanation> {
        let message = self.messages.get(&id)?.clone();
        let mut history = self.history(id);
        Some(Explanation {
            state: self.state(id)?,
            queue: self.queues[&message.queue].clone(),
            attempts: history.len() as u32,
            last_attempt: history.pop().map(Into::into),
            message,
            now,
        })
    }

    /// Every attempt of a message, first to last.
    pub fn history(&self, id: MessageId) -> Vec<Attempt> {
        let attempts = self.attempts.range((id, 0)..=(id, u32::MAX));
        attempts.map(|(_, attempt)| attempt.clone()).collect()
    }

    /// Messages by id, newest first.
    pub fn list(&self, filter: &Filter, before: Option<Cursor>, limit: u32) -> Page<Listed> {
        let matches = |listed: &Listed| {
            let code = self.dead.get(&listed.id).map(|dead| &dead.code);
            filter
                .queue
                .as_ref()
                .is_none_or(|queue| *queue == listed.queue)
                && filter.state.is_none_or(|state| state == listed.state)
                && filter
                    .key
                    .as_ref()
                    .is_none_or(|key| Some(key) == listed.key.as_ref())
                && filter
                    .correlation_id
                    .as_deref()
                    .is_none_or(|it| self.messages[&listed.id].correlation_id() == Some(it))
                && filter
                    .code
                    .as_ref()
                    .is_none_or(|wanted| Some(wanted) == code)
        };
        let listed = self.messages.values().rev().map(|message| Listed {
            id: message.id,
            queue: message.queue.clone(),
            key: message.key.clone(),
            group: message.group.clone(),
            created_at: message.created_at,
            state: self
                .state(message.id)
                .map_or(StateKind::Ready, |state| state.kind()),
            attempts: self.history(message.id).len() as u32,
        });
        page(listed.filter(matches), |listed| listed.id, before, limit)
    }

    /// Dead messages by id, newest first.
    pub fn dead(&self, filter: &Filter, before: Option<Cursor>, limit: u32) -> Page<DeadLetter> {
        let newest = self.dead.iter().rev();
        let letters = newest.map(|(id, dead)| dead.letter(*id));
        let letters = letters.filter(|letter| {
            filter
                .queue
                .as_ref()
                .is_none_or(|queue| *queue == letter.queue)
                && filter.code.as_ref().is_none_or(|code| *code == letter.code)
        });
        page(letters, |letter| letter.message_id, before, limit)
    }

    /// How many dead messages fit, counted up to `at_most`.
    pub fn count_dead(&self, filter: &Filter, at_most: u64) -> u64 {
        let fits = |dead: &&super::DeadRow| {
            filter
                .queue
                .as_ref()
                .is_none_or(|queue| *queue == dead.queue)
                && filter.code.as_ref().is_none_or(|code| *code == dead.code)
        };
        let count = self.dead.values().filter(fits).count() as u64;
        count.min(at_most)
    }

    /// Every lease, oldest first.
    pub fn leases(&self, limit: u32) -> Vec<LeaseView> {
        let view = |(fence, lease): (&crate::Fence, &super::LeaseRow)| LeaseView {
            fence: *fence,
            token_prefix: lease.token.shown(),
            queue: lease.queue.clone(),
            owner: lease.owner.clone(),
            ids: lease.entries.iter().map(|entry| entry.id).collect(),
            begun: lease.begun.iter().copied().collect(),
            claimed_at: lease.claimed_at,
            expires_at: lease.expires_at,
        };
        self.leases.iter().take(limit as usize).map(view).collect()
    }

    /// Operator actions, newest first.
    pub fn audit(&self, id: Option<MessageId>, before: Option<i64>, limit: u32) -> Vec<AuditEntry> {
        let older = |entry: &&AuditEntry| before.is_none_or(|before| entry.id < before);
        let wanted = (self.audit.iter().rev())
            .filter(older)
            .filter(|entry| id.is_none() || entry.message_id == id);
        wanted.take(limit as usize).cloned().collect()
    }
}

fn page<T>(
    items: impl Iterator<Item = T>,
    id: impl Fn(&T) -> MessageId,
    before: Option<Cursor>,
    limit: u32,
) -> Page<T> {
    let mut rest = items.skip_while(|item| before.is_some_and(|before| id(item) >= before));
    let items: Vec<T> = rest
        .by_ref()
        .take(limit.min(PAGE_ENTRIES_MAX) as usize)
        .collect();
    let next = rest.next().and_then(|_| items.last().map(&id));
    Page { items, next }
}
