//! The app `scm`.

pub(crate) mod options;
pub(crate) mod service;

use std::{any::Any, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use clap::{ArgMatches, Args, FromArgMatches};
use consign_app::{
    App, AppService,
    config::{Config, Problem, Section},
    context::Context,
    database::Database,
    failure::{Exit, Failure},
};
use consign_scm::ScmLedger;

use self::service::ScmService;
use crate::{
    cli::ScmCommand,
    store::{self, ScmStore},
};

/// The app `scm`.
#[derive(Debug)]
pub struct ScmApp;

#[async_trait]
impl App for ScmApp {
    fn name(&self) -> &'static str {
        "scm"
    }

    fn settings(&self) -> &'static Section {
        &crate::settings::SCM
    }

    fn check(&self, config: &Config) -> Vec<Problem> {
        options::read(config).err().unwrap_or_default()
    }

    fn sqlite(&self) -> Arc<dyn consign_sqlite::Component> {
        store::sqlite_component()
    }

    fn postgres(&self) -> consign_postgres::Component {
        store::POSTGRES_COMPONENT
    }

    fn commands(&self) -> Vec<clap::Command> {
        vec![
            ScmCommand::augment_args(clap::Command::new("scm"))
                .about("Read repositories into the database, and make memories of their changes"),
        ]
    }

    async fn run(
        &self,
        _: &str,
        arguments: &ArgMatches,
        context: &Context,
    ) -> Result<Exit, Failure> {
        let command = ScmCommand::from_arg_matches(arguments);
        command.map_err(Failure::clap)?.run(context).await
    }

    async fn prepare(&self, config: &Config) -> Result<Arc<dyn AppService>, Failure> {
        Ok(Arc::new(ScmService::prepare(config)?))
    }

    fn offer_port(&self, database: &Database) -> Option<Box<dyn Any>> {
        Some(Box::new(ledger(database)))
    }

    fn files(&self, config: &Config) -> Vec<PathBuf> {
        let options = options::read(config);
        let mirrors = options.map(|options| options.mirrors_root(&options::artifacts_root(config)));
        mirrors.into_iter().collect()
    }

    fn describe_metrics(&self) {
        service::metrics::describe();
    }
}

/// The ledger of repositories in a database.
pub(crate) fn ledger(database: &Database) -> Arc<dyn ScmLedger> {
    database.port(
        |store| Arc::new(ScmStore::new(store)) as Arc<dyn ScmLedger>,
        |store| Arc::new(ScmStore::new(store)) as Arc<dyn ScmLedger>,
    )
}
