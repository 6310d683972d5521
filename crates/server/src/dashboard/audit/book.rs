//! Two books, read alike: what people did, and what became of memories. Newest first, a bounded
//! piece at a time, however few entries fit.

use consign_kernel::{AuditEntry, MessageId};
use consign_memory::{Audit, Logbook};
use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use serde::Deserialize;

use crate::{
    dashboard::form::encoded,
    problem::{Problem, codes},
    state::AppState,
};

/// Entries of the operators' book read at once.
const STEP: u32 = 1_000;

/// How much of the write audits one step reads.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Audits answered at once, with all that they carry.
    writes: u32,
    /// Numbers looked through at once: an index leads to no actor and no space.
    span: i64,
    /// How near a time is sought: two who write at once may be numbered in the other order.
    near: i64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            writes: 500,
            span: 10_000,
            near: 1_000,
        }
    }
}

/// Which book.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::dashboard) enum Book {
    #[default]
    Operators,
    Writes,
}

/// Which entries are wanted, as a form or a link says it. What is blank fits everything.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::dashboard) struct Wanted {
    pub(super) of: Book,
    pub(super) message: String,
    pub(super) actor: String,
    pub(super) action: String,
    pub(super) queue: String,
    pub(super) space: String,
    pub(super) status: String,
    pub(super) correlation: String,
    pub(super) since: String,
    pub(super) until: String,
    pub(super) before: Option<i64>,
    pub(super) format: String,
}

/// An entry of either book.
#[derive(Clone, Debug)]
pub(super) enum Entry {
    Operator(AuditEntry),
    Write(Box<Audit>),
}

impl Entry {
    pub(super) fn id(&self) -> i64 {
        match self {
            Self::Operator(entry) => entry.id,
            Self::Write(audit) => audit.audit_id,
        }
    }

    fn at(&self) -> Timestamp {
        match self {
            Self::Operator(entry) => entry.at,
            Self::Write(audit) => audit.created_at,
        }
    }
}

/// What one step has found, and where the next goes on.
pub(super) struct Step {
    pub(super) entries: Vec<Entry>,
    pub(super) next: Option<i64>,
}

/// What is sought, understood.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    state: AppState,
    book: Book,
    message: Option<MessageId>,
    actor: String,
    action: String,
    queue: String,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    writes: consign_memory::AuditFilter,
    limits: Limits,
}

impl Wanted {
    pub(super) fn is_writes(&self) -> bool {
        self.of == Book::Writes
    }

    /// As it stands in a link, behind something else.
    pub(super) fn query(&self) -> String {
        let book = if self.is_writes() { "writes" } else { "" };
        let fields = [
            ("of", book),
            ("message", &self.message),
            ("actor", &self.actor),
            ("action", &self.action),
            ("queue", &self.queue),
            ("space", &self.space),
            ("status", &self.status),
            ("correlation", &self.correlation),
            ("since", &self.since),
            ("until", &self.until),
        ];
        let said = fields.iter().filter(|(_, value)| !value.trim().is_empty());
        let pairs = said.map(|(name, value)| format!("&{name}={}", encoded(value.trim())));
        pairs.collect()
    }

    pub(super) fn reader(&self, state: &AppState) -> Result<Reader, Problem> {
        let fields = [
            ("actor", &self.actor),
            ("space", &self.space),
            ("correlation", &self.correlation),
        ];
        if let Some((name, _)) = fields.iter().find(|(_, value)| value.contains('\0')) {
            return Err(Problem::invalid(name, "must be without U+0000"));
        }
        let said = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let (since, until) = (time("since", &self.since)?, time("until", &self.until)?);
        let message = number("message", &self.message)?;
        let writes = match self.of {
            Book::Operators => consign_memory::AuditFilter::default(),
            Book::Writes => consign_memory::AuditFilter {
                since,
                until,
                actor_user_id: said(&self.actor),
                action: word("action", &self.action)?,
                status: word("status", &self.status)?,
                target_space: said(&self.space),
                correlation_id: said(&self.correlation),
                outbox_id: message,
                ..consign_memory::AuditFilter::default()
            },
        };
        Ok(Reader {
            state: state.clone(),
            book: self.of,
            message: message.map(MessageId),
            actor: self.actor.trim().to_owned(),
            action: self.action.trim().to_owned(),
            queue: self.queue.trim().to_owned(),
            since,
            until,
            writes,
            limits: Limits::default(),
        })
    }
}

impl Reader {
    /// Where to begin: at the newest entry, or at the newest of its time.
    pub(super) async fn start(&self) -> Result<Option<i64>, Problem> {
        let Some(until) = self.until else {
            return Ok(None);
        };
        let Some((newest, at)) = self.newest_below(None).await? else {
            return Ok(None);
        };
        if at < until {
            return Ok(None);
        }
        let (mut low, mut high) = (0, newest);
        while high - low > self.limits.near {
            let middle = low + (high - low) / 2;
            match self.newest_below(Some(middle)).await? {
                Some((_, at)) if at >= until => high = middle,
                _ => low = middle,
            }
        }
        Ok(Some(high.saturating_add(self.limits.near)))
    }

