//! Schedules: kept by operators, their ticks taken by any process.

use async_trait::async_trait;
use jiff::Timestamp;

use super::Reference;
use crate::{
    By, MessageId, NewMessage, NextTick, PAGE_ENTRIES_MAX, ReferenceStore, Schedule, ScheduleName,
    SchedulePlan, Schedules, TickPlan, Upcoming,
    error::{Error, Result},
    schedule_by,
};

#[async_trait]
impl Schedules for ReferenceStore {
    async fn put_schedule(
        &self,
        name: &ScheduleName,
        plan: &SchedulePlan,
        next_at: Timestamp,
        by: &By,
    ) -> Result<Schedule> {
        self.at(|reference, now| reference.put_schedule(now, name, plan, next_at, by))
    }

    async fn remove_schedule(&self, name: &ScheduleName, by: &By) -> Result<Schedule> {
        self.at(|reference, now| reference.remove_schedule(now, name, by))
    }

    async fn pause_schedule(&self, name: &ScheduleName, by: &By) -> Result<Schedule> {
        self.at(|reference, now| reference.set_schedule_paused(now, name, by, true))
    }

    async fn resume_schedule(&self, name: &ScheduleName, by: &By) -> Result<Schedule> {
        self.at(|reference, now| reference.set_schedule_paused(now, name, by, false))
    }

    async fn run_schedule(&self, name: &ScheduleName, by: &By) -> Result<Schedule> {
        self.at(|reference, now| reference.run_schedule(now, name, by))
    }

    async fn upcoming(&self, after: Option<&NextTick>, limit: u32) -> Result<Upcoming> {
        Ok(self.at(|reference, now| reference.upcoming(now, after, limit)))
    }

    async fn tick(&self, plan: &TickPlan) -> Result<Option<Schedule>> {
        self.at(|reference, now| reference.tick(now, plan))
    }

    async fn schedule(&self, name: &ScheduleName) -> Result<Option<Schedule>> {
        Ok(self.at(|reference, _| reference.schedules.get(name).cloned()))
    }

    async fn schedules(&self, after: Option<&ScheduleName>, limit: u32) -> Result<Vec<Schedule>> {
        Ok(self.at(|reference, _| {
            let names = reference.schedules.values();
            let page = names.filter(|one| after.is_none_or(|after| one.name > *after));
            let limit = limit.min(PAGE_ENTRIES_MAX) as usize;
            page.take(limit).cloned().collect()
        }))
    }
}

impl Reference {
    /// Creates a schedule or changes one.
    pub fn put_schedule(
        &mut self,
        now: Timestamp,
        name: &ScheduleName,
        plan: &SchedulePlan,
        next_at: Timestamp,
        by: &By,
    ) -> Result<Schedule> {
        schedule_by(name, by)?;
        plan.validate()?;
        let queue = self.known_queue(&plan.queue)?;
        plan.message(name, None).validate(0, &queue.policy)?;
        let schedule = match self.schedules.remove(name) {
            Some(old) => old.with_plan(plan.clone(), next_at, now),
            None => Schedule::new(name.clone(), plan.clone(), next_at, now),
        };
        self.keep_schedule(now, "put_schedule", schedule, by, None)
    }

    /// Removes a schedule.
    pub fn remove_schedule(
        &mut self,
        now: Timestamp,
        name: &ScheduleName,
        by: &By,
    ) -> Result<Schedule> {
        let schedule = self.known_schedule(name, by)?;
        self.keep_schedule(now, "remove_schedule", schedule.clone(), by, None)?;
        self.schedules.remove(name);
        Ok(schedule)
    }

    /// Stops or resumes the ticks of a schedule.
    pub fn set_schedule_paused(
        &mut self,
        now: Timestamp,
        name: &ScheduleName,
        by: &By,
        paused: bool,
    ) -> Result<Schedule> {
        let schedule = self.known_schedule(name, by)?;
        let paused_at = paused.then(|| schedule.paused_at.unwrap_or(now));
        let schedule = Schedule {
            paused_at,
            updated_at: now,
            ..schedule
        };
        let action = if paused {
            "pause_schedule"
        } else {
            "resume_schedule"
        };
        self.keep_schedule(now, action, schedule, by, None)
    }

    /// Enqueues the message of a schedule now.
    pub fn run_schedule(
        &mut self,
        now: Timestamp,
        name: &ScheduleName,
        by: &By,
    ) -> Result<Schedule> {
        let schedule = self.known_schedule(name, by)?;
        let receipts = self.enqueue(now, &[schedule.plan.message(name, None)])?;
        let id = receipts.first().map(|receipt| receipt.id);
        let schedule = Schedule {
            last_at: Some(now),
            last_message_id: id,
            ..schedule
        };
        self.keep_schedule(now, "run_schedule", schedule, by, id)
    }

    fn known_schedule(&self, name: &ScheduleName, by: &By) -> Result<Schedule> {
        schedule_by(name, by)?;
        let found = self.schedules.get(name).cloned();
        found.ok_or_else(|| Error::UnknownSchedule { name: name.clone() })
    }

    fn keep_schedule(
        &mut self,
        now: Timestamp,
        action: &str,
        schedule: Schedule,
        by: &By,
        id: Option<MessageId>,
    ) -> Result<Schedule> {
        let by = schedule_by(&schedule.name, by)?;
        self.record_action(now, &by, action, Some(&schedule.plan.queue), id);
        self.schedules
            .insert(schedule.name.clone(), schedule.clone());
        Ok(schedule)
    }

    /// Schedules by their next ticks.
    pub fn upcoming(&self, now: Timestamp, after: Option<&NextTick>, limit: u32) -> Upcoming {
        let running = self
            .schedules
            .values()
            .filter(|one| one.paused_at.is_none());
        let mut ticks: Vec<NextTick> = running.map(Schedule::next_tick).collect();
        ticks.retain(|tick| {
            after.is_none_or(|after| (tick.at, &tick.name) > (after.at, &after.name))
        });
        ticks.sort_by(|a, b| (a.at, &a.name).cmp(&(b.at, &b.name)));
        ticks.truncate(limit.min(PAGE_ENTRIES_MAX) as usize);
        Upcoming { now, ticks }
    }

    /// Enqueues the messages of due ticks and moves the next tick on.
    pub fn tick(&mut self, now: Timestamp, plan: &TickPlan) -> Result<Option<Schedule>> {
        plan.validate()?;
        let name = &plan.from.name;
        let found = self
            .schedules
            .get(name)
            .filter(|one| one.may_tick(plan, now));
        let Some(schedule) = found.cloned() else {
            return Ok(None);
        };
        let ticks = plan.ticks.iter();
        let messages: Vec<NewMessage> = ticks
            .map(|tick| schedule.plan.message(name, Some(*tick)))
            .collect();
        let receipts = self.enqueue(now, &messages)?;
        let last = receipts.last().map(|receipt| receipt.id);
        let schedule = schedule.after_tick(plan, last, now);
        if let Some(by) = plan.missed_by() {
            self.record_action(now, &by, "missed_ticks", Some(&schedule.plan.queue), None);
        }
        self.schedules.insert(name.clone(), schedule.clone());
        Ok(Some(schedule))
    }
}
