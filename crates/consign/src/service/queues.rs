//! Queues of the configuration: into the database, and tied to their sinks.

use consign_kernel::{By, Error, QueueName, QueuePolicy, Store};
use consign_sinks::SinkConfig;
use consign_worker::QueueWork;

use crate::{
    config::{Config, Origin, QueueConfig, Settings},
    failure::{Exit, Failure},
};

/// Who changes queues on behalf of the file, in the audit.
const ACTOR: &str = "config file";

/// Writes the configured policies of queues where the database differs, and
/// answers with the queues that were changed.
pub(crate) async fn put(
    store: &dyn Store,
    config: &Config,
    settings: &Settings,
) -> Result<Vec<QueueName>, Error> {
    let reason = match &config.file {
        Some(file) => format!("{} sets it", file.display()),
        None => "a queue to try things with".to_owned(),
    };
    let by = By::new(ACTOR, &reason);
    let mut changed = Vec::new();
    for queue in alert_queues_first(&settings.queues) {
        let before = store.queue(&queue.name).await?;
        let policy = match &before {
            Some(before) => queue.policy(&before.policy),
            None => queue.policy(&QueuePolicy::default()),
        };
        if before.is_none_or(|before| before.policy != policy) {
            let put = store.put_queue(&queue.name, &policy, &by).await;
            put.map_err(|error| explained(error, &queue.name))?;
            changed.push(queue.name.clone());
        }
    }
    Ok(changed)
}

/// The queues in an order in which each comes after the queue that its alerts go to, which must exist.
fn alert_queues_first(queues: &[QueueConfig]) -> Vec<&QueueConfig> {
    let mut ordered: Vec<&QueueConfig> = Vec::with_capacity(queues.len());
    for queue in queues {
        // The chain from the queue to one that is not configured, that comes already, or that is in it: queues
        // that alert each other cannot be created by one configuration.
        let mut chain = vec![queue];
        while let Some(next) = chain.last().and_then(|last| last.alert_queue()) {
            let next = queues.iter().find(|other| other.name == next);
            match next.filter(|next| !chain.iter().any(|it| it.name == next.name)) {
                Some(next) => chain.push(next),
                None => break,
            }
        }
        for queue in chain.into_iter().rev() {
            if !ordered.iter().any(|it| it.name == queue.name) {
                ordered.push(queue);
            }
        }
    }
    ordered
}

/// The error for a login that may not set queues names the remedy.
fn explained(error: Error, queue: &QueueName) -> Error {
    match error {
        Error::Forbidden { what } => Error::Forbidden {
            what: format!(
                "queue {queue} differs from the configuration, and changing it needs the role \
                 consign_operator: let an operator set it, or take its policy out of the \
                 configuration ({what})"
            ),
        },
        error => error,
    }
}

/// The queues that have a sink, each with its sink.
///
/// Each has an instance of its own, because sinks name the queue in what they send; but those with
/// equal settings deliver to the same place, which is up or down for all of them.
pub(crate) async fn work(config: &Config, settings: &Settings) -> Result<Vec<QueueWork>, Failure> {
    let (mut work, mut wrong) = (Vec::new(), Vec::new());
    let mut before: Vec<(&QueueName, &SinkConfig)> = Vec::new();
    for queue in &settings.queues {
        let Some(sink_config) = &queue.sink else {
            continue;
        };
        let sink = match sink_config.build(&queue.name).await {
            Ok(sink) => sink,
            Err(error) => {
                let place = place(config, queue);
                wrong.push(format!("{place}queues.{}.sink: {error}", queue.name));
                continue;
            }
        };
        let twin = before.iter().find(|(_, other)| *other == sink_config);
        work.push(QueueWork {
            same_destination_as: twin.map(|(name, _)| (*name).clone()),
            ..QueueWork::new(queue.name.clone(), sink)
        });
        before.push((&queue.name, sink_config));
    }
    if !wrong.is_empty() {
        return Err(Failure::new(Exit::Usage, "config", wrong.join("\n")));
    }
    Ok(work)
}

fn place(config: &Config, queue: &QueueConfig) -> String {
    match config.origin_of(&["queues", queue.name.as_str(), "sink"]) {
        Some(origin @ Origin::File { .. }) => format!("{origin}: "),
        _ => String::new(),
    }
}
