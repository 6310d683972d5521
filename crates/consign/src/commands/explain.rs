//! `consign explain`: why a message is where it is.

use clap::Args;
use consign_kernel::{Explanation, MessageId, State};
use serde_json::{Value, json};

use crate::{
    arguments::message_id,
    context::Context,
    failure::{Exit, Failure},
    output::{Output, plain},
    when::fine_stamp,
};

/// Say why a message is where it is, and what to do.
#[derive(Args, Debug)]
pub(crate) struct Explain {
    /// The message
    #[arg(value_parser = message_id, allow_negative_numbers = true)]
    id: MessageId,
}

impl Explain {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let store = context.store().await?;
        let explanation = store
            .explain(self.id)
            .await?
            .ok_or_else(|| Failure::no_such_message(self.id))?;
        if context.out.is_json() {
            context.out.json(&explanation_json(&explanation))?;
        } else {
            print(context.out, &explanation)?;
        }
        Ok(Exit::Fine)
    }
}

pub(crate) fn explanation_json(explanation: &Explanation) -> Value {
    json!({
        "id": explanation.message.id,
        "sentence": explanation.sentence(),
        "state": explanation.state,
        "attempts": explanation.attempts,
        "lane": explanation.lane,
        "now": explanation.now,
    })
}

/// The sentence, then the facts it rests on.
pub(crate) fn print(out: Output, explanation: &Explanation) -> Result<(), Failure> {
    let (message, policy) = (&explanation.message, &explanation.lane.policy);
    let stamp = |at| fine_stamp(at, explanation.now);
    out.line(plain(&explanation.sentence()))?;
    out.line("")?;
    let field = |name: &str, value: &str| out.line(format_args!("{name:<10}{}", plain(value)));
    field("message", &message.id.to_string())?;
    field("state", explanation.state.kind().as_str())?;
    let (attempts, attempts_max) = (explanation.attempts, policy.attempts_max);
    let limit = format!("{attempts} recorded; the lane allows {attempts_max} that count");
    field("attempts", &limit)?;
    let mut lane = message.lane.to_string();
    if let Some(paused_at) = explanation.lane.paused_at {
        lane.push_str(&format!(", paused since {}", stamp(paused_at)));
    }
    field("lane", &lane)?;
    if let Some(group) = &message.group {
        let order = if policy.ordered {
            "in order"
        } else {
            "in any order"
        };
        field("group", &format!("{group}, delivered {order}"))?;
    }
    field("enqueued", &stamp(message.created_at))?;
    match &explanation.state {
        State::Ready { due_at } => field("due", &stamp(*due_at))?,
        State::Leased { expires_at, .. } => field("lease ends", &stamp(*expires_at))?,
        State::Held { at, .. } | State::Dead { at, .. } | State::Delivered { at } => {
            field("since", &stamp(*at))?;
        }
        State::Waiting { .. } => {}
    }
    Ok(())
}
