//! Payments in a long-running process: the HTTP routes, the sink, and the scan for payments to compare
//! with the rail's records.

use std::sync::Arc;

use async_trait::async_trait;
use consign_app::{
    AppService, ServiceBanner, ServiceKind, Task,
    config::{Config, failure},
    database::Database,
    failure::{Exit, Failure},
};
use consign_server::Extension;
use consign_worker::QueueWork;
use serde_json::json;

use super::{options, payments};
use crate::{PaymentService, PaymentsHttp, PaymentsOptions, RailKind, RailSink, Rails};

/// Example request; moves no money by default.
const TRY: &str = "{url}/v1/payments {json} -d '{\"instruction_id\": \
    \"0190f3a2-7b1c-7000-8000-000000000001\", \"idempotency_key\": \"invoice-17\", \"tenant_id\": \
    \"0190f3a2-7b1c-7000-8000-00000000000a\", \"participant_id\": \"bank-a\", \"rail_type\": \
    \"PAYMENT\", \"amount_minor\": 1250, \"currency_code\": \"ZMW\", \"beneficiary_ref_hash\": \
    \"9f2c\", \"submitted_at_utc\": \"2026-11-16T03:00:00Z\"}'";

/// Payments in a long-running process.
#[derive(Debug)]
pub(super) struct PaymentsService {
    options: PaymentsOptions,
    /// `None`: external workers dispatch payments.
    rails: Option<Rails>,
}

impl PaymentsService {
    /// Validates the rail's settings without side effects.
    pub(super) fn prepare(config: &Config) -> Result<Self, Failure> {
        let settings = options::read(config).map_err(|problems| failure(&problems))?;
        if settings.lacks_rail() {
            let message = "payments.rail is not set, so payments have no destination; add to \
                           [payments] rail = \"http\" with rail_url and rail_status_url, rail = \
                           \"none\" if other programs claim payments, or rail = \"simulated\" to move \
                           none";
            return Err(Failure::new(Exit::Usage, "config", message));
        }
        let rails = if settings.are_dispatched() {
            let rails = settings.options.rails();
            Some(rails.map_err(|error| Failure::new(Exit::Usage, "config", error.to_string()))?)
        } else {
            None
        };
        Ok(Self {
            options: settings.options,
            rails,
        })
    }

    fn sentence(&self) -> &'static str {
        match self.rails.as_ref().map(|_| self.options.rail) {
            Some(RailKind::Simulated) => {
                "POST /v1/payments -> simulated: no money moves until payments.rail is set"
            }
            Some(RailKind::Http) => "POST /v1/payments -> http",
            Some(RailKind::None) | None => {
                "POST /v1/payments -> programs that claim them by SQL or HTTP, until payments.rail \
                 is set"
            }
        }
    }
}

#[async_trait]
impl AppService for PaymentsService {
    fn role(&self) -> &'static str {
        "symphony_executor"
    }

    fn work(&self, _: &Database) -> Vec<QueueWork> {
        let Some(rails) = self.rails.clone() else {
            return Vec::new();
        };
        vec![QueueWork {
            // Prefetched payments could not be claimed by other workers.
            only_free_slots: true,
            claim_max: Some(self.options.batch),
            ..QueueWork::new(crate::queue(), Arc::new(RailSink::new(rails)))
        }]
    }

    fn extension(&self, database: &Database) -> Option<Arc<dyn Extension>> {
        let store = payments(database);
        let service = PaymentService::new(Arc::clone(&store), self.options.clone());
        Some(Arc::new(PaymentsHttp::new(service, store)))
    }

    fn tasks(&self, database: &Database, kind: ServiceKind) -> Vec<Task> {
        if kind != ServiceKind::Serve {
            return Vec::new();
        }
        let every = self.options.watch_interval();
        vec![Box::pin(crate::watch(payments(database), every))]
    }

    fn banner(&self) -> ServiceBanner {
        let rail = self.rails.as_ref().map(|_| self.options.rail);
        ServiceBanner {
            sentence: Some(self.sentence().to_owned()),
            json: json!({"rail": rail}),
            tries: vec![TRY.to_owned()],
            token_variable: None,
        }
    }
}
