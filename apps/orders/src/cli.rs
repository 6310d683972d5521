//! `consign orders`: lists, shows, requeues and purges orders.

mod ls;
mod purge;
mod requeue;
mod resolve;
mod selection;
mod show;

use clap::{Args, Subcommand};
use consign_app::{
    context::Context,
    failure::{Exit, Failure},
};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{LedgerEntry, LedgerStatus};

/// List, show, requeue, resolve and purge orders.
///
/// An order is named CLIENT/KEY, as its client sent it, or by the id of its message.
#[derive(Args, Debug)]
pub(crate) struct OrdersCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// List orders, newest first
    Ls(ls::Ls),
    /// Show an order: its ledger entry and every attempt
    Show(show::Show),
    /// Requeue aborted orders with their full number of sends
    Requeue(requeue::Requeue),
    /// Record what became of held orders, as you found in the broker's books
    Resolve(resolve::Resolve),
    /// Show which expired keys would be removed; with --yes, remove them
    Purge(purge::Purge),
}

impl OrdersCommand {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        match self.action {
            Action::Ls(command) => command.run(context).await,
            Action::Show(command) => command.run(context).await,
            Action::Requeue(command) => command.run(context).await,
            Action::Resolve(command) => command.run(context).await,
            Action::Purge(command) => command.run(context).await,
        }
    }
}

/// The JSON shape of a row of the ledger.
#[derive(Serialize)]
struct Row<'a> {
    client: &'a str,
    idempotency_key: &'a str,
    status: LedgerStatus,
    http_status: u16,
    outbox_id: Option<consign_kernel::MessageId>,
    request_digest: &'a str,
    result_digest: Option<&'a str>,
    first_seen_at: jiff::Timestamp,
    last_seen_at: jiff::Timestamp,
    expires_at: jiff::Timestamp,
    order_expires_at: Option<jiff::Timestamp>,
    conflicts: u64,
    /// As stored: its numbers must not pass through floating point.
    response: Option<Box<RawValue>>,
}

impl<'a> Row<'a> {
    fn new(entry: &'a LedgerEntry) -> Self {
        let response = entry.response.clone();
        Self {
            client: entry.client.as_str(),
            idempotency_key: entry.key.as_str(),
            status: entry.status,
            http_status: entry.http_status,
            outbox_id: entry.outbox_id,
            request_digest: &entry.request_digest,
            result_digest: entry.result_digest.as_deref(),
            first_seen_at: entry.first_seen_at,
            last_seen_at: entry.last_seen_at,
            expires_at: entry.expires_at,
            order_expires_at: entry.order_expires_at,
            conflicts: entry.conflicts,
            response: response.and_then(|text| RawValue::from_string(text).ok()),
        }
    }
}
