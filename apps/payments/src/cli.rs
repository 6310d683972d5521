//! `consign payments`: operator commands for payments.

mod import;
mod ls;
mod moves;
mod reconcile;
mod repair;
mod selection;
mod show;
mod status;

use clap::{Args, Subcommand};
use consign_app::{
    context::Context,
    failure::{Exit, Failure},
};

/// List, show, repair and move payments, compare them with a rail's records, import former tables.
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
    /// Show a payment: its state and every attempt
    Show(show::Show),
    /// Show counts and payments in flight
    Status(status::Status),
    /// End expired leases and make their payments due again
    Repair(repair::Repair),
    /// Requeue failed payments with their full number of attempts
    Requeue(moves::Requeue),
    /// Hold pending payments
    Hold(moves::Hold),
    /// Release held payments
    Release(moves::Release),
    /// Resolve held payments as found in the rail's records
    Resolve(moves::Resolve),
    /// List payments to compare with the rail's records; exit code 1 if there are any
    Reconcile(reconcile::Reconcile),
    /// Show what would be imported from former tables; with --yes, import it
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
