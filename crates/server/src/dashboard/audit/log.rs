//! Audit logs, read alike: newest first, a bounded piece at a time, however few entries match.

use std::{collections::BTreeMap, fmt};

use async_trait::async_trait;
use axum::{extract::FromRequestParts, http::request::Parts};
use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use serde::Deserialize;

use crate::{dashboard::form::encoded, extract::Params, problem::Problem};

/// A log that the audit page shows and exports.
pub trait AuditLog: fmt::Debug + Send + Sync {
    /// Its name and appearance.
    fn info(&self) -> AuditLogInfo;

    /// Why it is empty, if this process does not keep it.
    fn absence(&self) -> Option<&'static str> {
        None
    }

    /// A reader of the entries that match a query.
    fn reader(&self, query: &AuditQuery) -> Result<Box<dyn AuditLogReader>, Problem>;
}

/// The name and appearance of a log.
#[derive(Clone, Copy, Debug)]
pub struct AuditLogInfo {
    /// In the query, as `of=`.
    pub name: &'static str,
    /// On its tab.
    pub tab: &'static str,
    /// The name of its exports, without their ending.
    pub file: &'static str,
    /// The first line of an export as CSV.
    pub csv: &'static str,
    /// The columns of its table.
    pub columns: &'static [&'static str],
    /// The actions that its entries may have.
    pub actions: &'static [&'static str],
    /// What its entries can be filtered by besides actor, action, message and time.
    pub filters: &'static [AuditLogFilter],
}

/// A field of the form that filters a log.
#[derive(Clone, Copy, Debug)]
pub struct AuditLogFilter {
    /// In the query.
    pub name: &'static str,
    /// In the form.
    pub label: &'static str,
    /// What can be chosen; empty: any text.
    pub words: &'static [&'static str],
}

/// Reads a log.
#[async_trait]
pub trait AuditLogReader: Send + Sync {
    /// The tolerance of a search by time: two entries written at once may be numbered in the other order.
    fn near(&self) -> i64 {
        1_000
    }

    /// Only entries before this time.
    fn until(&self) -> Option<Timestamp>;

    /// The number and time of the newest entry below `before`.
    async fn newest_below(&self, before: Option<i64>) -> Result<Option<(i64, Timestamp)>, Problem>;

    /// The next piece below `before`.
    async fn step(&self, before: Option<i64>) -> Result<Step, Problem>;
}

/// The entries of one step, and the start of the next.
pub struct Step {
    /// Newest first.
    pub entries: Vec<Box<dyn AuditLogEntry>>,
    /// None: there is no more.
    pub next: Option<i64>,
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Step")
            .field("entries", &self.entries.len())
            .field("next", &self.next)
            .finish()
    }
}

/// An entry of a log.
pub trait AuditLogEntry: Send + Sync {
    /// Its number; newer entries have higher ones.
    fn id(&self) -> i64;

    /// Its row in the table, as HTML.
    fn row(&self, now: Timestamp) -> Result<String, Problem>;

    /// Its cells in an export as CSV.
    fn cells(&self) -> Vec<String>;

    /// Its line in an export as JSON.
    fn json(&self) -> String;
}

/// A filter of entries, from a form or a link. A blank field matches everything.
#[derive(Clone, Debug, Default)]
pub struct AuditQuery {
    pub(super) fields: QueryFields,
    /// What filters only one log.
    more: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct QueryFields {
    pub(super) of: String,
    pub(super) message: String,
    pub(super) actor: String,
    pub(super) action: String,
    pub(super) since: String,
    pub(super) until: String,
    pub(super) before: Option<i64>,
    pub(super) format: String,
}

impl<S: Send + Sync> FromRequestParts<S> for AuditQuery {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Params(fields) = Params::from_request_parts(parts, state).await?;
        let Params(more) = Params::from_request_parts(parts, state).await?;
        Ok(Self { fields, more })
    }
}

