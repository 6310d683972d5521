//! Queues: named streams of messages with one policy each.

use std::{fmt, str::FromStr, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    CLAIM_BYTES_MAX, CODE_BYTES_MAX, LEASE_TTL_MAX, PAYLOAD_BYTES_MAX,
    error::{Error, Result},
    retry::RetrySchedule,
};

/// The name of a queue: 1 to 63 of `a-z 0-9 . _ -`, starting with a letter or digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct QueueName(String);

impl QueueName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for QueueName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        if is_plain_name(name) {
            return Ok(Self(name.to_owned()));
        }
        Err(Error::invalid(
            format!("queue {name:?}"),
            "a queue's name is 1 to 63 of a-z 0-9 . _ - and starts with a letter or digit",
        ))
    }
}

/// Whether a text is a name as queues and schedules have it.
pub(crate) fn is_plain_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.starts_with(is_plain)
        && name
            .chars()
            .all(|c| is_plain(c) || matches!(c, '.' | '_' | '-'))
        && name.len() <= 63
}

impl TryFrom<String> for QueueName {
    type Error = Error;
    fn try_from(name: String) -> Result<Self> {
        name.parse()
    }
}

impl From<QueueName> for String {
    fn from(name: QueueName) -> Self {
        name.0
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What to do with a message whose delivery may or may not have happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnUncertain {
    /// Send again: the sink is idempotent.
    Resend,
    /// Hand it out again marked `in_doubt`; the worker probes the sink before sending. Held when
    /// its tries are used up and the doubt is still there.
    Probe,
    /// Hold it until an operator resolves it.
    Hold,
}

/// What a dead message does to the rest of its group in an ordered queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDead {
    /// The group stops until the dead message is requeued and delivered, or discarded.
    Block,
    /// The next message of the group is promoted.
    Continue,
}

/// The longest time to keep something: 100 years.
const KEEP_MS_MAX: u64 = 100 * 366 * 24 * 60 * 60 * 1_000;

/// The largest limit of all processes together.
const TOTAL_MAX: u32 = 10_000;

/// The shortest time between alerts of the same reason and code.
const ALERT_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// The longest, and the greatest age that is watched for.
const ALERT_TIME_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Most codes of `hold_codes`.
const HOLD_CODES_MAX: usize = 16;

/// The rules of a queue. Stored as JSON; absent fields take their defaults.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueuePolicy {
    /// The lease time unless the claim requests another.
    pub lease_ttl_ms: u64,
    /// The longest lease time that a claim or a renewal may request.
    pub lease_ttl_max_ms: u64,
    /// Tries before a message is dead.
    pub attempts_max: u32,
    /// Delay of a message after a failed try.
    pub retry: RetrySchedule,
    /// What an uncertain outcome leads to.
    pub on_uncertain: OnUncertain,
    /// Whether messages of one group are delivered one at a time, in order.
    pub ordered: bool,
    /// What a dead message does to its group.
    pub on_dead: OnDead,
    /// Whether an enqueue wakes waiting workers at commit (PostgreSQL: NOTIFY).
    pub notify: bool,
    /// Largest payload, as compact JSON.
    pub payload_max_bytes: usize,
    /// Most bytes of payloads and headers in one claim, and of the queue in one worker process at any
    /// time. One message fits always.
    pub claim_max_bytes: usize,
    /// Most deliveries at once in one worker process.
    pub concurrency: u32,
    /// Most deliveries a second in one worker process; none for no limit.
    pub rate_per_second: Option<u32>,
    /// Most messages leased at once, in all processes; none for no limit.
    pub total_concurrency: Option<u32>,
    /// Most deliveries in any second, in all worker processes; none for no limit.
    pub total_rate_per_second: Option<u32>,
    /// How long one delivery may take before its outcome is uncertain.
    pub timeout_ms: u64,
    /// Whether the start of each transport call is recorded, so that a crash after it is known to
    /// be uncertain. Queues that probe or hold need it; for others it is one more write per delivery.
    pub record_begin: bool,
    /// Whether a claim by `consign.claim` in SQL presumes that the sink is called for its messages
    /// without a recorded start: if its lease expires, they are in doubt. For workers in other languages.
    pub presume_begun: bool,
    /// Codes of uncertain reports that are held at once, whatever `on_uncertain` is, with the code
    /// as the reason: another probe cannot help.
    pub hold_codes: Vec<String>,
    /// How long a delivered message is kept after its last event; none for ever.
    pub keep_ms: Option<u64>,
    /// How long a dead message is kept after its last event; none for ever.
    pub keep_dead_ms: Option<u64>,
    /// How long a key is kept after its message was enqueued, in any case until the message has left;
    /// none for ever.
    pub keep_keys_ms: Option<u64>,
    /// Whether a message must be in an archive before it leaves.
    pub archive: bool,
    /// The queue that alerts about this one go to; none for no alerts.
    pub alert_queue: Option<QueueName>,
    /// How long after an alert the next one of the same reason and code may come. It stands for all
    /// that happened in between.
    pub alert_interval_ms: u64,
    /// How long the oldest due message may wait before that is worth an alert; none: however long.
    pub alert_age_ms: Option<u64>,
}

