//! Schedules: kept by operators, their ticks taken by any process.

use async_trait::async_trait;
use consign_failpoint::kill_at;
use consign_kernel::{
    By, Error, MessageId, MissedPolicy, NewMessage, NextTick, PAGE_ENTRIES_MAX, Schedule,
    ScheduleName, SchedulePlan, Schedules, TickPlan, Upcoming, schedule_by,
};
use jiff::Timestamp;
use sqlx::{Row, SqliteConnection, sqlite::SqliteRow};

use crate::{
    SqliteStore,
    error::{Failure, Result},
    job::Work,
    queues, rows, sql,
    store::{snapshot, write},
};

#[async_trait]
impl Schedules for SqliteStore {
    async fn put_schedule(
        &self,
        name: &ScheduleName,
        plan: &SchedulePlan,
        next_at: Timestamp,
        by: &By,
    ) -> consign_kernel::Result<Schedule> {
        write!(self, "put a schedule", (name, plan, by), |work| work
            .put_schedule(&name, &plan, next_at, &by))
    }

    async fn remove_schedule(
        &self,
        name: &ScheduleName,
        by: &By,
    ) -> consign_kernel::Result<Schedule> {
        write!(self, "remove a schedule", (name, by), |work| work
            .remove_schedule(&name, &by))
    }

    async fn pause_schedule(
        &self,
        name: &ScheduleName,
        by: &By,
    ) -> consign_kernel::Result<Schedule> {
        write!(self, "pause a schedule", (name, by), |work| work
            .set_schedule_paused(&name, &by, true))
    }

    async fn resume_schedule(
        &self,
        name: &ScheduleName,
        by: &By,
    ) -> consign_kernel::Result<Schedule> {
        write!(self, "resume a schedule", (name, by), |work| work
            .set_schedule_paused(&name, &by, false))
    }

    async fn run_schedule(&self, name: &ScheduleName, by: &By) -> consign_kernel::Result<Schedule> {
        write!(self, "run a schedule", (name, by), |work| work
            .run_schedule(&name, &by))
    }

    async fn upcoming(
        &self,
        after: Option<&NextTick>,
        limit: u32,
    ) -> consign_kernel::Result<Upcoming> {
        let now = self.now();
        let ticks = snapshot!(self, "read the next ticks", |tx| {
            upcoming(&mut tx, after, limit)
        })?;
        Ok(Upcoming { now, ticks })
    }

    async fn tick(&self, plan: &TickPlan) -> consign_kernel::Result<Option<Schedule>> {
        plan.validate()?;
        let ticked = write!(self, "tick", (plan), |work| work.tick(&plan))?;
        kill_at("tick_committed");
        Ok(ticked)
    }

    async fn schedule(&self, name: &ScheduleName) -> consign_kernel::Result<Option<Schedule>> {
        snapshot!(self, "read a schedule", |tx| one(&mut tx, name))
    }

    async fn schedules(
        &self,
        after: Option<&ScheduleName>,
        limit: u32,
    ) -> consign_kernel::Result<Vec<Schedule>> {
        snapshot!(self, "read the schedules", |tx| schedules(
            &mut tx, after, limit
        ))
    }
}

