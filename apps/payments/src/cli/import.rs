//! `consign payments import`: imports the tables of the former design, which deleted rows on claim.

use clap::Args;
use consign_app::{
    context::Context,
    failure::{Exit, Failure},
    output::{Output, Table, plain},
    progress::Progress,
};
use serde_json::json;

use crate::{ImportReport, app::payments};

/// Show what would be imported from former tables; with --yes, import it.
///
/// Reads payment_outbox_pending, payment_outbox_attempts and participant_outbox_sequences in a schema
/// of the same database, and does not change them. Stop the former relayers first: payments that they were
/// dispatching become ZOMBIE_REQUEUE, in doubt. Can be repeated: existing payments stay, and later changes
/// in the former tables are imported.
#[derive(Args, Debug)]
pub(super) struct Import {
    /// The schema of the former tables
    #[arg(long, value_name = "NAME")]
    from_schema: String,
    /// Only show what would be done, even with --yes
    #[arg(long)]
    dry_run: bool,
    /// Apply the changes
    #[arg(long)]
    yes: bool,
}

impl Import {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let payments = payments(&context.creating().open().await?);
        let is_dry_run = self.dry_run || !self.yes;
        let progress = Progress::busy("reading the former tables", context.out.is_json());
        let report = payments
            .import_payments(&self.from_schema, is_dry_run)
            .await?;
        progress.clear();
        print(context.out, is_dry_run, &report)?;
        Ok(
            if report.refused.is_empty() && report.paid_twice.is_empty() {
                Exit::Fine
            } else {
                Exit::Wrong
            },
        )
    }
}

fn print(out: Output, is_dry_run: bool, report: &ImportReport) -> Result<(), Failure> {
    if out.is_json() {
        out.json(&json!({"dry_run": is_dry_run, "report": report}))?;
        return Ok(());
    }
    let mut table = Table::new(["former payments", ">count"]);
    for (what, count) in [
        ("pending: imported", report.pending),
        ("DISPATCHING: requeued", report.requeued_dispatching),
        (
            "RETRYABLE, lost on the way: requeued",
            report.requeued_retryable,
        ),
        ("finished: imported as history", report.finished),
        ("existing", report.already_here),
        ("existing, paid there since", report.paid_there),
        ("existing, failed there since", report.failed_there),
        ("existing, attempted there since", report.tried_there),
    ] {
        table.row([what.to_owned(), count.to_string()]);
    }
    out.table(&table)?;
    for twice in &report.paid_twice {
        out.line(format_args!("maybe paid twice: {}", plain(twice)))?;
    }
    for refused in &report.refused {
        out.line(format_args!("not imported: {}", plain(refused)))?;
    }
    if is_dry_run {
        out.line("\nNothing was changed: run it again with --yes.")?;
    }
    Ok(())
}
