//! `consign payments repair`: ending leases that have run out.

use clap::Args;
use consign_payments::{AttemptState, Payments, Repaired};
use serde_json::json;

use crate::{
    context::Context,
    failure::{Exit, Failure},
    output::{Output, count},
};

/// Payments of one transaction.
const BATCH: u32 = 1_000;

/// Give back the payments of workers that are not heard of any more.
///
/// Whoever claims does this by itself; by hand it is for when nobody does. Each payment gets an
/// attempt ZOMBIE_REQUEUE and is tried again, or has failed if that was its last.
#[derive(Args, Debug)]
pub(super) struct Repair {
    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
    /// At most this many
    #[arg(long, default_value_t = 10_000)]
    limit: u32,
}

impl Repair {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let payments = context.open().await?.payments;
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
    // Those that end first come first.
    let in_flight = payments.in_flight(BATCH).await?;
    let expired: Vec<_> = in_flight.iter().filter(|lease| lease.is_expired).collect();
    if out.is_json() {
        out.json(&json!({"dry_run": true, "expired": expired}))?;
        return Ok(Exit::Fine);
    }
    for lease in &expired {
        let (id, worker) = (lease.outbox_id, crate::output::plain(&lease.claimed_by));
        out.line(format_args!("{id}: was held by {worker}"))?;
    }
    let given = count(expired.len() as u64, "payment");
    out.line(format_args!(
        "{given} would be given back. Nothing was changed."
    ))?;
    Ok(Exit::Fine)
}

fn print(out: Output, repaired: &[Repaired]) -> Result<(), Failure> {
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
            AttemptState::Failed => "has failed: that was its last attempt",
            _ => "is tried again",
        };
        out.line(format_args!(
            "{}: attempt {} {what}",
            row.outbox_id, row.attempt_no
        ))?;
    }
    let given = count(repaired.len() as u64, "payment");
    out.line(format_args!("{given} given back"))?;
    Ok(())
}
