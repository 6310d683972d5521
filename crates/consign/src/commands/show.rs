//! `consign show`: a message, its attempts, and what was done to it by hand.

use clap::Args;
use consign_kernel::{
    Attempt, AttemptOutcome, AuditEntry, Explanation, LateResult, Message, MessageId, State,
};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    arguments::message_id,
    context::Context,
    failure::{Exit, Failure},
    output::{Output, Table, or_dash, plain},
    when::{age, fine_stamp, span},
};

const AUDIT_ENTRIES_MAX: u32 = 1_000;

/// Show a message with its attempts and what was done to it by hand.
#[derive(Args, Debug)]
pub(crate) struct Show {
    /// The message
    #[arg(value_parser = message_id, allow_negative_numbers = true)]
    id: MessageId,
}

/// The JSON shape of `show`.
#[derive(Serialize)]
struct Shown<'a> {
    message: &'a Message,
    state: &'a State,
    attempts: Vec<Value>,
    late: Vec<Value>,
    audit: &'a [AuditEntry],
}

impl Show {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let store = context.store().await?;
        let explanation = store
            .explain(self.id)
            .await?
            .ok_or_else(|| Failure::no_such_message(self.id))?;
        let attempts = store.history(self.id).await?;
        let late = store.late(self.id).await?;
        let audit = store.audit(Some(self.id), None, AUDIT_ENTRIES_MAX).await?;
        if context.out.is_json() {
            context.out.json(&Shown {
                message: &explanation.message,
                state: &explanation.state,
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

/// An attempt or a late result without its token, which is a permission.
pub(crate) fn without_token(record: &impl Serialize) -> Value {
    let mut value = json!(record);
    if let Some(fields) = value.as_object_mut() {
        fields.remove("token");
    }
    value
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
    field("why", &explanation.sentence())?;
    if !message.headers.is_empty() {
        out.line(format_args!("headers   {}", json!(message.headers)))?;
    }
    // Compact JSON escapes control characters inside strings, so it is safe to print.
    out.line(format_args!("payload   {}", message.payload))?;
    Ok(())
}

pub(crate) fn print_attempts(
    out: Output,
    attempts: &[Attempt],
    now: Timestamp,
) -> Result<(), Failure> {
    out.line("")?;
    if attempts.is_empty() {
        out.line("no attempts yet")?;
        return Ok(());
    }
    let mut table = Table::new([
        ">attempt",
        "outcome",
        "owner",
        ">fence",
        "finished",
        ">took",
        "code",
        "detail",
        "due again",
    ]);
    for attempt in attempts {
        let next = attempt.next_due_at.map(|at| age(at, now));
        let took = attempt.finished_at.duration_since(attempt.claimed_at);
        table.row([
            attempt.attempt_no.to_string(),
            attempt.outcome.as_str().to_owned(),
            attempt.owner.clone(),
            attempt.fence.to_string(),
            fine_stamp(attempt.finished_at, now),
            span(took),
            or_dash(attempt.code.as_deref()),
            or_dash(attempt.detail.as_deref()),
            or_dash(next.as_deref()),
        ]);
    }
    Ok(out.table(&table)?)
}

/// Results that came after their lease was lost: evidence, not outcomes.
pub(crate) fn print_late(out: Output, late: &[LateResult], now: Timestamp) -> Result<(), Failure> {
    if late.is_empty() {
        return Ok(());
    }
    out.line("")?;
    let mut table = Table::new(["came too late", "owner", ">fence", "at", "code", "detail"]);
    for result in late {
        table.row([
            AttemptOutcome::from(result.outcome).as_str().to_owned(),
            result.owner.clone(),
            result.fence.to_string(),
            fine_stamp(result.at, now),
            or_dash(result.code.as_deref()),
            or_dash(result.detail.as_deref()),
        ]);
    }
    Ok(out.table(&table)?)
}

fn print_audit(out: Output, audit: &[AuditEntry], now: Timestamp) -> Result<(), Failure> {
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
