//! How history grows: samples of what the store holds, and rates between two of them.
//!
//! The totals of a queue never go backwards, so the difference of two samples is what was enqueued
//! in between, even if all of it has left since.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{MessageId, QueueName, plan::hour};

/// Queues of a sample: those with the most messages.
pub const SAMPLE_QUEUES_MAX: usize = 1_000;
/// How long samples are kept, one per hour.
pub const SAMPLES_RETENTION: SignedDuration = SignedDuration::from_hours(8 * 24);

/// Two samples closer than this say little about a day.
const SPAN_MIN: SignedDuration = SignedDuration::from_hours(1);
/// What a message takes beside payload and headers: its row, an attempt, indexes. Measured: 509 bytes
/// for a message of 200.
const OVERHEAD_BYTES: u64 = 300;

/// What a queue holds, and what it had ever.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct QueueSample {
    /// Queue whose policy applies.
    pub queue: QueueName,
    /// Messages in the store.
    pub messages: u64,
    /// The bytes of their payloads and headers, about.
    pub bytes: u64,
    /// The oldest of them, by id.
    pub oldest_id: Option<MessageId>,
    /// When that was enqueued.
    pub oldest_at: Option<Timestamp>,
    /// Messages enqueued, ever.
    pub enqueued: u64,
    /// Messages delivered, ever.
    pub delivered: u64,
    /// How often messages died, ever: one that was requeued and died again counts twice.
    pub dead: u64,
    /// Messages discarded and cancelled, ever.
    #[serde(default)]
    pub discarded: u64,
    /// Messages whose content was erased, ever.
    pub erased: u64,
    /// Messages that have left, ever.
    pub departed: u64,
}

/// The size of a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DatabaseSize {
    /// All of it. SQLite: the pages in use; free ones are used again or given back.
    pub bytes: u64,
    /// Messages, attempts and late results with their indexes. SQLite does not tell them apart: all of it.
    pub history_bytes: u64,
}

/// The history at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sample {
    /// When it was taken.
    pub at: Timestamp,
    /// The size of the database.
    #[serde(flatten)]
    pub size: DatabaseSize,
    /// The queues with the most messages, by name.
    pub queues: Vec<QueueSample>,
}

/// How passes of the maintenance end.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PassRecord {
    /// When the last one ended.
    pub at: Timestamp,
    /// How: `done`, or a reason.
    pub end: String,
    /// When the first pass since then ended: since one was `done` for the last time, or was not.
    pub since: Timestamp,
    /// How many they are.
    pub passes: u64,
    /// How they ended, each way once.
    pub ends: Vec<String>,
}

impl PassRecord {
    /// The record after another pass.
    pub fn next(before: Option<Self>, at: Timestamp, end: &str) -> Self {
        let is_done = |end: &str| end == "done";
        let run = before.filter(|pass| is_done(&pass.end) == is_done(end));
        let (since, passes) = run.as_ref().map_or((at, 0), |run| (run.since, run.passes));
        let mut ends = run.map_or_else(Vec::new, |run| run.ends);
        if !ends.iter().any(|known| known == end) {
            ends.push(end.to_owned());
        }
        Self {
            at,
            end: end.to_owned(),
            since,
            passes: passes + 1,
            ends,
        }
    }
}

/// What the maintenance has recorded about the growth of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Growth {
    /// How its last passes ended.
    pub pass: Option<PassRecord>,
    /// The newest sample.
    pub now: Option<Sample>,
    /// The first sample of the last 24 hours.
    pub day: Option<Sample>,
    /// The first sample of the last 7 days.
    pub week: Option<Sample>,
}

/// Which samples to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Period {
    /// The last 24 hours, as far as there are samples.
    Day,
    /// The last 7 days, as far as there are samples.
    Week,
}

/// What is added in 24 hours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DailyGrowth {
    /// Messages enqueued.
    pub messages: u64,
    /// The bytes that they take, with attempts and indexes, about.
    pub bytes: u64,
}

impl Sample {
    /// What the sample holds of a queue.
    pub fn queue(&self, queue: &QueueName) -> Option<&QueueSample> {
        self.queues.iter().find(|sample| sample.queue == *queue)
    }

    /// The part of the history that belongs to a queue, about: by payloads, headers and number.
    pub fn bytes_of(&self, queue: &QueueName) -> u64 {
        let weight = |sample: &QueueSample| sample.bytes + sample.messages * OVERHEAD_BYTES;
        let all: u64 = self.queues.iter().map(weight).sum();
        let own = self.queue(queue).map_or(0, weight);
        scaled(self.size.history_bytes, own, all)
    }
}

impl Growth {
    /// The sample to compare the newest one with, and the time between them.
    fn base(&self, period: Period) -> Option<(&Sample, &Sample, SignedDuration)> {
        let base = match period {
            Period::Day => self.day.as_ref(),
            Period::Week => self.week.as_ref(),
        }?;
        let now = self.now.as_ref()?;
        let span = now.at.duration_since(base.at);
        (span >= SPAN_MIN).then_some((now, base, span))
    }

    /// What a queue grows by in 24 hours. None: there are no samples far enough apart.
    pub fn of_queue(&self, queue: &QueueName, period: Period) -> Option<DailyGrowth> {
        let (now, base, span) = self.base(period)?;
        let sample = now.queue(queue)?;
        let before = base.queue(queue)?.enqueued;
        let messages = per_day(sample.enqueued.saturating_sub(before), span);
        let bytes = scaled(now.bytes_of(queue), messages, sample.messages);
        Some(DailyGrowth { messages, bytes })
    }

