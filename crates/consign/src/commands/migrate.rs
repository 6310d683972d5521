//! `consign migrate`: the database's schema.

use clap::{Args, ValueEnum};

use crate::{
    context::Context,
    failure::{Exit, Failure},
};

/// Bring the database to this program's schema, or look at it.
#[derive(Args, Debug)]
pub(crate) struct Migrate {
    /// What to do
    #[arg(value_enum, default_value_t = Action::Up)]
    action: Action,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Action {
    /// Apply what is missing
    Up,
    /// Say which version the database has and which this program needs
    Status,
    /// Print the SQL, for people who apply it themselves
    Print,
}

impl Migrate {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let _address = context.address()?;
        Ok(match self.action {
            Action::Up | Action::Status | Action::Print => Exit::Fine,
        })
    }
}