impl Default for QueuePolicy {
    fn default() -> Self {
        Self {
            lease_ttl_ms: 15_000,
            lease_ttl_max_ms: 60 * 60 * 1_000,
            attempts_max: 10,
            retry: RetrySchedule::default(),
            on_uncertain: OnUncertain::Resend,
            ordered: false,
            on_dead: OnDead::Block,
            notify: true,
            payload_max_bytes: 1024 * 1024,
            claim_max_bytes: 16 * 1024 * 1024,
            concurrency: 16,
            rate_per_second: None,
            total_concurrency: None,
            total_rate_per_second: None,
            timeout_ms: 10_000,
            record_begin: false,
            presume_begun: false,
            hold_codes: Vec::new(),
            keep_ms: None,
            keep_dead_ms: None,
            keep_keys_ms: None,
            archive: true,
            alert_queue: None,
            alert_interval_ms: 300_000,
            alert_age_ms: None,
        }
    }
}

impl QueuePolicy {
    /// The default lease time.
    pub fn lease_ttl(&self) -> Duration {
        Duration::from_millis(self.lease_ttl_ms)
    }

    /// Whether groups that are blocked by a dead message go on with the new policy.
    pub fn unblocks(&self, new: &Self) -> bool {
        (self.on_dead, new.on_dead) == (OnDead::Block, OnDead::Continue)
    }

    /// Rejects a lease that would live longer than the queue allows.
    pub fn check_ttl(&self, queue: &QueueName, ttl: Duration) -> Result<()> {
        if ttl <= Duration::from_millis(self.lease_ttl_max_ms) {
            return Ok(());
        }
        Err(Error::invalid(
            "ttl",
            format!(
                "{} ms is more than queue {queue} allows, {} ms; renew the lease in time, or raise \
                 lease_ttl_max_ms",
                ttl.as_millis(),
                self.lease_ttl_max_ms
            ),
        ))
    }

    /// How long one delivery may take.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    /// How many of `wanted` messages a claim may take while so many are leased.
    pub fn claimable(&self, wanted: u32, leased: u64) -> u32 {
        let Some(most) = self.total_concurrency else {
            return wanted;
        };
        u64::from(most).saturating_sub(leased).min(wanted.into()) as u32
    }

    /// How long after an alert the next one of the same reason and code may come.
    pub fn alert_interval(&self) -> Duration {
        Duration::from_millis(self.alert_interval_ms)
    }

    /// How long the oldest due message may wait.
    pub fn alert_age(&self) -> Option<Duration> {
        self.alert_age_ms.map(Duration::from_millis)
    }

    /// Rejects an alert queue that cannot take alerts of the queue `name`; `exists` and `is_of_app` are
    /// about the alert queue.
    pub fn check_alert_queue(&self, name: &QueueName, exists: bool, is_of_app: bool) -> Result<()> {
        let Some(alert_queue) = &self.alert_queue else {
            return Ok(());
        };
        let why = if alert_queue == name {
            "must be another queue than the one that the alerts are about"
        } else if !exists {
            "must exist; create it first, with `consign queues set`"
        } else if is_of_app {
            "must not be the queue of an app, which decides about its messages; create a queue for \
             alerts, with `consign queues set`"
        } else {
            return Ok(());
        };
        Err(Error::out_of_bounds("policy.alert_queue", alert_queue, why))
    }

    /// Whether a worker records the start of each transport call.
    pub fn begins(&self) -> bool {
        self.record_begin || self.on_uncertain != OnUncertain::Resend
    }