    /// By how many bytes the database grows in 24 hours; less than 0 if it shrinks.
    pub fn of_database(&self, period: Period) -> Option<i64> {
        let (now, base, span) = self.base(period)?;
        let (now, base) = (now.size.bytes, base.size.bytes);
        let change = i64::try_from(per_day(now.abs_diff(base), span)).unwrap_or(i64::MAX);
        Some(if now < base { -change } else { change })
    }

    /// When so many bytes more are used up at the rate of the last 24 hours; none if it does not grow, or
    /// not within 100 years.
    pub fn full_in(&self, room_bytes: u64) -> Option<SignedDuration> {
        let per_day = self.of_database(Period::Day).filter(|bytes| *bytes > 0)?;
        let hours = u128::from(room_bytes) * 24 / u128::from(per_day.unsigned_abs());
        let hours = i64::try_from(hours).ok()?;
        (hours < 100 * 366 * 24).then(|| SignedDuration::from_hours(hours))
    }
}

fn per_day(count: u64, span: SignedDuration) -> u64 {
    const DAY_SECONDS: u64 = 86_400;
    scaled(count, DAY_SECONDS, span.as_secs().unsigned_abs())
}

/// `count * part / whole`, and 0 of nothing.
fn scaled(count: u64, part: u64, whole: u64) -> u64 {
    let scaled = (u128::from(count) * u128::from(part)).checked_div(whole.into());
    u64::try_from(scaled.unwrap_or(0)).unwrap_or(u64::MAX)
}

/// The samples that rates are computed from, out of all that are kept; by whole hours, as they are kept.
pub fn bases<'s>(
    samples: impl Iterator<Item = &'s Sample> + Clone,
    now: Timestamp,
) -> [Option<&'s Sample>; 2] {
    [24, 7 * 24].map(|hours| {
        let age_max = SignedDuration::from_hours(hours);
        let is_within = |sample: &&Sample| hour(now).duration_since(hour(sample.at)) < age_max;
        samples
            .clone()
            .filter(is_within)
            .min_by_key(|sample| sample.at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(hour: i64, enqueued: u64, bytes: u64) -> Sample {
        let queue = |name: &str, messages, bytes| QueueSample {
            queue: name.parse().unwrap(),
            messages,
            bytes,
            oldest_id: None,
            oldest_at: None,
            enqueued,
            delivered: 0,
            dead: 0,
            discarded: 0,
            erased: 0,
            departed: enqueued - messages,
        };
        Sample {
            at: Timestamp::UNIX_EPOCH + SignedDuration::from_hours(hour),
            size: DatabaseSize {
                bytes,
                history_bytes: bytes,
            },
            queues: vec![queue("a", 10, 0), queue("b", 10, 6_000)],
        }
    }

    fn growth(now: Sample, base: Sample) -> Growth {
        Growth {
            day: Some(base.clone()),
            week: Some(base),
            now: Some(now),
            ..Growth::default()
        }
    }

    #[test]
    fn rates_are_of_a_day_and_count_what_has_left() {
        let growth = growth(sample(12, 1_010, 12_000), sample(0, 10, 6_000));
        let (a, b) = ("a".parse().unwrap(), "b".parse().unwrap());
        // 3,000 and 9,000 of 12,000 bytes are theirs, for 10 messages each.
        let expected = DailyGrowth {
            messages: 2_000,
            bytes: 2_000 * 300,
        };
        assert_eq!(growth.of_queue(&a, Period::Day), Some(expected));
        let of_b = growth.of_queue(&b, Period::Week).unwrap();
        assert_eq!((of_b.messages, of_b.bytes), (2_000, 2_000 * 900));
        assert_eq!(growth.of_queue(&"c".parse().unwrap(), Period::Day), None);
        assert_eq!(growth.of_database(Period::Day), Some(12_000));
        let full_in = growth.full_in(6_000);
        assert_eq!(full_in, Some(SignedDuration::from_hours(12)));
    }

    #[test]
    fn a_database_that_shrinks_is_never_full() {
        let growth = growth(sample(24, 10, 5_000), sample(0, 10, 6_000));
        assert_eq!(growth.of_database(Period::Day), Some(-1_000));
        assert_eq!(growth.full_in(1), None);
    }

    #[test]
    fn samples_close_together_give_no_rate() {
        let mut near = sample(1, 20, 6_000);
        near.at = near.at.checked_sub(SignedDuration::from_secs(1)).unwrap();
        let growth = growth(near, sample(0, 10, 6_000));
        assert_eq!(growth.of_database(Period::Day), None);
        assert_eq!(Growth::default().of_database(Period::Week), None);
    }

    #[test]
    fn bases_are_the_first_samples_of_the_last_day_and_week() {
        let samples: Vec<_> = [0, 30, 150, 170, 200]
            .map(|hour| sample(hour, 10, 0))
            .into();
        let now = samples[4].at;
        let found = bases(samples.iter(), now);
        assert_eq!(found, [Some(&samples[4]), Some(&samples[2])]);
        let found = bases(samples[..4].iter(), samples[3].at);
        assert_eq!(found, [Some(&samples[2]), Some(&samples[1])]);
    }
}
