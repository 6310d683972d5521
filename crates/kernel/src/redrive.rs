//! Moving messages by filter: started once, carried out step by step within a rate.

use std::{fmt, str::FromStr};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{
    By, CODE_BYTES_MAX, MessageId, PAGE_ENTRIES_MAX, QueueName,
    error::{Error, Result},
    plan::OperatorMove,
};

/// What a redrive's reason may be at most: the record of each message carries it behind the
/// redrive's number.
const REASON_BYTES_MAX: usize = 4_000;

/// Identity of a redrive, growing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RedriveId(pub i64);

impl fmt::Display for RedriveId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a redrive does to the messages it covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RedriveAction {
    /// Requeues dead messages.
    #[default]
    Requeue,
    /// Discards dead messages.
    Discard,
    /// Cancels ready and waiting messages of one queue.
    Cancel,
}

impl RedriveAction {
    /// Every action.
    pub const ALL: [Self; 3] = [Self::Requeue, Self::Discard, Self::Cancel];

    /// Its name in SQL and JSON.
    pub fn as_str(self) -> &'static str {
        self.operator_move().as_str()
    }

    /// The same for messages named one by one.
    pub fn operator_move(self) -> OperatorMove {
        match self {
            Self::Requeue => OperatorMove::Requeue,
            Self::Discard => OperatorMove::Discard,
            Self::Cancel => OperatorMove::Cancel,
        }
    }
}

impl fmt::Display for RedriveAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for RedriveAction {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        let known = || Self::ALL.map(Self::as_str).join(", ");
        Self::ALL
            .into_iter()
            .find(|action| action.as_str() == word)
            .ok_or_else(|| {
                let why = format!("is not one of {}", known());
                Error::invalid(format!("action {}", crate::quoted(word)), why)
            })
    }
}

/// Which messages to move, and how fast.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RedrivePlan {
    /// What is done to them.
    pub action: RedriveAction,
    /// Only this queue.
    pub queue: Option<QueueName>,
    /// Only messages dead with this code.
    pub code: Option<String>,
    /// At most this many a second; none for no limit.
    pub rate_per_second: Option<u32>,
    /// At most this many; none for all.
    pub limit: Option<u64>,
}

impl RedrivePlan {
    /// Rejects what no store can carry out.
    pub fn validate(&self) -> Result<()> {
        if self.action == RedriveAction::Cancel && self.queue.is_none() {
            let why = "is missing; messages are cancelled in one queue at a time";
            return Err(Error::invalid("queue", why));
        }
        if self.action == RedriveAction::Cancel && self.code.is_some() {
            let why = "is of dead messages, which are discarded, not cancelled; leave it out";
            return Err(Error::invalid("code", why));
        }
        let too_long = |code: &String| code.len() > CODE_BYTES_MAX || code.contains('\0');
        if let Some(code) = self.code.as_ref().filter(|code| too_long(code)) {
            let why = format!("must be at most {CODE_BYTES_MAX} bytes without U+0000");
            return Err(Error::out_of_bounds("code", crate::quoted(code), why));
        }
        if self.rate_per_second == Some(0) {
            let why = "must be at least 1, or absent for no limit";
            return Err(Error::out_of_bounds("rate_per_second", 0, why));
        }
        let is_out = |limit: &u64| !(1..=i64::MAX as u64).contains(limit);
        if let Some(limit) = self.limit.filter(is_out) {
            let why = format!("must be 1 to {}, or absent for all", i64::MAX);
            return Err(Error::out_of_bounds("limit", limit, why));
        }
        Ok(())
    }

    /// Whether a dead message of this queue and code is meant.
    pub fn covers(&self, queue: &QueueName, code: &str) -> bool {
        self.queue.as_ref().is_none_or(|wanted| wanted == queue)
            && self.code.as_ref().is_none_or(|wanted| wanted == code)
    }

    /// The queue whose ready and waiting messages are meant, if it cancels.
    pub fn cancelled_queue(&self) -> Option<&QueueName> {
        let queue = self.queue.as_ref();
        queue.filter(|_| self.action == RedriveAction::Cancel)
    }

