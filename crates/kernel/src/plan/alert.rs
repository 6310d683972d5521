//! Which events an alert stands for, and when it is due.

use std::{collections::BTreeMap, time::Duration};

use jiff::{SignedDuration, Timestamp};

use super::{DeadEntry, Entry};
use crate::{
    ALERT_CODE_OTHER, ALERT_CODES_MAX, Alert, AlertReason, MessageId, QueueName, QueuePolicy,
};

/// What alerts are counted by. The code is empty where there is none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AlertKey {
    /// The queue they are about.
    pub queue: QueueName,
    /// What they are about.
    pub reason: AlertReason,
    /// Its cause for programs.
    pub code: String,
}

/// Something that happened: a row of what was recorded and not yet counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AlertEvent {
    /// What it is counted by.
    pub key: AlertKey,
    /// How often it happened in one transaction.
    pub count: u64,
    /// One of the messages.
    pub message_id: Option<MessageId>,
    /// When.
    pub at: Timestamp,
}

/// The next alert of a key, and when the last one was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AlertRow {
    /// Events since the last alert.
    pub pending: u64,
    /// When the first of them happened; without meaning while there is none.
    pub first_at: Timestamp,
    /// When the last of them happened.
    pub last_at: Timestamp,
    /// One of their messages.
    pub message_id: Option<MessageId>,
    /// When the last alert was enqueued.
    pub alerted_at: Option<Timestamp>,
    /// Why the last try to enqueue it failed.
    pub failure: Option<String>,
}

impl AlertEvent {
    /// The end of a lease that held these messages.
    pub fn lease_lost(queue: &QueueName, entries: &[Entry], at: Timestamp) -> Self {
        Self {
            key: AlertKey {
                queue: queue.clone(),
                reason: AlertReason::LeaseLost,
                code: String::new(),
            },
            count: 1,
            message_id: entries.first().map(|entry| entry.id),
            at,
        }
    }
}

/// The events that the deaths in one lease are: one for each code.
pub fn deaths(queue: &QueueName, dead: &[DeadEntry], at: Timestamp) -> Vec<AlertEvent> {
    let mut by_code: BTreeMap<&str, (u64, MessageId)> = BTreeMap::new();
    for (id, _, code, _) in dead {
        let (count, latest) = by_code.entry(code).or_insert((0, *id));
        *count += 1;
        *latest = (*latest).max(*id);
    }
    let event = |(code, (count, latest)): (&str, (u64, MessageId))| AlertEvent {
        key: AlertKey {
            queue: queue.clone(),
            reason: AlertReason::Died,
            code: code.to_owned(),
        },
        count,
        message_id: Some(latest),
        at,
    };
    by_code.into_iter().map(event).collect()
}

/// Every alert that is counted, due or not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AlertBoard(pub BTreeMap<AlertKey, AlertRow>);

impl AlertBoard {
    /// Counts an event. Of more codes than a queue may have alerts of, the others count as one.
    pub fn count(&mut self, mut event: AlertEvent, interval: Duration) {
        if !event.key.code.is_empty() && !self.0.contains_key(&event.key) {
            let is_alike =
                |key: &&AlertKey| (&key.queue, key.reason) == (&event.key.queue, event.key.reason);
            if self.0.keys().filter(is_alike).count() >= ALERT_CODES_MAX {
                event.key.code = ALERT_CODE_OTHER.to_owned();
            }
        }
        let reason = event.key.reason;
        let row = self.0.entry(event.key).or_default();
        row.forget_old(reason, event.at, interval);
        if row.pending == 0 {
            row.first_at = event.at;
        }
        row.pending += event.count;
        row.last_at = event.at;
        row.message_id = event.message_id;
    }

    /// Whether an alert of this key may be raised now.
    pub fn may_alert(&self, key: &AlertKey, now: Timestamp, interval: Duration) -> bool {
        self.0
            .get(key)
            .is_none_or(|row| row.is_interval_over(now, interval))
    }

    /// Removes rows that nothing depends on any more; `policy` is that of a queue.
    pub fn forget<'p>(
        &mut self,
        now: Timestamp,
        policy: impl Fn(&QueueName) -> Option<&'p QueuePolicy>,
    ) {
        self.0.retain(|key, row| {
            let Some(policy) = policy(&key.queue).filter(|it| it.alert_queue.is_some()) else {
                return false;
            };
            let interval = policy.alert_interval();
            if key.reason == AlertReason::QueueOld && policy.alert_age_ms.is_none() {
                return false;
            }
            !row.is_interval_over(now, interval) || row.still_pending(key.reason, now, interval) > 0
        });
    }

    /// The alerts that are due, in order; `policy` is that of a queue.
    pub fn due<'p>(
        &self,
        now: Timestamp,
        policy: impl Fn(&QueueName) -> Option<&'p QueuePolicy>,
    ) -> Vec<AlertKey> {
        let is_due = |(key, row): &(&AlertKey, &AlertRow)| {
            let interval = policy(&key.queue).map(QueuePolicy::alert_interval);
            row.pending >= key.reason.count_min()
                && interval.is_some_and(|interval| row.is_interval_over(now, interval))
        };
        let due = self.0.iter().filter(is_due);
        due.map(|(key, _)| key.clone()).collect()
    }

    /// Records that an alert of a key was enqueued, or why not.
    pub fn record(&mut self, key: &AlertKey, now: Timestamp, failure: Option<String>) {
        let row = self.0.entry(key.clone()).or_default();
        if failure.is_none() {
            row.pending = 0;
            row.alerted_at = Some(now);
        }
        row.failure = failure;
    }
}

