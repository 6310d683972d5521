//! Signs of life, and looks at payloads.

use consign_kernel::{
    By, Done, Message, MessageId, PULSE_STEP_MAX, Process, Pulse, QueueMinutes, QueueName,
    QueuePulse, Result,
};
use sqlx::postgres::PgRow;

use crate::{PostgresStore, pools::Use, rows};

impl PostgresStore {
    pub(crate) async fn reveal_impl(&self, id: MessageId, by: &By) -> Result<Option<Message>> {
        by.validate()?;
        let statement = sqlx::query("SELECT * FROM consign.reveal($1, $2, $3)")
            .bind(id.0)
            .bind(&by.actor)
            .bind(&by.reason);
        let rows = self.fetch("show a payload", statement).await?;
        let message = |row| rows::message(row, rows::queue_name(row, "queue")?);
        rows.first().map(message).transpose()
    }

    pub(crate) async fn pulse_impl(&self, pulse: &Pulse) -> Result<()> {
        pulse.validate()?;
        let queues: Vec<&str> = pulse
            .queues
            .iter()
            .map(|done| done.queue.as_str())
            .collect();
        let numbers = |number: fn(&Done) -> u64| -> Vec<i64> {
            let number = |queue: &QueuePulse| number(&queue.done) as i64;
            pulse.queues.iter().map(number).collect()
        };
        let sql = "SELECT consign.pulse($1, $2, $3, $4, $5, $6, $7, $8, $9)";
        let statement = sqlx::query(sql)
            .bind(&pulse.process)
            .bind(&pulse.version)
            .bind(rows::interval(pulse.running_for))
            .bind(queues)
            .bind(numbers(|done| done.delivered))
            .bind(numbers(|done| done.retried))
            .bind(numbers(|done| done.dead))
            .bind(numbers(|done| done.uncertain))
            .bind(numbers(|done| done.took_ms));
        self.fetch_as(Use::Probe, "tell of a process", statement)
            .await
            .map(drop)
    }

    pub(crate) async fn pulses_impl(
        &self,
        queue: Option<&QueueName>,
        minutes: u32,
        step: u32,
    ) -> Result<Vec<QueueMinutes>> {
        let statement = sqlx::query(include_str!("../sql/pulses.sql"))
            .bind(queue.map(QueueName::as_str))
            .bind(i64::from(minutes))
            .bind(i64::from(step.clamp(1, PULSE_STEP_MAX)));
        let rows = self
            .read_as(Use::Report, "read what was done", statement)
            .await?;
        rows.iter().map(minutes_of).collect()
    }

    pub(crate) async fn processes_impl(&self) -> Result<Vec<Process>> {
        let statement = sqlx::query(include_str!("../sql/processes.sql"));
        let rows = self.read("read the processes", statement).await?;
        rows.iter().map(process).collect()
    }
}

fn minutes_of(row: &PgRow) -> Result<QueueMinutes> {
    Ok(QueueMinutes {
        queue: rows::queue_name(row, "queue")?,
        minute: rows::time(row, "minute")?,
        done: Done {
            delivered: rows::count(row, "delivered")?,
            retried: rows::count(row, "retried")?,
            dead: rows::count(row, "dead")?,
            uncertain: rows::count(row, "uncertain")?,
            took_ms: rows::count(row, "took_ms")?,
        },
    })
}

fn process(row: &PgRow) -> Result<Process> {
    let queues: Vec<String> = rows::column(row, "queues")?;
    Ok(Process {
        name: rows::column(row, "name")?,
        version: rows::column(row, "version")?,
        started_at: rows::time(row, "started_at")?,
        seen_at: rows::time(row, "seen_at")?,
        queues: queues
            .iter()
            .map(|queue| {
                queue
                    .parse()
                    .map_err(|_| rows::corrupt("a queue of a process"))
            })
            .collect::<Result<_>>()?,
    })
}
