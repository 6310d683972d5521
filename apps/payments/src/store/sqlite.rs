//! Payments in SQLite: a row beside each message of their queue. See `sqlite/migrations/`.

mod complete;
mod component;
mod doctor;
mod enqueue;
mod late;
mod reconcile;
mod rows;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use consign_kernel::{Cursor, Error, MessageId, Page, Payload, Result, Token};
use consign_sqlite::{
    Component, SqliteStore,
    extension::{Work, chance, extend_work, kill_at, snapshot, within, write, write_unopened},
};
use sqlx::SqliteConnection;
use uuid::Uuid;

use crate::{
    ClaimedPayments, CompleteAnswer, Completion, EnqueueAnswer, InFlight, NewPayment, OutboxId,
    PaymentFilter, PaymentView, Payments, PaymentsStatus, Reconciliation, RepairResult, claim_of,
};

/// The text of a statement under `sqlite/sql/`.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/src/store/sqlite/sql/",
            $name,
            ".sql"
        ))
    };
}
use sql;

/// The tables and the hook of payments, for `SqliteOptions::component`.
pub fn component() -> Arc<dyn Component> {
    Arc::new(component::PaymentsComponent)
}

/// The engine's transaction with the operations of payments.
struct PaymentWork<'w, 'c>(&'w mut Work<'c>);

extend_work!(PaymentWork);

#[async_trait]
impl Payments for SqliteStore {
    async fn enqueue_payments(&self, payments: &[NewPayment]) -> Result<Vec<EnqueueAnswer>> {
        let answers = write_unopened!(self, "enqueue payments", (payments), |work| async {
            PaymentWork(work).enqueue_payments(&payments).await
        })?;
        kill_at("payments_committed");
        Ok(answers)
    }

    async fn payment(&self, id: OutboxId) -> Result<Option<(PaymentView, Payload)>> {
        let now = self.now();
        snapshot!(self, "read a payment", |tx| rows::one(&mut tx, now, id))
    }

    async fn payments(
        &self,
        filter: &PaymentFilter,
        before: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<PaymentView>> {
        snapshot!(self, "list payments", |tx| rows::list(
            &mut tx, filter, before, limit
        ))
    }

    async fn payment_messages(&self, ids: &[OutboxId]) -> Result<Vec<Option<MessageId>>> {
        snapshot!(self, "find payments", |tx| rows::messages(&mut tx, ids))
    }

    async fn claim_payments(
        &self,
        limit: u32,
        worker: &str,
        lease: Duration,
        begin: bool,
    ) -> Result<Option<ClaimedPayments>> {
        let claim = claim_of(limit, worker, lease)?;
        match self.take(&claim, begin).await {
            Ok(lease) => lease.map(ClaimedPayments::of).transpose(),
            // The queue does not exist before the first enqueue.
            Err(Error::UnknownQueue { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn complete(
        &self,
        token: Token,
        worker: &str,
        completions: &[Completion],
    ) -> Result<CompleteAnswer> {
        let chance = chance();
        write!(
            self,
            "complete payments",
            (worker, completions),
            |work| async {
                PaymentWork(work)
                    .complete(token, &worker, &completions, chance)
                    .await
            }
        )
    }

    async fn record_late_payments(
        &self,
        token: Token,
        worker: &str,
        completions: &[Completion],
    ) -> Result<Vec<OutboxId>> {
        write!(
            self,
            "store late results of payments",
            (worker, completions),
            |work| async {
                PaymentWork(work)
                    .record_late_payments(token, &worker, &completions)
                    .await
            }
        )
    }

    async fn repair(&self, limit: u32) -> Result<Vec<RepairResult>> {
        write!(self, "repair leases of payments", (), |work| async {
            PaymentWork(work).repair(limit).await
        })
    }

    async fn in_flight(&self, limit: u32) -> Result<Vec<InFlight>> {
        let now = self.now();
        snapshot!(self, "list payments in leases", |tx| rows::in_flight(
            &mut tx, now, limit
        ))
    }

    async fn payments_status(&self, tenant_id: Option<Uuid>) -> Result<PaymentsStatus> {
        let now = self.now();
        snapshot!(self, "count payments", |tx| rows::status(
            &mut tx, now, tenant_id
        ))
    }

    async fn reconcile_payments(&self, limit: u32) -> Result<Reconciliation> {
        let now = self.now();
        snapshot!(self, "reconcile payments", |tx| reconcile::examine(
            &mut tx, now, limit
        ))
    }
}

/// Enqueues payments inside the caller's own transaction on the same file, like
/// [`SqliteStore::enqueue_in`] for messages.
pub async fn enqueue_payments_in(
    store: &SqliteStore,
    connection: &mut SqliteConnection,
    payments: &[NewPayment],
) -> Result<Vec<EnqueueAnswer>> {
    let attempted = "enqueue payments in the caller's transaction";
    within!(store, attempted, connection, |work| async {
        PaymentWork(work).enqueue_payments(payments).await
    })
}
