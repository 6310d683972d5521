//! `consign completions`: a script for a shell.

use std::io::{self, Write};

use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};

use crate::{
    cli::Cli,
    failure::{Exit, Failure},
};

/// Print a completion script for a shell.
#[derive(Args, Debug)]
pub(crate) struct Completions {
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        // Into memory first: the generator panics when its writer fails.
        let mut script = Vec::new();
        generate(self.shell, &mut Cli::command(), "consign", &mut script);
        io::stdout().write_all(&script)?;
        Ok(Exit::Fine)
    }
}
