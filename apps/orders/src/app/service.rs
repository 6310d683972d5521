//! Orders in a long-running process: the sink, the HTTP routes, and the purge of expired keys.

pub(super) mod takeovers;

use std::sync::Arc;

use async_trait::async_trait;
use consign_app::{
    AppService, ServiceBanner, ServiceKind, Task,
    config::Config,
    database::Database,
    failure::{Exit, Failure},
};
use consign_server::Extension;
use consign_worker::QueueWork;
use serde_json::json;

use self::takeovers::TakeoverCounter;
use super::{ledger, options};
use crate::{Adapter, Broker, OrderService, OrderSink, OrdersHttp, OrdersOptions};

/// Example request; traded on paper by default.
const TRY: &str = "{url}/do/order -H 'idempotency-key: order-0001' -H 'prefer: wait=5' {json} -d \
    '{\"instrument\": \"USDJPY\", \"side\": \"BUY\", \"qty\": 0.1, \"idempotency_key\": \"order-0001\"}'";

/// Orders in a long-running process.
#[derive(Debug)]
pub(super) struct OrdersService {
    options: OrdersOptions,
    broker: Arc<dyn Broker>,
}

impl OrdersService {
    /// Validates the broker's settings without side effects.
    pub(super) async fn prepare(config: &Config) -> Result<Self, Failure> {
        let reject = |error: consign_kernel::Error| {
            let message = format!("orders: {error}");
            Failure::new(Exit::Usage, "config", message)
        };
        let options =
            options::read(config).map_err(|problem| consign_app::config::failure(&[problem]))?;
        // Read here, so that a broker's messages are masked with the secrets.
        let options = options.with_files().map_err(reject)?;
        let broker = crate::broker(&options).await.map_err(reject)?;
        Ok(Self { options, broker })
    }

    fn sentence(&self) -> String {
        let how = if self.options.outbox_enabled {
            "POST /do/order"
        } else {
            "POST /do/order, sent within the request"
        };
        match self.options.broker_adapter {
            Adapter::Paper => {
                format!("{how} -> paper: nothing is traded until orders.broker_adapter is set")
            }
            adapter => format!("{how} -> {}", adapter.as_str()),
        }
    }
}

#[async_trait]
impl AppService for OrdersService {
    fn role(&self) -> &'static str {
        "consign_order_server"
    }

    fn work(&self, database: &Database) -> Vec<QueueWork> {
        let sink = OrderSink::new(ledger(database), Arc::clone(&self.broker), &self.options);
        let sink = TakeoverCounter::new(sink, Arc::clone(&database.store));
        vec![crate::queue_work(Arc::new(sink), &self.options)]
    }

    fn extension(&self, database: &Database) -> Option<Arc<dyn Extension>> {
        let broker = Arc::clone(&self.broker);
        let service = OrderService::new(ledger(database), broker, &self.options);
        let wait_max = self.options.wait_max();
        Some(Arc::new(OrdersHttp::new(Arc::new(service), wait_max)))
    }

    fn tasks(&self, database: &Database, kind: ServiceKind) -> Vec<Task> {
        if kind != ServiceKind::Serve {
            return Vec::new();
        }
        let purge = crate::purge_loop(ledger(database), self.options.clone());
        vec![Box::pin(purge)]
    }

    async fn sample(&self, database: &Database) -> consign_kernel::Result<()> {
        crate::metrics::sample(&*ledger(database)).await
    }

    fn banner(&self) -> ServiceBanner {
        let OrdersOptions {
            broker_adapter,
            outbox_enabled,
            ..
        } = &self.options;
        ServiceBanner {
            sentence: Some(self.sentence()),
            json: json!({"adapter": broker_adapter, "outbox": outbox_enabled}),
            tries: vec![TRY.to_owned()],
            token_variable: None,
        }
    }
}
