//! Memories in a process that stays: their queue, who answers agents, who delivers what was put off,
//! and who compares the outbox with its audits.

use std::{sync::Arc, time::Duration};

use consign_kernel::{Error, Store};
use consign_memory::{
    Backend, BackendKind, Embedded, FlushSink, MemoryOptions, MemoryService, OpenMemory,
};
use consign_server::MemoryHere;
use consign_worker::QueueWork;

use super::own_queue::{OwnQueue, Put};
use crate::{
    config::Config,
    database::Opened,
    failure::{Exit, Failure},
    service::Role,
};

/// How long a look at the memory server may take when the service starts.
const CHECK_BUDGET: Duration = Duration::from_secs(10);

/// What it takes to serve and deliver memories.
#[derive(Debug)]
pub(crate) struct Memory {
    options: MemoryOptions,
    /// None: they are kept here.
    server: Option<Arc<OpenMemory>>,
}

impl Memory {
    /// Finds out whether the backend can be used as configured, without touching anything; none where
    /// there are no memories.
    pub(crate) fn prepare(config: &Config) -> Result<Option<Self>, Failure> {
        let options = &config.settings.memory.options;
        if !options.enabled {
            return Ok(None);
        }
        let server = match options.backend() {
            BackendKind::Embedded => None,
            BackendKind::Openmemory => {
                let refuse = |error: Error| Failure::new(Exit::Usage, "config", error.to_string());
                Some(Arc::new(OpenMemory::new(options).map_err(refuse)?))
            }
        };
        Ok(Some(Self {
            options: options.clone(),
            server,
        }))
    }

    /// Where memories go.
    pub(crate) fn backend(&self, opened: &Opened) -> Arc<dyn Backend> {
        match &self.server {
            Some(server) => Arc::clone(server) as Arc<dyn Backend>,
            None => Arc::new(Embedded::new(Arc::clone(&opened.memory))),
        }
    }

    /// Who does what agents ask.
    pub(crate) fn service(&self, opened: &Opened) -> Arc<MemoryService> {
        let backend = self.backend(opened);
        let logbook = Arc::clone(&opened.memory);
        let service = MemoryService::new(logbook, backend, self.options.clone());
        Arc::new(service.with_scm(Arc::clone(&opened.scm)))
    }

    /// Their queue with its sink.
    pub(crate) fn work(&self, opened: &Opened) -> QueueWork {
        let backend = self.backend(opened);
        let sink = FlushSink::new(Arc::clone(&opened.memory), backend, &self.options);
        consign_memory::queue_work(Arc::new(sink), &self.options)
    }

    /// Makes their queue if it is not there, for a command that may put memories off. One that is there
    /// stays as it is.
    pub(crate) async fn make_queue(store: &dyn Store, config: &Config) -> Result<(), Error> {
        let mut queue = own_queue(config);
        queue.policy_said.clear();
        queue.put(store, config).await.map(drop)
    }

    /// Who answers `/mcp` and its twins.
    pub(super) fn here(&self, opened: &Opened) -> MemoryHere {
        MemoryHere {
            service: self.service(opened),
            options: self.options.clone(),
        }
    }

    /// Compares the outbox with its audits, for ever; only where memories are served.
    pub(super) fn reconcile(
        &self,
        opened: &Opened,
        role: &Role,
    ) -> Option<impl Future<Output = ()> + use<>> {
        let reconcile =
            || consign_memory::reconcile_loop(Arc::clone(&opened.memory), self.options.clone());
        matches!(role, Role::Serve).then(reconcile)
    }

    /// Says what is wrong with the memory server, once; that it is away is no reason not to start.
    pub(super) fn check(&self, opened: &Opened) -> impl Future<Output = ()> + use<> {
        let service = self.service(opened);
        async move {
            let backend = service.backend();
            match service.check(CHECK_BUDGET).await {
                Ok(warnings) => {
                    for warning in warnings {
                        tracing::warn!("memory server {}: {warning}", backend.destination());
                    }
                }
                Err(error) => tracing::warn!(
                    "memory server {}: {error}; memories are put off until it is there",
                    backend.destination()
                ),
            }
        }
    }

    /// What the banner says.
    pub(super) fn summary(&self) -> Summary {
        let server = self.server.as_ref();
        Summary {
            backend: self.options.backend(),
            destination: server.map(|server| server.destination().to_owned()),
        }
    }
}

/// Makes the queue of memories, or changes it to what the settings say.
pub(super) async fn put(store: &dyn Store, config: &Config) -> Result<Put, Error> {
    match config.settings.memory.options.enabled {
        true => own_queue(config).put(store, config).await,
        false => Ok(Put::AsItIs),
    }
}

fn own_queue(config: &Config) -> OwnQueue {
    let settings = &config.settings.memory;
    OwnQueue {
        name: consign_memory::queue(),
        policy: consign_memory::queue_policy(&settings.options),
        is_said: settings.is_said,
        policy_said: settings.policy_said.clone(),
    }
}

/// Memories in a few words.
#[derive(Clone, Debug)]
pub(super) struct Summary {
    pub(super) backend: BackendKind,
    destination: Option<String>,
}

impl Summary {
    pub(super) fn sentence(&self) -> String {
        match &self.destination {
            None => "POST /mcp -> kept here until memory.openmemory_base_url is set".to_owned(),
            Some(destination) => format!("POST /mcp -> {destination}"),
        }
    }
}
