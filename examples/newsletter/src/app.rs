//! The app as the binary knows it.

use std::sync::Arc;

use async_trait::async_trait;
use clap::{ArgMatches, Args, FromArgMatches};
use consign_app::{
    App, AppService, ServiceBanner,
    config::{Config, Section},
    context::Context,
    database::Database,
    failure::{Exit, Failure},
    queue::OwnQueue,
};
use consign_server::Extension;
use consign_worker::QueueWork;
use serde_json::json;

use crate::{
    NewsletterHttp, QUEUE, Subscribers, WelcomeSink,
    cli::NewsletterCommand,
    queue,
    settings::{Options, SETTINGS},
    store::{POSTGRES_COMPONENT, sqlite_component},
};

/// The app `newsletter`.
#[derive(Debug)]
pub struct Newsletter;

#[async_trait]
impl App for Newsletter {
    fn name(&self) -> &'static str {
        QUEUE
    }

    fn settings(&self) -> &'static Section {
        &SETTINGS
    }

    fn sqlite(&self) -> Arc<dyn consign_sqlite::Component> {
        sqlite_component()
    }

    fn postgres(&self) -> consign_postgres::Component {
        POSTGRES_COMPONENT
    }

    fn commands(&self) -> Vec<clap::Command> {
        let command = NewsletterCommand::augment_args(clap::Command::new(QUEUE));
        vec![command.about("Subscribe addresses and list subscribers")]
    }

    async fn run(
        &self,
        _: &str,
        arguments: &ArgMatches,
        context: &Context,
    ) -> Result<Exit, Failure> {
        let command = NewsletterCommand::from_arg_matches(arguments);
        command.map_err(Failure::clap)?.run(context).await
    }

    fn queue(&self, config: &Config) -> Option<OwnQueue> {
        let policy = Options::of(config).policy();
        Some(OwnQueue::new(queue(), policy, self.settings(), config))
    }

    fn extension(&self) -> Option<Arc<dyn Extension>> {
        Some(Arc::new(NewsletterHttp::off()))
    }

    async fn prepare(&self, config: &Config) -> Result<Arc<dyn AppService>, Failure> {
        Ok(Arc::new(NewsletterService(Options::of(config))))
    }
}

/// The app in `serve` and `work`.
#[derive(Debug)]
struct NewsletterService(Options);

#[async_trait]
impl AppService for NewsletterService {
    fn work(&self, _: &Database) -> Vec<QueueWork> {
        let sink = WelcomeSink::new(&self.0.sender);
        vec![QueueWork::new(queue(), Arc::new(sink))]
    }

    fn extension(&self, database: &Database) -> Option<Arc<dyn Extension>> {
        Some(Arc::new(NewsletterHttp::new(subscribers(database))))
    }

    fn banner(&self) -> ServiceBanner {
        let path = "/v1/newsletter/subscribers";
        ServiceBanner {
            sentence: Some(format!("POST {path} -> {}", self.0.sender)),
            json: json!({ "sender": self.0.sender }),
            tries: vec![format!(
                "{{url}}{path} {{json}} -d '{{\"address\": \"ada@example.org\"}}'"
            )],
            token_variable: None,
        }
    }
}

/// The port of an open database.
pub(crate) fn subscribers(database: &Database) -> Arc<dyn Subscribers> {
    database.port(
        |store| store as Arc<dyn Subscribers>,
        |store| store as Arc<dyn Subscribers>,
    )
}
