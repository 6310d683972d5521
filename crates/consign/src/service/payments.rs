//! Payments in a process that stays: their queue, who takes them over HTTP, who dispatches them, and
//! who looks for what must be compared with the rail's books.

use std::sync::Arc;

use consign_kernel::{Error, Store};
use consign_payments::{PaymentService, PaymentsOptions, RailKind, RailSink, Rails};
use consign_server::PaymentsHere;
use consign_worker::QueueWork;

use super::own_queue::{OwnQueue, Put};
use crate::{
    config::Config,
    database::{Address, Opened},
    failure::{Exit, Failure},
    service::Role,
};

/// What it takes to take payments and to dispatch them.
#[derive(Debug)]
pub(super) struct Payments {
    options: PaymentsOptions,
    /// None: others dispatch them.
    rails: Option<Rails>,
}

impl Payments {
    /// Finds out whether the rail can be used as configured, without touching anything; none where
    /// there are no payments.
    pub(super) fn prepare(config: &Config, address: &Address) -> Result<Option<Self>, Failure> {
        let settings = &config.settings.payments;
        if !settings.options.enabled {
            return Ok(None);
        }
        let is_shared = matches!(address, Address::Postgres { .. });
        let rails = match settings.are_dispatched(is_shared) {
            true => Some(settings.options.rails().map_err(|error| {
                let message = error.to_string();
                Failure::new(Exit::Usage, "config", message)
            })?),
            false => None,
        };
        Ok(Some(Self {
            options: settings.options.clone(),
            rails,
        }))
    }

    /// Their queue with its sink; none where others dispatch them.
    pub(super) fn work(&self) -> Option<QueueWork> {
        let sink = Arc::new(RailSink::new(self.rails.clone()?));
        Some(QueueWork {
            // A payment that waits in a lease is one that nobody else can pay.
            only_free_slots: true,
            claim_max: Some(self.options.batch),
            ..QueueWork::new(consign_payments::queue(), sink)
        })
    }

    /// Who answers `/v1/payments`.
    pub(super) fn here(&self, opened: &Opened) -> PaymentsHere {
        let store = Arc::clone(&opened.payments);
        PaymentsHere {
            service: PaymentService::new(Arc::clone(&store), self.options.clone()),
            store,
        }
    }

    /// Looks for what somebody should look at, for ever; only where payments are taken.
    pub(super) fn watch(
        &self,
        opened: &Opened,
        role: &Role,
    ) -> Option<impl Future<Output = ()> + use<>> {
        let every = self.options.watch_interval();
        let watch = || consign_payments::watch(Arc::clone(&opened.payments), every);
        matches!(role, Role::Serve).then(watch)
    }

    /// What the banner says.
    pub(super) fn summary(&self) -> Summary {
        Summary {
            rail: self.rails.as_ref().map(|_| self.options.rail),
        }
    }
}

/// Makes the queue of payments, or changes it to what the settings say.
pub(super) async fn put(store: &dyn Store, config: &Config) -> Result<Put, Error> {
    let settings = &config.settings.payments;
    if !settings.options.enabled {
        return Ok(Put::AsItIs);
    }
    let queue = OwnQueue {
        name: consign_payments::queue(),
        policy: consign_payments::queue_policy(&settings.options),
        is_said: settings.is_said,
        policy_said: settings.policy_said.clone(),
    };
    queue.put(store, config).await
}

/// Payments in a few words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Summary {
    pub(super) rail: Option<RailKind>,
}

impl Summary {
    pub(super) fn sentence(self) -> &'static str {
        match self.rail {
            Some(RailKind::Simulated) => {
                "POST /v1/payments -> simulated: no money moves until payments.rail is set"
            }
            Some(RailKind::Http) => "POST /v1/payments -> http",
            Some(RailKind::None) | None => {
                "POST /v1/payments -> whoever claims them over SQL or HTTP, until payments.rail is set"
            }
        }
    }
}
