//! `consign queues set`: a queue's policy.

use std::time::Duration;

use clap::{Args, builder::PossibleValuesParser};
use consign_kernel::{OnDead, OnUncertain, QueueName, QueuePolicy, RetrySchedule};

use super::print_queue;
use crate::{
    arguments::{ByArgs, bytes, duration, retry},
    context::Context,
    failure::{Exit, Failure},
};

/// Create a queue or change its policy.
///
/// Settings that are not given keep their value, or take the default in a new queue.
#[derive(Args, Debug)]
pub(super) struct Set {
    /// The queue
    name: QueueName,
    /// The whole policy as JSON; missing fields take their default
    #[arg(long, value_name = "JSON", conflicts_with = "part")]
    policy_json: Option<String>,
    #[command(flatten)]
    parts: Parts,
    #[command(flatten)]
    by: ByArgs,
}

#[derive(Args, Debug)]
#[group(id = "part", multiple = true)]
struct Parts {
    /// Lease time, such as 30s
    #[arg(long, value_name = "DURATION", value_parser = duration, allow_hyphen_values = true)]
    lease: Option<Duration>,
    /// The longest lease that a claim or a renewal may request, such as 1h
    #[arg(long, value_name = "DURATION", value_parser = duration, allow_hyphen_values = true)]
    lease_max: Option<Duration>,
    /// Tries before a message is dead
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    attempts: Option<u32>,
    /// fixed:5s, table:5s,30s,2m or exponential:base=1s,factor=2,max=1h,jitter=0.2
    #[arg(long, value_name = "SCHEDULE", value_parser = retry)]
    retry: Option<RetrySchedule>,
    /// Deliver the messages of a group one at a time, in order
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    ordered: Option<bool>,
    /// What a dead message does to its group
    #[arg(long, value_parser = PossibleValuesParser::new(["block", "continue"]))]
    on_dead: Option<String>,
    /// What an uncertain outcome leads to
    #[arg(long, value_parser = PossibleValuesParser::new(["resend", "probe", "hold"]))]
    on_uncertain: Option<String>,
    /// Wake waiting workers at every enqueue
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    notify: Option<bool>,
    /// Largest payload, such as 64KiB
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    payload_max: Option<usize>,
    /// Most bytes of one claim, and of the queue in one worker process, such as 16MiB
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    claim_max: Option<usize>,
    /// Most deliveries at once in one worker process
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    concurrency: Option<u32>,
    /// Most deliveries a second in one worker process, or none
    #[arg(long, value_name = "PER_SECOND", value_parser = limit, allow_negative_numbers = true)]
    rate: Option<Limit>,
    /// Most messages leased at once in all processes, or none
    #[arg(long, value_name = "COUNT", value_parser = limit, allow_negative_numbers = true)]
    total_concurrency: Option<Limit>,
    /// Most deliveries in any second in all worker processes, or none
    #[arg(long, value_name = "PER_SECOND", value_parser = limit, allow_negative_numbers = true)]
    total_rate: Option<Limit>,
    /// How long one delivery may take, such as 10s
    #[arg(long, value_name = "DURATION", value_parser = duration, allow_hyphen_values = true)]
    timeout: Option<Duration>,
    /// Record the start of every delivery, so that a crash after it is known to be uncertain
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    record_begin: Option<bool>,
    /// Presume that a worker that claims by SQL has begun delivery, so that an expired lease is in doubt
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    presume_begun: Option<bool>,
    /// Codes of uncertain outcomes that are held at once, separated by commas
    #[arg(long, value_name = "CODES", value_delimiter = ',')]
    hold_codes: Option<Vec<String>>,
    /// How long delivered messages are kept after their last event, such as 30d, or forever
    #[arg(long, value_name = "DURATION", value_parser = keep)]
    keep: Option<Keep>,
    /// How long dead messages are kept after their last event, such as 90d, or forever
    #[arg(long, value_name = "DURATION", value_parser = keep)]
    keep_dead: Option<Keep>,
    /// How long keys are kept after their messages were enqueued, such as 365d, or forever
    #[arg(long, value_name = "DURATION", value_parser = keep)]
    keep_keys: Option<Keep>,
    /// Whether a message leaves only after an archive has it
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    archive: Option<bool>,
    /// The queue that alerts about this one go to, or none
    #[arg(long, value_name = "QUEUE", value_parser = alert_queue)]
    alert_queue: Option<AlertQueue>,
    /// How long after an alert the next one of the same reason and code may come, such as 5m
    #[arg(long, value_name = "DURATION", value_parser = duration, allow_hyphen_values = true)]
    alert_interval: Option<Duration>,
    /// How long the oldest due message may wait before an alert, such as 10m, or none
    #[arg(long, value_name = "DURATION", value_parser = alert_age, allow_hyphen_values = true)]
    alert_age: Option<AlertAge>,
}

