//! `consign memory`: memories as operators see them, and the tools agents call.

mod call;
mod ls;
mod show;
mod users;

use clap::{Args, Subcommand};

use crate::{
    context::Context,
    failure::{Exit, Failure},
};

/// List and show memories that were put off; store and search as agents do.
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
    /// Make users, whose memories have a private space of their own
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
