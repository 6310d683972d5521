//! What people did, and why: looking through it, and taking it along.

use std::collections::VecDeque;

use askama::Template;
use axum::{
    Extension,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderValue, header},
    response::Response,
};
use consign_kernel::{AuditEntry, MessageId};
use futures_util::stream;
use jiff::Timestamp;
use serde::Deserialize;

use super::{
    form::encoded,
    shell::{Shell, rendered},
    words::Moment,
};
use crate::{extract::Params, gate::access::Caller, problem::Problem, state::AppState};

const ROWS: usize = 50;
/// Entries read at once.
const STEP: u32 = 1_000;
/// Entries looked through for one page; the next page goes on from there.
const LOOKED_THROUGH_MAX: usize = 5_000;
const EXPORTED_MAX: usize = 100_000;

#[derive(Template)]
#[template(path = "audit.html")]
struct Audit {
    shell: Shell,
    filter: AuditFilter,
    entries: Vec<Entry>,
    older: Option<String>,
    /// The filter, for the links of the exports.
    query: String,
}

struct Entry {
    id: i64,
    at: Moment,
    actor: String,
    action: String,
    lane: Option<String>,
    message_id: Option<i64>,
    reason: String,
}

/// Which entries are wanted.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct AuditFilter {
    #[serde(default)]
    message: String,
    #[serde(default)]
    actor: String,
    #[serde(default)]
    action: String,
    #[serde(default)]
    lane: String,
    before: Option<i64>,
    #[serde(default)]
    format: String,
}

impl AuditFilter {
    fn message_id(&self) -> Result<Option<MessageId>, Problem> {
        let text = self.message.trim();
        if text.is_empty() {
            return Ok(None);
        }
        let id = text.parse().map(|id| Some(MessageId(id)));
        id.map_err(|_| Problem::invalid("message", "must be a whole number"))
    }

    fn covers(&self, entry: &AuditEntry) -> bool {
        let fits = |wanted: &str, is: &str| wanted.trim().is_empty() || wanted.trim() == is;
        entry.actor.contains(self.actor.trim())
            && fits(&self.action, &entry.action)
            && fits(
                &self.lane,
                entry.lane.as_ref().map_or("", |lane| lane.as_str()),
            )
    }

    fn query(&self) -> String {
        let fields = [
            ("message", &self.message),
            ("actor", &self.actor),
            ("action", &self.action),
            ("lane", &self.lane),
        ];
        let said = fields.iter().filter(|(_, value)| !value.trim().is_empty());
        let pairs = said.map(|(name, value)| format!("&{name}={}", encoded(value.trim())));
        pairs.collect()
    }
}

pub(super) async fn show(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Params(filter): Params<AuditFilter>,
) -> Result<Response, Problem> {
    let (entries, next) = matching(&state, &filter).await?;
    let (now, query) = ((state.clock)(), filter.query());
    Ok(rendered(&Audit {
        shell: Shell::new("Audit", "/ui/audit", &caller),
        entries: entries
            .into_iter()
            .map(|entry| Entry::new(entry, now))
            .collect(),
        older: next.map(|next| format!("/ui/audit?before={next}{query}")),
        filter,
        query,
    }))
}

/// A page of entries that fit, and where to go on.
async fn matching(
    state: &AppState,
    filter: &AuditFilter,
) -> Result<(Vec<AuditEntry>, Option<i64>), Problem> {
    let id = filter.message_id()?;
    let (mut found, mut before, mut seen) = (Vec::new(), filter.before, 0);
    loop {
        let page = state.store.audit(id, before, STEP).await?;
        let is_last = page.len() < STEP as usize;
        for entry in page {
            seen += 1;
            before = Some(entry.id);
            if filter.covers(&entry) {
                found.push(entry);
            }
            if found.len() == ROWS {
                return Ok((found, before));
            }
        }
        if is_last {
            return Ok((found, None));
        }
        if seen >= LOOKED_THROUGH_MAX {
            return Ok((found, before));
        }
    }
}

impl Entry {
    fn new(entry: AuditEntry, now: Timestamp) -> Self {
        Self {
            id: entry.id,
            at: Moment::new(entry.at, now),
            actor: entry.actor,
            action: entry.action,
            lane: entry.lane.map(String::from),
            message_id: entry.message_id.map(|id| id.0),
            reason: entry.reason,
        }
    }
}

/// An export under way.
struct Export {
    state: AppState,
    filter: AuditFilter,
    id: Option<MessageId>,
    before: Option<i64>,
    is_csv: bool,
    left: usize,
    /// Text that is ready to go.
    ready: VecDeque<String>,
    is_over: bool,
}

