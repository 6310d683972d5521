//! What every command is given: where to print, and which settings.

use std::sync::Arc;

use consign_kernel::{Error, PAGE_ENTRIES_MAX, Queue, QueueName, Store, nearest};

use crate::{
    config::{Config, Flags, Origin, Sources},
    database::{self, Address, Opened, Reach},
    failure::Failure,
    output::Output,
};

/// Where to print, and which settings.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) out: Output,
    sources: Sources,
}

impl Context {
    pub(crate) fn new(json: bool, sources: Sources) -> Self {
        let out = Output::new(json);
        Self { out, sources }
    }

    /// Where settings come from.
    pub(crate) fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Every setting, with what a command's own flags say.
    pub(crate) fn config(&self, flags: Flags) -> Result<Config, Failure> {
        let mut sources = self.sources.clone();
        sources.flags.extend(flags);
        Config::load(&sources)
    }

    /// The database that was asked for, without opening it.
    pub(crate) fn address(&self) -> Result<Address, Failure> {
        address_of(&self.config(Flags::new())?)
    }

    /// The database that was asked for, open and of the right schema, with all it can be asked.
    pub(crate) async fn open(&self) -> Result<Opened, Failure> {
        database::open(&self.address()?, &Reach::for_a_command(), self.out).await
    }

    /// What the configuration says of a queue that the database does not have, in words.
    pub(crate) fn queue_of_file(&self, queue: &str) -> Option<String> {
        let config = self.config(Flags::new()).ok()?;
        match config.origin_of(&["queues", queue])? {
            Origin::Example => Some(
                "it is the queue to try things with: `consign serve` creates it when it starts \
                 without a configuration"
                    .to_owned(),
            ),
            origin => Some(format!(
                "{origin} has this queue: `consign serve` and `consign work` create it when they \
                 start with this configuration"
            )),
        }
    }

    /// The same failure; of a queue that the configuration has and the database has not, with how to
    /// get it there.
    pub(crate) fn with_queue_of_file(&self, failure: Failure) -> Failure {
        let told = failure
            .unknown_queue()
            .and_then(|queue| self.queue_of_file(queue));
        match told {
            Some(told) => failure.map_message(|message| format!("{message}; {told}")),
            None => failure,
        }
    }

    /// Its queue.
    pub(crate) async fn store(&self) -> Result<Arc<dyn Store>, Failure> {
        Ok(self.open().await?.store)
    }
}

/// The database that the settings name.
pub(crate) fn address_of(config: &Config) -> Result<Address, Failure> {
    let origin = config.origin("database.url").map(ToString::to_string);
    let named = config.settings.database.url.as_deref();
    Address::resolve(named.zip(origin.as_deref()))
}

/// A queue, or an error that names the nearest one.
///
/// A list of nothing would hide a typing mistake.
pub(crate) async fn known_queue(store: &dyn Store, name: &QueueName) -> Result<Queue, Failure> {
    if let Some(queue) = store.queue(name).await? {
        return Ok(queue);
    }
    let queues = store.queues(None, PAGE_ENTRIES_MAX).await?;
    let names = queues.iter().map(|(queue, _)| queue.name.as_str());
    let error = Error::UnknownQueue {
        queue: name.to_string(),
        suggestion: nearest(name.as_str(), names).map(str::to_owned),
    };
    Err(error.into())
}
