//! Memories in a long-running process: the gateway, the sink, and reconciliation.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use consign_app::{
    App as _, AppService, ServiceBanner, ServiceKind, Task,
    config::{Config, failure},
    database::Database,
    failure::{Exit, Failure},
};
use consign_kernel::{Error, Store};
use consign_scm::ScmLedger;
use consign_server::Extension;
use consign_worker::QueueWork;
use serde_json::json;

use super::{MemoryApp, logbook, options};
use crate::{
    Backend, BackendKind, EmbeddedBackend, FlushSink, MemoryHttp, MemoryOptions, OpenMemory,
};

/// How long a look at the memory server may take when the service starts.
const CHECK_BUDGET: Duration = Duration::from_secs(10);

/// Kept in the database, unless a memory server is set.
const TRY: &str = "{url}/mcp {json} -d '{\"tool\": \"memory_store\", \"arguments\": \
    {\"payload_md\": \"Deploys are on Tuesdays.\"}}'";

/// Memories in a process that stays.
#[derive(Debug)]
pub struct MemoryAppService {
    options: MemoryOptions,
    /// None: they are kept in the database.
    server: Option<Arc<OpenMemory>>,
}

impl MemoryAppService {
    /// Checks whether the backend can be used as configured, without touching anything.
    pub fn prepare(config: &Config) -> Result<Self, Failure> {
        if !config.is_on(MemoryApp.name()) {
            return Err(Failure::usage(
                "the app memory is off: add it to apps in consign.toml, or use --app memory",
            ));
        }
        let options = options(config).map_err(|problem| failure(&[problem]))?;
        Self::with_options(options)
    }

    /// The same with options that were read before.
    pub fn with_options(options: MemoryOptions) -> Result<Self, Failure> {
        let server = match options.backend() {
            BackendKind::Embedded => None,
            BackendKind::Openmemory => {
                let reject = |error: Error| Failure::new(Exit::Usage, "config", error.to_string());
                Some(Arc::new(OpenMemory::new(&options).map_err(reject)?))
            }
        };
        Ok(Self { options, server })
    }

    /// Where memories go.
    pub fn backend(&self, database: &Database) -> Arc<dyn Backend> {
        match &self.server {
            Some(server) => Arc::clone(server) as Arc<dyn Backend>,
            None => Arc::new(EmbeddedBackend::new(logbook(database))),
        }
    }

    /// Who answers agents.
    pub fn gateway(&self, database: &Database) -> Arc<crate::MemoryService> {
        let backend = self.backend(database);
        let service = crate::MemoryService::new(logbook(database), backend, self.options.clone());
        Arc::new(match database.find_port::<Arc<dyn ScmLedger>>() {
            Some(scm) => service.with_scm(scm),
            None => service,
        })
    }

    /// Creates the queue of memories if it does not exist, for a command that may defer memories. One
    /// that exists stays as it is.
    pub async fn create_queue(store: &dyn Store, config: &Config) -> Result<(), Error> {
        let Some(mut queue) = MemoryApp.queue(config) else {
            return Ok(());
        };
        queue.policy_fields.clear();
        queue.put(store, config).await.map(drop)
    }

    /// Logs what is wrong with the memory server, once; that it is away is no reason not to start.
    fn check(&self, database: &Database) -> impl Future<Output = ()> + use<> {
        let service = self.gateway(database);
        async move {
            let backend = service.backend();
            match service.check(CHECK_BUDGET).await {
                Ok(warnings) => {
                    for warning in warnings {
                        tracing::warn!("memory server {}: {warning}", backend.destination());
                    }
                }
                Err(error) => tracing::warn!(
                    "memory server {}: {error}; memories are deferred until it answers",
                    backend.destination()
                ),
            }
        }
    }

    fn sentence(&self) -> String {
        match &self.server {
            None => "POST /mcp -> kept here until memory.openmemory_base_url is set".to_owned(),
            Some(server) => format!("POST /mcp -> {}", server.destination()),
        }
    }
}

#[async_trait]
impl AppService for MemoryAppService {
    fn role(&self) -> &'static str {
        "consign_gateway"
    }

    fn work(&self, database: &Database) -> Vec<QueueWork> {
        let sink = FlushSink::new(logbook(database), self.backend(database), &self.options);
        vec![crate::queue_work(Arc::new(sink), &self.options)]
    }

    fn extension(&self, database: &Database) -> Option<Arc<dyn Extension>> {
        let http = MemoryHttp::new(self.gateway(database), &self.options);
        Some(Arc::new(http))
    }

    fn tasks(&self, database: &Database, kind: ServiceKind) -> Vec<Task> {
        let mut tasks: Vec<Task> = Vec::new();
        // Cut off at the end, it would leave behind what it tries the memory server with.
        if kind != ServiceKind::WorkOnce {
            tasks.push(Box::pin(self.check(database)));
        }
        if kind == ServiceKind::Serve {
            let options = self.options.clone();
            tasks.push(Box::pin(crate::reconcile_loop(logbook(database), options)));
        }
        tasks
    }

    fn banner(&self) -> ServiceBanner {
        let tokens = self.options.tokens();
        let has_tokens = tokens.is_ok_and(|tokens| !tokens.is_empty());
        ServiceBanner {
            sentence: Some(self.sentence()),
            json: json!({"backend": self.options.backend()}),
            tries: vec![TRY.to_owned()],
            token_variable: has_tokens.then_some("GATEWAY_AUTH_TOKEN"),
        }
    }
}
