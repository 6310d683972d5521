//! `consign completions`: a script for a shell.

use std::io::{self, Write};

use clap::Args;
use clap_complete::{Shell, generate};

use crate::{
    cli,
    context::Context,
    failure::{Exit, Failure},
};

/// Print a completion script for a shell.
#[derive(Args, Debug)]
pub(crate) struct Completions {
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, Failure> {
        // Into memory first: the generator panics when its writer fails.
        let mut script = Vec::new();
        generate(
            self.shell,
            &mut cli::command(context.sources().registry),
            "consign",
            &mut script,
        );
        io::stdout().write_all(&script)?;
        Ok(Exit::Fine)
    }
}
