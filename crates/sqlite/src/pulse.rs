//! Signs of life, and looks at payloads.

use consign_kernel::{
    By, Done, Message, MessageId, PROCESSES_KEPT, PULSE_STEP_MAX, PULSES_KEPT, Process, Pulse,
    QueueMinutes, QueueName,
};
use jiff::Timestamp;
use sqlx::SqliteConnection;

use crate::{
    error::{Failure, Result},
    job::Work,
    read, rows, sql,
};

const MINUTE_MICROS: i64 = 60_000_000;

impl Work<'_> {
    /// Records that somebody looks at a message's payload.
    pub(crate) async fn reveal(&mut self, id: MessageId, by: &By) -> Result<Option<Message>> {
        by.validate()?;
        let message = read::message(&mut *self.connection, id).await?;
        if let Some(message) = &message {
            let action = [(Some(&message.queue), Some(id))];
            self.record_actions(by, "reveal", &action).await?;
        }
        Ok(message)
    }

    /// Takes note of a process, and adds what it did to the minute it is in.
    pub(crate) async fn pulse(&mut self, pulse: &Pulse) -> Result<()> {
        pulse.validate()?;
        let now = rows::micros(self.now);
        let running_for = i64::try_from(pulse.running_for.as_micros()).unwrap_or(i64::MAX);
        let mut queues: Vec<&str> = pulse
            .queues
            .iter()
            .map(|done| done.queue.as_str())
            .collect();
        queues.sort_unstable();
        queues.dedup();
        sqlx::query(sql!("process_put"))
            .bind(&pulse.process)
            .bind(&pulse.version)
            .bind(now.saturating_sub(running_for))
            .bind(now)
            .bind(rows::json(&queues))
            .execute(&mut *self.connection)
            .await?;
        for queue in pulse
            .queues
            .iter()
            .filter(|queue| queue.done != Done::default())
        {
            sqlx::query(sql!("pulse_add"))
                .bind(now - now.rem_euclid(MINUTE_MICROS))
                .bind(queue.queue.as_str())
                .bind(queue.done.delivered as i64)
                .bind(queue.done.retried as i64)
                .bind(queue.done.dead as i64)
                .bind(queue.done.uncertain as i64)
                .bind(queue.done.took_ms as i64)
                .execute(&mut *self.connection)
                .await?;
        }
        sqlx::query(sql!("pulse_forget"))
            .bind(since(self.now))
            .execute(&mut *self.connection)
            .await?;
        sqlx::query(sql!("process_forget"))
            .bind(since(self.now))
            .bind(PROCESSES_KEPT as i64)
            .execute(&mut *self.connection)
            .await?;
        Ok(())
    }
}

/// Since when signs of life are kept.
fn since(now: Timestamp) -> i64 {
    rows::micros(now) - PULSES_KEPT.as_micros() as i64
}

pub(crate) async fn pulses(
    connection: &mut SqliteConnection,
    now: Timestamp,
    queue: Option<&QueueName>,
    minutes: u32,
    step: u32,
) -> Result<Vec<QueueMinutes>> {
    let now = rows::micros(now);
    let this = now - now.rem_euclid(MINUTE_MICROS);
    type Columns = (String, i64, i64, i64, i64, i64, i64);
    let found: Vec<Columns> = sqlx::query_as(sql!("pulse_list"))
        .bind(queue.map(QueueName::as_str))
        .bind(this - (i64::from(minutes) - 1) * MINUTE_MICROS)
        .bind(i64::from(step.clamp(1, PULSE_STEP_MAX)) * MINUTE_MICROS)
        .fetch_all(connection)
        .await?;
    let count = |number: i64| {
        let corrupt = |_| Failure::corrupt(format!("{number} results in a minute"));
        u64::try_from(number).map_err(corrupt)
    };
    let minutes = |(queue, minute, delivered, retried, dead, uncertain, took_ms): Columns| {
        Ok(QueueMinutes {
            queue: rows::queue_name(&queue)?,
            minute: rows::timestamp(minute)?,
            done: Done {
                delivered: count(delivered)?,
                retried: count(retried)?,
                dead: count(dead)?,
                uncertain: count(uncertain)?,
                took_ms: count(took_ms)?,
            },
        })
    };
    found.into_iter().map(minutes).collect()
}

pub(crate) async fn processes(
    connection: &mut SqliteConnection,
    now: Timestamp,
) -> Result<Vec<Process>> {
    type Columns = (String, String, i64, i64, String);
    let found: Vec<Columns> = sqlx::query_as(sql!("process_list"))
        .bind(since(now))
        .fetch_all(connection)
        .await?;
    let process = |(name, version, started_at, seen_at, queues): Columns| {
        Ok(Process {
            name,
            version,
            started_at: rows::timestamp(started_at)?,
            seen_at: rows::timestamp(seen_at)?,
            queues: rows::document(&queues)?,
        })
    };
    found.into_iter().map(process).collect()
}
