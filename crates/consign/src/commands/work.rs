//! `consign work`: the worker alone.

use std::net::SocketAddr;

use clap::Args;
use consign_kernel::{QueueName, nearest};
use consign_server::listen_address;

use crate::{
    config::{Config, Flags, Settings},
    context::Context,
    failure::{Exit, Failure},
    service::{Role, Service},
};

/// Deliver the messages of every queue that has a sink, without serving an API.
///
/// Any number of these may run beside each other and beside `serve`, on any number of machines.
/// Signals are as with `serve`.
#[derive(Args, Debug)]
pub(crate) struct Work {
    /// Only this queue; may be repeated
    #[arg(long = "queue", value_name = "NAME")]
    queues: Vec<QueueName>,
    /// Deliver what is due now and exit; exit code 1 if a message was not delivered
    #[arg(long)]
    once: bool,
    /// Serve /healthz, /readyz and /metrics here
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address)]
    health_listen: Option<SocketAddr>,
    /// Migrate the database to this program's schema first
    #[arg(long)]
    migrate: bool,
    /// Do not change the policies of existing queues
    #[arg(long, hide = true)]
    keep_policies: bool,
}

impl Work {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let mut config = context.config(Flags::new())?;
        let mut settings = Settings::of(&config)?;
        known(&config, &settings, &self.queues)?;
        if self.keep_policies {
            config.keep_policies();
        }
        if !self.queues.is_empty() {
            let wanted = |queue: &QueueName| self.queues.contains(queue);
            settings.queues.retain(|queue| wanted(&queue.name));
            config.retain_apps(|app| self.queues.iter().any(|queue| queue.as_str() == app));
        }
        let service = Service {
            migrate: self.migrate || settings.database.migrate_on_start,
            config,
            settings,
            sources: context.sources().clone(),
            role: Role::Work {
                health: self.health_listen,
                once: self.once,
            },
            delivers: true,
            out: context.out,
        };
        service.run().await
    }
}

/// Refuses queues that cannot be worked, and to run for nothing.
fn known(config: &Config, settings: &Settings, wanted: &[QueueName]) -> Result<(), Failure> {
    let queues = &settings.queues;
    let with_sink = || queues.iter().filter(|queue| queue.sink.is_some());
    let mut delivering = config.apps().filter(|app| app.delivers(config));
    if with_sink().next().is_none() && delivering.next().is_none() {
        let message = "no queue of the configuration has a sink: there is nothing to work on";
        return Err(Failure::usage(message));
    }
    for name in wanted {
        let mut apps = config.apps();
        let is_own = apps.any(|app| app.name() == name.as_str() && app.delivers(config));
        if is_own || with_sink().any(|queue| queue.name == *name) {
            continue;
        }
        let names = || with_sink().map(|queue| queue.name.as_str());
        let hint = match nearest(name.as_str(), names()) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("add [queues.{name}.sink], or claim its messages yourself"),
        };
        let message =
            format!("--queue {name}: the configuration has no such queue with a sink; {hint}");
        return Err(Failure::usage(message));
    }
    Ok(())
}
