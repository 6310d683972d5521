//! The history of queues, and samples of it.

use jiff::{SignedDuration, Timestamp};

use super::Reference;
use crate::{
    DatabaseSize, DepartureCause, Growth, PassRecord, QueueHistory, QueueName, QueueSample,
    SAMPLE_QUEUES_MAX, SAMPLES_RETENTION, Sample, StateKind,
    growth::bases,
    plan::{Finished, hour},
};

impl Reference {
    /// The history of every queue.
    pub fn queue_history(&self, now: Timestamp) -> Vec<QueueHistory> {
        let bounds = (
            self.messages.first_key_value(),
            self.messages.last_key_value(),
        );
        let leaving = match bounds {
            (Some((first, _)), Some((last, _))) => {
                let cutoffs = self.cutoffs(now, DepartureCause::Age);
                self.leaving(*first, *last, &cutoffs)
            }
            _ => Vec::new(),
        };
        let queue_of = |message: &Finished| &self.messages[&message.id].queue;
        let history = |queue: &QueueName| {
            let sample = self.queue_sample(queue);
            QueueHistory {
                queue: queue.clone(),
                messages: sample.messages,
                oldest_id: sample.oldest_id,
                oldest_at: sample.oldest_at,
                enqueued: sample.enqueued,
                delivered: sample.delivered,
                dead: sample.dead,
                discarded: sample.discarded,
                departed: sample.departed,
                erased: sample.erased,
                may_leave: leaving
                    .iter()
                    .filter(|left| queue_of(left) == queue)
                    .count() as u64,
                former_keys: self
                    .former_keys
                    .keys()
                    .filter(|(of, _)| of == queue)
                    .count() as u64,
            }
        };
        self.queues.keys().map(history).collect()
    }

    fn queue_sample(&self, queue: &QueueName) -> QueueSample {
        let messages = || self.messages.values().filter(|m| m.queue == *queue);
        let in_state = |state: StateKind| {
            let is_in = |message: &&crate::Message| {
                self.state(message.id)
                    .is_some_and(|found| found.kind() == state)
            };
            messages().filter(is_in).count() as u64
        };
        let departed = self.departed.get(queue).cloned().unwrap_or_default();
        let present = messages().count() as u64;
        QueueSample {
            queue: queue.clone(),
            messages: present,
            bytes: messages().map(|message| message.bytes() as u64).sum(),
            oldest_id: messages().next().map(|message| message.id),
            oldest_at: messages().next().map(|message| message.created_at),
            enqueued: present + departed.messages,
            delivered: in_state(StateKind::Delivered) + departed.messages
                - departed.dead
                - departed.discarded,
            discarded: in_state(StateKind::Discarded) + departed.discarded,
            dead: in_state(StateKind::Dead) + departed.dead + departed.revived,
            erased: self
                .erasures
                .values()
                .filter(|row| row.queue == *queue)
                .count() as u64,
            departed: departed.messages,
        }
    }

    /// The bytes of every payload and header.
    pub fn database_size(&self) -> DatabaseSize {
        let bytes = self.messages.values().map(|message| message.bytes() as u64);
        let bytes = bytes.sum();
        DatabaseSize {
            bytes,
            history_bytes: bytes,
        }
    }

    pub(super) fn record_pass(&mut self, now: Timestamp, end: &str) {
        self.pass = Some(PassRecord::next(self.pass.take(), now, end));
        let mut queues: Vec<QueueSample> = self
            .queues
            .keys()
            .map(|queue| self.queue_sample(queue))
            .collect();
        queues.sort_by_key(|sample| std::cmp::Reverse(sample.messages));
        queues.truncate(SAMPLE_QUEUES_MAX);
        queues.sort_by(|a, b| a.queue.cmp(&b.queue));
        let sample = Sample {
            at: now,
            size: self.database_size(),
            queues,
        };
        let hour = hour(now);
        let is_kept = |at: &Timestamp| {
            let age = now.duration_since(*at);
            age >= SignedDuration::ZERO && age <= SAMPLES_RETENTION
        };
        self.samples.retain(|at, _| is_kept(at));
        self.samples.insert(hour, sample);
    }

    /// What passes have recorded.
    pub fn growth(&self) -> Growth {
        let newest = self.samples.values().next_back();
        let [day, week] = newest.map_or([None, None], |newest| {
            bases(self.samples.values(), newest.at)
        });
        Growth {
            pass: self.pass.clone(),
            now: newest.cloned(),
            day: day.cloned(),
            week: week.cloned(),
        }
    }
}
