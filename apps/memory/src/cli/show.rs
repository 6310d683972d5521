//! `consign memory show`: a memory of the outbox, with its attempts and audits.

use clap::Args;
use consign_app::{
    arguments::message_id,
    attempts::{print_attempts, without_token},
    context::Context,
    failure::{Exit, Failure},
    output::{Output, Table, or_dash, plain},
    when::{fine_stamp, stamp},
};
use consign_kernel::{Attempt, MessageId};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::{Audit, AuditFilter, OutboxRow, app::logbook};

/// Maximum audits shown.
const AUDITS_MAX: u32 = 100;

/// Show a memory of the outbox, with its attempts and audits.
#[derive(Args, Debug)]
pub(super) struct Show {
    /// The memory: its outbox_id
    #[arg(value_name = "OUTBOX_ID", value_parser = message_id)]
    id: MessageId,
    /// Show the text too
    #[arg(long)]
    text: bool,
}

/// The JSON shape of `show`.
#[derive(Serialize)]
struct ShowOutput<'a> {
    /// None: the row has left.
    memory: Option<&'a OutboxRow>,
    attempts: Vec<Value>,
    audits: &'a [Audit],
}

impl Show {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let opened = context.open().await?;
        let logbook = logbook(&opened);
        let row = logbook.outbox_row(self.id).await?;
        let attempts = match row {
            Some(_) => opened.store.history(self.id).await?,
            None => Vec::new(),
        };
        let filter = AuditFilter {
            outbox_id: Some(self.id.0),
            ..AuditFilter::default()
        };
        let audits = logbook.audits(&filter, AUDITS_MAX).await?;
        if row.is_none() && audits.is_empty() {
            let message = format!("outbox row {} does not exist", self.id);
            return Err(Failure::new(Exit::NotFound, "not_found", message));
        }
        if context.out.is_json() {
            context.out.json(&ShowOutput {
                memory: row.as_ref(),
                attempts: attempts.iter().map(without_token).collect(),
                audits: &audits,
            })?;
            return Ok(Exit::Fine);
        }
        let now = Timestamp::now();
        match &row {
            Some(row) => print_row(context.out, row, &attempts, now)?,
            None => context.out.line(format_args!(
                "outbox row {} is not there; its audits are",
                self.id
            ))?,
        }
        print_audits(context.out, &audits, now)?;
        if let Some(row) = row.filter(|_| self.text) {
            let text = plain(&row.payload_md);
            context.out.line(format_args!("\n{text}"))?;
        }
        Ok(Exit::Fine)
    }
}

fn print_row(
    out: Output,
    row: &OutboxRow,
    attempts: &[Attempt],
    now: Timestamp,
) -> Result<(), Failure> {
    let field = |name: &str, value: &str| out.line(format_args!("{name:<12}{}", plain(value)));
    field("memory", &row.outbox_id.to_string())?;
    field("space", &row.target_space)?;
    field("sha256", &row.payload_sha)?;
    field("status", row.status.as_str())?;
    field("stored as", &or_dash(row.memory_id.as_deref()))?;
    field("owner", &or_dash(row.locked_by.as_deref()))?;
    field("last error", &or_dash(row.last_error.as_deref()))?;
    field("created", &fine_stamp(row.created_at, now))?;
    if let Some(at) = row.erased_at {
        field("erased", &fine_stamp(at, now))?;
        if let Some(memory_id) = &row.memory_id {
            let advice = format!("memory_delete {memory_id}, unless it is removed already");
            field("to remove", &advice)?;
        }
    }
    print_attempts(out, attempts, now)
}

fn print_audits(out: Output, audits: &[Audit], now: Timestamp) -> Result<(), Failure> {
    let mut table = Table::new([">audit", "action", "reason", "status", "at"]);
    for audit in audits {
        table.row([
            audit.audit_id.to_string(),
            audit.action.as_str().to_owned(),
            or_dash(audit.reason.as_deref()),
            audit.status.as_str().to_owned(),
            stamp(audit.created_at, now),
        ]);
    }
    Ok(out.table(&table)?)
}
