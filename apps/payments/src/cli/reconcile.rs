//! `consign payments reconcile`: payments to compare with the rail's records.

use clap::Args;
use consign_app::{
    context::Context,
    failure::{Exit, Failure},
    output::{Output, Table, or_dash, plain},
    when::stamp,
};

use crate::{Reconciliation, app::payments};

/// List payments to compare with the rail's records; exit code 1 if there are any.
///
/// Late successes, payments with an unknown outcome, and dispatches without a reference or with a
/// shared one.
#[derive(Args, Debug)]
pub(super) struct Reconcile {
    /// Maximum number of each kind
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000), allow_negative_numbers = true)]
    limit: u32,
}

impl Reconcile {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let payments = payments(&context.open().await?);
        let found = payments.reconcile_payments(self.limit).await?;
        if context.out.is_json() {
            let mut found_json = serde_json::to_value(&found).map_err(std::io::Error::other)?;
            // The token of a lease is secret, even after its end.
            for late in found_json["late_successes"]
                .as_array_mut()
                .into_iter()
                .flatten()
            {
                if let Some(late) = late["late"].as_object_mut() {
                    late.remove("token");
                }
            }
            context.out.json(&found_json)?;
        } else {
            print(context.out, &found)?;
        }
        Ok(if found.is_clean() {
            Exit::Fine
        } else {
            Exit::Wrong
        })
    }
}

fn print(out: Output, found: &Reconciliation) -> Result<(), Failure> {
    if found.is_clean() {
        out.line(
            "Nothing to compare: every dispatch has its own reference, and no payment is in doubt.",
        )?;
        return Ok(());
    }
    let now = jiff::Timestamp::now();
    if !found.late_successes.is_empty() {
        let mut table = Table::new(["late success", "state", "worker", "at", "reference"]);
        for late in &found.late_successes {
            let reference = late.late.result.as_ref();
            let reference = reference.and_then(|result| result.get("rail_reference")?.as_str());
            table.row([
                late.outbox_id.to_string(),
                late.state.to_string(),
                late.late.owner.clone(),
                stamp(late.late.at, now),
                or_dash(reference),
            ]);
        }
        out.table(&table)?;
    }
    if !found.uncertain.is_empty() {
        let mut table = Table::new(["outcome unknown", "state", "reason", ">attempts"]);
        for payment in &found.uncertain {
            table.row([
                payment.outbox_id.to_string(),
                payment.state.to_string(),
                or_dash(payment.reason.as_deref()),
                payment.attempt_count.to_string(),
            ]);
        }
        out.table(&table)?;
    }
    for id in &found.missing_references {
        out.line(format_args!("{id}: dispatched without a reference"))?;
    }
    for reused in &found.reused_references {
        let ids: Vec<String> = reused.outbox_ids.iter().map(ToString::to_string).collect();
        out.line(format_args!(
            "{} of {} over {}: {}",
            plain(&reused.rail_reference),
            plain(&reused.participant_id),
            plain(&reused.rail_type),
            ids.join(", ")
        ))?;
    }
    if found.is_cut {
        out.note("more: raise --limit")?;
    }
    Ok(())
}
