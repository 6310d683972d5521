//! The gateway under test: a database, a memory server, and what serves agents between them.

use std::{path::PathBuf, sync::Arc, time::Duration};

use consign_memory::{
    AuditFilter, Backend, BackendError, BackendKind, Correlation, Logbook, MemoryOptions, Secret,
};
use serde_json::json;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::{
    Verify,
    gateway::{Files, Gateway},
    server::{Own, Server},
};
use crate::{
    config::{Config, Flags},
    context::{Context, address_of},
    database::{self, Address, Opened, Reach},
    failure::{Exit, Failure},
    service::Memory,
};

/// Whose private space is written to.
pub(super) const WRITER: &str = "consign-verify";
/// Where the tests of this program have a memory server installed.
const INSTALLED: &str = "CONSIGN_TEST_OPENMEMORY";
/// How long one look at the memory server may take.
const LOOK_MAX: Duration = Duration::from_secs(5);
/// How long a memory server may take to start.
const START_MAX: Duration = Duration::from_secs(60);
/// How often to look again.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Audits looked at to tell whether anybody else uses the database.
const AUDITS_MAX: u32 = 1_000;

/// The gateway under test.
pub(super) struct Stack {
    pub(super) opened: Opened,
    pub(super) gateway: Gateway,
    pub(super) files: Files,
    pub(super) server: Server,
    /// What every text of this run holds, and no other.
    pub(super) mark: String,
    /// What the first step stored.
    pub(super) stored: Option<String>,
    /// How long anything may take that has to be waited for.
    pub(super) patience: Duration,
    backend: Arc<dyn Backend>,
    config: Config,
    /// Holds the configuration and the log of the processes, and what else is ours.
    _folder: TempDir,
}

impl Stack {
    /// Gets everything up; refuses what would touch somebody else's memories.
    pub(super) async fn start(verify: &Verify, context: &Context) -> Result<Self, Failure> {
        let mut config = context.config(Flags::new())?;
        let folder = tempfile::Builder::new()
            .prefix("consign-verify-")
            .tempdir()?;
        let server = server(verify, &config)?;
        // Everything is tried, whatever agents are offered.
        let mut more = vec![("tool_set", json!("all"))];
        if let Server::Own(own) = &server {
            let options = &mut config.settings.memory.options;
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
        let Some(memory) = Memory::prepare(&config)? else {
            return Err(Failure::usage(
                "memory.enabled is false: there is nothing to verify",
            ));
        };
        let is_own = matches!(server, Server::Own(_));
        let is_configured = config.origin("database.url").is_some();
        let address = match is_own && !is_configured {
            true => {
                let address = Address::file(&folder.path().join("verify.db"));
                database::migrate(&address).await?;
                address
            }
            false => address_of(&config)?,
        };
        let opened = database::open(&address, &Reach::for_a_command(), context.out).await?;
        if is_own {
            is_unused(&opened, &space(&config.settings.memory.options)).await?;
        }
        Memory::make_queue(&*opened.store, &config).await?;
        let files = Files::write(folder.path(), &config, &address, &more)?;
        let gateway = match &verify.gateway_url {
            Some(url) => {
                let token = config.settings.memory.options.gateway_auth_token.as_ref();
                Gateway::at(url, token.map(|token| token.reveal().to_owned()))?
            }
            None => Gateway::start(&files).await?,
        };
        Ok(Self {
            backend: memory.backend(&opened),
            opened,
            gateway,
            files,
            server,
            mark: Correlation::new().to_string().replace('-', ""),
            stored: None,
            patience: Duration::from_secs(verify.patience),
            config,
            _folder: folder,
        })
    }

    pub(super) fn options(&self) -> &MemoryOptions {
        &self.config.settings.memory.options
    }

    pub(super) fn logbook(&self) -> &dyn Logbook {
        &*self.opened.memory
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

    /// Where memories go, by its identity.
    pub(super) fn identity(&self) -> String {
        self.backend.identity()
    }

    pub(super) fn server_url(&self) -> Option<&str> {
        let url = || self.backend.destination();
        self.has_server().then(url)
    }

    /// Looks at the memory server once.
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

    /// Leaves a server of our own in good order; somebody else's is theirs.
    pub(super) async fn end(&mut self) {
        if let Server::Own(_) = self.server
            && let Err(error) = self.server.stop().await
        {
            tracing::debug!("the memory server was not stopped: {error}");
        }
    }
}

/// Whatever waits in the outbox would be delivered to a server that is gone in a moment.
async fn is_unused(opened: &Opened, space: &str) -> Result<(), Failure> {
    let rows = opened.memory.outbox_rows(None, AUDITS_MAX).await?;
    let filter = AuditFilter::default();
    let audits = opened.memory.audits(&filter, AUDITS_MAX).await?;
    let is_ours = rows.iter().all(|row| row.target_space == space)
        && audits.iter().all(|audit| audit.target_space == space);
    if is_ours {
        return Ok(());
    }
    let why = "the database holds memories of others: with a memory server of its own, verify \
               needs a database that nobody else uses, or none configured";
    Err(Failure::new(Exit::Refused, "invalid_input", why))
}

/// Whose space is written to.
fn space(options: &MemoryOptions) -> String {
    format!("{}{WRITER}", options.private_space_prefix)
}

/// Lets a moment pass between two looks.
pub(super) async fn rest() {
    sleep(LOOK_EVERY).await;
}

/// Whom to verify against.
fn server(verify: &Verify, config: &Config) -> Result<Server, Failure> {
    if let Some((stop, start)) = verify
        .stop_command
        .clone()
        .zip(verify.start_command.clone())
    {
        return Ok(Server::Commands { stop, start });
    }
    let is_configured = config.settings.memory.options.openmemory_base_url.is_some();
    let installed = || std::env::var_os(INSTALLED).map(PathBuf::from);
    let folder = match (&verify.openmemory_dir, is_configured) {
        (Some(folder), _) => Some(folder.clone()),
        (None, true) => None,
        (None, false) => installed(),
    };
    let Some(folder) = folder else {
        return Ok(Server::Fixed);
    };
    let own = Own::launch(&folder);
    let own =
        own.map_err(|why| Failure::usage(format!("no memory server to verify with: {why}")))?;
    Ok(Server::Own(Box::new(own)))
}
