//! `consign work`: the worker alone.

use std::net::SocketAddr;

use clap::Args;
use consign_kernel::{LaneName, nearest};
use consign_server::listen_address;

use crate::{
    config::{Config, Flags},
    context::{Context, address_of},
    database::Address,
    failure::{Exit, Failure},
    service::{Role, Service},
};

/// Deliver the messages of every lane that has a sink, without serving an API.
///
/// Any number of these may run beside each other and beside `serve`, on any number of machines.
/// Signals are as with `serve`.
#[derive(Args, Debug)]
pub(crate) struct Work {
    /// Only this lane; may be repeated
    #[arg(long = "lane", value_name = "NAME")]
    lanes: Vec<LaneName>,
    /// Deliver what is due now and end; exit code 1 if something was not delivered
    #[arg(long)]
    once: bool,
    /// Serve /healthz, /readyz and /metrics here
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address)]
    health_listen: Option<SocketAddr>,
    /// Bring the database to this program's schema first
    #[arg(long)]
    migrate: bool,
    /// Leave the policies of lanes that are there as they are
    #[arg(long, hide = true)]
    keep_policies: bool,
}

impl Work {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let mut config = context.config(Flags::new())?;
        known(&config, &self.lanes)?;
        if self.keep_policies {
            config.keep_policies();
        }
        if !self.lanes.is_empty() {
            let wanted = |lane: &LaneName| self.lanes.contains(lane);
            config.settings.lanes.retain(|lane| wanted(&lane.name));
            config.settings.orders.enabled &= self.lanes.iter().any(is_orders);
            config.settings.payments.options.enabled &= self.lanes.iter().any(is_payments);
            config.settings.memory.options.enabled &= self.lanes.iter().any(is_memory);
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
            ready: None,
        };
        service.run().await
    }
}

/// The lane of orders has its sink without a word of the configuration.
fn is_orders(lane: &LaneName) -> bool {
    lane.as_str() == consign_orders::LANE
}

fn is_payments(lane: &LaneName) -> bool {
    lane.as_str() == consign_payments::LANE
}

fn is_memory(lane: &LaneName) -> bool {
    lane.as_str() == consign_memory::LANE
}

/// Refuses lanes that cannot be worked, and to run for nothing.
fn known(config: &Config, wanted: &[LaneName]) -> Result<(), Failure> {
    let lanes = &config.settings.lanes;
    let has_orders = config.settings.orders.enabled;
    let is_shared = matches!(address_of(config)?, Address::Postgres { .. });
    let has_payments = config.settings.payments.are_dispatched(is_shared);
    let with_sink = || lanes.iter().filter(|lane| lane.sink.is_some());
    let has_memory = config.settings.memory.options.enabled;
    if with_sink().next().is_none() && !has_orders && !has_payments && !has_memory {
        let message = "no lane of the configuration has a sink: there is nothing to work on";
        return Err(Failure::usage(message));
    }
    for name in wanted {
        let is_own = (has_orders && is_orders(name))
            || (has_payments && is_payments(name))
            || (has_memory && is_memory(name));
        if is_own || with_sink().any(|lane| lane.name == *name) {
            continue;
        }
        let names = || with_sink().map(|lane| lane.name.as_str());
        let hint = match nearest(name.as_str(), names()) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("add [lanes.{name}.sink], or claim its messages yourself"),
        };
        let message =
            format!("--lane {name}: the configuration has no such lane with a sink; {hint}");
        return Err(Failure::usage(message));
    }
    Ok(())
}
