//! Schedules: messages that are enqueued again and again, at the ticks of a cron expression.
//!
//! What a tick is, computed from an expression and a time zone, is no business of the kernel: it
//! has no calendar. `consign-schedule` computes ticks, a store takes them.

use std::{fmt, str::FromStr, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    By, CRON_BYTES_MAX, MISSED_MAX, MessageId, NewMessage, Payload, QueueName, QueuePolicy,
    SCHEDULE_PAYLOAD_BYTES_MAX, TICKS_MAX, TIME_ZONE_BYTES_MAX,
    error::{Error, Result},
    queue::is_plain_name,
};

/// How late a tick is missed: until then it is only late, whatever the policy.
pub const MISSED_AFTER: Duration = Duration::from_secs(60);
/// Header of a scheduled message: the name of its schedule.
pub const SCHEDULE_HEADER: &str = "consign_schedule";
/// Header of a scheduled message: the time of its tick; absent where it was run by hand.
pub const TICK_HEADER: &str = "consign_tick";
/// Header of a message that stands for missed ticks too: how many, beside its own.
pub const MISSED_HEADER: &str = "consign_missed";
/// What a reason may be at most: the record carries it behind the schedule's name.
const REASON_BYTES_MAX: usize = 4_000;

/// The name of a schedule, by the rules of a queue's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ScheduleName(String);

impl ScheduleName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ScheduleName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        if is_plain_name(name) {
            return Ok(Self(name.to_owned()));
        }
        Err(Error::invalid(
            format!("schedule {name:?}"),
            "a schedule's name is 1 to 63 of a-z 0-9 . _ - and starts with a letter or digit",
        ))
    }
}

impl TryFrom<String> for ScheduleName {
    type Error = Error;
    fn try_from(name: String) -> Result<Self> {
        name.parse()
    }
}

impl From<ScheduleName> for String {
    fn from(name: ScheduleName) -> Self {
        name.0
    }
}

impl fmt::Display for ScheduleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What becomes of ticks that no process took within [`MISSED_AFTER`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissedPolicy {
    /// They are dropped.
    Skip,
    /// One message stands for all of them.
    #[default]
    Once,
    /// A message each, for the last [`SchedulePlan::missed_max`] of them.
    All,
}

impl MissedPolicy {
    /// Its name in SQL and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Once => "once",
            Self::All => "all",
        }
    }

    /// The policy a word names.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Skip, Self::Once, Self::All]
            .into_iter()
            .find(|policy| policy.as_str() == word)
    }
}

/// What a schedule enqueues, and when.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SchedulePlan {
    /// Where its messages go.
    pub queue: QueueName,
    /// Cron expression.
    pub cron: String,
    /// Name of the time zone the expression is read in, as in the IANA database.
    pub time_zone: String,
    /// What to deliver.
    pub payload: Payload,
    /// Headers, beside those that name the schedule and the tick.
    pub headers: Map<String, Value>,
    /// Ordering key, honoured in ordered queues.
    pub group: Option<String>,
    /// What becomes of missed ticks.
    pub missed: MissedPolicy,
    /// For `all`: how many of the last missed ticks get a message.
    pub missed_max: u32,
}

impl SchedulePlan {
    /// A plan in UTC with the default policy.
    pub fn new(queue: QueueName, cron: impl Into<String>, payload: impl Into<Payload>) -> Self {
        Self {
            queue,
            cron: cron.into(),
            time_zone: "UTC".to_owned(),
            payload: payload.into(),
            headers: Map::new(),
            group: None,
            missed: MissedPolicy::default(),
            missed_max: MISSED_MAX,
        }
    }

