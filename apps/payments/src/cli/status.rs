//! `consign payments status`: counts of payments.

use clap::Args;
use consign_app::{
    context::Context,
    failure::{Exit, Failure},
    output::{Output, Table},
    when::{age, stamp},
};
use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use crate::{InFlight, PaymentsStatus, app::payments};

/// Show counts and payments in flight.
#[derive(Args, Debug)]
pub(super) struct Status {
    /// Only this tenant's counts
    #[arg(long, value_name = "UUID")]
    tenant: Option<Uuid>,
    /// Maximum payments in flight
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000), allow_negative_numbers = true)]
    limit: u32,
}

impl Status {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let payments = payments(&context.open().await?);
        let status = payments.payments_status(self.tenant).await?;
        let in_flight = payments.in_flight(self.limit).await?;
        if context.out.is_json() {
            context
                .out
                .json(&json!({"status": status, "in_flight": in_flight}))?;
            return Ok(Exit::Fine);
        }
        print(context.out, &status, &in_flight, Timestamp::now())?;
        Ok(Exit::Fine)
    }
}

fn print(
    out: Output,
    status: &PaymentsStatus,
    in_flight: &[InFlight],
    now: Timestamp,
) -> Result<(), Failure> {
    let mut table = Table::new(["payments", ">count"]);
    for (what, count) in [
        ("pending", status.pending),
        ("  due", status.due),
        ("  due later", status.scheduled),
        ("  waiting in their group", status.waiting),
        ("  in leases", status.leased),
        ("    expired", status.expired),
        ("held", status.held),
        ("failed", status.failed),
    ] {
        table.row([what.to_owned(), count.to_string()]);
    }
    for (state, count) in &status.last_hour {
        table.row([
            format!("{} in the last hour", state.as_str()),
            count.to_string(),
        ]);
    }
    out.table(&table)?;
    if let Some(at) = status.oldest_pending_at {
        out.line(format_args!("\noldest pending: {}", age(at, now)))?;
    }
    if in_flight.is_empty() {
        return Ok(());
    }
    out.line("")?;
    let mut table = Table::new(["in flight", "owner", ">fence", "until", "the rail"]);
    for payment in in_flight {
        let until = stamp(payment.lease_expires_at, now);
        let begun = if payment.has_begun {
            "may have been called"
        } else {
            "not yet called"
        };
        table.row([
            payment.outbox_id.to_string(),
            payment.claimed_by.clone(),
            payment.fence.to_string(),
            until,
            begun.to_owned(),
        ]);
    }
    Ok(out.table(&table)?)
}
