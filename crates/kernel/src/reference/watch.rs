//! Heartbeats, queue stats, and whether the store is sound.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};

use super::{Reference, later};
use crate::{
    Finding, Heartbeat, OutcomeCounts, PROCESSES_KEPT, Process, QueueMinutes, QueueName,
    ReferenceStore, STATS_RETENTION, STATS_STEP_MAX, Watch, error::Result,
};

const MINUTE_MICROS: i64 = 60_000_000;

#[async_trait]
impl Watch for ReferenceStore {
    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<()> {
        self.at(|reference, now| reference.heartbeat(now, heartbeat))
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
    /// Records a process, and adds what it did to the current minute.
    pub fn heartbeat(&mut self, now: Timestamp, heartbeat: &Heartbeat) -> Result<()> {
        heartbeat.validate()?;
        let mut queues: Vec<QueueName> = heartbeat
            .queues
            .iter()
            .map(|done| done.queue.clone())
            .collect();
        queues.sort_unstable();
        queues.dedup();
        let running_for =
            SignedDuration::try_from(heartbeat.running_for).unwrap_or(SignedDuration::MAX);
        let process = Process {
            name: heartbeat.process.clone(),
            version: heartbeat.version.clone(),
            started_at: now.saturating_sub(running_for).unwrap_or(Timestamp::MIN),
            seen_at: now,
            queues,
        };
        self.processes.insert(process.name.clone(), process);
        let minute = begin(now, 1);
        for queue in &heartbeat.queues {
            let key = (minute, queue.queue.clone());
            self.queue_stats.entry(key).or_default().add(queue.done);
        }
        let is_kept = |at: Timestamp| later(at, STATS_RETENTION) >= now;
        self.queue_stats
            .retain(|(minute, _), done| is_kept(*minute) && *done != OutcomeCounts::default());
        self.processes.retain(|_, process| is_kept(process.seen_at));
        let mut last: Vec<_> = self.processes.values().map(last_seen).collect();
        last.sort_unstable_by(|one, other| other.cmp(one));
        if let Some(first_gone) = last.get(PROCESSES_KEPT).cloned() {
            self.processes
                .retain(|_, process| last_seen(process) > first_gone);
        }
        Ok(())
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
        let mut sums: BTreeMap<(QueueName, Timestamp), OutcomeCounts> = BTreeMap::new();
        for ((minute, of), done) in &self.queue_stats {
            if minute.as_microsecond() >= since && queue.is_none_or(|queue| queue == of) {
                let key = (of.clone(), begin(*minute, step));
                sums.entry(key).or_default().add(*done);
            }
        }
        let sum = |((queue, minute), done)| QueueMinutes {
            queue,
            minute,
            done,
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