    /// Rejects what no store can keep. Does not read the expression.
    pub fn validate(&self) -> Result<()> {
        for (what, text, bytes_max) in [
            ("cron", &self.cron, CRON_BYTES_MAX),
            ("time_zone", &self.time_zone, TIME_ZONE_BYTES_MAX),
        ] {
            if text.is_empty() || text.len() > bytes_max || text.chars().any(char::is_control) {
                let why = format!("must be 1 to {bytes_max} bytes without control characters");
                return Err(Error::out_of_bounds(what, crate::quoted(text), why));
            }
        }
        let bytes = self.payload.as_str().len();
        if bytes > SCHEDULE_PAYLOAD_BYTES_MAX {
            let why = format!(
                "has {bytes} bytes; that of a schedule must have at most {SCHEDULE_PAYLOAD_BYTES_MAX}. \
                 Store the data elsewhere and send a reference"
            );
            return Err(Error::invalid("payload", why));
        }
        for name in [SCHEDULE_HEADER, TICK_HEADER, MISSED_HEADER] {
            if self.headers.contains_key(name) {
                let why = format!("{name:?} is set by the schedule itself; use another name");
                return Err(Error::invalid("headers", why));
            }
        }
        if !(1..=MISSED_MAX).contains(&self.missed_max) {
            let why = format!("must be from 1 to {MISSED_MAX}");
            return Err(Error::out_of_bounds("missed_max", self.missed_max, why));
        }
        // With the headers that its messages will have.
        let tick = Tick {
            at: Timestamp::UNIX_EPOCH,
            missed: u64::MAX,
        };
        let no_limit = QueuePolicy {
            payload_max_bytes: usize::MAX,
            ..QueuePolicy::default()
        };
        let name = ScheduleName("x".repeat(63));
        let message = self.message(&name, Some(tick));
        message.validate(0, &no_limit).map_err(|error| match error {
            Error::InvalidInput { what, why } => {
                Error::invalid(what.trim_start_matches("message 0: "), why)
            }
            error => error,
        })
    }

    /// The message of a tick; of a run by hand without one.
    pub fn message(&self, name: &ScheduleName, tick: Option<Tick>) -> NewMessage {
        let mut headers = self.headers.clone();
        headers.insert(SCHEDULE_HEADER.to_owned(), name.as_str().into());
        if let Some(tick) = tick {
            headers.insert(TICK_HEADER.to_owned(), tick.at.to_string().into());
            if tick.missed > 0 {
                headers.insert(MISSED_HEADER.to_owned(), tick.missed.into());
            }
        }
        NewMessage {
            group: self.group.clone(),
            headers,
            ..NewMessage::new(self.queue.clone(), self.payload.clone())
        }
    }
}

/// A schedule as stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Schedule {
    /// Its name.
    pub name: ScheduleName,
    /// What it enqueues, and when.
    #[serde(flatten)]
    pub plan: SchedulePlan,
    /// When it was created.
    pub created_at: Timestamp,
    /// When an operator last changed, paused or resumed it.
    pub updated_at: Timestamp,
    /// Since when it has no ticks, if it is paused.
    pub paused_at: Option<Timestamp>,
    /// The first tick that was not taken.
    pub next_at: Timestamp,
    /// The last tick with a message.
    pub last_tick: Option<Timestamp>,
    /// When its last message was enqueued, by a tick or by hand.
    pub last_at: Option<Timestamp>,
    /// That message.
    pub last_message_id: Option<MessageId>,
    /// Ticks with a message so far.
    pub ticks: u64,
    /// Missed ticks without a message of their own so far.
    pub dropped: u64,
}

impl Schedule {
    /// A new one.
    pub fn new(name: ScheduleName, plan: SchedulePlan, next_at: Timestamp, now: Timestamp) -> Self {
        Self {
            name,
            plan,
            created_at: now,
            updated_at: now,
            paused_at: None,
            next_at,
            last_tick: None,
            last_at: None,
            last_message_id: None,
            ticks: 0,
            dropped: 0,
        }
    }

    /// The same with another plan. The next tick stays unless it is computed otherwise now.
    pub fn with_plan(self, plan: SchedulePlan, next_at: Timestamp, now: Timestamp) -> Self {
        let is_same = (&plan.cron, &plan.time_zone) == (&self.plan.cron, &self.plan.time_zone);
        Self {
            plan,
            next_at: if is_same { self.next_at } else { next_at },
            updated_at: now,
            ..self
        }
    }

