//! Moving messages by filter, step by step.

use std::{collections::BTreeSet, ops::Bound};

use async_trait::async_trait;
use jiff::Timestamp;

use super::{RedriveRow, Reference};
use crate::{
    By, DeadLetter, Filter, MessageId, MessageSummary, Move, PAGE_ENTRIES_MAX, QueueName, Redrive,
    RedriveAction, RedriveId, RedrivePlan, RedriveState, Redrives, ReferenceStore,
    error::{Error, Result},
    redrive::redrive_by,
};

#[async_trait]
impl Redrives for ReferenceStore {
    async fn start_redrive(&self, plan: &RedrivePlan, by: &By) -> Result<Redrive> {
        self.at(|reference, now| reference.start_redrive(now, plan, by))
    }

    async fn step_redrive(&self, limit: u32) -> Result<Option<Redrive>> {
        self.at(|reference, now| reference.step_redrive(now, limit))
    }

    async fn stop_redrive(&self, id: RedriveId, by: &By) -> Result<Redrive> {
        self.at(|reference, now| reference.stop_redrive(now, id, by))
    }

    async fn resume_redrive(&self, id: RedriveId, by: &By) -> Result<Redrive> {
        self.at(|reference, now| reference.resume_redrive(now, id, by))
    }

    async fn first_dead(&self, plan: &RedrivePlan, limit: u32) -> Result<Vec<DeadLetter>> {
        Ok(self.at(|reference, _| reference.first_dead(plan, limit)))
    }

    async fn first_open(&self, plan: &RedrivePlan, limit: u32) -> Result<Vec<MessageSummary>> {
        Ok(self.at(|reference, _| reference.first_open(plan, limit)))
    }

    async fn redrive(&self, id: RedriveId) -> Result<Option<Redrive>> {
        Ok(self.at(|reference, _| reference.redrive(id)))
    }

    async fn redrives(&self, limit: u32) -> Result<Vec<Redrive>> {
        Ok(self.at(|reference, _| reference.redrives(limit)))
    }
}

impl Reference {
    /// Starts a redrive; its steps move the messages.
    pub fn start_redrive(
        &mut self,
        now: Timestamp,
        plan: &RedrivePlan,
        by: &By,
    ) -> Result<Redrive> {
        RedrivePlan::validate_by(by)?;
        plan.validate()?;
        if let Some(queue) = &plan.queue {
            self.known_queue(queue)?;
        }
        let filter = Filter {
            queue: plan.queue.clone(),
            code: plan.code.clone(),
            ..Filter::default()
        };
        let redrive = Redrive {
            id: RedriveId(self.redrives.len() as i64 + 1),
            plan: plan.clone(),
            state: RedriveState::Running,
            total: match &plan.queue {
                Some(queue) if plan.action == RedriveAction::Cancel => {
                    self.cancellable(queue).len() as u64
                }
                _ => self.count_dead(&filter, u64::MAX),
            },
            moved: 0,
            skipped: 0,
            cursor: None,
            by: by.clone(),
            started_at: now,
            updated_at: now,
            finished_at: None,
        };
        let row = RedriveRow {
            redrive: redrive.clone(),
            paced_at: now,
        };
        self.redrives.insert(redrive.id, row);
        self.record_redrive(now, "start_redrive", &redrive, by);
        Ok(redrive)
    }

    /// Takes the next step of the running redrive that has waited longest and may take one.
    pub fn step_redrive(&mut self, now: Timestamp, limit: u32) -> Result<Option<Redrive>> {
        Redrive::validate_step(limit)?;
        // A clock set back must not let a redrive wait for the time it showed before.
        for row in self.redrives.values_mut() {
            row.paced_at = row.paced_at.min(now);
        }
        let may_step = |row: &&RedriveRow| {
            row.redrive.state == RedriveState::Running
                && row.redrive.step_len(limit, row.paced_at, now) > 0
        };
        let mut waiting: Vec<&RedriveRow> = self.redrives.values().filter(may_step).collect();
        waiting.sort_by_key(|row| (row.redrive.updated_at, row.redrive.id));
        let Some(RedriveRow { redrive, paced_at }) = waiting.first().cloned().cloned() else {
            return Ok(None);
        };
        let count = redrive.step_len(limit, paced_at, now) as usize;
        let (ids, exhausted) = self.next_covered(&redrive, count);
        let by = redrive.recorded_by();
        let answers = match redrive.plan.action {
            RedriveAction::Requeue => self.requeue(now, &ids, &by)?,
            RedriveAction::Discard => self.discard(now, &ids, &by)?,
            RedriveAction::Cancel => self.cancel(now, &ids, &by)?,
        };
        let is_moved = |answer: &Move| matches!(answer, Move::Moved { .. });
        let moved = answers.iter().filter(|a| is_moved(&a.answer)).count() as u64;
        let paced_at = redrive.plan.paced(paced_at, now, moved);
        let redrive = redrive.after_step(now, moved, ids.last().copied(), exhausted);
        let row = RedriveRow {
            redrive: redrive.clone(),
            paced_at,
        };
        self.redrives.insert(redrive.id, row);
        Ok(Some(redrive))
    }

