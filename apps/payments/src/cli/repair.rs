//! `consign payments repair`: ends expired leases.

use clap::Args;
use consign_app::{
    context::Context,
    failure::{Exit, Failure},
    output::{Output, count},
};
use serde_json::json;

use crate::{AttemptState, Payments, RepairResult, app::payments};

/// Payments of one transaction.
const BATCH: u32 = 1_000;

/// End expired leases and make their payments due again.
///
/// Claims do the same; the command is for when no worker runs. Each payment gets an attempt
/// ZOMBIE_REQUEUE and is due again, or fails if that was its last.
#[derive(Args, Debug)]
pub(super) struct Repair {
    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
    /// Payments to repair at most
    #[arg(long, default_value_t = 10_000)]
    limit: u32,
}

impl Repair {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let payments = payments(&context.open().await?);
        if self.dry_run {
            return preview(context.out, &*payments).await;
        }
        let mut repaired = Vec::new();
        loop {
            let left = self.limit.saturating_sub(repaired.len() as u32);
            let some = payments.repair(left.min(BATCH)).await?;
            if some.is_empty() || left == 0 {
                break;
            }
            repaired.extend(some);
        }
        print(context.out, &repaired)?;
        Ok(Exit::Fine)
    }
}

async fn preview(out: Output, payments: &dyn Payments) -> Result<Exit, Failure> {
    // Earliest expiry first.
    let in_flight = payments.in_flight(BATCH).await?;
    let expired: Vec<_> = in_flight.iter().filter(|lease| lease.is_expired).collect();
    if out.is_json() {
        out.json(&json!({"dry_run": true, "expired": expired}))?;
        return Ok(Exit::Fine);
    }
    for lease in &expired {
        let (id, worker) = (
            lease.outbox_id,
            consign_app::output::plain(&lease.claimed_by),
        );
        out.line(format_args!("{id}: was leased by {worker}"))?;
    }
    let given = count(expired.len() as u64, "payment");
    out.line(format_args!(
        "{given} would be released. Nothing was changed."
    ))?;
    Ok(Exit::Fine)
}

fn print(out: Output, repaired: &[RepairResult]) -> Result<(), Failure> {
    if out.is_json() {
        let rows: Vec<_> = repaired
            .iter()
            .map(|row| {
                json!({"outbox_id": row.outbox_id, "attempt_no": row.attempt_no, "state": row.state})
            })
            .collect();
        out.json(&json!({"dry_run": false, "repaired": rows}))?;
        return Ok(());
    }
    for row in repaired {
        let what = match row.state {
            AttemptState::Failed => "failed: it was the last attempt",
            _ => "is due again",
        };
        out.line(format_args!(
            "{}: attempt {} {what}",
            row.outbox_id, row.attempt_no
        ))?;
    }
    let given = count(repaired.len() as u64, "payment");
    out.line(format_args!("{given} released"))?;
    Ok(())
}
