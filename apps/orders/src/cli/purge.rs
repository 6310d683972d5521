//! `consign orders purge`: removes expired keys.

use clap::Args;
use consign_app::{
    arguments::ByArgs,
    context::Context,
    failure::{Exit, Failure},
    output::{Output, Table, count},
};
use serde_json::{Value, json};

use crate::{ConflictingKey, PurgeReport, app::ledger};

/// Rows per transaction: a long one would block other writers.
const BATCH_ROWS: u32 = 500;

/// Show which expired keys would be removed; with --yes, remove them.
///
/// A key is removed together with its finished message; one whose message is not finished is kept.
/// `consign serve` does this every hour.
#[derive(Args, Debug)]
pub(super) struct Purge {
    /// List failed keys that were used with other bodies at least this often
    #[arg(long, default_value_t = 3, value_name = "COUNT")]
    conflicts_min: u64,
    /// Only show what would be done, even with --yes
    #[arg(long)]
    dry_run: bool,
    /// Apply the changes
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    by: ByArgs,
}

impl Purge {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let ledger = ledger(&context.open().await?);
        let by = self.by.by("purged by hand");
        let is_dry_run = self.dry_run || !self.yes;
        let mut total = PurgeReport::default();
        loop {
            let report = ledger
                .purge(BATCH_ROWS, self.conflicts_min, is_dry_run, &by)
                .await?;
            let is_last = !report.has_more || is_dry_run;
            add(&mut total, report);
            if is_last {
                break;
            }
        }
        print(context.out, is_dry_run, &total)?;
        Ok(Exit::Fine)
    }
}

fn add(total: &mut PurgeReport, report: PurgeReport) {
    total.succeeded += report.succeeded;
    total.failed += report.failed;
    total.given_up += report.given_up;
    // Kept rows are counted by every step.
    total.kept_alive = report.kept_alive;
    total.restless.extend(report.restless);
    total.has_more = report.has_more;
}

fn print(out: Output, is_dry_run: bool, report: &PurgeReport) -> Result<(), Failure> {
    if out.is_json() {
        let restless = |key: &ConflictingKey| {
            json!({
                "client": key.client, "idempotency_key": key.key, "conflicts": key.conflicts,
            })
        };
        let restless: Vec<Value> = report.restless.iter().map(restless).collect();
        out.json(&json!({
            "dry_run": is_dry_run, "succeeded": report.succeeded, "failed": report.failed,
            "kept_alive": report.kept_alive, "given_up": report.given_up,
            "restless": restless, "has_more": report.has_more,
        }))?;
        return Ok(());
    }
    let mut table = Table::new(["expired orders", ">keys"]);
    let rows = [
        ("succeeded", report.succeeded),
        ("failed", report.failed),
        ("kept: their message is not finished", report.kept_alive),
        ("given up: sent without a recorded result", report.given_up),
    ];
    for (what, keys) in rows {
        table.row([what.to_owned(), keys.to_string()]);
    }
    out.table(&table)?;
    print_restless(out, &report.restless)?;
    let gone = count(report.succeeded + report.failed, "key");
    let or_more = if report.has_more { " or more" } else { "" };
    out.line("")?;
    if is_dry_run {
        out.line(format_args!(
            "{gone}{or_more} would be removed. Nothing was changed: run it again with --yes."
        ))?
    } else {
        out.line(format_args!("{gone} removed"))?
    }
    Ok(())
}

/// Failed keys that clients used with other bodies.
fn print_restless(out: Output, restless: &[ConflictingKey]) -> Result<(), Failure> {
    if restless.is_empty() {
        return Ok(());
    }
    out.line("")?;
    let mut table = Table::new(["failed key with conflicts", "client", ">conflicts"]);
    for key in restless {
        table.row([
            key.key.as_str().to_owned(),
            key.client.to_string(),
            key.conflicts.to_string(),
        ]);
    }
    Ok(out.table(&table)?)
}
