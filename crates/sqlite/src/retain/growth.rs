//! The history of queues, and samples of it.

use std::{cmp::Reverse, collections::BTreeMap, time::Duration};

use consign_kernel::{
    DatabaseSize, DepartureCause, Growth, MessageId, PassRecord, QueueHistory, QueueName,
    QueueSample, Refusal, SAMPLE_QUEUES_MAX, SAMPLES_RETENTION, Sample, Step, Token, bases,
    plan::hour,
};
use jiff::Timestamp;
use sqlx::{Row, SqliteConnection, sqlite::SqliteRow};

use super::{
    cutoffs, owner,
    window::{Terms, Window},
};
use crate::{
    component::Components,
    error::Result,
    job::{Work, arguments},
    rows, sql,
};

/// Messages of a queue that are gone: how many left, how many of them were dead and discarded, and how
/// many dead ones were requeued or discarded.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gone {
    pub(crate) messages: u64,
    pub(crate) dead: u64,
    pub(crate) revived: u64,
    pub(crate) discarded: u64,
}

impl Work<'_> {
    /// Counts what the tables will not tell any more.
    pub(crate) async fn count_gone(&mut self, gone: &BTreeMap<QueueName, Gone>) -> Result<()> {
        if gone.is_empty() {
            return Ok(());
        }
        let counts: Vec<_> = gone
            .iter()
            .map(|(queue, gone)| {
                let Gone {
                    messages,
                    dead,
                    revived,
                    discarded,
                } = *gone;
                (queue, messages, dead, revived, discarded)
            })
            .collect();
        let statements = sql!("departed_add", "departed_count");
        self.rows_of(statements, arguments!(rows::json(&counts))?)
            .await?;
        Ok(())
    }

    /// Records how a pass ended, and a sample.
    pub(super) async fn record_pass(
        &mut self,
        token: Token,
        end: &str,
        sample: &Sample,
    ) -> Result<Step<()>> {
        if owner(self.connection, self.now, token).await?.is_none() {
            return Ok(Step::Refused(Refusal::LeaseLost));
        }
        sqlx::query(sql!("maintenance_pass"))
            .bind(rows::micros(self.now))
            .bind(end)
            .execute(&mut *self.connection)
            .await?;
        let hour = hour(sample.at);
        let oldest = hour.saturating_sub(SAMPLES_RETENTION).unwrap_or(hour);
        sqlx::query(sql!("growth_forget"))
            .bind(rows::micros(oldest))
            .bind(rows::micros(hour))
            .execute(&mut *self.connection)
            .await?;
        sqlx::query(sql!("growth_put"))
            .bind(rows::micros(hour))
            .bind(rows::json(sample))
            .execute(&mut *self.connection)
            .await?;
        Ok(Step::Done(()))
    }
}

/// How many messages may leave now, by queue.
async fn may_leave(
    connection: &mut SqliteConnection,
    components: &Components,
    now: Timestamp,
) -> Result<BTreeMap<QueueName, u64>> {
    let cutoffs = cutoffs(connection, components, now, DepartureCause::Age).await?;
    let terms = Terms {
        cutoffs: &cutoffs,
        at: now,
        components,
    };
    let mut counts = BTreeMap::new();
    let mut cursor = 0;
    loop {
        let next: Option<(i64, i64)> = sqlx::query_as(sql!("message_next"))
            .bind(cursor)
            .fetch_optional(&mut *connection)
            .await?;
        let Some((first, _)) = next.filter(|_| !cutoffs.is_empty()) else {
            return Ok(counts);
        };
        let window = Window::read(connection, first, terms, Duration::MAX).await?;
        for (queue, _) in window.leaving {
            *counts.entry(queue).or_default() += 1;
        }
        cursor = window.last;
    }
}

