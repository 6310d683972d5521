//! Exports of audit entries: as CSV and as JSON lines.
//!
//! An export that is cut off ends with a line about it, and the connection breaks where the cause
//! is a failure: a part must not pass for the whole.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    extract::State,
    http::{HeaderValue, header},
    response::Response,
};
use futures_util::stream;
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;

use super::{AuditLogEntry, AuditLogReader, AuditQuery, logs, place, start};
use crate::{
    problem::{Problem, codes},
    state::AppState,
};

/// Entries of one export, at most; the last line has the start of the next.
const ENTRIES_MAX: usize = 100_000;

/// An export under way.
struct Export {
    state: AppState,
    reader: Box<dyn AuditLogReader>,
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
    wanted: AuditQuery,
) -> Result<Response, Problem> {
    let logs = logs(&state);
    let log = &logs[place(&logs, &wanted)?];
    let (is_csv, kind, ending) = match wanted.fields.format.as_str() {
        "csv" => (true, "text/csv; charset=utf-8", "csv"),
        "jsonl" => (false, "application/x-ndjson", "jsonl"),
        other => {
            let value = consign_kernel::quoted(other);
            return Err(Problem::out_of_bounds(
                "format",
                value,
                "must be csv or jsonl",
            ));
        }
    };
    let info = log.info();
    let reader = log.reader(&wanted)?;
    let turn = Arc::clone(&state.exports).try_acquire_owned();
    let turn = turn.map_err(|_| {
        let detail = "too many exports are under way; try again when one has ended";
        Problem::new(codes::OVERLOADED, detail).retry_after(Duration::from_secs(10))
    })?;
    let before = match wanted.fields.before {
        Some(before) => Some(before),
        None => start(reader.as_ref()).await?,
    };
    let mut export = Export {
        state,
        reader,
        before,
        is_csv,
        left: ENTRIES_MAX,
        ready: if is_csv {
            info.csv.to_owned()
        } else {
            String::new()
        },
        end: End::Open,
        _turn: turn,
    };
    // The first piece before the status: a failed read then gets an error status.
    export.read().await?;
    let pieces = stream::unfold(export, |export| export.next());
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    let attachment = format!("attachment; filename=\"{}.{ending}\"", info.file);
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
                self.write_cut_off(&entries);
                self.end = End::Whole;
                return Ok(());
            }
            self.left -= 1;
            self.before = Some(entry.id());
            let line = if self.is_csv {
                csv(entry.as_ref())
            } else {
                format!("{}\n", entry.json())
            };
            self.ready.push_str(&line);
        }
        self.before = next;
        if next.is_none() {
            self.end = End::Whole;
        }
        Ok(())
    }

    /// A last line that cannot be mistaken for an entry.
    fn write_cut_off(&mut self, why: &str) {
        let before = self.before;
        self.ready.push_str(&if self.is_csv {
            let on = before.map(|before| format!("; continue with before={before}"));
            let text = format!("CUT OFF: {why}{}", on.unwrap_or_default());
            format!("{}\r\n", cell(&text))
        } else {
            format!("{}\n", json!({"cut_off": why, "before": before}))
        });
    }

    fn break_off(&mut self, why: &str) {
        self.write_cut_off(why);
        self.end = End::Broken(why.to_owned());
    }

    async fn next(mut self) -> Option<(Result<Bytes, ExportError>, Self)> {
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
                    return Some((Err(ExportError(why)), self));
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

/// Why an export ended early.
#[derive(Debug, thiserror::Error)]
#[error("the export is incomplete: {0}")]
struct ExportError(String);

fn csv(entry: &dyn AuditLogEntry) -> String {
    let cells: Vec<String> = entry.cells().iter().map(|text| cell(text)).collect();
    format!("{}\r\n", cells.join(","))
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
