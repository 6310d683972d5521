//! The app `orders`.

mod aliases;
mod options;
mod service;

use std::sync::Arc;

use async_trait::async_trait;
use clap::{ArgMatches, Args, FromArgMatches};
use consign_app::{
    App, AppService,
    aliases::MetricAlias,
    config::{Config, Layer, Problem, Section},
    context::Context,
    database::Database,
    failure::{Exit, Failure},
    queue::OwnQueue,
};

use self::service::OrdersService;
use crate::{Ledger, QUEUE, cli::OrdersCommand, queue_policy};

/// The app `orders`.
#[derive(Debug)]
pub struct OrdersApp;

#[async_trait]
impl App for OrdersApp {
    fn name(&self) -> &'static str {
        QUEUE
    }

    fn settings(&self) -> &'static Section {
        &crate::settings::ORDERS
    }

    fn check(&self, config: &Config) -> Vec<Problem> {
        options::read(config).err().into_iter().collect()
    }

    fn ignore(&self, variables: &mut Layer, others: &Layer) -> Option<String> {
        options::ignore_stray(variables, others)
    }

    fn sqlite(&self) -> Arc<dyn consign_sqlite::Component> {
        crate::store::sqlite_component()
    }

    fn postgres(&self) -> consign_postgres::Component {
        crate::store::POSTGRES_COMPONENT
    }

    fn commands(&self) -> Vec<clap::Command> {
        vec![
            OrdersCommand::augment_args(clap::Command::new("orders"))
                .about("List, show, requeue, resolve and purge orders"),
        ]
    }

    async fn run(
        &self,
        _: &str,
        arguments: &ArgMatches,
        context: &Context,
    ) -> Result<Exit, Failure> {
        let command = OrdersCommand::from_arg_matches(arguments);
        command.map_err(Failure::clap)?.run(context).await
    }

    fn queue(&self, config: &Config) -> Option<OwnQueue> {
        let options = options::read(config).ok()?;
        let name = QUEUE.parse().ok()?;
        Some(OwnQueue::new(
            name,
            queue_policy(&options),
            self.settings(),
            config,
        ))
    }

    fn extension(&self) -> Option<Arc<dyn consign_server::Extension>> {
        Some(Arc::new(crate::OrdersHttp::off()))
    }

    async fn prepare(&self, config: &Config) -> Result<Arc<dyn AppService>, Failure> {
        Ok(Arc::new(OrdersService::prepare(config).await?))
    }

    fn describe_metrics(&self) {
        crate::metrics::describe();
        service::takeovers::describe();
    }

    fn metric_aliases(&self) -> &'static [MetricAlias] {
        aliases::ALIASES
    }
}

/// The ledger of orders in a database.
pub(crate) fn ledger(database: &Database) -> Arc<dyn Ledger> {
    database.port(
        |store| store as Arc<dyn Ledger>,
        |store| store as Arc<dyn Ledger>,
    )
}
