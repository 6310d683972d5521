//! Heartbeats, queue stats, and whether the store is sound.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{Reference, StatsRow, later};
use crate::{
    Backlog, Finding, HOURS_RETENTION, Heartbeat, OutcomeCounts, PROCESSES_KEPT, Process,
    QueueMinutes, QueueName, QueueStats, ReferenceStore, SAMPLED_QUEUES_MAX, STATS_RETENTION,
    STATS_STEP_MAX, Watch, error::Result,
};

const MINUTE_MICROS: i64 = 60_000_000;

#[async_trait]
impl Watch for ReferenceStore {
    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<()> {
        self.at(|reference, now| reference.heartbeat(now, heartbeat))
    }

    async fn sample_backlog(&self) -> Result<()> {
        self.at(|reference, now| reference.sample_backlog(now));
        Ok(())
    }

    async fn queue_stats(
        &self,
        queue: Option<&QueueName>,
        minutes: u32,
        step: u32,
    ) -> Result<Vec<QueueMinutes>> {
        Ok(self.at(|reference, now| reference.queue_stats(now, queue, minutes, step)))
    }

    async fn processes(&self) -> Result<Vec<Process>> {
        Ok(self.at(|reference, now| reference.processes(now)))
    }

    async fn probe(&self) -> Result<()> {
        Ok(())
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        Ok(self.at(|reference, _| reference.check()))
    }
}

impl Reference {
    /// Records a process, and adds what it did to the current minute and hour.
    pub fn heartbeat(&mut self, now: Timestamp, heartbeat: &Heartbeat) -> Result<()> {
        heartbeat.validate()?;
        let process = Process::at(now, heartbeat);
        self.processes.insert(process.name.clone(), process);
        for QueueStats { queue, done } in &heartbeat.queues {
            if *done != OutcomeCounts::default() {
                self.stats_of(now, queue, |row| row.done.add(*done));
            }
        }
        self.queue_stats
            .retain(|(minute, _), _| later(*minute, STATS_RETENTION) >= now);
        self.queue_hours
            .retain(|(hour, _), _| later(*hour, HOURS_RETENTION) >= now);
        self.processes
            .retain(|_, process| later(process.seen_at, STATS_RETENTION) >= now);
        let mut last: Vec<_> = self.processes.values().map(last_seen).collect();
        last.sort_unstable_by(|one, other| other.cmp(one));
        if let Some(first_gone) = last.get(PROCESSES_KEPT).cloned() {
            self.processes
                .retain(|_, process| last_seen(process) > first_gone);
        }
        Ok(())
    }

    /// Changes the stats of a queue in the current minute and hour.
    fn stats_of(&mut self, now: Timestamp, queue: &QueueName, change: impl Fn(&mut StatsRow)) {
        for (rows, minutes) in [(&mut self.queue_stats, 1), (&mut self.queue_hours, 60)] {
            change(
                rows.entry((begin(now, minutes), queue.clone()))
                    .or_default(),
            );
        }
    }

    /// Records what is due, unless it was recorded in this minute.
    pub fn sample_backlog(&mut self, now: Timestamp) {
        let minute = begin(now, 1);
        let is_sampled = |((at, _), row): (&(Timestamp, QueueName), &StatsRow)| {
            *at == minute && row.backlog.is_some()
        };
        if self.queue_stats.iter().any(is_sampled) {
            return;
        }
        let counted = self
            .queues
            .keys()
            .map(|queue| (queue.clone(), self.counts(now, queue)));
        let mut due: Vec<_> = counted.filter(|(_, counts)| counts.ready > 0).collect();
        due.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.ready));
        for (queue, counts) in due.into_iter().take(SAMPLED_QUEUES_MAX as usize) {
            let oldest = counts.oldest_due_at.unwrap_or(now);
            let backlog = Backlog {
                due: counts.ready,
                oldest_ms: now.duration_since(oldest).as_millis() as u64,
            };
            self.stats_of(now, &queue, |row| {
                row.backlog = Some(row.backlog.unwrap_or_default().max(backlog));
            });
        }
    }

    /// What was done in the last `minutes`, the current one included, added up by `step` of them.
    pub fn queue_stats(
        &self,
        now: Timestamp,
        queue: Option<&QueueName>,
        minutes: u32,
        step: u32,
    ) -> Vec<QueueMinutes> {
        let step = step.clamp(1, STATS_STEP_MAX);
        let since = begin(now, 1).as_microsecond() - (i64::from(minutes) - 1) * MINUTE_MICROS;
        let (rows, since) = if step.is_multiple_of(60) {
            (
                &self.queue_hours,
                since - since.rem_euclid(60 * MINUTE_MICROS),
            )
        } else {
            (&self.queue_stats, since)
        };
        let mut sums: BTreeMap<(QueueName, Timestamp), (OutcomeCounts, Backlog)> = BTreeMap::new();
        for ((minute, of), row) in rows {
            if minute.as_microsecond() >= since && queue.is_none_or(|queue| queue == of) {
                let sum = sums.entry((of.clone(), begin(*minute, step))).or_default();
                sum.0.add(row.done);
                sum.1 = sum.1.max(row.backlog.unwrap_or_default());
            }
        }
        let sum = |((queue, minute), (done, backlog))| QueueMinutes {
            queue,
            minute,
            done,
            backlog,
        };
        sums.into_iter().map(sum).collect()
    }

    /// The processes with a recent heartbeat, by name.
    pub fn processes(&self, now: Timestamp) -> Vec<Process> {
        let is_kept = |process: &&Process| later(process.seen_at, STATS_RETENTION) >= now;
        self.processes.values().filter(is_kept).cloned().collect()
    }
}

/// The names of the processes with the latest heartbeats.
fn last_seen(process: &Process) -> (Timestamp, String) {
    (process.seen_at, process.name.clone())
}

/// The beginning of the `step` minutes a time is in.
fn begin(at: Timestamp, step: u32) -> Timestamp {
    let step = i64::from(step) * MINUTE_MICROS;
    let micros = at.as_microsecond();
    Timestamp::from_microsecond(micros - micros.rem_euclid(step))
        .expect("invariant: earlier than a time, and later than the beginning of the calendar")
}
