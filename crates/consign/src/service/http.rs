//! The HTTP side of a service.

use consign_server::{AppState, Server, ServerOptions};
use tokio::{sync::watch, task::JoinHandle};

use super::{
    Role,
    gate::{Gate, RouteFilter},
    misconfigured, off,
};
use crate::{config::Config, failure::Failure, telemetry::RequestHook};

/// The HTTP side: listens from the first moment, answers once there is a database.
pub(super) struct Http {
    gate: Gate,
    pub(super) url: String,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Http {
    pub(super) async fn start(
        options: &ServerOptions,
        config: &Config,
        role: &Role,
        spans: Option<RequestHook>,
    ) -> Result<Option<Self>, Failure> {
        let options = match role {
            Role::Serve => options.clone(),
            Role::Work { health: None, .. } => return Ok(None),
            Role::Work {
                health: Some(listen),
                ..
            } => ServerOptions {
                listen: *listen,
                ..for_health(options)
            },
        };
        let server = Server::bind(&options)
            .await
            .map_err(|e| misconfigured(&e))?;
        let server = server.with_extensions(off(config));
        let url = server.url()?;
        let gate = Gate::new(spans, off(config));
        let stop = watch::Sender::new(false);
        let mut stopped = stop.subscribe();
        let stopped = async move {
            // The sender outlives the server; if not, stopping is right.
            drop(stopped.wait_for(|stop| *stop).await);
        };
        let task = tokio::spawn(server.serve(gate.router(), stopped));
        Ok(Some(Self {
            gate,
            url,
            stop,
            task,
        }))
    }

    /// Lets requests through.
    pub(super) fn open(&self, state: &AppState, options: &ServerOptions, role: &Role) {
        let (options, admits) = match role {
            Role::Serve => (options.clone(), RouteFilter::Everything),
            Role::Work { .. } => (for_health(options), RouteFilter::Health),
        };
        let router = consign_server::router(state.clone(), &options);
        self.gate.open(router, admits);
    }

    /// Returns when it has ended, for whatever reason.
    pub(super) async fn ended(&mut self) {
        if let Err(error) = (&mut self.task).await {
            tracing::error!("the HTTP server failed: {error}");
        }
    }

    /// Whether it ended without a stop signal.
    pub(super) fn has_failed(&self) -> bool {
        self.task.is_finished()
    }

    /// Lets requests under way end, and ends.
    pub(super) async fn stop(mut self) {
        self.stop.send_replace(true);
        self.ended().await;
    }
}

/// Health and figures only: nothing in them needs a token, and probes and scrapers have none. They
/// call by whatever name the machine has.
fn for_health(options: &ServerOptions) -> ServerOptions {
    ServerOptions {
        tokens: Vec::new(),
        apps_have_tokens: false,
        allow_anonymous: true,
        allow_plain_http: true,
        allowed_hosts: vec!["*".to_owned()],
        metrics_open: Some(true),
        ..options.clone()
    }
}