impl AuditQuery {
    /// A query of these fields, as in a link.
    pub fn of(fields: &[(&str, &str)]) -> Self {
        let mut query = Self::default();
        for (name, value) in fields {
            let value = (*value).to_owned();
            match *name {
                "of" => query.fields.of = value,
                "message" => query.fields.message = value,
                "actor" => query.fields.actor = value,
                "action" => query.fields.action = value,
                "since" => query.fields.since = value,
                "until" => query.fields.until = value,
                _ => drop(query.more.insert((*name).to_owned(), value)),
            }
        }
        query
    }

    /// What was filled in under a name.
    pub fn text(&self, name: &str) -> Option<String> {
        let text = match name {
            "actor" => &self.fields.actor,
            "action" => &self.fields.action,
            _ => self.more.get(name)?,
        };
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// Only entries about this message.
    pub fn message(&self) -> Result<Option<i64>, Problem> {
        let text = self.fields.message.trim();
        if text.is_empty() {
            return Ok(None);
        }
        let number = text.parse().map(Some);
        number.map_err(|_| {
            Problem::out_of_bounds(
                "message",
                consign_kernel::quoted(text),
                "must be a whole number",
            )
        })
    }

    /// Only entries from this time on.
    pub fn since(&self) -> Result<Option<Timestamp>, Problem> {
        time("since", &self.fields.since)
    }

    /// Only entries before this time.
    pub fn until(&self) -> Result<Option<Timestamp>, Problem> {
        time("until", &self.fields.until)
    }

    /// Rejects fields that no database can store.
    pub fn check_text(&self, names: &[&str]) -> Result<(), Problem> {
        let has_nul = |name: &&&str| self.text(name).is_some_and(|text| text.contains('\0'));
        match names.iter().find(has_nul) {
            Some(name) => Err(Problem::invalid(name, "must be without U+0000")),
            None => Ok(()),
        }
    }

    /// The value of a filter, to be shown in its field.
    pub(super) fn value(&self, filter: &AuditLogFilter) -> &str {
        self.more.get(filter.name).map_or("", String::as_str)
    }

    /// As part of a link's query.
    pub(super) fn link(&self, log: &AuditLogInfo, is_first: bool) -> String {
        let of = if is_first { "" } else { log.name };
        let QueryFields {
            message,
            actor,
            action,
            since,
            until,
            ..
        } = &self.fields;
        let filters = log
            .filters
            .iter()
            .map(|filter| (filter.name, self.value(filter)));
        let before = [
            ("of", of),
            ("message", message),
            ("actor", actor),
            ("action", action),
        ];
        let fields = before.into_iter().chain(filters);
        let fields = fields.chain([("since", since.as_str()), ("until", until)]);
        let filled = fields.filter(|(_, value)| !value.trim().is_empty());
        let pairs = filled.map(|(name, value)| format!("&{name}={}", encoded(value.trim())));
        pairs.collect()
    }
}

/// Where to begin: at the newest entry, or at the newest of its time.
pub async fn start(reader: &dyn AuditLogReader) -> Result<Option<i64>, Problem> {
    let Some(until) = reader.until() else {
        return Ok(None);
    };
    let Some((newest, at)) = reader.newest_below(None).await? else {
        return Ok(None);
    };
    if at < until {
        return Ok(None);
    }
    let (mut low, mut high) = (0, newest);
    while high - low > reader.near() {
        let middle = low + (high - low) / 2;
        match reader.newest_below(Some(middle)).await? {
            Some((_, at)) if at >= until => high = middle,
            _ => low = middle,
        }
    }
    Ok(Some(high.saturating_add(reader.near())))
}

/// A time as typed, in UTC unless it names an offset.
pub(in crate::dashboard) fn time(field: &str, text: &str) -> Result<Option<Timestamp>, Problem> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let plain = || {
        let civil: DateTime = text.parse().ok()?;
        Some(civil.to_zoned(TimeZone::UTC).ok()?.timestamp())
    };
    let time = text.parse().ok().or_else(plain);
    let bounds = "must be a time such as 2026-11-16T13:00, in UTC";
    let unknown = || Problem::out_of_bounds(field, consign_kernel::quoted(text), bounds);
    time.map(Some).ok_or_else(unknown)
}

#[cfg(test)]
mod tests;
