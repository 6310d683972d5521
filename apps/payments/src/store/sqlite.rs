//! Payments in SQLite: a row beside each message of their queue. See `sqlite/migrations/`.

mod complete;
mod component;
mod doctor;
mod enqueue;
mod reconcile;
mod rows;
mod witness;

use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use consign_kernel::{Cursor, Error, MessageId, Page, Payload, Result, Token};
use consign_sqlite::{
    Component, SqliteStore,
    extension::{Work, chance, fail, snapshot, within, write, write_unopened},
};
use sqlx::SqliteConnection;
use uuid::Uuid;

use crate::{
    ClaimedPayments, CompleteAnswer, Completion, EnqueueAnswer, InFlight, NewPayment, OutboxId,
    PaymentFilter, PaymentView, Payments, PaymentsStatus, Reconciliation, Repaired, claim_of,
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

impl<'c> Deref for PaymentWork<'_, 'c> {
    type Target = Work<'c>;

    fn deref(&self) -> &Work<'c> {
        self.0
    }
}

impl<'c> DerefMut for PaymentWork<'_, 'c> {
    fn deref_mut(&mut self) -> &mut Work<'c> {
        self.0
    }
}

#[async_trait]
impl Payments for SqliteStore {
    async fn enqueue_payments(&self, payments: &[NewPayment]) -> Result<Vec<EnqueueAnswer>> {
        let answers = write_unopened!(self, "enqueue payments", (payments), |work| async {
            PaymentWork(work).enqueue_payments(&payments).await
        })?;
        fail::point("payments_committed");
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
            // Nobody has enqueued yet.
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

    async fn witness_payments(
        &self,
        token: Token,
        worker: &str,
        completions: &[Completion],
    ) -> Result<Vec<OutboxId>> {
        write!(
            self,
            "keep results of payments",
            (worker, completions),
            |work| async {
                PaymentWork(work)
                    .witness_payments(token, &worker, &completions)
                    .await
            }
        )
    }

    async fn repair(&self, limit: u32) -> Result<Vec<Repaired>> {
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

/// Enqueues payments inside the caller's own transaction on the same file, as
/// [`SqliteStore::enqueue_in`] does with messages.
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
