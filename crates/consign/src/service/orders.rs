//! Orders in a process that stays: their queue, who sends them, who takes them over HTTP, and the
//! purge of keys past their time.

mod queue;
mod taken_over;

use std::{sync::Arc, time::Duration};

use consign_orders::{Adapter, Broker, OrderService, OrderSink, OrdersOptions};
use consign_worker::QueueWork;

pub(super) use self::queue::put;
use self::taken_over::TakenOver;
use crate::{
    config::Config,
    database::Opened,
    failure::{Exit, Failure},
    service::Role,
};

/// What it takes to take orders and to send them.
#[derive(Debug)]
pub(super) struct Orders {
    options: OrdersOptions,
    broker: Arc<dyn Broker>,
}

impl Orders {
    /// Finds out whether the broker can be used as configured, without touching anything; none where
    /// there are no orders.
    pub(super) async fn prepare(config: &Config) -> Result<Option<Self>, Failure> {
        let settings = &config.settings.orders;
        if !settings.enabled {
            return Ok(None);
        }
        let refuse = |error: consign_kernel::Error| {
            let message = format!("orders: {error}");
            Failure::new(Exit::Usage, "config", message)
        };
        // Read once, so that what a broker says is masked by them as well.
        let options = settings.options.clone().with_files().map_err(refuse)?;
        let broker = consign_orders::broker(&options).await.map_err(refuse)?;
        Ok(Some(Self { options, broker }))
    }

    /// Their queue with its sink.
    pub(super) fn work(&self, opened: &Opened) -> QueueWork {
        let ledger = Arc::clone(&opened.ledger);
        let sink = OrderSink::new(ledger, Arc::clone(&self.broker), &self.options);
        let sink = TakenOver::new(sink, Arc::clone(&opened.store));
        consign_orders::queue_work(Arc::new(sink), &self.options)
    }

    /// How long the service waits for a result at most.
    pub(super) fn wait_max(&self) -> Duration {
        self.options.wait_max()
    }

    /// Who answers `/do/order`.
    pub(super) fn service(&self, opened: &Opened) -> Arc<OrderService> {
        let (ledger, broker) = (Arc::clone(&opened.ledger), Arc::clone(&self.broker));
        Arc::new(OrderService::new(ledger, broker, &self.options))
    }

    /// Forgets keys past their time, for ever; only where orders are taken.
    pub(super) fn purge(
        &self,
        opened: &Opened,
        role: &Role,
    ) -> Option<impl Future<Output = ()> + use<>> {
        let purge = || {
            let ledger = Arc::clone(&opened.ledger);
            consign_orders::purge_loop(ledger, self.options.clone())
        };
        matches!(role, Role::Serve).then(purge)
    }

    /// What the banner says.
    pub(super) fn summary(&self) -> Summary {
        Summary {
            adapter: self.options.broker_adapter,
            outbox: self.options.outbox_enabled,
        }
    }
}

/// Orders in a few words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Summary {
    pub(super) adapter: Adapter,
    pub(super) outbox: bool,
}

impl Summary {
    pub(super) fn sentence(self) -> String {
        let how = match self.outbox {
            true => "POST /do/order",
            false => "POST /do/order, sent within the request",
        };
        match self.adapter {
            Adapter::Paper => {
                format!("{how} -> paper: nothing is traded until orders.broker_adapter is set")
            }
            adapter => format!("{how} -> {}", adapter.as_str()),
        }
    }
}
