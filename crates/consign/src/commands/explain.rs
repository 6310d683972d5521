//! `consign explain`: why a message is where it is.

use std::path::PathBuf;

use clap::Args;
use consign_kernel::{Explanation, LastAttempt, MessageId, Process, State, Store};
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::archived;
use crate::{
    arguments::message_id,
    config::{Flags, Origin},
    context::Context,
    failure::{Exit, Failure},
    output::{Output, plain},
    when::{age, fine_stamp},
};

/// A process without a heartbeat for longer has ended.
const SILENT_MAX: SignedDuration = SignedDuration::from_secs(60);

/// Explain the state of a message and what to do about it.
#[derive(Args, Debug)]
pub(crate) struct Explain {
    /// The message
    #[arg(value_parser = message_id, allow_negative_numbers = true)]
    id: MessageId,
    /// Read it from this archive instead of the database
    #[arg(long, value_name = "FOLDER")]
    archive: Option<PathBuf>,
}

impl Explain {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        if let Some(folder) = &self.archive {
            return archived::explain(context.out, folder, self.id);
        }
        let store = context.store().await?;
        let explanation = store
            .explain(self.id)
            .await?
            .ok_or_else(|| Failure::no_such_message(self.id))?;
        if context.out.is_json() {
            context.out.json(&explanation_json(&explanation))?;
            return Ok(Exit::Fine);
        }
        print(context.out, &explanation)?;
        if matches!(explanation.state, State::Ready { .. }) {
            let workers = workers(context, &*store, &explanation).await?;
            context
                .out
                .line(format_args!("{:<10}{}", "workers", plain(&workers)))?;
        }
        Ok(Exit::Fine)
    }
}

pub(crate) fn explanation_json(explanation: &Explanation) -> Value {
    json!({
        "id": explanation.message.id,
        "sentence": explanation.sentence(),
        "state": explanation.state,
        "erased": explanation.erased,
        "attempts": explanation.attempts,
        "last_attempt": explanation.last_attempt,
        "queue": explanation.queue,
        "now": explanation.now,
    })
}

/// Which processes work on the queue of a message, or how to have one.
async fn workers(
    context: &Context,
    store: &dyn Store,
    explanation: &Explanation,
) -> Result<String, Failure> {
    let queue = &explanation.queue.name;
    let processes = store.processes().await?;
    let lives = |process: &&Process| {
        let silent = explanation.now.duration_since(process.seen_at);
        process.queues.contains(queue) && silent < SILENT_MAX
    };
    let named = |process: &Process| {
        let seen = age(process.seen_at, explanation.now);
        format!("{} (last heartbeat {seen})", process.name)
    };
    let names: Vec<String> = processes.iter().filter(lives).map(named).collect();
    if !names.is_empty() {
        return Ok(names.join(", "));
    }
    // A worker of another program has no heartbeat.
    let tried = explanation.last_attempt.as_ref();
    let tried = tried.map_or(String::new(), |last| {
        format!(" now; {} made the last attempt", last.owner)
    });
    let config = context.config(Flags::new())?;
    let mut apps = config.registry().apps.iter();
    let is_of_an_app = apps.any(|app| app.queue(&config).is_some_and(|own| own.name == *queue));
    let remedy = match config.origin_of(&["queues", queue.as_str(), "sink"]) {
        Some(origin @ Origin::File { .. }) => {
            format!("{origin} gives queue {queue} a sink: run `consign work`")
        }
        _ if is_of_an_app => "run `consign work`".to_owned(),
        _ => format!("give queue {queue} a sink in consign.toml and run `consign work`"),
    };
    Ok(format!(
        "none of `consign serve` or `consign work`{tried}; {remedy}"
    ))
}

/// The sentence, then the facts it rests on.
pub(crate) fn print(out: Output, explanation: &Explanation) -> Result<(), Failure> {
    let (message, policy) = (&explanation.message, &explanation.queue.policy);
    let stamp = |at| fine_stamp(at, explanation.now);
    out.line(plain(&explanation.sentence()))?;
    out.line("")?;
    let field = |name: &str, value: &str| out.line(format_args!("{name:<10}{}", plain(value)));
    field("message", &message.id.to_string())?;
    field("state", explanation.state.kind().as_str())?;
    let (attempts, attempts_max) = (explanation.attempts, policy.attempts_max);
    let limit = format!("{attempts} recorded; the queue allows {attempts_max} that count");
    field("attempts", &limit)?;
    if let Some(last) = &explanation.last_attempt {
        field("last", &last_attempt(last, &stamp(last.finished_at)))?;
    }
    let mut queue = message.queue.to_string();
    if let Some(paused_at) = explanation.queue.paused_at {
        queue.push_str(&format!(", paused since {}", stamp(paused_at)));
    }
    field("queue", &queue)?;
    if let Some(group) = &message.group {
        let order = if policy.ordered {
            "in order"
        } else {
            "in any order"
        };
        field("group", &format!("{group}, delivered {order}"))?;
    }
    field("enqueued", &stamp(message.created_at))?;
    if let Some(at) = message.expires_at {
        field("expires", &stamp(at))?;
    }
    match &explanation.state {
        State::Ready { due_at } => field("due", &stamp(*due_at))?,
        State::Leased { expires_at, .. } => field("lease ends", &stamp(*expires_at))?,
        State::Held { at, .. }
        | State::Dead { at, .. }
        | State::Delivered { at }
        | State::Discarded { at, .. } => {
            field("since", &stamp(*at))?;
        }
        State::Waiting { .. } => {}
    }
    Ok(())
}

fn last_attempt(last: &LastAttempt, at: &str) -> String {
    let mut text = format!("attempt {}: {}", last.attempt_no, last.outcome.as_str());
    if let Some(code) = &last.code {
        text.push_str(&format!(", {code}"));
    }
    if let Some(detail) = &last.detail {
        text.push_str(&format!(" ({detail})"));
    }
    format!("{text}; by {}, {at}", last.owner)
}
