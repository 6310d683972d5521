//! Queues: policies, pausing, counting.

use async_trait::async_trait;
use jiff::Timestamp;

use super::Reference;
use crate::{
    By, Counts, PAGE_ENTRIES_MAX, Queue, QueueName, QueuePolicy, Queues, ReferenceStore, Totals,
    error::{Error, Result},
};

#[async_trait]
impl Queues for ReferenceStore {
    async fn put_queue(&self, name: &QueueName, policy: &QueuePolicy, by: &By) -> Result<Queue> {
        self.at(|reference, now| reference.put_queue(now, name, policy, by))
    }

    async fn pause(&self, name: &QueueName, by: &By) -> Result<Queue> {
        self.at(|reference, now| reference.set_paused(now, name, by, true))
    }

    async fn resume(&self, name: &QueueName, by: &By) -> Result<Queue> {
        self.at(|reference, now| reference.set_paused(now, name, by, false))
    }

    async fn queue(&self, name: &QueueName) -> Result<Option<Queue>> {
        Ok(self.at(|reference, _| reference.queues.get(name).cloned()))
    }

    async fn queues(&self, after: Option<&QueueName>, limit: u32) -> Result<Vec<(Queue, Counts)>> {
        Ok(self.at(|reference, now| reference.queues(now, after, limit)))
    }

    async fn queue_counts(&self, name: &QueueName) -> Result<Option<(Queue, Counts)>> {
        Ok(self.at(|reference, now| reference.queue_counts(now, name)))
    }

    async fn totals(&self) -> Result<Totals> {
        Ok(self.at(|reference, now| reference.totals(now)))
    }
}

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
        let exists = |it: &QueueName| self.queues.contains_key(it);
        policy.check_alert_queue(name, policy.alert_queue.as_ref().is_some_and(exists), false)?;
        let old = self.queues.get(name).map(|queue| queue.policy.clone());
        if old
            .as_ref()
            .is_some_and(|old| old.ordered != policy.ordered)
            && !self.is_idle(name)
        {
            return Err(Error::QueueNotEmpty {
                queue: name.clone(),
            });
        }
        let queue = self.queues.entry(name.clone()).or_insert_with(|| Queue {
            name: name.clone(),
            policy: policy.clone(),
            paused_at: None,
        });
        queue.policy = policy.clone();
        let queue = queue.clone();
        if old.is_some_and(|old| old.unblocks(policy)) {
            self.unblock(now, name);
        }
        self.give_up_departure();
        self.record_action(now, by, "queue", Some(name), None);
        Ok(queue)
    }

    /// Lets the groups go on that dead messages block.
    fn unblock(&mut self, now: Timestamp, name: &QueueName) {
        let of_queue = self.heads.iter().filter(|((queue, _), _)| queue == name);
        let heads = of_queue.map(|(_, head)| *head);
        let dead: Vec<_> = heads.filter(|head| self.dead.contains_key(head)).collect();
        for head in dead {
            self.promote_next(now, head, true);
        }
    }

    fn is_idle(&self, name: &QueueName) -> bool {
        let blocked = self.heads.keys().any(|(queue, _)| queue == name);
        self.counts(Timestamp::MAX, name).unfinished() == 0 && !blocked
    }

    /// Stops or resumes claims.
    pub fn set_paused(
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
        for (key, batch) in self.ready.iter().filter(|(key, _)| key.queue == *name) {
            let count = batch.entries.len() as u64;
            if key.due_at <= now {
                counts.ready += count;
                counts.oldest_due_at = counts.oldest_due_at.or(Some(key.due_at));
            } else {
                counts.scheduled += count;
            }
        }
        counts.leased = self.leased(name);
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
}
