//! `consign scm`: synchronises repositories and makes memories of their changes.

mod add;
mod consume;
mod materialize;
mod rewind;
mod selection;
mod status;
mod sync;

use clap::{Args, Subcommand};
use consign_app::{
    context::Context,
    failure::{Exit, Failure, with_causes},
};
use consign_scm::{LedgerError, ScmError};

/// Read repositories into the database, and make memories of their changes.
///
/// `sync` stores the history of a repository and never uses the outbox; `consume` makes memories of it.
/// Each continues where its last run ended.
#[derive(Args, Debug)]
pub(crate) struct ScmCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Add a repository: Git, Subversion or a GitLab project
    Add(add::Add),
    /// Read new records of repositories
    Sync(sync::Sync),
    /// Fetch missing changes
    Materialize(materialize::Materialize),
    /// Make memories of new changes
    Consume(consume::Consume),
    /// Show the status of repositories
    Status(status::Status),
    /// Show which changes would be consumed again; with --yes, set the cursor back
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

/// Maps errors to messages and exit codes.
trait OrFailure<T> {
    fn or_failure(self) -> Result<T, Failure>;
}

impl<T> OrFailure<T> for Result<T, LedgerError> {
    fn or_failure(self) -> Result<T, Failure> {
        self.map_err(ledger_failure)
    }
}

impl<T> OrFailure<T> for Result<T, ScmError> {
    fn or_failure(self) -> Result<T, Failure> {
        self.map_err(scm_failure)
    }
}

fn ledger_failure(error: LedgerError) -> Failure {
    let (exit, what_to_do) = match &error {
        LedgerError::UnknownRepo(_) => (Exit::NotFound, "`consign scm status` lists repositories"),
        LedgerError::Unavailable(_) => {
            (Exit::Unavailable, "written records are kept; run it again")
        }
        LedgerError::Moved { .. } => (Exit::Wrong, "wait for the other process, then run it again"),
        LedgerError::Refused(_) => (
            Exit::Wrong,
            "the records before it are written; --mode best_effort skips such records",
        ),
    };
    Failure::new(exit, error.code(), format!("{error}; {what_to_do}"))
}

fn scm_failure(error: ScmError) -> Failure {
    let code = error.code();
    let (exit, what_to_do) = match &error {
        ScmError::Ledger(_) => {
            let ScmError::Ledger(error) = error else {
                unreachable!("invariant: matched above");
            };
            return ledger_failure(error);
        }
        ScmError::Auth { .. } => (
            Exit::Wrong,
            "it was not retried; set a valid token in scm.tokens",
        ),
        ScmError::Network { .. } => (Exit::Wrong, "written records are kept; run it again later"),
        ScmError::Timeout { .. } => (
            Exit::Wrong,
            "written records are kept; check its disk, or raise scm.silence_max_seconds",
        ),
        ScmError::NotFound { .. } => (Exit::NotFound, "check its URL and branch"),
        ScmError::Program { .. } => (Exit::Wrong, "install it and make sure it is in the PATH"),
        ScmError::Invalid(_) | ScmError::NotAllowed { .. } => (Exit::Refused, ""),
        ScmError::Artifact(_) => (Exit::Wrong, "check memory.artifacts_root"),
        ScmError::Protocol { .. } | ScmError::Stopped => (Exit::Wrong, ""),
    };
    let text = with_causes(&error);
    let message = match what_to_do {
        "" => text,
        what_to_do => format!("{text}; {what_to_do}"),
    };
    Failure::new(exit, code, message)
}
