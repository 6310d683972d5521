//! What is wrong now, computed from what stores and processes report; and what operators acknowledged of it.
//!
//! Pure: [`Situation`] in, problems out. A problem has no row: it is over when its cause is.

mod attention;
mod backlog;
mod deaths;
mod rest;
#[cfg(test)]
mod tests;

use std::{fmt, time::Duration};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

pub use attention::{
    Acknowledgement, Attention, BlockedGroups, OverdueSchedule, ProblemMark, StuckAlert,
};

use crate::{
    Counts, DeadCause, Filter, Process, Queue, QueueMinutes, QueueName, Store, error::Result,
};

/// The longest key of a problem.
pub const PROBLEM_KEY_BYTES_MAX: usize = 512;
/// The longest time for which a problem can be acknowledged.
pub const ACKNOWLEDGED_MAX: Duration = Duration::from_secs(30 * 86_400);
/// How many acknowledgements are read.
pub const ACKNOWLEDGEMENTS_MAX: u32 = 1_000;
/// Blocked queues, alerts and schedules that are read, each.
pub const ATTENTION_MAX: u32 = 100;
/// A due tick of a schedule that is not taken for this long is a problem.
pub const TICK_LATE_MAX: Duration = Duration::from_secs(60);
/// Deaths in this time are new; those in the same time before show whether there are more.
pub const DEATHS_WINDOW: Duration = Duration::from_secs(15 * 60);
/// A process without a heartbeat for this long is gone.
pub const PROCESS_GONE: Duration = Duration::from_secs(60);

/// How bad a problem is, from least to most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Not wrong, but to be known: a paused queue.
    Info,
    /// It waits for an operator and does not grow: old deaths, held messages.
    Low,
    /// New failures: many deaths, blocked groups, a schedule or an alert that fails, a process that is gone.
    Medium,
    /// Messages are late, and the backlog grows or is too old.
    High,
    /// Nothing of a queue is delivered.
    Critical,
}

impl Severity {
    /// Its name in SQL and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }

    /// The severity a word names.
    pub fn from_word(word: &str) -> Option<Self> {
        [
            Self::Info,
            Self::Low,
            Self::Medium,
            Self::High,
            Self::Critical,
        ]
        .into_iter()
        .find(|severity| severity.as_str() == word)
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    /// A breaker that is open or half-open keeps messages back.
    Breaker,
    /// No process works a queue that has due messages.
    NoWorker,
    /// A queue is worked, and nothing of it is delivered.
    NothingDelivered,
    /// More messages are due than before.
    BacklogGrows,
    /// The oldest due message is older than its queue allows.
    QueueOld,
    /// Messages died.
    Deaths,
    /// Groups of an ordered queue wait behind a dead message.
    BlockedGroups,
    /// Ticks of a schedule are not taken.
    Schedule,
    /// Alerts are not taken by the queue they are for.
    Alerts,
    /// A process stopped without notice, and no other works its queues.
    ProcessGone,
    /// Messages are held.
    Held,
    /// A queue is paused.
    Paused,
}

impl ProblemKind {
    /// Its name in keys and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Breaker => "breaker",
            Self::NoWorker => "no_worker",
            Self::NothingDelivered => "nothing_delivered",
            Self::BacklogGrows => "backlog_grows",
            Self::QueueOld => "queue_old",
            Self::Deaths => "deaths",
            Self::BlockedGroups => "blocked_groups",
            Self::Schedule => "schedule",
            Self::Alerts => "alerts",
            Self::ProcessGone => "process_gone",
            Self::Held => "held",
            Self::Paused => "paused",
        }
    }

    /// Whether its `since` is when it began. The others have the age of what waits, which changes
    /// while the problem stays.
    fn has_beginning(self) -> bool {
        matches!(
            self,
            Self::Breaker
                | Self::Deaths
                | Self::BlockedGroups
                | Self::Schedule
                | Self::Alerts
                | Self::ProcessGone
                | Self::Paused
        )
    }
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Whether there is more of it than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trend {
    /// More than before.
    Worse,
    /// As much, or not known.
    Same,
    /// Less.
    Better,
}

impl Trend {
    fn of(now: u64, before: u64) -> Self {
        match now.cmp(&before) {
            std::cmp::Ordering::Greater => Self::Worse,
            std::cmp::Ordering::Equal => Self::Same,
            std::cmp::Ordering::Less => Self::Better,
        }
    }
}

