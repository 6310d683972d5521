//! `consign scm`: repositories, read into the database and made memories of.

mod add;
mod consume;
mod materialize;
mod rewind;
mod status;
mod sync;
mod which;

use clap::{Args, Subcommand};
use consign_scm::{LedgerError, ScmError};

use crate::{
    context::Context,
    failure::{Exit, Failure, with_causes},
};

/// Read repositories into the database, and make memories of their changes.
///
/// Synchronising writes down what a repository says and never touches the outbox; consuming makes
/// memories of it. Each goes on where it ended the last time, whatever ended it.
#[derive(Args, Debug)]
pub(crate) struct ScmCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Make a repository known: Git, Subversion or a GitLab project
    Add(add::Add),
    /// Read what is new in repositories
    Sync(sync::Sync),
    /// Fetch the changes themselves that are not here yet
    Materialize(materialize::Materialize),
    /// Make memories of what is new
    Consume(consume::Consume),
    /// Show how repositories stand
    Status(status::Status),
    /// Show what would become memories again; with --yes, set the cursor back
    Rewind(rewind::Rewind),
}

impl ScmCommand {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        match self.action {
            Action::Add(command) => command.run(context).await,
            Action::Sync(command) => command.run(context).await,
            Action::Materialize(command) => command.run(context).await,
            Action::Consume(command) => command.run(context).await,
            Action::Status(command) => command.run(context).await,
            Action::Rewind(command) => command.run(context).await,
        }
    }
}

impl From<LedgerError> for Failure {
    fn from(error: LedgerError) -> Self {
        let (exit, what_to_do) = match &error {
            LedgerError::UnknownRepo(_) => {
                (Exit::NotFound, "`consign scm status` lists those there are")
            }
            LedgerError::Unavailable(_) => {
                (Exit::Unavailable, "what was written stays; run it again")
            }
            LedgerError::Moved { .. } => (Exit::Wrong, "let the other one end, then run it again"),
            LedgerError::Refused(_) => (
                Exit::Wrong,
                "what came before it is written; --mode best_effort skips such records",
            ),
        };
        Self::new(exit, error.code(), format!("{error}; {what_to_do}"))
    }
}

impl From<ScmError> for Failure {
    fn from(error: ScmError) -> Self {
        let code = error.code();
        let (exit, what_to_do) = match &error {
            ScmError::Ledger(_) => {
                let ScmError::Ledger(error) = error else {
                    unreachable!("invariant: matched above");
                };
                return error.into();
            }
            ScmError::Auth { .. } => (
                Exit::Wrong,
                "it was not tried again; give it a token in scm.tokens, or a new one",
            ),
            ScmError::Network { .. } => (Exit::Wrong, "what was written stays; run it again later"),
            ScmError::Timeout { .. } => (
                Exit::Wrong,
                "what was written stays; see whether its disk answers, or raise scm.silence_max_seconds",
            ),
            ScmError::NotFound { .. } => (Exit::NotFound, "look at its URL and branch"),
            ScmError::Program { .. } => (Exit::Wrong, "install it, and see that it is in the PATH"),
            ScmError::Invalid(_) | ScmError::NotAllowed { .. } => (Exit::Refused, ""),
            ScmError::Artifact(_) => (Exit::Wrong, "see memory.artifacts_root"),
            ScmError::Protocol { .. } | ScmError::Stopped => (Exit::Wrong, ""),
        };
        let told = with_causes(&error);
        let message = match what_to_do {
            "" => told,
            what_to_do => format!("{told}; {what_to_do}"),
        };
        Self::new(exit, code, message)
    }
}
