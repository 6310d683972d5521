//! `consign payments import`: taking over the tables of the design that deleted on claim.

use clap::Args;
use consign_payments::ImportReport;
use serde_json::json;

use crate::{
    context::Context,
    failure::{Exit, Failure},
    output::{Output, Table, plain},
};

/// Show what would be taken over from former tables; with --yes, take it over.
///
/// Reads payment_outbox_pending, payment_outbox_attempts and participant_outbox_sequences in a schema
/// of the same database, and leaves them as they are. Stop the former relayers first: what they had in
/// their hands comes back as ZOMBIE_REQUEUE, in doubt. May be run again: what is here already stays, and
/// what was done there to it since is taken over.
#[derive(Args, Debug)]
pub(super) struct Import {
    /// The schema of the former tables
    #[arg(long, value_name = "NAME")]
    from_schema: String,
    /// Only show what would be done, also with --yes
    #[arg(long)]
    dry_run: bool,
    /// Do it
    #[arg(long)]
    yes: bool,
}

impl Import {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let payments = context.open().await?.payments;
        let is_dry_run = self.dry_run || !self.yes;
        let report = payments
            .import_payments(&self.from_schema, is_dry_run)
            .await?;
        print(context.out, is_dry_run, &report)?;
        Ok(
            match report.refused.is_empty() && report.paid_twice.is_empty() {
                true => Exit::Fine,
                false => Exit::Wrong,
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
        ("pending: taken over", report.pending),
        ("DISPATCHING: requeued", report.requeued_dispatching),
        (
            "RETRYABLE, lost on the way: requeued",
            report.requeued_retryable,
        ),
        ("finished: taken over as history", report.finished),
        ("here already", report.already_here),
        ("here already, paid there since", report.paid_there),
        ("here already, failed there since", report.failed_there),
        ("here already, tried there since", report.tried_there),
    ] {
        table.row([what.to_owned(), count.to_string()]);
    }
    out.table(&table)?;
    for twice in &report.paid_twice {
        out.line(format_args!("maybe paid twice: {}", plain(twice)))?;
    }
    for refused in &report.refused {
        out.line(format_args!("not taken over: {}", plain(refused)))?;
    }
    if is_dry_run {
        out.line("\nNothing was changed: run it again with --yes.")?;
    }
    Ok(())
}