/// The queue for alerts, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AlertQueue(Option<QueueName>);

/// `ops` or `none`. No queue for alerts can be called `none` here; SQL and HTTP have `null` for that.
fn alert_queue(text: &str) -> Result<AlertQueue, String> {
    if text == "none" {
        return Ok(AlertQueue(None));
    }
    let name = text.parse::<QueueName>();
    name.map(|name| AlertQueue(Some(name)))
        .map_err(|error| error.to_string())
}

/// An age that is watched for, in milliseconds, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AlertAge(Option<u64>);

/// `10m` or `none`.
fn alert_age(text: &str) -> Result<AlertAge, String> {
    if text == "none" {
        return Ok(AlertAge(None));
    }
    let age = duration(text)?;
    let ms = u64::try_from(age.as_millis());
    ms.map(|ms| AlertAge(Some(ms)))
        .map_err(|_| "an age is from 1 ms to 30 days, or none".to_owned())
}

/// How long to keep something, in milliseconds; none for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Keep(Option<u64>);

/// `30d`, `12h` or `forever`.
fn keep(text: &str) -> Result<Keep, String> {
    let help = || "a time to keep is written like 30d, 12h or 90m, or forever".to_owned();
    if text == "forever" {
        return Ok(Keep(None));
    }
    let ms = match text.strip_suffix('d') {
        Some(days) => {
            let days: u64 = days.parse().map_err(|_| help())?;
            days.checked_mul(24 * 60 * 60 * 1_000).ok_or_else(help)?
        }
        None => {
            let kept = duration(text).map_err(|_| help())?;
            u64::try_from(kept.as_millis()).map_err(|_| help())?
        }
    };
    Ok(Keep(Some(ms)))
}

/// A limit, or none: clap takes a bare `Option` for a flag that may be left out.
#[derive(Clone, Copy, Debug)]
struct Limit(Option<u32>);

/// `100` or `none`.
fn limit(text: &str) -> Result<Limit, String> {
    match text {
        "none" => Ok(Limit(None)),
        text => text
            .parse()
            .map(|limit| Limit(Some(limit)))
            .map_err(|_| "a limit is a whole number, or none".to_owned()),
    }
}

impl Set {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let store = context.creating().store().await?;
        let before = store.queue(&self.name).await?;
        let created = before.is_none();
        let policy = match &self.policy_json {
            Some(text) => parse_policy(text)?,
            None => self
                .parts
                .apply(before.map(|queue| queue.policy).unwrap_or_default())?,
        };
        let by = self.by.by("set by hand");
        let queue = store.put_queue(&self.name, &policy, &by).await?;
        if context.out.is_json() {
            context.out.json(&queue)?;
        } else {
            print_queue(context.out, &queue)?;
            let what = if created { "created" } else { "changed" };
            context
                .out
                .note(format!("queue {} was {what}", queue.name))?;
        }
        Ok(Exit::Fine)
    }
}

fn parse_policy(text: &str) -> Result<QueuePolicy, Failure> {
    serde_json::from_str(text)
        .map_err(|error| Failure::refused(format!("--policy-json is not a queue policy: {error}")))
}

