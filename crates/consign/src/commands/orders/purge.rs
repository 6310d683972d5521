//! `consign orders purge`: forgetting keys past their time.

use clap::Args;
use consign_orders::{PurgeReport, Restless};
use serde_json::{Value, json};

use crate::{
    arguments::ByArgs,
    context::Context,
    failure::{Exit, Failure},
    output::{Output, Table, count},
};

/// One transaction each, so that nobody is kept waiting behind a long one.
const BATCH_ROWS: u32 = 500;

/// Show which keys past their time would be forgotten; with --yes, forget them.
///
/// A key goes together with its finished message; one whose message is alive stays. `consign serve`
/// does this by itself every hour.
#[derive(Args, Debug)]
pub(super) struct Purge {
    /// Name failed keys that came with other bodies at least this often
    #[arg(long, default_value_t = 3, value_name = "COUNT")]
    conflicts_min: u64,
    /// Only show what would be done, also with --yes
    #[arg(long)]
    dry_run: bool,
    /// Do it
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    by: ByArgs,
}

impl Purge {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let ledger = context.open().await?.ledger;
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
    // These stay, so that the next step sees them again.
    total.kept_alive = report.kept_alive;
    total.restless.extend(report.restless);
    total.has_more = report.has_more;
}

fn print(out: Output, is_dry_run: bool, report: &PurgeReport) -> Result<(), Failure> {
    if out.is_json() {
        let restless = |key: &Restless| {
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
    let mut table = Table::new(["orders past their time", ">keys"]);
    let rows = [
        ("succeeded", report.succeeded),
        ("failed", report.failed),
        ("kept: their message is alive", report.kept_alive),
        ("given up: sent, and never heard of again", report.given_up),
    ];
    for (what, keys) in rows {
        table.row([what.to_owned(), keys.to_string()]);
    }
    out.table(&table)?;
    print_restless(out, &report.restless)?;
    let gone = count(report.succeeded + report.failed, "key");
    let or_more = if report.has_more { " or more" } else { "" };
    out.line("")?;
    match is_dry_run {
        true => out.line(format_args!(
            "{gone}{or_more} would be forgotten. Nothing was changed: run it again with --yes."
        ))?,
        false => out.line(format_args!("{gone} forgotten"))?,
    }
    Ok(())
}

/// Failed keys whose clients kept trying something else under them.
fn print_restless(out: Output, restless: &[Restless]) -> Result<(), Failure> {
    if restless.is_empty() {
        return Ok(());
    }
    out.line("")?;
    let mut table = Table::new(["failed, and used again", "client", ">conflicts"]);
    for key in restless {
        table.row([
            key.key.as_str().to_owned(),
            key.client.to_string(),
            key.conflicts.to_string(),
        ]);
    }
    Ok(out.table(&table)?)
}
