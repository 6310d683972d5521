//! The app `payments`.

mod options;
mod service;

use std::sync::Arc;

use async_trait::async_trait;
use clap::{ArgMatches, Args, FromArgMatches};
use consign_app::{
    App, AppService,
    config::{Config, Problem, Section},
    context::Context,
    database::Database,
    failure::{Exit, Failure},
    queue::OwnQueue,
};
use consign_server::AppState;

use self::service::PaymentsService;
use crate::{QUEUE, cli::PaymentsCommand};

/// The app `payments`.
#[derive(Debug)]
pub struct PaymentsApp;

#[async_trait]
impl App for PaymentsApp {
    fn name(&self) -> &'static str {
        QUEUE
    }

    fn settings(&self) -> &'static Section {
        &crate::settings::PAYMENTS
    }

    fn check(&self, config: &Config) -> Vec<Problem> {
        options::read(config).err().unwrap_or_default()
    }

    fn sqlite(&self) -> Arc<dyn consign_sqlite::Component> {
        crate::store::sqlite_component()
    }

    fn postgres(&self) -> consign_postgres::Component {
        crate::store::POSTGRES_COMPONENT
    }

    fn commands(&self) -> Vec<clap::Command> {
        vec![
            PaymentsCommand::augment_args(clap::Command::new("payments"))
                .about("List, show, repair and move payments; reconcile and import them"),
        ]
    }

    async fn run(
        &self,
        _: &str,
        arguments: &ArgMatches,
        context: &Context,
    ) -> Result<Exit, Failure> {
        let command = PaymentsCommand::from_arg_matches(arguments);
        command.map_err(Failure::clap)?.run(context).await
    }

    fn queue(&self, config: &Config) -> Option<OwnQueue> {
        let policy = crate::queue_policy(&options::read(config).ok()?.options);
        let name = crate::queue();
        Some(OwnQueue::new(name, policy, self.settings(), config))
    }

    fn delivers(&self, config: &Config) -> bool {
        options::read(config).is_ok_and(|settings| settings.are_dispatched())
    }

    fn extension(&self) -> Option<Arc<dyn consign_server::Extension>> {
        Some(Arc::new(crate::PaymentsHttp::off()))
    }

    async fn prepare(&self, config: &Config) -> Result<Arc<dyn AppService>, Failure> {
        Ok(Arc::new(PaymentsService::prepare(config)?))
    }

    fn describe_metrics(&self) {
        crate::metrics::describe();
    }

    fn restrict(&self, state: AppState, config: &Config) -> AppState {
        state.with_tenants(options::tenants(config).unwrap_or_default())
    }
}

/// The payments of a database.
pub(crate) fn payments(database: &Database) -> Arc<dyn crate::Payments> {
    database.port(
        |store| store as Arc<dyn crate::Payments>,
        |store| store as Arc<dyn crate::Payments>,
    )
}
