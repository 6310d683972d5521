//! `consign leases`: who holds what, and until when; and ending a lease by hand.

use clap::{Args, Subcommand};
use consign_kernel::TokenPrefix;
use jiff::Timestamp;
use serde_json::json;

use crate::{
    arguments::ByArgs,
    context::Context,
    failure::{Exit, Failure},
    output::{Table, count},
    when::stamp,
};

/// List leases: who holds what, and until when. Or end one.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Leases {
    #[command(subcommand)]
    action: Option<Action>,
    /// At most this many, oldest first
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000), allow_negative_numbers = true)]
    limit: u32,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// End a lease as if it had expired: its messages come back, its holder's results are late
    End(End),
}

#[derive(Args, Debug)]
struct End {
    /// The first characters of its token, as `consign leases` shows them
    #[arg(value_name = "TOKEN_PREFIX")]
    prefix: TokenPrefix,
    /// The reason for the audit log
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// The actor for the audit log [default: $USER]
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
}

impl End {
    async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let by = ByArgs {
            actor: self.actor,
            reason: None,
        };
        let by = by.by(&self.reason);
        let ended = context.store().await?.end_lease(&self.prefix, &by).await?;
        if context.out.is_json() {
            context.out.json(&ended)?;
        } else {
            context.out.note(format!(
                "lease {} of {} in queue {} was ended; {} came back",
                ended.fence,
                ended.owner,
                ended.queue,
                count(ended.messages, "message")
            ))?;
        }
        Ok(Exit::Fine)
    }
}

impl Leases {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        if let Some(Action::End(end)) = self.action {
            return end.run(context).await;
        }
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
            "token",
            "queue",
            "owner",
            ">messages",
            ">begun",
            "claimed",
            "ends",
        ]);
        for lease in &leases {
            table.row([
                lease.fence.to_string(),
                lease.token_prefix.clone(),
                lease.queue.to_string(),
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