impl Work<'_> {
    pub(crate) async fn put_schedule(
        &mut self,
        name: &ScheduleName,
        plan: &SchedulePlan,
        next_at: Timestamp,
        by: &By,
    ) -> Result<Schedule> {
        schedule_by(name, by)?;
        plan.validate()?;
        let message = plan.message(name, None);
        for hook in self.components.hooks() {
            if plan.queue.as_str() == hook.queue() {
                hook.check(&[&message])?;
            }
        }
        let Some(policy) = self.policies([&plan.queue]).await?.remove(&plan.queue) else {
            return Err(queues::unknown_queue(self.connection, &plan.queue).await);
        };
        message.validate(0, &policy)?;
        let schedule = match one(self.connection, name).await? {
            Some(old) => old.with_plan(plan.clone(), next_at, self.now),
            None => Schedule::new(name.clone(), plan.clone(), next_at, self.now),
        };
        self.record_schedule("put_schedule", schedule, by, None)
            .await
    }

    pub(crate) async fn remove_schedule(
        &mut self,
        name: &ScheduleName,
        by: &By,
    ) -> Result<Schedule> {
        let schedule = self.known_schedule(name, by).await?;
        let schedule = self
            .record_schedule("remove_schedule", schedule, by, None)
            .await?;
        sqlx::query(sql!("schedule_remove"))
            .bind(name.as_str())
            .execute(&mut *self.connection)
            .await?;
        Ok(schedule)
    }

    pub(crate) async fn set_schedule_paused(
        &mut self,
        name: &ScheduleName,
        by: &By,
        paused: bool,
    ) -> Result<Schedule> {
        let schedule = self.known_schedule(name, by).await?;
        let now = self.now;
        let schedule = Schedule {
            paused_at: paused.then(|| schedule.paused_at.unwrap_or(now)),
            updated_at: now,
            ..schedule
        };
        let action = if paused {
            "pause_schedule"
        } else {
            "resume_schedule"
        };
        self.record_schedule(action, schedule, by, None).await
    }

    pub(crate) async fn run_schedule(&mut self, name: &ScheduleName, by: &By) -> Result<Schedule> {
        let schedule = self.known_schedule(name, by).await?;
        let receipts = self.enqueue(&[schedule.plan.message(name, None)]).await?;
        let id = receipts.first().map(|receipt| receipt.id);
        let schedule = Schedule {
            last_at: Some(self.now),
            last_message_id: id,
            ..schedule
        };
        self.record_schedule("run_schedule", schedule, by, id).await
    }

    /// Enqueues the messages of due ticks and moves the next tick on.
    pub(crate) async fn tick(&mut self, plan: &TickPlan) -> Result<Option<Schedule>> {
        let name = &plan.from.name;
        let found = one(self.connection, name).await?;
        let Some(schedule) = found.filter(|one| one.may_tick(plan, self.now)) else {
            return Ok(None);
        };
        let ticks = plan.ticks.iter();
        let messages: Vec<NewMessage> = ticks
            .map(|tick| schedule.plan.message(name, Some(*tick)))
            .collect();
        let receipts = self.enqueue(&messages).await?;
        let last = receipts.last().map(|receipt| receipt.id);
        let schedule = schedule.after_tick(plan, last, self.now);
        if let Some(by) = plan.missed_by() {
            let on = [(Some(&schedule.plan.queue), None)];
            self.record_actions(&by, "missed_ticks", &on).await?;
        }
        self.keep_schedule(&schedule).await?;
        Ok(Some(schedule))
    }

    async fn known_schedule(&mut self, name: &ScheduleName, by: &By) -> Result<Schedule> {
        schedule_by(name, by)?;
        let found = one(self.connection, name).await?;
        found.ok_or_else(|| Error::UnknownSchedule { name: name.clone() }.into())
    }

    async fn record_schedule(
        &mut self,
        action: &str,
        schedule: Schedule,
        by: &By,
        id: Option<MessageId>,
    ) -> Result<Schedule> {
        self.keep_schedule(&schedule).await?;
        let by = schedule_by(&schedule.name, by)?;
        let on = [(Some(&schedule.plan.queue), id)];
        self.record_actions(&by, action, &on).await?;
        Ok(schedule)
    }

    async fn keep_schedule(&mut self, schedule: &Schedule) -> Result<()> {
        let plan = &schedule.plan;
        sqlx::query(sql!("schedule_put"))
            .bind(schedule.name.as_str())
            .bind(plan.queue.as_str())
            .bind(&plan.cron)
            .bind(&plan.time_zone)
            .bind(plan.payload.as_str())
            .bind(rows::json(&plan.headers))
            .bind(&plan.group)
            .bind(plan.missed.as_str())
            .bind(plan.missed_max)
            .bind(rows::micros(schedule.created_at))
            .bind(rows::micros(schedule.updated_at))
            .bind(schedule.paused_at.map(rows::micros))
            .bind(rows::micros(schedule.next_at))
            .bind(schedule.last_tick.map(rows::micros))
            .bind(schedule.last_at.map(rows::micros))
            .bind(schedule.last_message_id.map(|id| id.0))
            .bind(schedule.ticks as i64)
            .bind(schedule.dropped as i64)
            .execute(&mut *self.connection)
            .await?;
        Ok(())
    }
}