impl AlertRow {
    /// The alert as it would be enqueued now.
    pub fn alert(&self, key: &AlertKey) -> Alert {
        Alert {
            reason: key.reason,
            queue: key.queue.clone(),
            code: Some(key.code.clone()).filter(|code| !code.is_empty()),
            count: self.pending,
            first_at: self.first_at,
            last_at: self.last_at,
            message_id: self.message_id,
            oldest_at: (key.reason == AlertReason::QueueOld).then_some(self.first_at),
            text: String::new(),
        }
        .with_text()
    }

    /// Whether the last alert is an interval ago. After a clock was set back by more than that, none is
    /// waited for; by less, it is waited for twice as long at most.
    fn is_interval_over(&self, now: Timestamp, interval: Duration) -> bool {
        let interval = SignedDuration::try_from(interval).unwrap_or(SignedDuration::MAX);
        self.alerted_at.is_none_or(|at| {
            let age = now.duration_since(at);
            age >= interval || age < -interval
        })
    }

    /// How many of the events still count at a time: lost leases only together, within the interval. While
    /// there are two of them at most, the times of the first and the last are those of all.
    fn still_pending(&self, reason: AlertReason, at: Timestamp, interval: Duration) -> u64 {
        if reason != AlertReason::LeaseLost || self.pending >= reason.count_min() {
            return self.pending;
        }
        let interval = SignedDuration::try_from(interval).unwrap_or(SignedDuration::MAX);
        let is_recent = |time: Timestamp| at.duration_since(time) < interval;
        match self.pending {
            0 => 0,
            pending if is_recent(self.first_at) => pending,
            _ => u64::from(self.pending == 2 && is_recent(self.last_at)),
        }
    }

    fn forget_old(&mut self, reason: AlertReason, at: Timestamp, interval: Duration) {
        let pending = self.still_pending(reason, at, interval);
        if pending < self.pending {
            self.first_at = self.last_at;
        }
        self.pending = pending;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(10);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn key(reason: AlertReason, code: &str) -> AlertKey {
        AlertKey {
            queue: "mail".parse().unwrap(),
            reason,
            code: code.to_owned(),
        }
    }

    fn event(reason: AlertReason, code: &str, seconds: i64) -> AlertEvent {
        AlertEvent {
            key: key(reason, code),
            count: 1,
            message_id: None,
            at: at(seconds),
        }
    }

    #[test]
    fn three_lost_leases_within_the_interval_are_pending() {
        for (times, expected) in [
            (vec![0], 1),
            (vec![0, 9, 10], 2),
            (vec![0, 9, 9], 3),
            (vec![0, 1, 10, 11], 2),
            (vec![0, 5, 11, 12], 3),
            (vec![0, 1, 2, 60], 4),
            (vec![0, 60], 1),
        ] {
            let mut board = AlertBoard::default();
            for time in &times {
                board.count(event(AlertReason::LeaseLost, "", *time), INTERVAL);
            }
            let row = &board.0[&key(AlertReason::LeaseLost, "")];
            assert_eq!(row.pending, expected, "{times:?}");
        }
    }

    #[test]
    fn codes_beyond_the_most_share_an_alert() {
        let mut board = AlertBoard::default();
        for n in 0..50 {
            board.count(
                event(AlertReason::Died, &format!("code-{n:02}"), n),
                INTERVAL,
            );
        }
        assert_eq!(board.0.len(), ALERT_CODES_MAX + 1);
        assert_eq!(board.0[&key(AlertReason::Died, "other")].pending, 30);
    }

    #[test]
    fn the_interval_is_over_in_time_and_after_a_clock_was_set_far_back() {
        let row = AlertRow {
            alerted_at: Some(at(100)),
            ..AlertRow::default()
        };
        for (now, over) in [
            (100, false),
            (109, false),
            (110, true),
            (99, false),
            (90, false),
            (89, true),
        ] {
            assert_eq!(row.is_interval_over(at(now), INTERVAL), over, "{now}");
        }
    }
}