    /// Rejects values that no store can honour.
    pub fn validate(&self) -> Result<()> {
        validate_ttl("policy.lease_ttl_ms", self.lease_ttl())?;
        validate_ttl(
            "policy.lease_ttl_max_ms",
            Duration::from_millis(self.lease_ttl_max_ms),
        )?;
        if self.lease_ttl_ms > self.lease_ttl_max_ms {
            let why = format!(
                "must not be more than lease_ttl_max_ms, {}",
                self.lease_ttl_max_ms
            );
            return Err(Error::out_of_bounds(
                "policy.lease_ttl_ms",
                self.lease_ttl_ms,
                why,
            ));
        }
        for (what, value, most, why) in [
            ("attempts_max", self.attempts_max.into(), 10_000, "10000"),
            (
                "payload_max_bytes",
                self.payload_max_bytes as u64,
                PAYLOAD_BYTES_MAX as u64,
                "64 MiB",
            ),
            (
                "claim_max_bytes",
                self.claim_max_bytes as u64,
                CLAIM_BYTES_MAX as u64,
                "256 MiB",
            ),
            ("concurrency", self.concurrency.into(), 1_000, "1000"),
        ] {
            if !(1..=most).contains(&value) {
                let why = format!("must be from 1 to {why}");
                return Err(Error::out_of_bounds(format!("policy.{what}"), value, why));
            }
        }
        if self.rate_per_second == Some(0) {
            let why = "must be at least 1, or absent for no limit; `consign pause` stops a queue";
            return Err(Error::out_of_bounds("policy.rate_per_second", 0, why));
        }
        for (what, limit) in [
            ("policy.total_concurrency", self.total_concurrency),
            ("policy.total_rate_per_second", self.total_rate_per_second),
        ] {
            if let Some(limit) = limit.filter(|limit| !(1..=TOTAL_MAX).contains(limit)) {
                let why = format!("must be from 1 to {TOTAL_MAX}, or absent for no limit");
                return Err(Error::out_of_bounds(what, limit, why));
            }
        }
        if !(1..=24 * 60 * 60 * 1_000).contains(&self.timeout_ms) {
            return Err(Error::out_of_bounds(
                "policy.timeout_ms",
                self.timeout_ms,
                "must be from 1 ms to 24 h",
            ));
        }
        let fits = |code: &String| (1..=CODE_BYTES_MAX).contains(&code.len());
        if self.hold_codes.len() > HOLD_CODES_MAX || !self.hold_codes.iter().all(fits) {
            return Err(Error::invalid(
                "policy.hold_codes",
                "must be at most 16 codes of 1 to 128 bytes",
            ));
        }
        for (what, keep_ms) in [
            ("policy.keep_ms", self.keep_ms),
            ("policy.keep_dead_ms", self.keep_dead_ms),
            ("policy.keep_keys_ms", self.keep_keys_ms),
        ] {
            if let Some(keep_ms) = keep_ms.filter(|keep_ms| *keep_ms > KEEP_MS_MAX) {
                let why = "must be from 0 to 100 years, or absent to keep for ever";
                return Err(Error::out_of_bounds(what, format!("{keep_ms} ms"), why));
            }
        }
        self.validate_alerts()?;
        self.retry.validate()
    }

    fn validate_alerts(&self) -> Result<()> {
        let interval = Duration::from_millis(self.alert_interval_ms);
        if !(ALERT_INTERVAL_MIN..=ALERT_TIME_MAX).contains(&interval) {
            let value = format!("{} ms", self.alert_interval_ms);
            let why = "must be from 1 s to 30 days";
            return Err(Error::out_of_bounds("policy.alert_interval_ms", value, why));
        }
        let is_out = |age_ms: &u64| {
            !(Duration::from_millis(1)..=ALERT_TIME_MAX).contains(&Duration::from_millis(*age_ms))
        };
        if let Some(age_ms) = self.alert_age_ms.filter(is_out) {
            let why = "must be from 1 ms to 30 days, or absent to watch no age";
            return Err(Error::out_of_bounds(
                "policy.alert_age_ms",
                format!("{age_ms} ms"),
                why,
            ));
        }
        Ok(())
    }
}

/// Refuses a lease time that no queue may have; `what` names it in the error.
pub fn validate_ttl(what: &str, ttl: Duration) -> Result<()> {
    if ttl < Duration::from_millis(1) || ttl > LEASE_TTL_MAX {
        let value = format!("{} ms", ttl.as_millis());
        return Err(Error::out_of_bounds(what, value, "must be 1 ms to 24 h"));
    }
    Ok(())
}

/// A queue as stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Queue {
    /// 1 to 63 lower-case letters, digits, dots, dashes and underscores.
    pub name: QueueName,
    /// Lease time, attempts, backoff and limits.
    pub policy: QueuePolicy,
    /// Since when nothing is claimed from it, if paused.
    pub paused_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_names_are_plain() {
        for good in ["a", "mails", "eu-1.mail_out", &"x".repeat(63)] {
            assert!(good.parse::<QueueName>().is_ok(), "{good}");
        }
        for bad in ["", "-a", "Mails", "a b", "a/b", "ä", "a\0", &"x".repeat(64)] {
            assert!(bad.parse::<QueueName>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_policy_keeps_defaults_and_rejects_unknown_fields() {
        let policy: QueuePolicy = serde_json::from_str(r#"{"attempts_max": 3}"#).unwrap();
        assert_eq!(
            policy,
            QueuePolicy {
                attempts_max: 3,
                ..QueuePolicy::default()
            }
        );
        assert!(serde_json::from_str::<QueuePolicy>(r#"{"atempts_max": 3}"#).is_err());
        assert!(
            QueuePolicy {
                attempts_max: 0,
                ..QueuePolicy::default()
            }
            .validate()
            .is_err()
        );
        assert!(
            QueuePolicy {
                lease_ttl_ms: 0,
                ..QueuePolicy::default()
            }
            .validate()
            .is_err()
        );
    }
}
