//! Moving messages by filter, step by step.

use async_trait::async_trait;
use consign_failpoint::kill_at;
use consign_kernel::{
    By, DeadLetter, Error, Filter, MessageId, MessageSummary, Move, PAGE_ENTRIES_MAX, QueueName,
    Redrive, RedriveAction, RedriveId, RedrivePlan, RedriveState, Redrives, redrive_by,
};
use jiff::Timestamp;
use sqlx::{Row, SqliteConnection, sqlite::SqliteRow};

use crate::{
    SqliteStore,
    error::{Failure, Result},
    job::Work,
    list::{count_dead, details},
    queues,
    read::{LetterColumns, letter},
    rows, sql,
    store::{snapshot, write},
};

/// A redrive, and the time up to which its rate is used up.
struct PacedRedrive {
    redrive: Redrive,
    paced_at: Timestamp,
}

#[async_trait]
impl Redrives for SqliteStore {
    async fn start_redrive(&self, plan: &RedrivePlan, by: &By) -> consign_kernel::Result<Redrive> {
        write!(self, "start a redrive", (plan, by), |work| work
            .start_redrive(&plan, &by))
    }

    async fn step_redrive(&self, limit: u32) -> consign_kernel::Result<Option<Redrive>> {
        let stepped = write!(self, "step a redrive", (), |work| work.step_redrive(limit))?;
        kill_at("redrive_committed");
        Ok(stepped)
    }

    async fn stop_redrive(&self, id: RedriveId, by: &By) -> consign_kernel::Result<Redrive> {
        write!(self, "stop a redrive", (by), |work| work
            .stop_redrive(id, &by))
    }

    async fn resume_redrive(&self, id: RedriveId, by: &By) -> consign_kernel::Result<Redrive> {
        write!(self, "resume a redrive", (by), |work| work
            .resume_redrive(id, &by))
    }

    async fn first_dead(
        &self,
        plan: &RedrivePlan,
        limit: u32,
    ) -> consign_kernel::Result<Vec<DeadLetter>> {
        snapshot!(self, "list what a redrive would take", |tx| {
            first_dead(&mut tx, plan, limit)
        })
    }

    async fn first_open(
        &self,
        plan: &RedrivePlan,
        limit: u32,
    ) -> consign_kernel::Result<Vec<MessageSummary>> {
        snapshot!(self, "list what a redrive would cancel", |tx| {
            first_open(&mut tx, plan, limit)
        })
    }

    async fn redrive(&self, id: RedriveId) -> consign_kernel::Result<Option<Redrive>> {
        snapshot!(self, "read a redrive", |tx| redrive(&mut tx, id))
    }

    async fn redrives(&self, limit: u32) -> consign_kernel::Result<Vec<Redrive>> {
        snapshot!(self, "list the redrives", |tx| redrives(&mut tx, limit))
    }
}

