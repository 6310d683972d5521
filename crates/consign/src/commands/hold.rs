//! `consign hold` and `consign unhold`: parking messages.

use clap::Args;
use consign_kernel::{MessageId, Move, Moved};
use serde_json::json;

use crate::{
    arguments::{ByArgs, message_id},
    context::Context,
    failure::{Exit, Failure},
    output::Output,
};

/// Park messages that are ready or waiting.
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

/// Prints what became of each message; the exit code tells whether all of them moved.
pub(crate) fn report_moves(out: Output, moves: &[Moved]) -> Result<Exit, Failure> {
    if out.is_json() {
        out.json(&json!({"moves": moves}))?;
    } else {
        for moved in moves {
            out.line(format_args!("{}: {}", moved.id, sentence(moved.answer)))?;
        }
    }
    Ok(exit(moves))
}

/// An unknown id weighs more than a message that stayed where it is: it is likelier a mistake.
fn exit(moves: &[Moved]) -> Exit {
    let any = |test: fn(&Move) -> bool| moves.iter().any(|moved| test(&moved.answer));
    if any(|answer| matches!(answer, Move::NoSuchMessage)) {
        return Exit::NotFound;
    }
    match any(|answer| !matches!(answer, Move::Moved { .. })) {
        true => Exit::Wrong,
        false => Exit::Fine,
    }
}

fn sentence(answer: Move) -> String {
    match answer {
        Move::Moved { state } => format!("now {state}"),
        Move::NotDead { state } => {
            format!("left as it is: {state}; only dead ones can be requeued")
        }
        Move::NotHeld { state } => {
            format!("left as it is: {state}; only held ones can be put back or resolved")
        }
        Move::NotHoldable { state } => {
            format!("left as it is: {state}; only ready and waiting ones can be held")
        }
        Move::NoSuchMessage => "there is no such message".to_owned(),
    }
}
