//! The app `memory`.

mod options;
mod service;

use std::{path::PathBuf, sync::Arc};

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
use consign_kernel::{Error, Finding, NOT_CHECKED};

pub(crate) use self::options::read as options;
pub use self::service::MemoryAppService;
use crate::{
    Issue, Logbook, MemoryOptions, QUEUE, ReconcileOptions,
    cli::{MemoryCommand, mcp::Mcp, reconcile::Reconcile, report::Report, verify::Verify},
};

/// Doctor's code for audits that are pending for too long.
const HANGING: &str = "memory_audit_hanging";

/// The app `memory`.
#[derive(Debug)]
pub struct MemoryApp;

#[async_trait]
impl App for MemoryApp {
    fn name(&self) -> &'static str {
        QUEUE
    }

    fn settings(&self) -> &'static Section {
        &crate::settings::MEMORY
    }

    fn engine_variables(&self) -> &'static [(&'static str, &'static str)] {
        crate::settings::ENGINE_VARIABLES
    }

    fn check(&self, config: &Config) -> Vec<Problem> {
        options::read(config).err().into_iter().collect()
    }

    fn sqlite(&self) -> Arc<dyn consign_sqlite::Component> {
        crate::store::sqlite_component()
    }

    fn postgres(&self) -> consign_postgres::Component {
        crate::store::POSTGRES_COMPONENT
    }

    fn commands(&self) -> Vec<clap::Command> {
        let command = clap::Command::new;
        vec![
            MemoryCommand::augment_args(command("memory"))
                .about("List and show deferred memories; store and search memories"),
            Reconcile::augment_args(command("reconcile"))
                .about("Compare the outbox of memories with its audits"),
            Report::augment_args(command("report"))
                .about("Show the reliability report of the memory gateway"),
            Mcp::augment_args(command("mcp"))
                .about("Serve the memory gateway to one agent, on standard input and output"),
            Verify::augment_args(command("verify")).about(
                "Test the memory gateway end to end, optionally with an outage of the memory server",
            ),
        ]
    }

    async fn run(
        &self,
        command: &str,
        arguments: &ArgMatches,
        context: &Context,
    ) -> Result<Exit, Failure> {
        // Boxed to keep the future small.
        match command {
            "memory" => {
                let command = MemoryCommand::from_arg_matches(arguments);
                Box::pin(command.map_err(Failure::clap)?.run(context)).await
            }
            "reconcile" => {
                let command = Reconcile::from_arg_matches(arguments);
                Box::pin(command.map_err(Failure::clap)?.run(context)).await
            }
            "report" => {
                let command = Report::from_arg_matches(arguments);
                Box::pin(command.map_err(Failure::clap)?.run(context)).await
            }
            "mcp" => {
                let command = Mcp::from_arg_matches(arguments);
                Box::pin(command.map_err(Failure::clap)?.run(context)).await
            }
            _ => {
                let command = Verify::from_arg_matches(arguments);
                Box::pin(command.map_err(Failure::clap)?.run(context)).await
            }
        }
    }

    fn queue(&self, config: &Config) -> Option<OwnQueue> {
        let policy = crate::queue_policy(&options::read(config).ok()?);
        let name = crate::queue();
        Some(OwnQueue::new(name, policy, self.settings(), config))
    }

    fn extension(&self) -> Option<Arc<dyn consign_server::Extension>> {
        Some(Arc::new(crate::MemoryHttp::off()))
    }

    async fn prepare(&self, config: &Config) -> Result<Arc<dyn AppService>, Failure> {
        Ok(Arc::new(MemoryAppService::prepare(config)?))
    }

    fn files(&self, config: &Config) -> Vec<PathBuf> {
        let options = options::read(config);
        options.map_or_else(|_| Vec::new(), |options| vec![options.artifacts_root])
    }

    async fn doctor(
        &self,
        config: &Config,
        database: &Database,
        findings: &mut Vec<Finding>,
    ) -> Result<(), Failure> {
        let Ok(options) = options::read(config) else {
            return Ok(());
        };
        hanging_audits(&options.reconcile(), database, findings).await
    }

    fn describe_metrics(&self) {
        crate::metrics::describe();
    }

    fn has_tokens(&self, config: &Config) -> bool {
        let options = options::read(config).ok();
        let tokens = options.and_then(|options| options.tokens().ok());
        tokens.is_some_and(|tokens| !tokens.is_empty())
    }

    async fn release(&self) {
        crate::release_write_locks().await;
    }
}

/// The logbook of memories in a database.
pub(crate) fn logbook(database: &Database) -> Arc<dyn Logbook> {
    database.port(
        |store| store as Arc<dyn Logbook>,
        |store| store as Arc<dyn Logbook>,
    )
}

/// Applies the configured limit; the store's own check uses two hours.
async fn hanging_audits(
    configured: &ReconcileOptions,
    database: &Database,
    findings: &mut Vec<Finding>,
) -> Result<(), Failure> {
    let timeout = configured.audit_timeout;
    if timeout == MemoryOptions::default().reconcile().audit_timeout {
        return Ok(());
    }
    findings.retain(|finding| finding.code != HANGING);
    let options = ReconcileOptions {
        is_repairing: false,
        ..configured.clone()
    };
    let found = match logbook(database).reconcile_memory(&options).await {
        Ok(report) => report.findings,
        Err(Error::Forbidden { what }) => {
            findings.push(Finding {
                code: NOT_CHECKED.to_owned(),
                what: format!("cannot check pending audits: {what}"),
                remedy: "run doctor with a login in consign_operator".to_owned(),
                ids: Vec::new(),
            });
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let is_hanging = |it: &&crate::Finding| it.issue == Issue::HangingAudit;
    let count = found.iter().filter(is_hanging).count();
    if count > 0 {
        let seconds = timeout.as_secs();
        findings.push(Finding {
            code: HANGING.to_owned(),
            what: format!("{count} or more audits have been pending for over {seconds} s"),
            remedy: "`consign reconcile` ends them".to_owned(),
            ids: Vec::new(),
        });
    }
    Ok(())
}
