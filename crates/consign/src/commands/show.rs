//! `consign show`: a message, its attempts, and what was done to it by hand.

use std::path::PathBuf;

use clap::Args;
use consign_app::attempts::{print_attempts, print_late, without_token};
use consign_kernel::{AuditEntry, Erasure, Explanation, Message, MessageId, State};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::archived;
use crate::{
    arguments::message_id,
    context::Context,
    failure::{Exit, Failure},
    output::{Output, Table, or_dash, plain},
    when::fine_stamp,
};

const AUDIT_ENTRIES_MAX: u32 = 1_000;

/// Show a message with its attempts and its audit entries.
#[derive(Args, Debug)]
pub(crate) struct Show {
    /// The message
    #[arg(value_parser = message_id, allow_negative_numbers = true)]
    id: MessageId,
    /// Read it from this archive instead of the database
    #[arg(long, value_name = "FOLDER")]
    archive: Option<PathBuf>,
}

/// The JSON shape of `show`.
#[derive(Serialize)]
struct ShowOutput<'a> {
    message: &'a Message,
    state: &'a State,
    #[serde(skip_serializing_if = "Option::is_none")]
    erased: Option<&'a Erasure>,
    attempts: Vec<Value>,
    late: Vec<Value>,
    audit: &'a [AuditEntry],
}

impl Show {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        if let Some(folder) = &self.archive {
            return archived::show(context.out, folder, self.id);
        }
        let store = context.store().await?;
        let explanation = store
            .explain(self.id)
            .await?
            .ok_or_else(|| Failure::no_such_message(self.id))?;
        let attempts = store.history(self.id).await?;
        let late = store.late(self.id).await?;
        let audit = store.audit(Some(self.id), None, AUDIT_ENTRIES_MAX).await?;
        if context.out.is_json() {
            context.out.json(&ShowOutput {
                message: &explanation.message,
                state: &explanation.state,
                erased: explanation.erased.as_ref(),
                attempts: attempts.iter().map(without_token).collect(),
                late: late.iter().map(without_token).collect(),
                audit: &audit,
            })?;
            return Ok(Exit::Fine);
        }
        print_message(context.out, &explanation)?;
        print_attempts(context.out, &attempts, explanation.now)?;
        print_late(context.out, &late, explanation.now)?;
        print_audit(context.out, &audit, explanation.now)?;
        Ok(Exit::Fine)
    }
}

fn print_message(out: Output, explanation: &Explanation) -> Result<(), Failure> {
    let message = &explanation.message;
    let field = |name: &str, value: &str| out.line(format_args!("{name:<10}{}", plain(value)));
    field("message", &message.id.to_string())?;
    field("queue", message.queue.as_str())?;
    field("state", explanation.state.kind().as_str())?;
    field("key", &or_dash(message.key.as_deref()))?;
    field("group", &or_dash(message.group.as_deref()))?;
    field("enqueued", &fine_stamp(message.created_at, explanation.now))?;
    if let Some(at) = message.expires_at {
        field("expires", &fine_stamp(at, explanation.now))?;
    }
    field("why", &explanation.sentence())?;
    if explanation.erased.is_some() {
        out.line("payload   erased, as its headers, results and details")?;
        return Ok(());
    }
    if !message.headers.is_empty() {
        out.line(format_args!("headers   {}", json!(message.headers)))?;
    }
    // Compact JSON escapes control characters inside strings, so it is safe to print.
    out.line(format_args!("payload   {}", message.payload))?;
    Ok(())
}

pub(super) fn print_audit(
    out: Output,
    audit: &[AuditEntry],
    now: Timestamp,
) -> Result<(), Failure> {
    if audit.is_empty() {
        return Ok(());
    }
    out.line("")?;
    let mut table = Table::new(["done by hand", "by", "at", "reason"]);
    for entry in audit {
        table.row([
            entry.action.clone(),
            entry.actor.clone(),
            fine_stamp(entry.at, now),
            entry.reason.clone(),
        ]);
    }
    Ok(out.table(&table)?)
}
