//! `consign work`: the worker alone.

use std::net::SocketAddr;

use clap::Args;
use consign_kernel::{QueueName, nearest};
use consign_server::listen_address;

use crate::{
    config::{Config, Flags},
    context::{Context, address_of},
    database::Address,
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
    /// Deliver what is due now and end; exit code 1 if something was not delivered
    #[arg(long)]
    once: bool,
    /// Serve /healthz, /readyz and /metrics here
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address)]
    health_listen: Option<SocketAddr>,
    /// Bring the database to this program's schema first
    #[arg(long)]
    migrate: bool,
    /// Leave the policies of queues that are there as they are
    #[arg(long, hide = true)]
    keep_policies: bool,
}

impl Work {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let mut config = context.config(Flags::new())?;
        known(&config, &self.queues)?;
        if self.keep_policies {
            config.keep_policies();
        }
        if !self.queues.is_empty() {
            let wanted = |queue: &QueueName| self.queues.contains(queue);
            config.settings.queues.retain(|queue| wanted(&queue.name));
            config.settings.orders.enabled &= self.queues.iter().any(is_orders);
            config.settings.payments.options.enabled &= self.queues.iter().any(is_payments);
            config.settings.memory.options.enabled &= self.queues.iter().any(is_memory);
        }
        let service = Service {
            migrate: self.migrate || config.settings.database.migrate_on_start,
            config,
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

/// The queue of orders has its sink without a word of the configuration.
fn is_orders(queue: &QueueName) -> bool {
    queue.as_str() == consign_orders::QUEUE
}

fn is_payments(queue: &QueueName) -> bool {
    queue.as_str() == consign_payments::QUEUE
}

fn is_memory(queue: &QueueName) -> bool {
    queue.as_str() == consign_memory::QUEUE
}

/// Refuses queues that cannot be worked, and to run for nothing.
fn known(config: &Config, wanted: &[QueueName]) -> Result<(), Failure> {
    let queues = &config.settings.queues;
    let has_orders = config.settings.orders.enabled;
    let is_shared = matches!(address_of(config)?, Address::Postgres { .. });
    let has_payments = config.settings.payments.are_dispatched(is_shared);
    let with_sink = || queues.iter().filter(|queue| queue.sink.is_some());
    let has_memory = config.settings.memory.options.enabled;
    if with_sink().next().is_none() && !has_orders && !has_payments && !has_memory {
        let message = "no queue of the configuration has a sink: there is nothing to work on";
        return Err(Failure::usage(message));
    }
    for name in wanted {
        let is_own = (has_orders && is_orders(name))
            || (has_payments && is_payments(name))
            || (has_memory && is_memory(name));
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
