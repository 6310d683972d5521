//! `consign resolve`: what a person found out about held messages.

use clap::{ArgGroup, Args};
use consign_kernel::MessageId;

use super::hold::report_moves;
use crate::{
    arguments::{ByArgs, message_id},
    context::Context,
    failure::{Exit, Failure},
};

/// Record what became of held messages, as you found out.
///
/// Unlike `unhold`, nothing is sent again. The attempt that is recorded has the code `resolved`, you
/// as its owner and your reason as its detail.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("outcome").required(true).args(["delivered", "dead"]))]
pub(crate) struct Resolve {
    /// The messages
    #[arg(required = true, value_name = "ID", value_parser = message_id)]
    ids: Vec<MessageId>,
    /// The receiver has them
    #[arg(long)]
    delivered: bool,
    /// The receiver does not have them and shall not get them
    #[arg(long)]
    dead: bool,
    #[command(flatten)]
    by: ByArgs,
}

impl Resolve {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let store = context.store().await?;
        let by = self.by.by("resolved by hand");
        let moves = store.resolve(&self.ids, self.delivered, &by).await?;
        report_moves(context.out, &moves)
    }
}