async fn one(connection: &mut SqliteConnection, name: &ScheduleName) -> Result<Option<Schedule>> {
    let found = sqlx::query(sql!("schedule_get"))
        .bind(name.as_str())
        .fetch_optional(connection)
        .await?;
    found.as_ref().map(schedule).transpose()
}

async fn schedules(
    connection: &mut SqliteConnection,
    after: Option<&ScheduleName>,
    limit: u32,
) -> Result<Vec<Schedule>> {
    let found = sqlx::query(sql!("schedule_list"))
        .bind(after.map(ScheduleName::as_str))
        .bind(limit.min(PAGE_ENTRIES_MAX))
        .fetch_all(connection)
        .await?;
    found.iter().map(schedule).collect()
}

async fn upcoming(
    connection: &mut SqliteConnection,
    after: Option<&NextTick>,
    limit: u32,
) -> Result<Vec<NextTick>> {
    let found = sqlx::query(sql!("schedule_next"))
        .bind(after.map_or(i64::MIN, |after| rows::micros(after.at)))
        .bind(after.map_or("", |after| after.name.as_str()))
        .bind(limit.min(PAGE_ENTRIES_MAX))
        .fetch_all(connection)
        .await?;
    found.iter().map(next_tick).collect()
}

fn next_tick(row: &SqliteRow) -> Result<NextTick> {
    let (missed, missed_max) = missed(row)?;
    Ok(NextTick {
        name: name(row)?,
        cron: row.try_get("cron")?,
        time_zone: row.try_get("time_zone")?,
        missed,
        missed_max,
        at: rows::timestamp(row.try_get("next_at")?)?,
    })
}

fn schedule(row: &SqliteRow) -> Result<Schedule> {
    let time = |name: &str| rows::timestamp(row.try_get(name)?);
    let maybe_time = |name: &str| -> Result<Option<Timestamp>> {
        let micros: Option<i64> = row.try_get(name)?;
        micros.map(rows::timestamp).transpose()
    };
    let count = |name: &str| -> Result<u64> { Ok(row.try_get::<i64, _>(name)?.unsigned_abs()) };
    let (missed, missed_max) = missed(row)?;
    let plan = SchedulePlan {
        queue: rows::queue_name(row.try_get("queue")?)?,
        cron: row.try_get("cron")?,
        time_zone: row.try_get("time_zone")?,
        payload: rows::payload(row.try_get("payload")?)?,
        headers: rows::document(row.try_get("headers")?)?,
        group: row.try_get("group")?,
        missed,
        missed_max,
    };
    Ok(Schedule {
        name: name(row)?,
        plan,
        created_at: time("created_at")?,
        updated_at: time("updated_at")?,
        paused_at: maybe_time("paused_at")?,
        next_at: time("next_at")?,
        last_tick: maybe_time("last_tick")?,
        last_at: maybe_time("last_at")?,
        last_message_id: row
            .try_get::<Option<i64>, _>("last_message_id")?
            .map(MessageId),
        ticks: count("ticks")?,
        dropped: count("dropped")?,
    })
}

fn name(row: &SqliteRow) -> Result<ScheduleName> {
    let name: &str = row.try_get("name")?;
    let parsed = name.parse();
    parsed.map_err(|error: Error| Failure::corrupt(error.to_string()))
}

fn missed(row: &SqliteRow) -> Result<(MissedPolicy, u32)> {
    let word: &str = row.try_get("missed")?;
    let policy = MissedPolicy::from_word(word)
        .ok_or_else(|| Failure::corrupt(format!("{word:?} is not a policy for missed ticks")))?;
    Ok((policy, rows::count(row.try_get("missed_max")?)?))
}