    /// What its next ticks are computed from.
    pub fn next_tick(&self) -> NextTick {
        NextTick {
            name: self.name.clone(),
            cron: self.plan.cron.clone(),
            time_zone: self.plan.time_zone.clone(),
            missed: self.plan.missed,
            missed_max: self.plan.missed_max,
            at: self.next_at,
        }
    }

    /// Whether a plan was made for the schedule as it is, and all its ticks are due.
    pub fn may_tick(&self, plan: &TickPlan, now: Timestamp) -> bool {
        let from = &plan.from;
        self.paused_at.is_none()
            && (self.next_at, &self.plan.cron, &self.plan.time_zone)
                == (from.at, &from.cron, &from.time_zone)
            && plan.last_tick() <= now
    }

    /// The same after a step, whose last message is `last`.
    pub fn after_tick(self, plan: &TickPlan, last: Option<MessageId>, now: Timestamp) -> Self {
        Self {
            next_at: plan.next_at,
            last_tick: plan.ticks.last().map(|tick| tick.at).or(self.last_tick),
            last_at: last.map(|_| now).or(self.last_at),
            last_message_id: last.or(self.last_message_id),
            ticks: self.ticks + plan.ticks.len() as u64,
            dropped: self.dropped + plan.dropped,
            ..self
        }
    }
}

/// What the next ticks of a schedule are computed from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NextTick {
    /// The schedule.
    pub name: ScheduleName,
    /// Its cron expression.
    pub cron: String,
    /// Its time zone.
    pub time_zone: String,
    /// What becomes of missed ticks.
    pub missed: MissedPolicy,
    /// For `all`: how many of them get a message.
    pub missed_max: u32,
    /// The first tick that was not taken.
    pub at: Timestamp,
}

/// Schedules by their next ticks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upcoming {
    /// What the database's clock shows: what is not after it is due.
    pub now: Timestamp,
    /// The earliest first.
    pub ticks: Vec<NextTick>,
}

/// A tick that gets a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tick {
    /// Its time.
    pub at: Timestamp,
    /// How many missed ticks its message stands for beside its own.
    pub missed: u64,
}

/// A step of a schedule: which ticks get a message, and which one is next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TickPlan {
    /// What it was computed from.
    pub from: NextTick,
    /// The ticks that get a message, in their order.
    pub ticks: Vec<Tick>,
    /// How many ticks of the step were missed.
    pub missed: u64,
    /// Of them, those without a message of their own.
    pub dropped: u64,
    /// The first tick after this step.
    pub next_at: Timestamp,
}

impl TickPlan {
    /// The last tick with a message, or the one it begins with.
    fn last_tick(&self) -> Timestamp {
        self.ticks.last().map_or(self.from.at, |tick| tick.at)
    }

    /// Rejects a step that is too large, or that does not lead forward: no tick can come twice.
    pub fn validate(&self) -> Result<()> {
        if self.ticks.len() > TICKS_MAX {
            let why = format!("must be at most {TICKS_MAX}");
            return Err(Error::out_of_bounds("ticks", self.ticks.len(), why));
        }
        let is_forward = self.ticks.is_sorted_by(|a, b| a.at < b.at)
            && self
                .ticks
                .first()
                .is_none_or(|tick| tick.at >= self.from.at)
            && self.next_at > self.last_tick();
        if !is_forward {
            let why = "must be in their order, from the next tick of the schedule to before the one after them";
            return Err(Error::invalid("ticks", why));
        }
        let counts = self.ticks.iter().map(|tick| tick.missed);
        if counts
            .chain([self.missed, self.dropped])
            .any(|count| count > i64::MAX as u64)
        {
            return Err(Error::invalid(
                "missed",
                "is more than any clock can have passed",
            ));
        }
        Ok(())
    }

    /// The audit entry of its missed ticks; none where it has none.
    pub fn missed_by(&self) -> Option<By> {
        let NextTick {
            name, missed, at, ..
        } = &self.from;
        let reason = format!(
            "schedule {name}: {} missed from {at} on, {} of them without a message of their own (policy {})",
            self.missed,
            self.dropped,
            missed.as_str()
        );
        (self.missed > 0).then(|| By::new("schedules", reason))
    }
}