/// Something that is wrong now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OpenProblem {
    /// What names it: the same as long as it lasts.
    pub key: String,
    /// What is wrong.
    pub kind: ProblemKind,
    /// How bad it is.
    pub severity: Severity,
    /// The queue it is about.
    pub queue: Option<QueueName>,
    /// The code of deaths.
    pub code: Option<String>,
    /// The schedule or the process it is about.
    pub subject: Option<String>,
    /// One sentence for people.
    pub text: String,
    /// How many messages, groups or ticks.
    pub count: u64,
    /// Since when, as far as is known.
    pub since: Option<Timestamp>,
    /// Whether it gets worse.
    pub trend: Trend,
    /// The acknowledgement that holds.
    pub acknowledged: Option<Acknowledgement>,
}

impl OpenProblem {
    fn new(kind: ProblemKind, severity: Severity, queue: Option<&QueueName>, text: String) -> Self {
        let mut key = kind.as_str().to_owned();
        if let Some(queue) = queue {
            key = format!("{key}:{queue}");
        }
        Self {
            key,
            kind,
            severity,
            queue: queue.cloned(),
            code: None,
            subject: None,
            text,
            count: 0,
            since: None,
            trend: Trend::Same,
            acknowledged: None,
        }
    }

    /// The same with more in its key: what distinguishes it from others of the queue.
    fn about(mut self, part: &str) -> Self {
        self.key.push(':');
        self.key.push_str(&part.replace(char::is_control, "?"));
        let end = self.key.floor_char_boundary(PROBLEM_KEY_BYTES_MAX);
        self.key.truncate(end);
        self
    }

    /// Whether an acknowledgement holds: for its time, not for something worse, and not for what began later.
    fn is_acknowledged_by(&self, acknowledgement: &Acknowledgement, now: Timestamp) -> bool {
        let began_later =
            self.kind.has_beginning() && self.since.is_some_and(|since| since > acknowledgement.at);
        acknowledgement.problem == self.key
            && now < acknowledgement.until
            && self.severity <= acknowledgement.severity
            && !began_later
    }
}

/// Everything that problems are computed from, at one moment.
#[derive(Clone, Debug)]
pub struct Situation {
    /// Queues with what is in them.
    pub queues: Vec<(Queue, Counts)>,
    /// Processes with their last heartbeats.
    pub processes: Vec<Process>,
    /// Dead messages by queue and code.
    pub causes: Vec<DeadCause>,
    /// What was done in the last hour, by minute.
    pub minutes: Vec<QueueMinutes>,
    /// The rest.
    pub attention: Attention,
}

/// The newest dead messages that problems group.
const GROUPED_MAX: u64 = 10_000;

impl Situation {
    /// The situation of these queues, read from a store: of all there are, or of the one queue given.
    /// Reads only, so it need not be one moment.
    pub async fn read(
        store: &dyn Store,
        queues: Vec<(Queue, Counts)>,
        only: Option<&QueueName>,
    ) -> Result<Self> {
        let dead = Filter {
            queue: only.cloned(),
            ..Filter::default()
        };
        Ok(Self {
            queues,
            processes: store.processes().await?,
            causes: store.dead_causes(&dead, GROUPED_MAX).await?,
            minutes: store.queue_stats(only, 60, 1).await?,
            attention: store.attention().await?,
        })
    }

    /// What is wrong, the worst first; what is acknowledged last.
    pub fn problems(&self) -> Vec<OpenProblem> {
        let mut problems = Vec::new();
        for (queue, counts) in &self.queues {
            problems.extend(self.of_queue(queue, counts));
        }
        problems.extend(self.deaths());
        problems.extend(self.rest());
        let now = self.now();
        for problem in &mut problems {
            let mut known = self.attention.acknowledgements.iter();
            problem.acknowledged = known
                .find(|known| problem.is_acknowledged_by(known, now))
                .cloned();
        }
        problems.sort_by(|a, b| {
            (a.acknowledged.is_some().cmp(&b.acknowledged.is_some()))
                .then(b.severity.cmp(&a.severity))
                .then(b.count.cmp(&a.count))
                .then(a.key.cmp(&b.key))
        });
        problems
    }

    fn now(&self) -> Timestamp {
        self.attention.now
    }

    fn age(&self, at: Timestamp) -> SignedDuration {
        self.now().duration_since(at).max(SignedDuration::ZERO)
    }

    /// Processes that live.
    fn live(&self) -> impl Iterator<Item = &Process> {
        self.processes
            .iter()
            .filter(|process| self.age(process.seen_at) <= seconds(PROCESS_GONE))
    }
}

fn seconds(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

/// A number with its noun.
fn many(count: u64, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

/// A time in its largest unit.
fn span(time: SignedDuration) -> String {
    match time.as_secs() {
        s if s < 60 => format!("{s} s"),
        s if s < 3_600 => format!("{} min", s / 60),
        s if s < 48 * 3_600 => format!("{} h", s / 3_600),
        s => format!("{} days", s / 86_400),
    }
}
