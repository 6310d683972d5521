//! How the history grows, for the metrics: what the maintenance has recorded, not counted anew.

use std::collections::BTreeSet;

use consign_kernel::{Growth, Period, QueueSample, SAMPLE_QUEUES_MAX, Sample};
use jiff::Timestamp;
use metrics::{counter, gauge};

use super::{
    metrics::{
        DATABASE_BYTES, DATABASE_GROWTH_BYTES_PER_DAY, DATABASE_ROOM_BYTES, HISTORY_BYTES,
        HISTORY_BYTES_PER_DAY, HISTORY_MESSAGES, HISTORY_MESSAGES_PER_DAY,
        HISTORY_OLDEST_AGE_SECONDS, MESSAGES_TOTAL, STUCK_PASSES,
    },
    sampler::ALL_QUEUES,
};
use crate::room::Bounds;

/// Shows what was recorded last.
pub(crate) struct GrowthGauges {
    pub(crate) bounds: Bounds,
    /// Queues that were shown before; one that is gone is set to nothing.
    seen: BTreeSet<String>,
}

impl GrowthGauges {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            seen: BTreeSet::new(),
        }
    }

    pub(super) fn show(&mut self, growth: &Growth) {
        let stuck = growth.pass.as_ref().filter(|pass| pass.end != "done");
        gauge!(STUCK_PASSES).set(stuck.map_or(0.0, |pass| pass.passes as f64));
        let Some(sample) = &growth.now else {
            return;
        };
        gauge!(DATABASE_BYTES).set(sample.size.bytes as f64);
        gauge!(HISTORY_BYTES).set(sample.size.history_bytes as f64);
        if let Some(bytes) = growth.of_database(Period::Day) {
            gauge!(DATABASE_GROWTH_BYTES_PER_DAY).set(bytes as f64);
        }
        if let Some(room) = self.bounds.room(sample.size.history_bytes) {
            gauge!(DATABASE_ROOM_BYTES).set(room.bytes as f64);
        }
        self.show_queues(sample, growth);
    }

    fn show_queues(&mut self, sample: &Sample, growth: &Growth) {
        let now = Timestamp::now();
        let mut present = BTreeSet::new();
        if sample.queues.len() < SAMPLE_QUEUES_MAX {
            for queue in &sample.queues {
                let name = queue.queue.to_string();
                let rate = growth.of_queue(&queue.queue, Period::Day);
                let rate = rate.map(|rate| (rate.messages, rate.bytes));
                show_queue(&name, std::slice::from_ref(queue), rate, now);
                present.insert(name);
            }
        } else {
            let rates = sample
                .queues
                .iter()
                .filter_map(|queue| growth.of_queue(&queue.queue, Period::Day));
            let rate = rates.fold((0, 0), |sum, rate| {
                (sum.0 + rate.messages, sum.1 + rate.bytes)
            });
            show_queue(ALL_QUEUES, &sample.queues, Some(rate), now);
            present.insert(ALL_QUEUES.to_owned());
        }
        for gone in self.seen.difference(&present) {
            gauge!(HISTORY_MESSAGES, "queue" => gone.clone()).set(0.0);
            gauge!(HISTORY_OLDEST_AGE_SECONDS, "queue" => gone.clone()).set(0.0);
            gauge!(HISTORY_MESSAGES_PER_DAY, "queue" => gone.clone()).set(0.0);
            gauge!(HISTORY_BYTES_PER_DAY, "queue" => gone.clone()).set(0.0);
        }
        self.seen = present;
    }
}

type Total = fn(&QueueSample) -> u64;

fn show_queue(name: &str, queues: &[QueueSample], rate: Option<(u64, u64)>, now: Timestamp) {
    let sum = |of: Total| queues.iter().map(of).sum::<u64>();
    let label = || name.to_owned();
    gauge!(HISTORY_MESSAGES, "queue" => label()).set(sum(|queue| queue.messages) as f64);
    let oldest = queues.iter().filter_map(|queue| queue.oldest_at).min();
    let age = oldest.map_or(0.0, |at| now.duration_since(at).as_secs_f64().max(0.0));
    gauge!(HISTORY_OLDEST_AGE_SECONDS, "queue" => label()).set(age);
    if let Some((messages, bytes)) = rate {
        gauge!(HISTORY_MESSAGES_PER_DAY, "queue" => label()).set(messages as f64);
        gauge!(HISTORY_BYTES_PER_DAY, "queue" => label()).set(bytes as f64);
    }
    let totals: [(&str, Total); 6] = [
        ("enqueued", |queue| queue.enqueued),
        ("delivered", |queue| queue.delivered),
        ("dead", |queue| queue.dead),
        ("discarded", |queue| queue.discarded),
        ("erased", |queue| queue.erased),
        ("departed", |queue| queue.departed),
    ];
    for (event, total) in totals {
        counter!(MESSAGES_TOTAL, "queue" => label(), "event" => event).absolute(sum(total));
    }
}
