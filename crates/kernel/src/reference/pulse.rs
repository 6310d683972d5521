//! Signs of life, and looks at payloads.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::{Reference, later};
use crate::{
    By, Done, Message, MessageId, PROCESSES_KEPT, PULSE_STEP_MAX, PULSES_KEPT, Process, Pulse,
    QueueMinutes, QueueName, error::Result,
};

const MINUTE_MICROS: i64 = 60_000_000;

impl Reference {
    /// Records that somebody looks at a message's payload, and answers with the message.
    pub fn reveal(&mut self, now: Timestamp, id: MessageId, by: &By) -> Result<Option<Message>> {
        by.validate()?;
        let Some(message) = self.messages.get(&id).cloned() else {
            return Ok(None);
        };
        self.record_action(now, by, "reveal", Some(&message.queue), Some(id));
        Ok(Some(message))
    }

    /// Takes note of a process, and adds what it did to the minute it is in.
    pub fn pulse(&mut self, now: Timestamp, pulse: &Pulse) -> Result<()> {
        pulse.validate()?;
        let mut queues: Vec<QueueName> =
            pulse.queues.iter().map(|done| done.queue.clone()).collect();
        queues.sort_unstable();
        queues.dedup();
        let running_for =
            SignedDuration::try_from(pulse.running_for).unwrap_or(SignedDuration::MAX);
        let process = Process {
            name: pulse.process.clone(),
            version: pulse.version.clone(),
            started_at: now.saturating_sub(running_for).unwrap_or(Timestamp::MIN),
            seen_at: now,
            queues,
        };
        self.processes.insert(process.name.clone(), process);
        let minute = begin(now, 1);
        for queue in &pulse.queues {
            let key = (minute, queue.queue.clone());
            self.pulses.entry(key).or_default().add(queue.done);
        }
        let is_kept = |at: Timestamp| later(at, PULSES_KEPT) >= now;
        self.pulses
            .retain(|(minute, _), done| is_kept(*minute) && *done != Done::default());
        self.processes.retain(|_, process| is_kept(process.seen_at));
        let mut last: Vec<_> = self.processes.values().map(heard_of).collect();
        last.sort_unstable_by(|one, other| other.cmp(one));
        if let Some(first_gone) = last.get(PROCESSES_KEPT).cloned() {
            self.processes
                .retain(|_, process| heard_of(process) > first_gone);
        }
        Ok(())
    }

    /// What was done in the last `minutes`, the current one included, added up by `step` of them.
    pub fn pulses(
        &self,
        now: Timestamp,
        queue: Option<&QueueName>,
        minutes: u32,
        step: u32,
    ) -> Vec<QueueMinutes> {
        let step = step.clamp(1, PULSE_STEP_MAX);
        let since = begin(now, 1).as_microsecond() - (i64::from(minutes) - 1) * MINUTE_MICROS;
        let mut sums: BTreeMap<(QueueName, Timestamp), Done> = BTreeMap::new();
        for ((minute, of), done) in &self.pulses {
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

    /// The processes that were heard of lately, by name.
    pub fn processes(&self, now: Timestamp) -> Vec<Process> {
        let is_kept = |process: &&Process| later(process.seen_at, PULSES_KEPT) >= now;
        self.processes.values().filter(is_kept).cloned().collect()
    }
}

/// By what those are known that were heard of last.
fn heard_of(process: &Process) -> (Timestamp, String) {
    (process.seen_at, process.name.clone())
}

/// The beginning of the `step` minutes a time is in.
fn begin(at: Timestamp, step: u32) -> Timestamp {
    let step = i64::from(step) * MINUTE_MICROS;
    let micros = at.as_microsecond();
    Timestamp::from_microsecond(micros - micros.rem_euclid(step))
        .expect("invariant: earlier than a time, and later than the beginning of the calendar")
}