    /// What a redrive of this plan would take first.
    pub fn first_dead(&self, plan: &RedrivePlan, limit: u32) -> Vec<DeadLetter> {
        if plan.action == RedriveAction::Cancel {
            return Vec::new();
        }
        // An erased message is not requeued.
        let is_left = |id| plan.action == RedriveAction::Requeue && self.erasures.contains_key(id);
        let covered = self
            .dead
            .iter()
            .filter(|(id, _)| !is_left(*id))
            .filter(|(_, dead)| plan.covers(&dead.queue, &dead.code));
        let letters = covered.map(|(id, dead)| dead.letter(*id));
        letters.take(plan.shown(limit) as usize).collect()
    }

    /// What a redrive of this plan would cancel first.
    pub fn first_open(&self, plan: &RedrivePlan, limit: u32) -> Vec<MessageSummary> {
        let Some(queue) = plan.cancelled_queue() else {
            return Vec::new();
        };
        let cancellable = self.cancellable(queue).into_iter();
        let listed = cancellable.map(|id| self.summary(&self.messages[&id]));
        listed.take(plan.shown(limit) as usize).collect()
    }

    /// What a redrive takes next, and whether nothing is left after that.
    fn next_covered(&self, redrive: &Redrive, count: usize) -> (Vec<MessageId>, bool) {
        let after = redrive.cursor.map_or(Bound::Unbounded, Bound::Excluded);
        let beyond = (after, Bound::Unbounded);
        let covered: Vec<MessageId> = match redrive.plan.cancelled_queue() {
            Some(queue) => {
                let cancellable = self.cancellable(queue);
                let is_older = |id: &&MessageId| self.messages[id].created_at <= redrive.started_at;
                let older = cancellable.range(beyond).filter(is_older);
                older.copied().collect()
            }
            None => {
                let covers = |(_, dead): &(&MessageId, &super::DeadRow)| {
                    dead.at <= redrive.started_at && redrive.plan.covers(&dead.queue, &dead.code)
                };
                let dead = self.dead.range(beyond).filter(covers);
                dead.map(|(id, _)| *id).collect()
            }
        };
        let exhausted = covered.len() <= count;
        (covered.into_iter().take(count).collect(), exhausted)
    }

    /// The ready and waiting messages of a queue.
    fn cancellable(&self, queue: &QueueName) -> BTreeSet<MessageId> {
        let ready = self.ready.iter().filter(|(key, _)| key.queue == *queue);
        let ready = ready.flat_map(|(_, batch)| batch.entries.iter().map(|entry| entry.id));
        let waiting = self.waiting.keys().filter(|(of, _, _)| of == queue);
        ready.chain(waiting.map(|(_, _, id)| *id)).collect()
    }

    /// Stops a running redrive.
    pub fn stop_redrive(&mut self, now: Timestamp, id: RedriveId, by: &By) -> Result<Redrive> {
        let (from, to) = (RedriveState::Running, RedriveState::Stopped);
        self.set_redrive_state(now, id, by, "stop_redrive", from, to)
    }

    /// Resumes a stopped redrive.
    pub fn resume_redrive(&mut self, now: Timestamp, id: RedriveId, by: &By) -> Result<Redrive> {
        let (from, to) = (RedriveState::Stopped, RedriveState::Running);
        self.set_redrive_state(now, id, by, "resume_redrive", from, to)
    }

    fn set_redrive_state(
        &mut self,
        now: Timestamp,
        id: RedriveId,
        by: &By,
        action: &str,
        from: RedriveState,
        to: RedriveState,
    ) -> Result<Redrive> {
        RedrivePlan::validate_by(by)?;
        let row = self.redrives.get_mut(&id);
        let row = row.ok_or(Error::UnknownRedrive { id })?;
        if row.redrive.state == from {
            row.redrive.state = to;
            row.redrive.updated_at = now;
            row.paced_at = now;
            let redrive = row.redrive.clone();
            self.record_redrive(now, action, &redrive, by);
        }
        Ok(self.redrives[&id].redrive.clone())
    }

    fn record_redrive(&mut self, now: Timestamp, action: &str, redrive: &Redrive, by: &By) {
        let by = redrive_by(redrive.id, by);
        self.record_action(now, &by, action, redrive.plan.queue.as_ref(), None);
    }

    /// One redrive.
    pub fn redrive(&self, id: RedriveId) -> Option<Redrive> {
        self.redrives.get(&id).map(|row| row.redrive.clone())
    }

    /// Redrives, newest first.
    pub fn redrives(&self, limit: u32) -> Vec<Redrive> {
        let newest = self.redrives.values().rev();
        newest
            .take(limit.min(PAGE_ENTRIES_MAX) as usize)
            .map(|row| row.redrive.clone())
            .collect()
    }
}