impl Work<'_> {
    pub(crate) async fn start_redrive(&mut self, plan: &RedrivePlan, by: &By) -> Result<Redrive> {
        RedrivePlan::validate_by(by)?;
        plan.validate()?;
        if let Some(queue) = &plan.queue
            && self.policies([queue]).await?.is_empty()
        {
            return Err(queues::unknown_queue(self.connection, queue).await);
        }
        if let Some(queue) = &plan.queue
            && plan.action != RedriveAction::Requeue
        {
            self.check_closable(queue).await?;
        }
        let total = self.count_covered(plan).await?;
        let id: i64 = sqlx::query_scalar(sql!("redrive_append"))
            .bind(plan.queue.as_ref().map(QueueName::as_str))
            .bind(&plan.code)
            .bind(plan.rate_per_second)
            .bind(plan.limit.map(|limit| limit as i64))
            .bind(total as i64)
            .bind(&by.actor)
            .bind(&by.reason)
            .bind(rows::micros(self.now))
            .bind(plan.action.as_str())
            .fetch_one(&mut *self.connection)
            .await?;
        let PacedRedrive { redrive, .. } = self.known_redrive(RedriveId(id)).await?;
        self.record_redrive("start_redrive", &redrive, by).await?;
        Ok(redrive)
    }

    async fn count_covered(&mut self, plan: &RedrivePlan) -> Result<u64> {
        if plan.action == RedriveAction::Cancel {
            let count: i64 = sqlx::query_scalar(sql!("redrive_cancel_count"))
                .bind(plan.queue.as_ref().map(QueueName::as_str))
                .fetch_one(&mut *self.connection)
                .await?;
            return Ok(count.unsigned_abs());
        }
        let filter = Filter {
            queue: plan.queue.clone(),
            code: plan.code.clone(),
            ..Filter::default()
        };
        count_dead(self.connection, &filter, u64::MAX).await
    }

    /// Takes the next step of the running redrive that has waited longest and may take one.
    pub(crate) async fn step_redrive(&mut self, limit: u32) -> Result<Option<Redrive>> {
        Redrive::validate_step(limit)?;
        let now = self.now;
        sqlx::query(sql!("redrive_pace"))
            .bind(rows::micros(now))
            .execute(&mut *self.connection)
            .await?;
        let running = sqlx::query(sql!("redrive_running"))
            .fetch_all(&mut *self.connection)
            .await?;
        for row in running {
            let PacedRedrive { redrive, paced_at } = PacedRedrive::from_row(&row)?;
            let count = redrive.step_len(limit, paced_at, now);
            if count == 0 {
                continue;
            }
            let (ids, exhausted) = self.next_covered(&redrive, count).await?;
            // Left to a process that has their app. A discard over all queues passes over messages of apps.
            let plan = &redrive.plan;
            let passes_over = plan.action == RedriveAction::Discard && plan.queue.is_none();
            if !passes_over && self.holds_foreign(&ids).await? {
                continue;
            }
            let by = redrive.recorded_by();
            let answers = match redrive.plan.action {
                RedriveAction::Requeue => self.requeue(&ids, &by).await?,
                action => self.close(&ids, &by, action.operator_move()).await?,
            };
            let is_moved = |answer: &Move| matches!(answer, Move::Moved { .. });
            let moved = answers.iter().filter(|a| is_moved(&a.answer)).count() as u64;
            let paced_at = redrive.plan.paced(paced_at, now, moved);
            let redrive = redrive.after_step(now, moved, ids.last().copied(), exhausted);
            self.keep_redrive(&redrive, paced_at).await?;
            return Ok(Some(redrive));
        }
        Ok(None)
    }

    /// Whether one of these messages is in a queue of an app that the store was opened without.
    async fn holds_foreign(&mut self, ids: &[MessageId]) -> Result<bool> {
        let holds = sqlx::query_scalar(sql!("redrive_foreign"))
            .bind(rows::id_array(ids))
            .bind(self.components.names())
            .fetch_one(&mut *self.connection)
            .await?;
        Ok(holds)
    }

    /// What a redrive takes next, and whether nothing is left after that.
    async fn next_covered(
        &mut self,
        redrive: &Redrive,
        count: u32,
    ) -> Result<(Vec<MessageId>, bool)> {
        let wanted = i64::from(count) + 1;
        let mut ids = if redrive.plan.action == RedriveAction::Cancel {
            self.next_cancelled(redrive, wanted).await?
        } else {
            sqlx::query_scalar(sql!("dead_next"))
                .bind(redrive.plan.queue.as_ref().map(QueueName::as_str))
                .bind(&redrive.plan.code)
                .bind(redrive.cursor.map_or(i64::MIN, |cursor| cursor.0))
                .bind(rows::micros(redrive.started_at))
                .bind(wanted)
                .fetch_all(&mut *self.connection)
                .await?
        };
        let exhausted = ids.len() <= count as usize;
        ids.truncate(count as usize);
        Ok((ids.into_iter().map(MessageId).collect(), exhausted))
    }

    /// Up to so many ready and waiting messages that were enqueued before the redrive started.
    async fn next_cancelled(&mut self, redrive: &Redrive, wanted: i64) -> Result<Vec<i64>> {
        let queue = redrive.plan.queue.as_ref().map(QueueName::as_str);
        let after = redrive.cursor.map_or(i64::MIN, |cursor| cursor.0);
        let first: Vec<(i64, bool)> = sqlx::query_as(sql!("redrive_cancel_first"))
            .bind(queue)
            .bind(after)
            .bind(rows::micros(redrive.started_at))
            .bind(wanted)
            .fetch_all(&mut *self.connection)
            .await?;
        if (first.len() as i64) < wanted || first.iter().all(|(_, is_older)| *is_older) {
            let older = first.into_iter().filter(|(_, is_older)| *is_older);
            return Ok(older.map(|(id, _)| id).collect());
        }
        let ids = sqlx::query_scalar(sql!("redrive_cancel_next"))
            .bind(queue)
            .bind(after)
            .bind(rows::micros(redrive.started_at))
            .bind(wanted)
            .fetch_all(&mut *self.connection)
            .await?;
        Ok(ids)
    }

    pub(crate) async fn stop_redrive(&mut self, id: RedriveId, by: &By) -> Result<Redrive> {
        let (from, to) = (RedriveState::Running, RedriveState::Stopped);
        self.set_redrive_state(id, by, "stop_redrive", from, to)
            .await
    }

    pub(crate) async fn resume_redrive(&mut self, id: RedriveId, by: &By) -> Result<Redrive> {
        let (from, to) = (RedriveState::Stopped, RedriveState::Running);
        self.set_redrive_state(id, by, "resume_redrive", from, to)
            .await
    }

    async fn set_redrive_state(
        &mut self,
        id: RedriveId,
        by: &By,
        action: &str,
        from: RedriveState,
        to: RedriveState,
    ) -> Result<Redrive> {
        RedrivePlan::validate_by(by)?;
        let PacedRedrive { mut redrive, .. } = self.known_redrive(id).await?;
        if redrive.state == from {
            redrive.state = to;
            redrive.updated_at = self.now;
            self.keep_redrive(&redrive, self.now).await?;
            self.record_redrive(action, &redrive, by).await?;
        }
        Ok(redrive)
    }

    async fn known_redrive(&mut self, id: RedriveId) -> Result<PacedRedrive> {
        let found = one(self.connection, id).await?;
        found.ok_or_else(|| Error::UnknownRedrive { id }.into())
    }

    async fn keep_redrive(&mut self, redrive: &Redrive, paced_at: Timestamp) -> Result<()> {
        sqlx::query(sql!("redrive_update"))
            .bind(redrive.id.0)
            .bind(redrive.state.as_str())
            .bind(redrive.moved as i64)
            .bind(redrive.skipped as i64)
            .bind(redrive.cursor.map(|cursor| cursor.0))
            .bind(rows::micros(redrive.updated_at))
            .bind(redrive.finished_at.map(rows::micros))
            .bind(rows::micros(paced_at))
            .execute(&mut *self.connection)
            .await?;
        Ok(())
    }

    async fn record_redrive(&mut self, action: &str, redrive: &Redrive, by: &By) -> Result<()> {
        let by = redrive_by(redrive.id, by);
        let on = [(redrive.plan.queue.as_ref(), None)];
        self.record_actions(&by, action, &on).await
    }
}

