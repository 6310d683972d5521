//! `consign hold` and `consign unhold`: holding messages.

use clap::Args;
use consign_app::moves::report_moves;
use consign_kernel::MessageId;

use crate::{
    arguments::{ByArgs, message_id},
    context::Context,
    failure::{Exit, Failure},
};

/// Hold messages that are ready or waiting.
#[derive(Args, Debug)]
pub(crate) struct Hold {
    /// The messages
    #[arg(required = true, value_name = "ID", value_parser = message_id)]
    ids: Vec<MessageId>,
    #[command(flatten)]
    by: ByArgs,
}

/// Put held messages back.
#[derive(Args, Debug)]
pub(crate) struct Unhold {
    /// The messages
    #[arg(required = true, value_name = "ID", value_parser = message_id)]
    ids: Vec<MessageId>,
    #[command(flatten)]
    by: ByArgs,
}

impl Hold {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let store = context.store().await?;
        let by = self.by.by("held by hand");
        report_moves(context.out, &store.hold(&self.ids, &by).await?)
    }
}

impl Unhold {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let store = context.store().await?;
        let by = self.by.by("put back by hand");
        report_moves(context.out, &store.unhold(&self.ids, &by).await?)
    }
}