pub(super) async fn queue_history(
    connection: &mut SqliteConnection,
    components: &Components,
    now: Timestamp,
) -> Result<Vec<QueueHistory>> {
    let may_leave = may_leave(connection, components, now).await?;
    let former_keys: Vec<(String, i64)> = sqlx::query_as(sql!("former_key_count"))
        .fetch_all(&mut *connection)
        .await?;
    let former_keys: BTreeMap<String, i64> = former_keys.into_iter().collect();
    let history = |sample: QueueSample| QueueHistory {
        messages: sample.messages,
        oldest_id: sample.oldest_id,
        oldest_at: sample.oldest_at,
        may_leave: may_leave.get(&sample.queue).copied().unwrap_or(0),
        enqueued: sample.enqueued,
        delivered: sample.delivered,
        dead: sample.dead,
        discarded: sample.discarded,
        departed: sample.departed,
        erased: sample.erased,
        former_keys: former_keys
            .get(sample.queue.as_str())
            .map_or(0, |count| count.unsigned_abs()),
        queue: sample.queue,
    };
    let samples = queue_samples(connection).await?;
    Ok(samples.into_iter().map(history).collect())
}

/// What every queue holds and had, by name.
async fn queue_samples(connection: &mut SqliteConnection) -> Result<Vec<QueueSample>> {
    let rows = sqlx::query(sql!("queue_history"))
        .fetch_all(connection)
        .await?;
    rows.iter().map(queue_sample).collect()
}

fn queue_sample(row: &SqliteRow) -> Result<QueueSample> {
    let count = |index: usize| -> Result<u64> { Ok(row.try_get::<i64, _>(index)?.unsigned_abs()) };
    let (messages, unfinished, is_dead) = (count(1)?, count(5)?, count(6)?);
    let (departed, departed_dead, revived) = (count(7)?, count(8)?, count(9)?);
    let (is_discarded, departed_discarded) = (count(11)?, count(12)?);
    let oldest_id: Option<i64> = row.try_get(2)?;
    let oldest_at: Option<i64> = row.try_get(3)?;
    let present = messages.saturating_sub(unfinished + is_dead + is_discarded);
    Ok(QueueSample {
        queue: rows::queue_name(row.try_get(0)?)?,
        messages,
        bytes: count(4)?,
        oldest_id: oldest_id.map(MessageId),
        oldest_at: oldest_at.map(rows::timestamp).transpose()?,
        enqueued: messages + departed,
        delivered: present + departed.saturating_sub(departed_dead + departed_discarded),
        dead: is_dead + departed_dead + revived,
        discarded: is_discarded + departed_discarded,
        erased: count(10)?,
        departed,
    })
}

pub(super) async fn size(connection: &mut SqliteConnection) -> Result<DatabaseSize> {
    let bytes: i64 = sqlx::query_scalar(sql!("database_size"))
        .fetch_one(connection)
        .await?;
    Ok(DatabaseSize {
        bytes: bytes.unsigned_abs(),
        history_bytes: bytes.unsigned_abs(),
    })
}

pub(super) async fn sample(connection: &mut SqliteConnection, at: Timestamp) -> Result<Sample> {
    let mut queues = queue_samples(connection).await?;
    queues.sort_by_key(|sample| Reverse(sample.messages));
    queues.truncate(SAMPLE_QUEUES_MAX);
    queues.sort_by(|a, b| a.queue.cmp(&b.queue));
    Ok(Sample {
        at,
        size: size(connection).await?,
        queues,
    })
}

pub(super) async fn growth(connection: &mut SqliteConnection) -> Result<Growth> {
    let pass: Option<(i64, String, i64, i64, String)> = sqlx::query_as(sql!("maintenance_passes"))
        .fetch_optional(&mut *connection)
        .await?;
    let pass = pass.map(|(at, end, since, passes, ends)| {
        Ok::<_, crate::error::Failure>(PassRecord {
            at: rows::timestamp(at)?,
            end,
            since: rows::timestamp(since)?,
            passes: passes.unsigned_abs(),
            ends: rows::document(&ends)?,
        })
    });
    let samples: Vec<String> = sqlx::query_scalar(sql!("growth_list"))
        .fetch_all(connection)
        .await?;
    let samples = samples.iter().map(|sample| rows::document(sample));
    let samples: Vec<Sample> = samples.collect::<Result<_>>()?;
    let newest = samples.last();
    let [day, week] = newest.map_or([None, None], |newest| bases(samples.iter(), newest.at));
    Ok(Growth {
        pass: pass.transpose()?,
        now: newest.cloned(),
        day: day.cloned(),
        week: week.cloned(),
    })
}
