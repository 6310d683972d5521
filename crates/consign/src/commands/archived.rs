//! Messages that left the database, read from an archive.

use std::path::Path;

use consign_app::attempts::print_attempts;
use consign_archive::{Archive, ArchivedAttempt, Filter, Record};
use consign_kernel::{Attempt, AuditEntry, MessageId, StateKind, Token};
use jiff::Timestamp;
use serde_json::json;

use super::{ls::state_of, show::print_audit};
use crate::{
    failure::{Exit, Failure},
    output::{Output, Table, or_dash, plain},
    progress::Progress,
    when::{fine_stamp, stamp},
};

/// Shows a message with everything that was recorded about it.
pub(super) fn show(out: Output, folder: &Path, id: MessageId) -> Result<Exit, Failure> {
    let record = find(folder, id)?;
    if out.is_json() {
        out.json(&record)?;
        return Ok(Exit::Fine);
    }
    let now = Timestamp::now();
    print(out, &record, now)?;
    let attempts: Vec<Attempt> = (record.attempts.iter())
        .map(|attempt| recorded(id, attempt))
        .collect();
    print_attempts(out, &attempts, now)?;
    print_audit(out, &record.audit, now)?;
    Ok(Exit::Fine)
}

/// Explains where a message is.
pub(super) fn explain(out: Output, folder: &Path, id: MessageId) -> Result<Exit, Failure> {
    let record = find(folder, id)?;
    if out.is_json() {
        let sentence = sentence(&record);
        out.json(&json!({"id": id, "sentence": sentence, "state": record.state}))?;
        return Ok(Exit::Fine);
    }
    out.line(plain(&sentence(&record)))?;
    Ok(Exit::Fine)
}

/// Lists messages, newest first.
pub(super) fn list(
    out: Output,
    folder: &Path,
    filter: &Filter,
    limit: u32,
) -> Result<Exit, Failure> {
    let progress = Progress::busy("reading the archive", out.is_json());
    let records = open(folder)?.list(filter, limit as usize).map_err(failed)?;
    progress.clear();
    if out.is_json() {
        out.json(&json!({"items": records}))?;
        return Ok(Exit::Fine);
    }
    if records.is_empty() {
        out.note("no messages match")?;
        return Ok(Exit::Fine);
    }
    let now = Timestamp::now();
    let mut table = Table::new([
        ">id",
        "queue",
        "state",
        ">attempts",
        "key",
        "group",
        "enqueued",
    ]);
    for record in &records {
        let message = &record.message;
        table.row([
            message.id.to_string(),
            message.queue.to_string(),
            state_of(record.state, record.erased.is_some()),
            record.attempts.len().to_string(),
            or_dash(message.key.as_deref()),
            or_dash(message.group.as_deref()),
            stamp(message.created_at, now),
        ]);
    }
    out.table(&table)?;
    if let Some(last) = records.last().filter(|_| records.len() == limit as usize) {
        out.note(format!("more: --before {}", last.message.id))?;
    }
    Ok(Exit::Fine)
}

/// An archive that exists: reading must not create one.
fn open(folder: &Path) -> Result<Archive, Failure> {
    if !folder.is_dir() {
        let what = format!("archive {} does not exist", folder.display());
        return Err(Failure::new(Exit::NotFound, "no_archive", what));
    }
    Archive::open(folder).map_err(failed)
}

fn find(folder: &Path, id: MessageId) -> Result<Record, Failure> {
    let progress = Progress::busy("reading the archive", false);
    let found = open(folder)?.find(id).map_err(failed)?;
    progress.clear();
    found.ok_or_else(|| {
        let what = format!("message {id} is not in the archive {}", folder.display());
        Failure::new(Exit::NotFound, "unknown_message", what)
    })
}

fn failed(error: consign_archive::Error) -> Failure {
    Failure::new(Exit::Wrong, "archive", error.to_string())
}

/// The action that closed a discarded message.
fn closed(record: &Record) -> Option<&AuditEntry> {
    let closes = |entry: &&AuditEntry| matches!(entry.action.as_str(), "discard" | "cancel");
    let mut actions = record.audit.iter().rev();
    actions
        .find(closes)
        .filter(|_| record.state == StateKind::Discarded)
}

fn sentence(record: &Record) -> String {
    let state = record.state.as_str();
    let last = record.attempts.last();
    let at = last.map_or(record.message.created_at, |last| last.finished_at);
    let (at, why) = match (&record.dead, closed(record)) {
        (Some(death), _) => (at, format!(": {}", death.code)),
        (None, Some(entry)) => (entry.at, format!(" by {}: {}", entry.actor, entry.reason)),
        (None, None) => (at, String::new()),
    };
    let erased = (record.erased.as_ref())
        .map_or(String::new(), |erasure| format!(" {}", erasure.sentence()));
    format!(
        "It has left the database: {state} at {at:.3}{why}, after {} attempt(s).",
        record.attempts.len()
    ) + &erased
}

fn print(out: Output, record: &Record, now: Timestamp) -> Result<(), Failure> {
    let message = &record.message;
    let field = |name: &str, value: &str| out.line(format_args!("{name:<10}{}", plain(value)));
    field("message", &message.id.to_string())?;
    field("queue", message.queue.as_str())?;
    field("state", record.state.as_str())?;
    field("key", &or_dash(message.key.as_deref()))?;
    field("group", &or_dash(message.group.as_deref()))?;
    field("enqueued", &fine_stamp(message.created_at, now))?;
    if let Some(at) = message.expires_at {
        field("expires", &fine_stamp(at, now))?;
    }
    field("why", &sentence(record))?;
    if record.erased.is_some() {
        out.line("payload   erased, as its headers, results and details")?;
        return Ok(());
    }
    if !message.headers.is_empty() {
        out.line(format_args!("headers   {}", json!(message.headers)))?;
    }
    out.line(format_args!("payload   {}", message.payload))?;
    Ok(())
}

/// An attempt as it was in the store, but for its token, which is not archived.
fn recorded(message_id: MessageId, attempt: &ArchivedAttempt) -> Attempt {
    let attempt = attempt.clone();
    Attempt {
        message_id,
        attempt_no: attempt.attempt_no,
        outcome: attempt.outcome,
        owner: attempt.owner,
        fence: attempt.fence,
        token: Token(Default::default()),
        claimed_at: attempt.claimed_at,
        finished_at: attempt.finished_at,
        code: attempt.code,
        detail: attempt.detail,
        result: attempt.result,
        next_due_at: attempt.next_due_at,
    }
}
