//! `consign dead`: what is dead, by cause.

use clap::Args;
use consign_kernel::{DeadCause, Filter, QueueName};
use consign_sinks::SinkConfig;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    config::{Flags, Settings},
    context::{Context, known_queue},
    failure::{Exit, Failure},
    output::{Table, or_dash},
    progress::Progress,
    when::stamp,
};

/// More than these are not grouped: the newest tell about an outage.
const LOOKED_AT_MAX: u64 = 1_000_000;

/// Options of sinks that name where they deliver to.
const DESTINATIONS: [&str; 8] = [
    "url",
    "command",
    "path",
    "servers",
    "subject",
    "exchange",
    "routing_key",
    "stream",
];

/// Group dead messages by queue, code and destination, with the first and the last time.
///
/// The code is that of a message's last attempt, such as http_500. The destination is where the queue's
/// sink delivers to by the configuration as it is now.
#[derive(Args, Debug)]
pub(crate) struct Dead {
    /// Only this queue
    #[arg(long)]
    queue: Option<QueueName>,
    /// Only this code
    #[arg(long)]
    code: Option<String>,
}

impl Dead {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let store = context.store().await?;
        if let Some(queue) = &self.queue {
            known_queue(&*store, queue).await?;
        }
        let filter = Filter {
            queue: self.queue,
            code: self.code,
            ..Filter::default()
        };
        let progress = Progress::busy("grouping dead messages", context.out.is_json());
        let causes = store.dead_causes(&filter, LOOKED_AT_MAX).await?;
        progress.clear();
        let settings = context
            .config(Flags::new())
            .and_then(|it| Settings::of(&it));
        // What is dead is shown whatever the configuration is like.
        let settings = settings.ok();
        let destination = |cause: &DeadCause| destination(settings.as_ref()?, &cause.queue);
        let messages: u64 = causes.iter().map(|cause| cause.messages).sum();
        let is_whole = messages < LOOKED_AT_MAX;
        if context.out.is_json() {
            let items: Vec<Value> = causes
                .iter()
                .map(|cause| entry(cause, destination(cause)))
                .collect();
            let value = json!({"items": items, "messages": messages, "is_whole": is_whole});
            context.out.json(&value)?;
            return Ok(Exit::Fine);
        }
        if causes.is_empty() {
            context.out.note("no message is dead")?;
            return Ok(Exit::Fine);
        }
        context.out.table(&table(&causes, destination))?;
        if !is_whole {
            context
                .out
                .note(format!("of the newest {LOOKED_AT_MAX} dead messages"))?;
        }
        Ok(Exit::Fine)
    }
}

fn entry(cause: &DeadCause, destination: Option<String>) -> Value {
    let mut value = serde_json::to_value(cause).expect("invariant: a cause is JSON");
    value["destination"] = json!(destination);
    value
}

/// Where the sink of a queue delivers to, with its secrets hidden.
fn destination(settings: &Settings, queue: &QueueName) -> Option<String> {
    let mut queues = settings.queues.iter();
    let sink = queues.find(|it| it.name == *queue)?.sink.as_ref()?;
    Some(shown(sink))
}

fn shown(sink: &SinkConfig) -> String {
    let options = serde_json::to_value(sink).unwrap_or_default();
    let text = |name: &&str| match &options[*name] {
        Value::String(text) => Some(text.clone()),
        Value::Array(texts) => {
            let texts: Vec<&str> = texts.iter().filter_map(Value::as_str).collect();
            Some(texts.join(","))
        }
        _ => None,
    };
    let words: Vec<String> = DESTINATIONS.iter().filter_map(text).collect();
    if words.is_empty() {
        sink.kind().to_owned()
    } else {
        words.join(" ")
    }
}

fn table(causes: &[DeadCause], destination: impl Fn(&DeadCause) -> Option<String>) -> Table {
    let now = Timestamp::now();
    let mut table = Table::new([
        "queue",
        "code",
        "destination",
        ">messages",
        ">attempts",
        "first",
        "last",
        ">example",
        "reason",
    ]);
    for cause in causes {
        let (least, most) = (cause.attempts_min, cause.attempts_max);
        let attempts = if least == most {
            least.to_string()
        } else {
            format!("{least}-{most}")
        };
        table.row([
            cause.queue.to_string(),
            cause.code.clone(),
            or_dash(destination(cause).as_deref()),
            cause.messages.to_string(),
            attempts,
            stamp(cause.first_at, now),
            stamp(cause.last_at, now),
            cause.example.to_string(),
            or_dash(cause.detail.as_deref()),
        ]);
    }
    table
}
