//! What every command is given: where to print, and which settings.

use std::sync::Arc;

use consign_kernel::{Error, PAGE_ENTRIES_MAX, Queue, QueueName, Store, nearest};

use crate::{
    App, Background,
    color::Colors,
    config::{Config, Flags, Origin, Sources},
    database::{self, Address, Apps, Database, OnMissing, Reach},
    failure::Failure,
    output::Output,
};

/// Where to print, and which settings.
#[derive(Clone, Debug)]
pub struct Context {
    /// The app whose command runs.
    app: Option<&'static dyn App>,
    /// Starts logs and metrics, for a command that stays.
    telemetry: fn(&Config) -> Result<Box<dyn Background>, Failure>,
    /// Where to print.
    pub out: Output,
    sources: Sources,
    missing: OnMissing,
}

impl Context {
    /// What is printed as JSON or for people, with settings from `sources`.
    pub fn new(
        json: bool,
        sources: Sources,
        telemetry: fn(&Config) -> Result<Box<dyn Background>, Failure>,
    ) -> Self {
        Self {
            app: None,
            telemetry,
            out: Output::new(json),
            sources,
            missing: OnMissing::Refuse,
        }
    }

    /// The same with colours.
    #[must_use]
    pub fn with_colors(self, colors: Colors) -> Self {
        let out = self.out.with_colors(colors);
        Self { out, ..self }
    }

    /// The same for a command that writes: it creates the default file where there is none. A command
    /// that reads would only hide that it runs in the wrong folder.
    #[must_use]
    pub fn creating(&self) -> Self {
        Self {
            missing: OnMissing::Create,
            ..self.clone()
        }
    }

    /// The same for a command of an app, whose tables must be there.
    #[must_use]
    pub fn for_app(self, app: &'static dyn App) -> Self {
        Self {
            app: Some(app),
            ..self
        }
    }

    /// Starts logs and metrics; they end with what this returns.
    pub fn start_telemetry(&self, config: &Config) -> Result<Box<dyn Background>, Failure> {
        (self.telemetry)(config)
    }

    /// Where settings come from.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Every setting, with a command's own flags.
    pub fn config(&self, flags: Flags) -> Result<Config, Failure> {
        let mut sources = self.sources.clone();
        sources.flags.extend(flags);
        Config::load(&sources)
    }

    /// The database that was named, without opening it.
    pub fn address(&self) -> Result<Address, Failure> {
        self.config(Flags::new())?.address()
    }

    /// The database that was named, open and of the right schema.
    pub async fn open(&self) -> Result<Database, Failure> {
        self.open_with(&self.config(Flags::new())?).await
    }

    /// The same with settings that were read before.
    pub async fn open_with(&self, config: &Config) -> Result<Database, Failure> {
        let (reach, apps) = (Reach::for_a_command(), Apps::for_command(config, self.app));
        let address = config.address()?;
        let opened = database::open(&address, &apps, &reach, self.missing, self.out).await;
        opened.map_err(|failure| match self.app.map(App::name) {
            Some(name) if failure.code() == Some("schema_mismatch") && !config.is_on(name) => {
                let remedy = format!("name it in `apps` first, or use --app {name}");
                failure.map_message(|message| format!("{message}; the app {name} is off: {remedy}"))
            }
            _ => failure,
        })
    }

    /// A hint about a queue of the configuration that the database does not have.
    pub fn queue_of_file(&self, queue: &str) -> Option<String> {
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
    pub fn with_queue_of_file(&self, failure: Failure) -> Failure {
        let hint = failure
            .unknown_queue()
            .and_then(|queue| self.queue_of_file(queue));
        match hint {
            Some(hint) => failure.map_message(|message| format!("{message}; {hint}")),
            None => failure,
        }
    }

    /// The engine's operations on it.
    pub async fn store(&self) -> Result<Arc<dyn Store>, Failure> {
        Ok(self.open().await?.store)
    }
}

/// A queue, or an error that names the nearest one.
///
/// A list of nothing would hide a typing mistake.
pub async fn known_queue(store: &dyn Store, name: &QueueName) -> Result<Queue, Failure> {
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