    async fn newest_below(&self, before: Option<i64>) -> Result<Option<(i64, Timestamp)>, Problem> {
        let entry = match self.book {
            Book::Operators => {
                let newest = self.state.store.audit(None, before, 1).await?;
                newest.into_iter().next().map(Entry::Operator)
            }
            Book::Writes => {
                let filter = consign_memory::AuditFilter {
                    before,
                    ..consign_memory::AuditFilter::default()
                };
                let newest = self.logbook()?.audits(&filter, 1).await?;
                newest
                    .into_iter()
                    .next()
                    .map(|it| Entry::Write(Box::new(it)))
            }
        };
        Ok(entry.map(|entry| (entry.id(), entry.at())))
    }

    /// The next piece below `before`.
    pub(super) async fn step(&self, before: Option<i64>) -> Result<Step, Problem> {
        match self.book {
            Book::Operators => self.step_operators(before).await,
            Book::Writes => self.step_writes(before).await,
        }
    }

    async fn step_operators(&self, before: Option<i64>) -> Result<Step, Problem> {
        let page = self.state.store.audit(self.message, before, STEP).await?;
        let is_full = page.len() == STEP as usize;
        let last = page.last().filter(|_| is_full);
        let is_past = |at: Timestamp| self.since.is_some_and(|since| at < since);
        let next = last.filter(|last| !is_past(last.at)).map(|last| last.id);
        let fitting = page.into_iter().filter(|entry| self.covers(entry));
        Ok(Step {
            entries: fitting.map(Entry::Operator).collect(),
            next,
        })
    }

    fn covers(&self, entry: &AuditEntry) -> bool {
        let fits = |wanted: &str, is: &str| wanted.is_empty() || wanted == is;
        let queue = entry.queue.as_ref().map_or("", |queue| queue.as_str());
        // By what a token is called, or with what its bearer said besides.
        let known = entry.actor.split(", ").next().unwrap_or_default();
        (fits(&self.actor, &entry.actor) || fits(&self.actor, known))
            && fits(&self.action, &entry.action)
            && fits(&self.queue, queue)
            && self.since.is_none_or(|since| entry.at >= since)
            && self.until.is_none_or(|until| entry.at < until)
    }

    async fn step_writes(&self, before: Option<i64>) -> Result<Step, Problem> {
        let logbook = self.logbook()?;
        let mut filter = self.writes.clone();
        // These have an index of their own.
        let is_indexed = filter.outbox_id.is_some() || filter.correlation_id.is_some();
        let mut floor = None;
        filter.before = before;
        if !is_indexed {
            let top = match before {
                Some(before) => before,
                None => match self.newest_below(None).await? {
                    Some((newest, _)) => newest.saturating_add(1),
                    None => return Ok(Step::nothing()),
                },
            };
            filter.before = Some(top);
            floor = Some(top.saturating_sub(self.limits.span)).filter(|floor| *floor > 1);
            filter.after = floor.map(|floor| floor - 1);
        }
        let found = logbook.audits(&filter, self.limits.writes).await?;
        let next = match found.last() {
            Some(last) if found.len() == self.limits.writes as usize => Some(last.audit_id),
            _ => self.unless_past(floor).await?,
        };
        let entries = found.into_iter().map(|it| Entry::Write(Box::new(it)));
        Ok(Step {
            entries: entries.collect(),
            next,
        })
    }

    /// The same, unless everything below is too old.
    async fn unless_past(&self, floor: Option<i64>) -> Result<Option<i64>, Problem> {
        let (Some(floor), Some(since)) = (floor, self.since) else {
            return Ok(floor);
        };
        let below = self.newest_below(Some(floor)).await?;
        Ok(below.filter(|(_, at)| *at >= since).map(|_| floor))
    }

    fn logbook(&self) -> Result<&dyn Logbook, Problem> {
        let none = || Problem::new(codes::NOT_FOUND, "there is no gateway of memories here");
        let gateway = self.state.memory.as_ref().ok_or_else(none)?;
        Ok(gateway.here.service.logbook())
    }
}

impl Step {
    fn nothing() -> Self {
        Self {
            entries: Vec::new(),
            next: None,
        }
    }
}

/// A time as people write it, in UTC unless they say otherwise.
fn time(field: &str, text: &str) -> Result<Option<Timestamp>, Problem> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let plain = || {
        let civil: DateTime = text.parse().ok()?;
        Some(civil.to_zoned(TimeZone::UTC).ok()?.timestamp())
    };
    let time = text.parse().ok().or_else(plain);
    let unknown = || Problem::invalid(field, "must be a time such as 2026-11-16T13:00, in UTC");
    time.map(Some).ok_or_else(unknown)
}

fn number(field: &str, text: &str) -> Result<Option<i64>, Problem> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let number = text.parse().map(Some);
    number.map_err(|_| Problem::invalid(field, "must be a whole number"))
}

/// A word that the logbook has a meaning for.
fn word<T: serde::de::DeserializeOwned>(field: &str, text: &str) -> Result<Option<T>, Problem> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let word = serde_json::from_value(text.into()).map(Some);
    word.map_err(|_| Problem::invalid(field, "is not a word of write audits"))
}

#[cfg(test)]
mod tests;