impl Parts {
    fn apply(&self, mut policy: QueuePolicy) -> Result<QueuePolicy, Failure> {
        if let Some(lease) = self.lease {
            policy.lease_ttl_ms = u64::try_from(lease.as_millis())
                .map_err(|_| Failure::refused("--lease: must be 1 ms to 24 h"))?;
        }
        if let Some(lease) = self.lease_max {
            policy.lease_ttl_max_ms = u64::try_from(lease.as_millis())
                .map_err(|_| Failure::refused("--lease-max: must be 1 ms to 24 h"))?;
        }
        if let Some(attempts) = self.attempts {
            policy.attempts_max = attempts;
        }
        if let Some(retry) = &self.retry {
            policy.retry = retry.clone();
        }
        if let Some(ordered) = self.ordered {
            policy.ordered = ordered;
        }
        match self.on_dead.as_deref() {
            Some("block") => policy.on_dead = OnDead::Block,
            Some(_) => policy.on_dead = OnDead::Continue,
            None => {}
        }
        match self.on_uncertain.as_deref() {
            Some("resend") => policy.on_uncertain = OnUncertain::Resend,
            Some("probe") => policy.on_uncertain = OnUncertain::Probe,
            Some(_) => policy.on_uncertain = OnUncertain::Hold,
            None => {}
        }
        if let Some(notify) = self.notify {
            policy.notify = notify;
        }
        if let Some(bytes) = self.payload_max {
            policy.payload_max_bytes = bytes;
        }
        if let Some(bytes) = self.claim_max {
            policy.claim_max_bytes = bytes;
        }
        if let Some(concurrency) = self.concurrency {
            policy.concurrency = concurrency;
        }
        if let Some(Limit(rate)) = self.rate {
            policy.rate_per_second = rate;
        }
        if let Some(Limit(limit)) = self.total_concurrency {
            policy.total_concurrency = limit;
        }
        if let Some(Limit(rate)) = self.total_rate {
            policy.total_rate_per_second = rate;
        }
        if let Some(timeout) = self.timeout {
            policy.timeout_ms = u64::try_from(timeout.as_millis()).map_err(|_| {
                Failure::refused("--timeout: a delivery may take from 1 ms to 24 h")
            })?;
        }
        if let Some(record_begin) = self.record_begin {
            policy.record_begin = record_begin;
        }
        if let Some(presume_begun) = self.presume_begun {
            policy.presume_begun = presume_begun;
        }
        if let Some(codes) = &self.hold_codes {
            let codes = codes.iter().filter(|code| !code.is_empty());
            policy.hold_codes = codes.cloned().collect();
        }
        if let Some(Keep(keep_ms)) = self.keep {
            policy.keep_ms = keep_ms;
        }
        if let Some(Keep(keep_ms)) = self.keep_dead {
            policy.keep_dead_ms = keep_ms;
        }
        if let Some(Keep(keep_ms)) = self.keep_keys {
            policy.keep_keys_ms = keep_ms;
        }
        if let Some(archive) = self.archive {
            policy.archive = archive;
        }
        self.apply_alerts(&mut policy)?;
        Ok(policy)
    }
}

impl Parts {
    fn apply_alerts(&self, policy: &mut QueuePolicy) -> Result<(), Failure> {
        if let Some(AlertQueue(name)) = &self.alert_queue {
            policy.alert_queue = name.clone();
        }
        if let Some(interval) = self.alert_interval {
            policy.alert_interval_ms = u64::try_from(interval.as_millis())
                .map_err(|_| Failure::refused("--alert-interval: must be from 1 s to 30 days"))?;
        }
        if let Some(AlertAge(age_ms)) = self.alert_age {
            policy.alert_age_ms = age_ms;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_to_keep_are_written_in_days_or_as_durations() {
        for (text, ms) in [
            ("forever", None),
            ("0s", Some(0)),
            ("90m", Some(5_400_000)),
            ("30d", Some(2_592_000_000)),
        ] {
            assert_eq!(keep(text), Ok(Keep(ms)), "{text}");
        }
        for bad in ["", "30", "-1d", "1.5d", "99999999999999999d", "ever"] {
            assert!(keep(bad).is_err(), "{bad:?}");
        }
    }
}
