//! Taking entries along: as CSV for people, as JSON lines for programs.
//!
//! What is cut off says so in its last line, and is broken off where the cause is a failure: nobody
//! shall take a part for the whole.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    extract::State,
    http::{HeaderValue, header},
    response::Response,
};
use consign_kernel::AuditEntry;
use consign_memory::Audit;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::book::{Entry, Reader, Wanted};
use crate::{
    extract::Params,
    problem::{Problem, codes},
    state::AppState,
};

/// Entries of one export, at most; the last line tells where the next begins.
const ENTRIES_MAX: usize = 100_000;

const OPERATORS: &str = "id,at,actor,action,queue,message_id,reason\r\n";
const WRITES: &str = "audit_id,created_at,updated_at,actor_user_id,action,status,target_space,\
                      outbox_id,correlation_id,payload_sha,reason\r\n";

/// An export under way.
struct Export {
    state: AppState,
    reader: Reader,
    before: Option<i64>,
    is_csv: bool,
    left: usize,
    /// What is read and not sent yet: one step's worth.
    ready: String,
    end: End,
    _turn: OwnedSemaphorePermit,
}

/// How it goes on when what is ready has been sent.
enum End {
    /// There is more to read.
    Open,
    /// That was all.
    Whole,
    /// The connection breaks.
    Broken(String),
}

/// Everything that fits, newest first; read and sent piece by piece.
pub(in crate::dashboard) async fn export(
    State(state): State<AppState>,
    Params(wanted): Params<Wanted>,
) -> Result<Response, Problem> {
    let (is_csv, kind, ending) = match wanted.format.as_str() {
        "csv" => (true, "text/csv; charset=utf-8", "csv"),
        "jsonl" => (false, "application/x-ndjson", "jsonl"),
        _ => return Err(Problem::invalid("format", "must be csv or jsonl")),
    };
    let (name, head) = match wanted.is_writes() {
        true => ("write-audits", WRITES),
        false => ("audit", OPERATORS),
    };
    let reader = wanted.reader(&state)?;
    let turn = Arc::clone(&state.exports).try_acquire_owned();
    let turn = turn.map_err(|_| {
        let detail = "as many exports are under way as may be";
        Problem::new(codes::OVERLOADED, detail).retry_after(Duration::from_secs(10))
    })?;
    let before = match wanted.before {
        Some(before) => Some(before),
        None => reader.start().await?,
    };
    let mut export = Export {
        state,
        reader,
        before,
        is_csv,
        left: ENTRIES_MAX,
        ready: if is_csv {
            head.to_owned()
        } else {
            String::new()
        },
        end: End::Open,
        _turn: turn,
    };
    // The first piece before the status: what cannot be read is then said as it should be.
    export.read().await?;
    let pieces = stream::unfold(export, |export| export.next());
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    let attachment = format!("attachment; filename=\"{name}.{ending}\"");
    if let Ok(attachment) = HeaderValue::from_str(&attachment) {
        headers.insert(header::CONTENT_DISPOSITION, attachment);
    }
    Ok(response)
}

impl Export {
    async fn read(&mut self) -> Result<(), Problem> {
        let step = self.reader.step(self.before).await?;
        let next = step.next;
        for entry in step.entries {
            if self.left == 0 {
                let entries = format!("{ENTRIES_MAX} entries are the most at once");
                self.say_cut(&entries);
                self.end = End::Whole;
                return Ok(());
            }
            self.left -= 1;
            self.before = Some(entry.id());
            let line = match self.is_csv {
                true => csv(&entry),
                false => line(&entry),
            };
            self.ready.push_str(&line);
        }
        self.before = next;
        if next.is_none() {
            self.end = End::Whole;
        }
        Ok(())
    }

    /// A last line that nobody can take for an entry.
    fn say_cut(&mut self, why: &str) {
        let before = self.before;
        self.ready.push_str(&match self.is_csv {
            true => {
                let on = before.map(|before| format!("; go on with before={before}"));
                let text = format!("CUT OFF: {why}{}", on.unwrap_or_default());
                format!("{}\r\n", cell(&text))
            }
            false => format!("{}\n", json!({"cut_off": why, "before": before})),
        });
    }

