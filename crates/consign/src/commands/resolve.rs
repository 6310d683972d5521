//! `consign resolve`: records what became of held messages.

use clap::{ArgGroup, Args};
use consign_app::moves::report_moves;
use consign_kernel::{MessageId, Resolution};
use serde_json::value::RawValue;

use crate::{
    arguments::{ByArgs, message_id},
    context::Context,
    failure::{Exit, Failure},
};

/// Record the outcome of held messages that you determined.
///
/// Unlike `unhold`, nothing is sent again. The attempt that is recorded has the code `resolved`, you
/// as its owner and your reason as its detail.
///
/// The queue of an app may require a result; the app has a command for it.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("outcome").required(true).args(["delivered", "dead", "unknown"]))]
pub(crate) struct Resolve {
    /// The messages
    #[arg(required = true, value_name = "ID", value_parser = message_id)]
    ids: Vec<MessageId>,
    /// The receiver has the messages
    #[arg(long)]
    delivered: bool,
    /// The receiver does not have them, and they are not tried again
    #[arg(long)]
    dead: bool,
    /// The outcome cannot be determined: they are dead, and in doubt if requeued
    #[arg(long)]
    unknown: bool,
    /// Result as JSON, where the app of the queue requires one
    #[arg(long, value_name = "JSON", value_parser = json)]
    result: Option<String>,
    #[command(flatten)]
    by: ByArgs,
}

impl Resolve {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let resolution = match (self.result, self.delivered, self.dead) {
            (result, true, _) => Resolution::Delivered { result },
            (Some(_), false, _) => {
                let why = "--result belongs to --delivered; nothing was changed";
                return Err(Failure::usage(why));
            }
            (None, _, true) => Resolution::Dead,
            (None, ..) => Resolution::Unknown,
        };
        let store = context.store().await?;
        let by = self.by.by("resolved by hand");
        let moves = store.resolve(&self.ids, &resolution, &by).await?;
        report_moves(context.out, &moves)
    }
}

/// A document of JSON, as it was typed.
fn json(text: &str) -> Result<String, String> {
    let parsed: Result<&RawValue, _> = serde_json::from_str(text);
    parsed
        .map(|document| document.get().to_owned())
        .map_err(|error| format!("is no JSON: {error}"))
}
