//! The stack under test: a database, a memory server, and the gateway.

use std::{path::PathBuf, sync::Arc, time::Duration};

use consign_app::{
    config::{Flags, failure},
    context::Context,
    database::{self, Address, Apps, Database, OnMissing, Reach},
    failure::{Exit, Failure},
};
use serde_json::json;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::{
    Verify,
    gateway::{Files, Gateway},
    server::{EphemeralServer, Server},
};
use crate::{
    AuditFilter, Backend, BackendError, BackendKind, Correlation, Logbook, MemoryOptions, Secret,
    app::{MemoryAppService, logbook, options},
};

/// User of the private space that is written to.
pub(super) const WRITER: &str = "consign-verify";
/// Variable of the tests with an installed memory server.
const INSTALLED: &str = "CONSIGN_TEST_OPENMEMORY";
/// Time limit of one check of the memory server.
const LOOK_MAX: Duration = Duration::from_secs(5);
/// How long a memory server may take to start.
const START_MAX: Duration = Duration::from_secs(60);
/// Interval between checks.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Audits read to detect other users of the database.
const AUDITS_MAX: u32 = 1_000;

/// The gateway under test.
pub(super) struct Stack {
    pub(super) opened: Database,
    logbook: Arc<dyn Logbook>,
    options: MemoryOptions,
    pub(super) gateway: Gateway,
    pub(super) files: Files,
    pub(super) server: Server,
    /// Unique mark of this run's texts.
    pub(super) mark: String,
    /// Id of the memory of the first step.
    pub(super) stored: Option<String>,
    /// Time limit of waits.
    pub(super) patience: Duration,
    backend: Arc<dyn Backend>,
    /// Holds the configuration and the log of the processes, and what else is ours.
    _folder: TempDir,
}

impl Stack {
    /// Starts the stack; rejects a database with other memories.
    pub(super) async fn start(verify: &Verify, context: &Context) -> Result<Self, Failure> {
        let config = context.config(Flags::new())?;
        let mut options = options(&config).map_err(|problem| failure(&[problem]))?;
        let folder = tempfile::Builder::new()
            .prefix("consign-verify-")
            .tempdir()?;
        let server = server(verify, &options)?;
        // All tools are tested, independent of the configured set.
        let mut more = vec![("tool_set", json!("all"))];
        if let Server::Own(own) = &server {
            options.backend = Some(BackendKind::Openmemory);
            options.openmemory_base_url = Some(own.url());
            options.openmemory_api_key = Some(Secret::new(&own.key));
            more.extend([
                ("backend", json!("openmemory")),
                ("openmemory_base_url", json!(own.url())),
                ("openmemory_api_key", json!(own.key)),
                ("artifacts_root", json!(folder.path().join("artifacts"))),
            ]);
        }
        MemoryAppService::prepare(&config)?;
        let memory = MemoryAppService::with_options(options.clone())?;
        let apps = Apps::of(&config);
        let is_own = matches!(server, Server::Own(_));
        let is_configured = config.origin("database.url").is_some();
        let address = if is_own && !is_configured {
            let address = Address::file(&folder.path().join("verify.db"));
            database::migrate(&address, &apps).await?;
            address
        } else {
            config.address()?
        };
        let opened = database::open(
            &address,
            &apps,
            &Reach::for_a_command(),
            OnMissing::Create,
            context.out,
        )
        .await?;
        if is_own {
            is_unused(&*logbook(&opened), &space(&options)).await?;
        }
        MemoryAppService::create_queue(&*opened.store, &config).await?;
        let files = Files::write(folder.path(), &config, &address, &more)?;
        let gateway = match &verify.gateway_url {
            Some(url) => {
                let token = options.gateway_auth_token.as_ref();
                Gateway::at(url, token.map(|token| token.reveal().to_owned()))?
            }
            None => Gateway::start(&files).await?,
        };
        Ok(Self {
            backend: memory.backend(&opened),
            logbook: logbook(&opened),
            opened,
            options,
            gateway,
            files,
            server,
            mark: Correlation::new().to_string().replace('-', ""),
            stored: None,
            patience: Duration::from_secs(verify.patience),
            _folder: folder,
        })
    }

    pub(super) fn options(&self) -> &MemoryOptions {
        &self.options
    }

    pub(super) fn logbook(&self) -> &dyn Logbook {
        &*self.logbook
    }

    pub(super) fn space(&self) -> String {
        space(self.options())
    }

    pub(super) fn has_server(&self) -> bool {
        self.options().backend() == BackendKind::Openmemory
    }

    pub(super) fn can_stop(&self) -> bool {
        self.has_server() && !matches!(self.server, Server::Fixed)
    }

    /// Identity of the backend.
    pub(super) fn identity(&self) -> String {
        self.backend.identity()
    }

    pub(super) fn server_url(&self) -> Option<&str> {
        let url = || self.backend.destination();
        self.has_server().then(url)
    }

    /// Checks the memory server once.
    pub(super) async fn look(&self) -> Result<Vec<String>, BackendError> {
        self.backend.check(LOOK_MAX).await
    }

    /// Waits until the memory server answers.
    pub(super) async fn is_up(&self) -> Result<Vec<String>, BackendError> {
        let ends = Instant::now() + START_MAX.min(self.patience);
        loop {
            match self.look().await {
                Err(_) if Instant::now() < ends => rest().await,
                looked => return looked,
            }
        }
    }

    /// Stops a temporary server; a configured one is left running.
    pub(super) async fn end(&mut self) {
        if let Server::Own(_) = self.server
            && let Err(error) = self.server.stop().await
        {
            tracing::debug!("the memory server was not stopped: {error}");
        }
    }
}

/// Pending memories would be delivered to the temporary server and lost.
async fn is_unused(logbook: &dyn Logbook, space: &str) -> Result<(), Failure> {
    let rows = logbook.outbox_rows(None, AUDITS_MAX).await?;
    let filter = AuditFilter::default();
    let audits = logbook.audits(&filter, AUDITS_MAX).await?;
    let is_ours = rows.iter().all(|row| row.target_space == space)
        && audits.iter().all(|audit| audit.target_space == space);
    if is_ours {
        return Ok(());
    }
    let why = "the database has other memories: with a temporary memory server, verify \
               requires a database of its own, or none configured";
    Err(Failure::new(Exit::Refused, "invalid_input", why))
}

/// The space that is written to.
fn space(options: &MemoryOptions) -> String {
    format!("{}{WRITER}", options.private_space_prefix)
}

/// Waits between two checks.
pub(super) async fn rest() {
    sleep(LOOK_EVERY).await;
}

/// The memory server to verify with.
fn server(verify: &Verify, options: &MemoryOptions) -> Result<Server, Failure> {
    if let Some((stop, start)) = verify
        .stop_command
        .clone()
        .zip(verify.start_command.clone())
    {
        return Ok(Server::Commands { stop, start });
    }
    let is_configured = options.openmemory_base_url.is_some();
    let installed = || std::env::var_os(INSTALLED).map(PathBuf::from);
    let folder = match (&verify.openmemory_dir, is_configured) {
        (Some(folder), _) => Some(folder.clone()),
        (None, true) => None,
        (None, false) => installed(),
    };
    let Some(folder) = folder else {
        return Ok(Server::Fixed);
    };
    let own = EphemeralServer::launch(&folder);
    let own =
        own.map_err(|why| Failure::usage(format!("no memory server to verify with: {why}")))?;
    Ok(Server::Own(Box::new(own)))
}
