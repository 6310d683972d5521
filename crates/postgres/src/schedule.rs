//! Schedules: kept by operators, their ticks taken by any process.

use async_trait::async_trait;
use consign_kernel::{
    By, Error, MessageId, MissedPolicy, NextTick, PAGE_ENTRIES_MAX, Result, Schedule, ScheduleName,
    SchedulePlan, Schedules, TickPlan, Upcoming, schedule_by,
};
use jiff::Timestamp;
use jiff_sqlx::ToSqlx;
use sqlx::{postgres::PgRow, types::Json};

use crate::{PostgresStore, rows, store::Statement};

#[async_trait]
impl Schedules for PostgresStore {
    async fn put_schedule(
        &self,
        name: &ScheduleName,
        plan: &SchedulePlan,
        next_at: Timestamp,
        by: &By,
    ) -> Result<Schedule> {
        schedule_by(name, by)?;
        plan.validate()?;
        let sql =
            "SELECT * FROM consign.put_schedule($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
        let statement = sqlx::query(sql)
            .bind(name.as_str())
            .bind(plan.queue.as_str())
            .bind(&plan.cron)
            .bind(&plan.time_zone)
            .bind(Json(&plan.payload))
            .bind(Json(&plan.headers))
            .bind(&plan.group)
            .bind(plan.missed.as_str())
            .bind(plan.missed_max as i32)
            .bind(next_at.to_sqlx())
            .bind(&by.actor)
            .bind(&by.reason);
        self.one_schedule("put a schedule", statement).await
    }

    async fn remove_schedule(&self, name: &ScheduleName, by: &By) -> Result<Schedule> {
        self.act_on(
            "SELECT * FROM consign.remove_schedule($1, $2, $3)",
            name,
            by,
        )
        .await
    }

    async fn pause_schedule(&self, name: &ScheduleName, by: &By) -> Result<Schedule> {
        self.act_on("SELECT * FROM consign.pause_schedule($1, $2, $3)", name, by)
            .await
    }

    async fn resume_schedule(&self, name: &ScheduleName, by: &By) -> Result<Schedule> {
        self.act_on(
            "SELECT * FROM consign.resume_schedule($1, $2, $3)",
            name,
            by,
        )
        .await
    }

    async fn run_schedule(&self, name: &ScheduleName, by: &By) -> Result<Schedule> {
        let sql = "SELECT * FROM consign.run_schedule($1, $2, $3)";
        let schedule = self.act_on(sql, name, by).await?;
        self.wakes.notify(&schedule.plan.queue, true);
        Ok(schedule)
    }

    async fn upcoming(&self, after: Option<&NextTick>, limit: u32) -> Result<Upcoming> {
        let statement = sqlx::query(include_str!("../sql/upcoming.sql"))
            .bind(after.map(|after| after.at.to_sqlx()))
            .bind(after.map(|after| after.name.as_str()))
            .bind(i64::from(limit.min(PAGE_ENTRIES_MAX)));
        let rows = self.read("read the next ticks", statement).await?;
        let first = rows.first();
        let first = first.ok_or_else(|| rows::corrupt("the clock answered nothing"))?;
        // Without a schedule there is a row with the clock only.
        let is_tick = |row: &&PgRow| !matches!(rows::optional_time(row, "next_at"), Ok(None));
        let ticks = rows.iter().filter(is_tick).map(next_tick);
        Ok(Upcoming {
            now: rows::time(first, "now")?,
            ticks: ticks.collect::<Result<_>>()?,
        })
    }

    async fn tick(&self, plan: &TickPlan) -> Result<Option<Schedule>> {
        plan.validate()?;
        let from = &plan.from;
        let times: Vec<_> = plan.ticks.iter().map(|tick| tick.at.to_sqlx()).collect();
        let stands_for: Vec<i64> = plan.ticks.iter().map(|tick| tick.missed as i64).collect();
        let sql = "SELECT * FROM consign.tick($1, $2, $3, $4, $5, $6, $7, $8, $9)";
        let statement = sqlx::query(sql)
            .bind(from.name.as_str())
            .bind(&from.cron)
            .bind(&from.time_zone)
            .bind(from.at.to_sqlx())
            .bind(times)
            .bind(stands_for)
            .bind(plan.missed as i64)
            .bind(plan.dropped as i64)
            .bind(plan.next_at.to_sqlx());
        let rows = self.fetch("tick", statement).await?;
        let schedule = rows.first().map(schedule).transpose()?;
        if let Some(schedule) = &schedule {
            self.wakes.notify(&schedule.plan.queue, true);
        }
        Ok(schedule)
    }