impl PacedRedrive {
    fn from_row(row: &SqliteRow) -> Result<Self> {
        let word: &str = row.try_get("state")?;
        let state = RedriveState::from_word(word)
            .ok_or_else(|| Failure::corrupt(format!("{word:?} is not a redrive's state")))?;
        let time = |name| rows::timestamp(row.try_get(name)?);
        let count = |name| -> Result<u64> { Ok(row.try_get::<i64, _>(name)?.unsigned_abs()) };
        let queue: Option<&str> = row.try_get("queue")?;
        let rate: Option<i64> = row.try_get("rate_per_second")?;
        let limit: Option<i64> = row.try_get("at_most")?;
        let finished_at: Option<i64> = row.try_get("finished_at")?;
        let redrive = Redrive {
            id: RedriveId(row.try_get("id")?),
            plan: RedrivePlan {
                action: row
                    .try_get::<&str, _>("action")?
                    .parse()
                    .map_err(|error| Failure::corrupt(format!("{error}")))?,
                queue: queue.map(rows::queue_name).transpose()?,
                code: row.try_get("code")?,
                rate_per_second: rate.map(rows::count).transpose()?,
                limit: limit.map(i64::unsigned_abs),
            },
            state,
            total: count("total")?,
            moved: count("moved")?,
            skipped: count("skipped")?,
            cursor: row.try_get::<Option<i64>, _>("cursor")?.map(MessageId),
            by: By {
                actor: row.try_get("actor")?,
                reason: row.try_get("reason")?,
            },
            started_at: time("started_at")?,
            updated_at: time("updated_at")?,
            finished_at: finished_at.map(rows::timestamp).transpose()?,
        };
        let paced_at = time("paced_at")?;
        Ok(Self { redrive, paced_at })
    }
}