/// Who and why, with the name of the schedule they did something to.
pub fn schedule_by(name: &ScheduleName, by: &By) -> Result<By> {
    by.validate()?;
    if by.reason.len() > REASON_BYTES_MAX {
        let why = format!("must be at most {REASON_BYTES_MAX} bytes for a schedule");
        return Err(Error::invalid("reason", why));
    }
    Ok(By::new(
        &by.actor,
        format!("schedule {name}: {}", by.reason),
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plan() -> SchedulePlan {
        let queue = "default".parse().unwrap();
        SchedulePlan::new(queue, "0 8 * * *", json!({"report": "daily"}))
    }

    fn step(from: i64, ticks: &[i64], next: i64) -> TickPlan {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let schedule = Schedule::new("daily".parse().unwrap(), plan(), at(from), at(0));
        let tick = |second: &i64| Tick {
            at: at(*second),
            missed: 0,
        };
        TickPlan {
            from: schedule.next_tick(),
            ticks: ticks.iter().map(tick).collect(),
            missed: 0,
            dropped: 0,
            next_at: at(next),
        }
    }

    #[test]
    fn a_message_names_its_schedule_and_tick() {
        let tick = Tick {
            at: Timestamp::from_second(1_767_254_400).unwrap(),
            missed: 6,
        };
        let name: ScheduleName = "daily".parse().unwrap();
        let message = plan().message(&name, Some(tick));
        let headers = json!({
            "consign_schedule": "daily", "consign_tick": "2026-01-01T08:00:00Z", "consign_missed": 6
        });
        assert_eq!(Value::Object(message.headers), headers);
        let by_hand = plan().message(&name, None);
        let headers = json!({"consign_schedule": "daily"});
        assert_eq!(Value::Object(by_hand.headers), headers);
    }

    #[test]
    fn plans_no_store_could_keep_are_refused() {
        let with = |change: fn(&mut SchedulePlan)| {
            let mut plan = plan();
            change(&mut plan);
            plan.validate().map_err(|error| error.to_string())
        };
        let refused = [
            (with(|p| p.cron.clear()), "cron"),
            (with(|p| p.cron = "* ".repeat(129)), "cron"),
            (
                with(|p| p.time_zone = "Europe/\nBerlin".into()),
                "time_zone",
            ),
            (with(|p| p.missed_max = 0), "missed_max: is 0"),
            (with(|p| p.missed_max = 1_001), "missed_max: is 1001"),
            (
                with(|p| p.group = Some(String::new())),
                "group: has 0 bytes",
            ),
            (
                with(|p| p.payload = json!("x".repeat(65_535)).into()),
                "payload: has 65537 bytes",
            ),
            (
                with(|p| drop(p.headers.insert("consign_tick".into(), 1.into()))),
                "consign_tick",
            ),
            (
                with(|p| drop(p.headers.insert("h".into(), "x".repeat(65_450).into()))),
                "headers: are over",
            ),
        ];
        for (result, text) in refused {
            let error = result.expect_err(text);
            assert!(error.contains(text), "{error}");
        }
        assert_eq!(
            with(|p| p.payload = json!("x".repeat(65_534)).into()),
            Ok(())
        );
    }

    #[test]
    fn a_step_leads_forward() {
        for (from, ticks, next) in [
            (10, &[10][..], 20),
            (10, &[10, 20], 30),
            (10, &[30], 40),
            (10, &[], 11),
        ] {
            step(from, ticks, next).validate().unwrap();
        }
        for (from, ticks, next) in [
            (10, &[][..], 10),
            (10, &[10], 10),
            (10, &[9], 20),
            (10, &[20, 20], 30),
            (10, &[20, 10], 30),
            (10, &[10, 20], 15),
        ] {
            assert!(
                step(from, ticks, next).validate().is_err(),
                "{from} {ticks:?} {next}"
            );
        }
    }
}