    /// How many of the first messages are shown, for a requested number.
    pub fn shown(&self, limit: u32) -> u32 {
        let most = self.limit.unwrap_or(u64::MAX).min(PAGE_ENTRIES_MAX.into());
        u64::from(limit).min(most) as u32
    }

    /// Rejects a redrive without an actor or a reason, or whose reason does not fit beside its number.
    pub fn validate_by(by: &By) -> Result<()> {
        by.validate()?;
        if by.reason.len() > REASON_BYTES_MAX {
            let why = format!(
                "of a redrive has {} bytes; must be at most {REASON_BYTES_MAX}",
                by.reason.len()
            );
            return Err(Error::invalid("reason", why));
        }
        Ok(())
    }

    /// How many messages may be requeued now, given the time up to which the rate is used up.
    ///
    /// The allowance grows from the start, and one second's worth of it is kept at most.
    pub fn allowance(&self, paced_at: Timestamp, now: Timestamp) -> u64 {
        let Some(rate) = self.rate_per_second else {
            return u64::MAX;
        };
        let elapsed = now.duration_since(paced_at).as_micros();
        (elapsed.clamp(0, 1_000_000) * i128::from(rate) / 1_000_000) as u64
    }

    /// The time up to which the rate is used up after so many more messages.
    pub fn paced(&self, paced_at: Timestamp, now: Timestamp, moved: u64) -> Timestamp {
        let Some(rate) = self.rate_per_second else {
            return now;
        };
        let oldest = now - SignedDuration::from_secs(1);
        // Rounded up, so that the rate is never exceeded.
        let used = (moved * 1_000_000).div_ceil(u64::from(rate));
        let used = i64::try_from(used).expect("invariant: a step is within its allowance");
        paced_at.max(oldest) + SignedDuration::from_micros(used)
    }
}

/// How far a redrive has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RedriveState {
    /// Steps are taken.
    Running,
    /// An operator stopped it and may resume it.
    Stopped,
    /// Nothing is left of what was there at its start, or its limit is reached.
    Done,
}

impl RedriveState {
    /// Its name in SQL and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Done => "done",
        }
    }

    /// The state a word names.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Running, Self::Stopped, Self::Done]
            .into_iter()
            .find(|state| state.as_str() == word)
    }
}

impl fmt::Display for RedriveState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A redrive as stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Redrive {
    /// Its identity.
    pub id: RedriveId,
    /// What it moves.
    pub plan: RedrivePlan,
    /// How far it has come.
    pub state: RedriveState,
    /// Messages that the plan covered at its start.
    pub total: u64,
    /// Messages it has moved.
    pub moved: u64,
    /// Of `total`, those that it did not move: they were gone before it reached them, or are of an app
    /// that refuses. Known once nothing
    /// is left; zero before, and where the limit ended it.
    pub skipped: u64,
    /// The last message it reached. It moves by ascending id only.
    pub cursor: Option<MessageId>,
    /// Who started it, and why.
    pub by: By,
    /// When it was started. Messages that died or were enqueued later are not taken.
    pub started_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// When it was done.
    pub finished_at: Option<Timestamp>,
}

impl Redrive {
    /// Refuses a step of nothing, and one longer than a page.
    pub fn validate_step(limit: u32) -> Result<()> {
        if !(1..=PAGE_ENTRIES_MAX).contains(&limit) {
            let why = format!("must be from 1 to {PAGE_ENTRIES_MAX}");
            return Err(Error::out_of_bounds("limit", limit, why));
        }
        Ok(())
    }

    /// Who and why, as recorded with everything it moves.
    pub fn recorded_by(&self) -> By {
        redrive_by(self.id, &self.by)
    }

    /// How many messages a step may take: within its limit, the rate and what the plan leaves.
    pub fn step_len(&self, limit: u32, paced_at: Timestamp, now: Timestamp) -> u32 {
        let left = self.plan.limit.map_or(u64::MAX, |max| max - self.moved);
        let most = self.plan.allowance(paced_at, now).min(left);
        u64::from(limit).min(most) as u32
    }

