//! Payments: a row beside each message of their queue. See `migrations/0005_payments.sql`.

mod complete;
mod component;
mod doctor;
mod enqueue;
mod reconcile;
mod rows;
mod witness;

pub(crate) use self::reconcile::reused_with_messages;

use std::time::Duration;

use async_trait::async_trait;
use consign_kernel::{Cursor, Error, MessageId, Page, Payload, Result, Token};
use consign_payments::{
    ClaimedPayments, CompleteAnswer, Completion, EnqueueAnswer, InFlight, NewPayment, OutboxId,
    PaymentFilter, PaymentView, Payments, PaymentsStatus, Reconciliation, Repaired, claim_of,
};
use sqlx::SqliteConnection;
use uuid::Uuid;

pub(crate) use component::PaymentsComponent;

use crate::{
    SqliteStore, fail,
    store::{chance, snapshot, within, write, write_unopened},
};

#[async_trait]
impl Payments for SqliteStore {
    async fn enqueue_payments(&self, payments: &[NewPayment]) -> Result<Vec<EnqueueAnswer>> {
        let answers = write_unopened!(self, "enqueue payments", (payments), |work| work
            .enqueue_payments(&payments))?;
        fail::point("payments_committed");
        Ok(answers)
    }

    async fn payment(&self, id: OutboxId) -> Result<Option<(PaymentView, Payload)>> {
        let now = self.inner.clock.now();
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
        write!(self, "complete payments", (worker, completions), |work| {
            work.complete(token, &worker, &completions, chance)
        })
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
            |work| { work.witness_payments(token, &worker, &completions) }
        )
    }

    async fn repair(&self, limit: u32) -> Result<Vec<Repaired>> {
        write!(self, "repair leases of payments", (), |work| work
            .repair(limit))
    }

    async fn in_flight(&self, limit: u32) -> Result<Vec<InFlight>> {
        let now = self.inner.clock.now();
        snapshot!(self, "list payments in leases", |tx| rows::in_flight(
            &mut tx, now, limit
        ))
    }

    async fn payments_status(&self, tenant_id: Option<Uuid>) -> Result<PaymentsStatus> {
        let now = self.inner.clock.now();
        snapshot!(self, "count payments", |tx| rows::status(
            &mut tx, now, tenant_id
        ))
    }

    async fn reconcile_payments(&self, limit: u32) -> Result<Reconciliation> {
        let now = self.inner.clock.now();
        snapshot!(self, "reconcile payments", |tx| reconcile::examine(
            &mut tx, now, limit
        ))
    }
}

impl SqliteStore {
    /// Enqueues payments inside the caller's own transaction on the same file, as
    /// [`enqueue_in`](Self::enqueue_in) does with messages.
    pub async fn enqueue_payments_in(
        &self,
        connection: &mut SqliteConnection,
        payments: &[NewPayment],
    ) -> Result<Vec<EnqueueAnswer>> {
        let attempted = "enqueue payments in the caller's transaction";
        within!(self, attempted, connection, |work| work
            .enqueue_payments(payments))
    }
}