    fn break_off(&mut self, why: &str) {
        self.say_cut(why);
        self.end = End::Broken(why.to_owned());
    }

    async fn next(mut self) -> Option<(Result<Bytes, Cut>, Self)> {
        loop {
            if !self.ready.is_empty() {
                let text = std::mem::take(&mut self.ready);
                return Some((Ok(Bytes::from(text)), self));
            }
            match std::mem::replace(&mut self.end, End::Whole) {
                End::Whole => return None,
                End::Broken(why) => {
                    // Waiting for once lets what is ready out before the connection breaks.
                    tokio::task::yield_now().await;
                    return Some((Err(Cut(why)), self));
                }
                End::Open if self.state.is_draining() => self.break_off("the server is ending"),
                End::Open => {
                    self.end = End::Open;
                    if let Err(problem) = self.read().await {
                        self.break_off(&problem.detail);
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

fn line(entry: &Entry) -> String {
    let text = match entry {
        Entry::Operator(entry) => serde_json::to_string(entry),
        Entry::Write(audit) => serde_json::to_string(audit),
    };
    format!("{}\n", text.expect("invariant: entries serialise"))
}

fn csv(entry: &Entry) -> String {
    let cells = match entry {
        Entry::Operator(entry) => operator(entry),
        Entry::Write(audit) => write(audit),
    };
    format!("{}\r\n", cells.join(","))
}

fn operator(entry: &AuditEntry) -> Vec<String> {
    let queue = entry.queue.as_ref().map_or("", |queue| queue.as_str());
    let message = entry.message_id.map(|id| id.to_string());
    vec![
        cell(&entry.id.to_string()),
        cell(&entry.at.to_string()),
        cell(&entry.actor),
        cell(&entry.action),
        cell(queue),
        cell(&message.unwrap_or_default()),
        cell(&entry.reason),
    ]
}

fn write(audit: &Audit) -> Vec<String> {
    let said = |text: &Option<String>| cell(text.as_deref().unwrap_or_default());
    let updated = audit.updated_at.map(|at| at.to_string());
    let outbox_id = outbox_id(audit).map(|id| id.to_string());
    vec![
        cell(&audit.audit_id.to_string()),
        cell(&audit.created_at.to_string()),
        said(&updated),
        said(&audit.actor_user_id),
        cell(audit.action.as_str()),
        cell(audit.status.as_str()),
        cell(&audit.target_space),
        said(&outbox_id),
        said(&audit.correlation_id),
        said(&audit.payload_sha),
        said(&audit.reason),
    ]
}

/// The row of the outbox that an audit is about.
pub(super) fn outbox_id(audit: &Audit) -> Option<i64> {
    match &audit.evidence_refs_json["outbox_id"] {
        Value::Number(id) => id.as_i64(),
        Value::String(id) => id.parse().ok(),
        _ => None,
    }
}

/// Text in quotes. What a spreadsheet would take for a formula gets an apostrophe in front: some
/// skip blanks before the sign, and some take the full-width sign for the other.
fn cell(text: &str) -> String {
    let signs = [
        '=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}',
    ];
    let is_formula = text.starts_with(['\t', '\r', '\n']) || text.trim_start().starts_with(signs);
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
            ("\n=1", "\"'\n=1\""),
            ("\nplain", "\"'\nplain\""),
            ("  =1", "\"'  =1\""),
            ("\u{ff1d}1", "\"'\u{ff1d}1\""),
            ("\u{ff0b}1", "\"'\u{ff0b}1\""),
            ("\u{ff0d}1", "\"'\u{ff0d}1\""),
            ("\u{ff20}x", "\"'\u{ff20}x\""),
            ("17", "\"17\""),
            ("", "\"\""),
        ] {
            assert_eq!(cell(text), written);
        }
    }
}