    async fn schedule(&self, name: &ScheduleName) -> Result<Option<Schedule>> {
        let statement =
            sqlx::query("SELECT * FROM consign.schedule WHERE name = $1").bind(name.as_str());
        let rows = self.read("read a schedule", statement).await?;
        rows.first().map(schedule).transpose()
    }

    async fn schedules(&self, after: Option<&ScheduleName>, limit: u32) -> Result<Vec<Schedule>> {
        let sql =
            "SELECT * FROM consign.schedule WHERE name > coalesce($1, '') ORDER BY name LIMIT $2";
        let statement = sqlx::query(sql)
            .bind(after.map(ScheduleName::as_str))
            .bind(i64::from(limit.min(PAGE_ENTRIES_MAX)));
        let rows = self.read("list schedules", statement).await?;
        rows.iter().map(schedule).collect()
    }
}

impl PostgresStore {
    async fn act_on(
        &self,
        function: &'static str,
        name: &ScheduleName,
        by: &By,
    ) -> Result<Schedule> {
        schedule_by(name, by)?;
        let statement = sqlx::query(function)
            .bind(name.as_str())
            .bind(&by.actor)
            .bind(&by.reason);
        self.one_schedule("change or run a schedule", statement)
            .await
    }

    async fn one_schedule(
        &self,
        attempted: &'static str,
        statement: Statement<'_>,
    ) -> Result<Schedule> {
        let rows = self.fetch(attempted, statement).await?;
        let row = rows.first();
        schedule(row.ok_or_else(|| rows::corrupt("a schedule answered nothing"))?)
    }
}

fn next_tick(row: &PgRow) -> Result<NextTick> {
    let (missed, missed_max) = missed(row)?;
    Ok(NextTick {
        name: name(row)?,
        cron: rows::column(row, "cron")?,
        time_zone: rows::column(row, "time_zone")?,
        missed,
        missed_max,
        at: rows::time(row, "next_at")?,
    })
}

fn schedule(row: &PgRow) -> Result<Schedule> {
    let Json(payload) = rows::column(row, "payload")?;
    let Json(headers) = rows::column(row, "headers")?;
    let (missed, missed_max) = missed(row)?;
    let last: Option<i64> = rows::column(row, "last_message_id")?;
    Ok(Schedule {
        name: name(row)?,
        plan: SchedulePlan {
            queue: rows::queue_name(row, "queue")?,
            cron: rows::column(row, "cron")?,
            time_zone: rows::column(row, "time_zone")?,
            payload,
            headers,
            group: rows::column(row, "group")?,
            missed,
            missed_max,
        },
        created_at: rows::time(row, "created_at")?,
        updated_at: rows::time(row, "updated_at")?,
        paused_at: rows::optional_time(row, "paused_at")?,
        next_at: rows::time(row, "next_at")?,
        last_tick: rows::optional_time(row, "last_tick")?,
        last_at: rows::optional_time(row, "last_at")?,
        last_message_id: last.map(MessageId),
        ticks: rows::count(row, "ticks")?,
        dropped: rows::count(row, "dropped")?,
    })
}

fn name(row: &PgRow) -> Result<ScheduleName> {
    let name: &str = rows::column(row, "name")?;
    name.parse()
        .map_err(|error: Error| rows::corrupt(error.to_string()))
}

fn missed(row: &PgRow) -> Result<(MissedPolicy, u32)> {
    let word: &str = rows::column(row, "missed")?;
    let policy = MissedPolicy::from_word(word)
        .ok_or_else(|| rows::corrupt(format!("policy for missed ticks {word:?}")))?;
    Ok((policy, rows::number(row, "missed_max")?))
}
