//! The trait `App`, and what an app does in a process that stays.

use std::{any::Any, fmt, path::PathBuf, pin::Pin, sync::Arc};

use async_trait::async_trait;
use clap::ArgMatches;
use consign_kernel::Finding;
use consign_server::{AppState, Extension};
use consign_worker::QueueWork;
use serde_json::Value;

use crate::{
    aliases::MetricAlias,
    config::{Config, Layer, Problem, Section},
    context::Context,
    database::Database,
    failure::{Exit, Failure},
    queue::OwnQueue,
};

/// What is built on the engine: rules, tables, routes, commands and pages under one name.
#[async_trait]
pub trait App: Send + Sync + fmt::Debug {
    /// Its name: that of its component, of its table of settings and of its queue.
    fn name(&self) -> &'static str;

    /// Its settings.
    fn settings(&self) -> &'static Section;

    /// Variables of its own for settings of the engine, with the keys of these; of an address, the
    /// variable is the port alone. Read while the app is on.
    fn engine_variables(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// What is wrong with its settings beyond the kind and bounds of each. Called while the app is on.
    fn check(&self, _config: &Config) -> Vec<Problem> {
        Vec::new()
    }

    /// Removes variables that cannot be meant for this app, and returns a note about
    /// it. The second layer holds the settings from elsewhere.
    fn ignore(&self, _variables: &mut Layer, _others: &Layer) -> Option<String> {
        None
    }

    /// Its tables in SQLite.
    fn sqlite(&self) -> Arc<dyn consign_sqlite::Component>;

    /// Its tables in PostgreSQL.
    fn postgres(&self) -> consign_postgres::Component;

    /// Its commands, each below `consign`.
    fn commands(&self) -> Vec<clap::Command> {
        Vec::new()
    }

    /// Runs one of its commands.
    async fn run(
        &self,
        command: &str,
        _arguments: &ArgMatches,
        _context: &Context,
    ) -> Result<Exit, Failure> {
        unreachable!("invariant: {} has no command {command}", self.name())
    }

    /// Its queue with the policy that follows from the settings.
    fn queue(&self, _config: &Config) -> Option<OwnQueue> {
        None
    }

    /// Whether `work` has something to deliver for it.
    fn delivers(&self, config: &Config) -> bool {
        self.queue(config).is_some()
    }

    /// Its routes while it is off: they answer which setting enables it.
    fn extension(&self) -> Option<Arc<dyn Extension>> {
        None
    }

    /// Prepares it for `serve` or `work` without touching the database; rejects settings that it could
    /// not start with. Called while the app is on.
    async fn prepare(&self, config: &Config) -> Result<Arc<dyn AppService>, Failure>;

    /// What other apps may use of it in a database, as [`Database::find_port`] returns it.
    fn offer_port(&self, _database: &Database) -> Option<Box<dyn Any>> {
        None
    }

    /// Files and folders whose rights `doctor` looks at.
    fn files(&self, _config: &Config) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Adds to the findings of the store's own checks, or removes those that the settings explain.
    async fn doctor(
        &self,
        _config: &Config,
        _database: &Database,
        _findings: &mut Vec<Finding>,
    ) -> Result<(), Failure> {
        Ok(())
    }

    /// Describes its metrics to the recorder.
    fn describe_metrics(&self) {}

    /// Other names of its metrics, and of the engine's for its queue.
    fn metric_aliases(&self) -> &'static [MetricAlias] {
        &[]
    }

    /// Whether callers need a token of its own; then no path of the server is open.
    fn has_tokens(&self, _config: &Config) -> bool {
        false
    }

    /// Limits what callers of the server may do. Called whether the app is on or not.
    fn restrict(&self, state: AppState, _config: &Config) -> AppState {
        state
    }

    /// Releases what outlives a command, such as a lock at another server.
    async fn release(&self) {}
}

/// Which kind of process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceKind {
    /// API and worker.
    Serve,
    /// The worker only.
    Work,
    /// The worker, for what is due now.
    WorkOnce,
}

/// A future that runs beside the rest until it is dropped.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// An app that is on in a process that stays.
#[async_trait]
pub trait AppService: Send + Sync + fmt::Debug {
    /// The role that a login of PostgreSQL needs to work its queue.
    fn role(&self) -> &'static str {
        "consign_worker"
    }

    /// Its queues with their sinks.
    fn work(&self, _database: &Database) -> Vec<QueueWork> {
        Vec::new()
    }

    /// Its routes and pages.
    fn extension(&self, _database: &Database) -> Option<Arc<dyn Extension>> {
        None
    }

    /// Background work that may be cut off when the process ends.
    fn tasks(&self, _database: &Database, _kind: ServiceKind) -> Vec<Task> {
        Vec::new()
    }

    /// Background work with an orderly end.
    fn background(&self, _database: &Database) -> Option<Box<dyn Background>> {
        None
    }

    /// Records its gauges; called as often as the queues are counted.
    async fn sample(&self, _database: &Database) -> consign_kernel::Result<()> {
        Ok(())
    }

    /// What the banner shows.
    fn banner(&self) -> ServiceBanner;
}

/// Background work with an orderly end.
#[async_trait]
pub trait Background: Send {
    /// Starts no more work.
    fn stop(&self);

    /// Returns when what is under way has ended, or took too long.
    async fn ended(self: Box<Self>);
}

/// What the banner of `serve` shows of an app.
#[derive(Debug, Default)]
pub struct ServiceBanner {
    /// Its input and output, in a sentence; none for an app that the banner leaves out.
    pub sentence: Option<String>,
    /// The same for programs.
    pub json: Value,
    /// Arguments of `curl` that try it, after the options that all calls share. `{url}` is the
    /// server's address, `{json}` for the header that names the content type.
    pub tries: Vec<String>,
    /// The variable that holds the token for these calls, where the app has tokens of its own.
    pub token_variable: Option<&'static str>,
}

/// Every app of the binary, and the engine's settings.
pub struct Registry {
    /// The engine's settings.
    pub sections: &'static [&'static Section],
    /// What is wrong with them beyond the kind and bounds of each.
    pub check: fn(&Config) -> Vec<Problem>,
    /// The apps, in the order in which they are started.
    pub apps: &'static [&'static dyn App],
}

impl Registry {
    /// Every table of settings.
    pub fn sections(&self) -> impl Iterator<Item = &'static Section> {
        let apps = self.apps.iter().map(|app| app.settings());
        self.sections.iter().copied().chain(apps)
    }

    /// An app by its name.
    pub fn app(&self, name: &str) -> Option<&'static dyn App> {
        self.apps.iter().copied().find(|app| app.name() == name)
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("apps", &self.apps)
            .finish_non_exhaustive()
    }
}
