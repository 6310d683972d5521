//! `consign leases`: who holds what, and until when.

use clap::Args;
use jiff::Timestamp;
use serde_json::json;

use crate::{
    context::Context,
    failure::{Exit, Failure},
    output::Table,
    when::stamp,
};

/// List leases: who holds what, and until when.
#[derive(Args, Debug)]
pub(crate) struct Leases {
    /// At most this many, oldest first
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000), allow_negative_numbers = true)]
    limit: u32,
}

impl Leases {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let leases = context.store().await?.leases(self.limit).await?;
        if context.out.is_json() {
            context.out.json(&json!({"items": leases}))?;
            return Ok(Exit::Fine);
        }
        if leases.is_empty() {
            context.out.note("nothing is leased")?;
            return Ok(Exit::Fine);
        }
        let now = Timestamp::now();
        let mut table = Table::new([
            ">fence",
            "lane",
            "owner",
            ">messages",
            ">begun",
            "claimed",
            "ends",
        ]);
        for lease in &leases {
            table.row([
                lease.fence.to_string(),
                lease.lane.to_string(),
                lease.owner.clone(),
                lease.ids.len().to_string(),
                lease.begun.len().to_string(),
                stamp(lease.claimed_at, now),
                stamp(lease.expires_at, now),
            ]);
        }
        context.out.table(&table)?;
        Ok(Exit::Fine)
    }
}