    /// The same redrive after a step that came as far as `cursor`.
    ///
    /// `exhausted`: nothing that it could take is left.
    pub fn after_step(
        mut self,
        now: Timestamp,
        moved: u64,
        cursor: Option<MessageId>,
        exhausted: bool,
    ) -> Self {
        self.moved += moved;
        self.cursor = cursor.or(self.cursor);
        self.updated_at = now;
        if exhausted {
            self.skipped = self.total.saturating_sub(self.moved);
        }
        if exhausted || self.plan.limit == Some(self.moved) {
            self.state = RedriveState::Done;
            self.finished_at = Some(now);
        }
        self
    }
}

/// Who and why, with the number of the redrive they did something to.
pub fn redrive_by(id: RedriveId, by: &By) -> By {
    By::new(&by.actor, format!("redrive {id}: {}", by.reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_microsecond(micros).unwrap()
    }

    fn plan(rate: u32) -> RedrivePlan {
        RedrivePlan {
            rate_per_second: Some(rate),
            ..RedrivePlan::default()
        }
    }

    #[test]
    fn an_allowance_grows_with_time_up_to_a_seconds_worth() {
        for (elapsed, rate, expected) in [
            (0, 10, 0),
            (99_999, 10, 0),
            (100_000, 10, 1),
            (950_000, 10, 9),
            (1_000_000, 10, 10),
            (60_000_000, 10, 10),
            (-5_000_000, 10, 0),
            (1, u32::MAX, 4_294),
        ] {
            let actual = plan(rate).allowance(at(0), at(elapsed));
            assert_eq!(actual, expected, "{elapsed} µs at {rate}/s");
        }
        let unlimited = RedrivePlan::default();
        assert_eq!(unlimited.allowance(at(0), at(0)), u64::MAX);
    }

    #[test]
    fn no_second_sees_more_than_its_rate_and_one_burst() {
        for rate in [1_u32, 3, 7, 1_000, 999_983, 4_000_000] {
            let plan = plan(rate);
            let (mut paced_at, mut moved) = (at(0), 0);
            for step in 1..=400 {
                let now = at(step * 25_013);
                let allowance = plan.allowance(paced_at, now);
                paced_at = plan.paced(paced_at, now, allowance);
                moved += allowance;
                assert!(paced_at <= now, "{rate}/s: {paced_at} is past {now}");
                let most = i128::from(rate) * i128::from(step) * 25_013 / 1_000_000;
                assert!(i128::from(moved) <= most, "{rate}/s: {moved} > {most}");
            }
            let fair = u64::from(rate) * 10;
            assert!(moved * 10 >= fair * 9, "{rate}/s: {moved} is too slow");
        }
    }

    #[test]
    fn plans_no_store_could_carry_out_are_refused() {
        let limit = |limit| RedrivePlan {
            limit: Some(limit),
            ..RedrivePlan::default()
        };
        let code = |code: String| RedrivePlan {
            code: Some(code),
            ..RedrivePlan::default()
        };
        for bad in [
            plan(0),
            limit(0),
            limit(u64::MAX),
            code("x".repeat(CODE_BYTES_MAX + 1)),
            code("a\0".into()),
            RedrivePlan {
                action: RedriveAction::Cancel,
                ..RedrivePlan::default()
            },
            RedrivePlan {
                action: RedriveAction::Cancel,
                queue: Some("mail".parse().unwrap()),
                ..code("x".into())
            },
        ] {
            assert!(bad.validate().is_err(), "{bad:?}");
        }
        for good in [plan(1), limit(1), limit(i64::MAX as u64), code("x".into())] {
            assert!(good.validate().is_ok(), "{good:?}");
        }
        assert!(RedrivePlan::validate_by(&By::new("ada", "x".repeat(4_001))).is_err());
        assert!(RedrivePlan::validate_by(&By::new("", "why")).is_err());
    }
}