async fn one(connection: &mut SqliteConnection, id: RedriveId) -> Result<Option<PacedRedrive>> {
    let found = sqlx::query(sql!("redrive_get"))
        .bind(id.0)
        .fetch_optional(connection)
        .await?;
    found.as_ref().map(PacedRedrive::from_row).transpose()
}

pub(crate) async fn redrive(
    connection: &mut SqliteConnection,
    id: RedriveId,
) -> Result<Option<Redrive>> {
    Ok(one(connection, id).await?.map(|paced| paced.redrive))
}

pub(crate) async fn redrives(
    connection: &mut SqliteConnection,
    limit: u32,
) -> Result<Vec<Redrive>> {
    let found = sqlx::query(sql!("redrive_list"))
        .bind(limit.min(PAGE_ENTRIES_MAX))
        .fetch_all(connection)
        .await?;
    let paced = found.iter().map(PacedRedrive::from_row);
    paced.map(|paced| Ok(paced?.redrive)).collect()
}

/// What a redrive of this plan would take first.
pub(crate) async fn first_dead(
    connection: &mut SqliteConnection,
    plan: &RedrivePlan,
    limit: u32,
) -> Result<Vec<DeadLetter>> {
    if plan.action == RedriveAction::Cancel {
        return Ok(Vec::new());
    }
    let found: Vec<LetterColumns> = sqlx::query_as(sql!("dead_first"))
        .bind(plan.queue.as_ref().map(QueueName::as_str))
        .bind(&plan.code)
        .bind(plan.shown(limit))
        .bind(plan.action == RedriveAction::Discard)
        .fetch_all(connection)
        .await?;
    found.into_iter().map(letter).collect()
}

/// What a redrive of this plan would cancel first.
pub(crate) async fn first_open(
    connection: &mut SqliteConnection,
    plan: &RedrivePlan,
    limit: u32,
) -> Result<Vec<MessageSummary>> {
    let Some(queue) = plan.cancelled_queue() else {
        return Ok(Vec::new());
    };
    let ids: Vec<i64> = sqlx::query_scalar(sql!("redrive_cancel_next"))
        .bind(queue.as_str())
        .bind(i64::MIN)
        .bind(i64::MAX)
        .bind(plan.shown(limit))
        .fetch_all(&mut *connection)
        .await?;
    let mut items = details(connection, &Filter::default(), ids).await?;
    items.reverse();
    Ok(items)
}
