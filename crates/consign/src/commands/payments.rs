//! `consign payments`: payments as operators see them, and what a person may do about one.

mod import;
mod ls;
mod moves;
mod reconcile;
mod repair;
mod show;
mod status;
mod which;

use clap::{Args, Subcommand};

use crate::{
    context::Context,
    failure::{Exit, Failure},
};

/// List, show, repair and move payments, compare them with a rail's books, take over former tables.
///
/// A payment is named by its outbox_id, or by the id of its message.
#[derive(Args, Debug)]
pub(crate) struct PaymentsCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// List payments, newest first
    Ls(ls::Ls),
    /// Show a payment: how it stands, and every attempt
    Show(show::Show),
    /// Show the figures, and who holds what
    Status(status::Status),
    /// Give back the payments of workers that are not heard of any more
    Repair(repair::Repair),
    /// Give failed payments a fresh set of tries
    Requeue(moves::Requeue),
    /// Park payments that wait
    Hold(moves::Hold),
    /// Put held payments back
    Release(moves::Release),
    /// Record what became of held payments, as you found in the rail's books
    Resolve(moves::Resolve),
    /// List what should be compared with the rail's books; exit code 1 if there is anything
    Reconcile(reconcile::Reconcile),
    /// Show what would be taken over from former tables; with --yes, take it over
    Import(import::Import),
}

impl PaymentsCommand {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        match self.action {
            Action::Ls(command) => command.run(context).await,
            Action::Show(command) => command.run(context).await,
            Action::Status(command) => command.run(context).await,
            Action::Repair(command) => command.run(context).await,
            Action::Requeue(command) => command.run(context).await,
            Action::Hold(command) => command.run(context).await,
            Action::Release(command) => command.run(context).await,
            Action::Resolve(command) => command.run(context).await,
            Action::Reconcile(command) => command.run(context).await,
            Action::Import(command) => command.run(context).await,
        }
    }
}