/// Everything that fits, newest first, as CSV or as JSON lines; read and sent piece by piece.
pub(super) async fn export(
    State(state): State<AppState>,
    Params(filter): Params<AuditFilter>,
) -> Result<Response, Problem> {
    let (is_csv, kind, name) = match filter.format.as_str() {
        "csv" => (true, "text/csv; charset=utf-8", "audit.csv"),
        "jsonl" => (false, "application/x-ndjson", "audit.jsonl"),
        _ => return Err(Problem::invalid("format", "must be csv or jsonl")),
    };
    let mut export = Export {
        id: filter.message_id()?,
        before: filter.before,
        state,
        filter,
        is_csv,
        left: EXPORTED_MAX,
        ready: VecDeque::new(),
        is_over: false,
    };
    if is_csv {
        let head = "id,at,actor,action,lane,message_id,reason\r\n";
        export.ready.push_back(head.to_owned());
    }
    // The first piece before the status: what cannot be read is then said as it should be.
    export.read().await?;
    let pieces = stream::unfold(export, |export| export.next());
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    let attachment = format!("attachment; filename=\"{name}\"");
    if let Ok(attachment) = HeaderValue::from_str(&attachment) {
        headers.insert(header::CONTENT_DISPOSITION, attachment);
    }
    Ok(response)
}

impl Export {
    async fn read(&mut self) -> Result<(), Problem> {
        let page = self.state.store.audit(self.id, self.before, STEP).await?;
        self.is_over = page.len() < STEP as usize;
        let mut text = String::new();
        for entry in page {
            self.before = Some(entry.id);
            if self.left == 0 {
                self.is_over = true;
            } else if self.filter.covers(&entry) {
                self.left -= 1;
                text.push_str(&match self.is_csv {
                    true => csv(&entry),
                    false => lines(&entry),
                });
            }
        }
        self.ready.push_back(text);
        Ok(())
    }

    async fn next(mut self) -> Option<(Result<Bytes, Cut>, Self)> {
        loop {
            match self.ready.pop_front() {
                Some(text) if text.is_empty() => {}
                Some(text) => return Some((Ok(Bytes::from(text)), self)),
                None if self.is_over || self.state.is_draining() => return None,
                None => {
                    // The connection is cut, so that nobody takes a part for the whole.
                    if let Err(problem) = self.read().await {
                        self.is_over = true;
                        return Some((Err(Cut(problem.detail)), self));
                    }
                }
            }
        }
    }
}

/// Why an export broke off.
#[derive(Debug, thiserror::Error)]
#[error("the export broke off: {0}")]
struct Cut(String);

fn lines(entry: &AuditEntry) -> String {
    let text = serde_json::to_string(entry).expect("invariant: entries serialise");
    format!("{text}\n")
}

fn csv(entry: &AuditEntry) -> String {
    let number = |id: Option<MessageId>| id.map(|id| id.to_string()).unwrap_or_default();
    let lane = entry.lane.as_ref().map_or("", |lane| lane.as_str());
    let cells = [
        entry.id.to_string(),
        entry.at.to_string(),
        cell(&entry.actor),
        cell(&entry.action),
        cell(lane),
        number(entry.message_id),
        cell(&entry.reason),
    ];
    format!("{}\r\n", cells.join(","))
}

/// Text in quotes. What a spreadsheet would take for a formula gets an apostrophe in front.
fn cell(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let mark = if is_formula { "'" } else { "" };
    format!("\"{mark}{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_and_never_formulas() {
        for (text, written) in [
            ("plain", "\"plain\""),
            ("a \"b\", c\nd", "\"a \"\"b\"\", c\nd\""),
            ("=1+1", "\"'=1+1\""),
            ("@x", "\"'@x\""),
            ("", "\"\""),
        ] {
            assert_eq!(cell(text), written);
        }
    }

    #[test]
    fn a_filter_covers_what_all_its_fields_say() {
        let entry = AuditEntry {
            id: 1,
            at: Timestamp::UNIX_EPOCH,
            actor: "ada, on call (as said)".into(),
            action: "requeue".into(),
            lane: Some("mail".parse().unwrap()),
            message_id: None,
            reason: "why".into(),
        };
        let filter = |actor: &str, action: &str, lane: &str| AuditFilter {
            actor: actor.into(),
            action: action.into(),
            lane: lane.into(),
            ..AuditFilter::default()
        };
        for (filter, covers) in [
            (filter("", "", ""), true),
            (filter("ada", " requeue ", "mail"), true),
            (filter("bob", "", ""), false),
            (filter("", "hold", ""), false),
            (filter("", "", "orders"), false),
        ] {
            assert_eq!(filter.covers(&entry), covers, "{filter:?}");
        }
        let spoken = filter("a&b", "", "x");
        assert_eq!(spoken.query(), "&actor=a%26b&lane=x");
    }
}
