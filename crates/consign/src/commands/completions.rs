//! `consign completions`: a script for a shell.

use std::io::{self, Write};

use clap::Args;
use clap_complete::{Shell, env::Shells};

use crate::{
    cli::complete,
    context::Context,
    failure::{Exit, Failure},
};

/// Print a completion script for a shell.
///
/// The script asks this program while you type, so queues and messages of the database are completed too.
#[derive(Args, Debug)]
pub(crate) struct Completions {
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self, _: &Context) -> Result<Exit, Failure> {
        let shells = Shells::builtins();
        let shell = shells.completer(&self.shell.to_string());
        let shell = shell.expect("invariant: both lists have the same shells");
        // Into memory first, so that a reader that went away is met in one place.
        let mut script = Vec::new();
        shell.write_registration(
            complete::VARIABLE,
            "consign",
            "consign",
            "consign",
            &mut script,
        )?;
        io::stdout().write_all(&script)?;
        Ok(Exit::Fine)
    }
}
