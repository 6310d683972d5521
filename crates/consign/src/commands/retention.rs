//! `consign retention`: what is kept, what may leave, and letting it leave now.

mod status;

use std::time::Duration;

use clap::{Args, Subcommand};
use consign_archive::Archive;
use consign_kernel::Refusal;
use consign_retention::{End, Maintenance, Options, Pass};
use serde_json::json;

use crate::{
    config::{Flags, Retention, Settings},
    context::Context,
    database::Address,
    failure::{Exit, Failure},
    output::count,
    progress::Progress,
    service::default_owner,
};

/// Show what is kept and what may leave; let it leave.
///
/// What leaves, and when, is a policy of each queue: `consign queues set NAME --keep 30d`. `consign
/// serve` and `consign work` do it by themselves; `run` does it now.
#[derive(Args, Debug)]
pub(crate) struct RetentionCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Show the history of every queue, how it grows, and what keeps the oldest from leaving
    Status,
    /// Show what may leave now; nothing is changed
    Plan,
    /// Archive and remove what may leave now
    Run,
}

impl RetentionCommand {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        match self.action {
            Action::Status => status::status(context).await,
            Action::Plan => plan(context).await,
            Action::Run => run(context).await,
        }
    }
}

async fn plan(context: &Context) -> Result<Exit, Failure> {
    let mut histories = context.store().await?.queue_history().await?;
    histories.retain(|history| history.may_leave > 0);
    if context.out.is_json() {
        let queue = |history: &consign_kernel::QueueHistory| json!({"queue": history.queue, "may_leave": history.may_leave});
        let queues: Vec<_> = histories.iter().map(queue).collect();
        context.out.json(&json!({"queues": queues}))?;
        return Ok(Exit::Fine);
    }
    if histories.is_empty() {
        context.out.note(
            "no message may leave now; `consign queues set NAME --keep 30d` sets how long a queue keeps its delivered messages",
        )?;
        return Ok(Exit::Fine);
    }
    for history in &histories {
        context.out.line(format_args!(
            "{} of queue {} may leave",
            count(history.may_leave, "message"),
            history.queue
        ))?;
    }
    context
        .out
        .note("nothing was changed; `consign retention run` lets them leave")?;
    Ok(Exit::Fine)
}

async fn run(context: &Context) -> Result<Exit, Failure> {
    let config = context.config(Flags::new())?;
    let settings = Settings::of(&config)?;
    let options = options(&settings.retention, default_owner(), &config.address()?)?;
    let store = context.open_with(&config).await?.store;
    let progress = Progress::busy(
        "archiving and removing what may leave",
        context.out.is_json(),
    );
    let pass = Maintenance::new(store, options)
        .pass()
        .await
        .map_err(failed)?;
    progress.clear();
    if context.out.is_json() {
        context.out.json(&json!({
            "departed": pass.departed, "departures": pass.departures, "keys": pass.keys, "end": pass.end.as_str(),
        }))?;
    } else {
        context.out.line(format_args!(
            "{} left, {} forgotten",
            count(pass.departed, "message"),
            count(pass.keys, "key")
        ))?;
        if let Some(why) = why(&pass) {
            context.out.note(why)?;
        }
    }
    Ok(match pass.end {
        End::Done => Exit::Fine,
        End::Elsewhere | End::OverSize | End::Refused(_) => Exit::Refused,
    })
}

fn failed(error: consign_retention::Error) -> Failure {
    match error {
        consign_retention::Error::Store(error) => error.into(),
        error => Failure::new(Exit::Refused, "archive", error.to_string()),
    }
}

/// Why a pass ended before everything had left.
fn why(pass: &Pass) -> Option<String> {
    match pass.end {
        End::Done => None,
        End::Elsewhere => Some("another process does the maintenance; it lets them leave".to_owned()),
        End::Refused(Refusal::NoArchive) => Some(
            "a queue requires an archive, and there is none: set `retention.archive` to a folder, or let the queue's messages \
             leave without one: `consign queues set NAME --archive false`"
                .to_owned(),
        ),
        End::OverSize => Some(
            "the history is larger than `retention.size_max_bytes`, and no more messages may leave; \
             `consign retention status` shows what keeps the oldest"
                .to_owned(),
        ),
        End::Refused(refusal) => Some(format!(
            "it ended early ({}); what is left leaves at the next run",
            refusal.as_str()
        )),
    }
}

/// The maintenance as configured.
pub(crate) fn options(
    settings: &Retention,
    owner: String,
    address: &Address,
) -> Result<Options, Failure> {
    let archive = settings.archive.as_ref().map(Archive::open).transpose();
    let archive =
        archive.map_err(|error| Failure::new(Exit::Usage, "archive", error.to_string()))?;
    Ok(Options {
        owner,
        archive,
        store: match address {
            Address::Sqlite { .. } => "sqlite",
            Address::Postgres { .. } => "postgres",
        },
        range_messages: settings.range_messages,
        range_age: Duration::from_millis(settings.range_age_ms),
        size_max_bytes: settings.size_max_bytes,
    })
}
