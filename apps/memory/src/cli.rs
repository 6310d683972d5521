//! `consign memory`: operator commands for memories, and the gateway's tools.

mod call;
mod ls;
pub(crate) mod mcp;
pub(crate) mod reconcile;
pub(crate) mod report;
mod show;
mod users;
pub(crate) mod verify;

use clap::{Args, Subcommand};
use consign_app::{
    context::Context,
    failure::{Exit, Failure},
};

/// List and show deferred memories; store and search memories.
#[derive(Args, Debug)]
pub(crate) struct MemoryCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// List the outbox of memories, newest first
    Ls(ls::Ls),
    /// Show a memory of the outbox, with its attempts and audits
    Show(show::Show),
    /// Store a memory
    Store(call::Store),
    /// Search memories
    Query(call::Query),
    /// Call any tool of the gateway
    Call(call::Call),
    /// Add users, who have private spaces
    Users(users::Users),
}

impl MemoryCommand {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        match self.action {
            Action::Ls(command) => command.run(context).await,
            Action::Show(command) => command.run(context).await,
            Action::Store(command) => command.run(context).await,
            Action::Query(command) => command.run(context).await,
            Action::Call(command) => command.run(context).await,
            Action::Users(command) => command.run(context).await,
        }
    }
}
