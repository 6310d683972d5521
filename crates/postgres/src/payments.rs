//! Payments: the port of their protocol over the functions and views of the migrations 0013 to 0019.

mod claim;
mod complete;
mod enqueue;
mod import;
mod read;
mod reconcile;

pub use enqueue::enqueue_payments_in;

use std::time::Duration;

use async_trait::async_trait;
use consign_kernel::{Cursor, MessageId, Page, Payload, Result, Token};
use consign_payments::{
    ClaimedPayments, CompleteAnswer, Completion, EnqueueAnswer, ImportReport, InFlight, NewPayment,
    OutboxId, PaymentFilter, PaymentView, Payments, PaymentsStatus, Reconciliation, Repaired,
};
use uuid::Uuid;

use crate::PostgresStore;

#[async_trait]
impl Payments for PostgresStore {
    async fn enqueue_payments(&self, payments: &[NewPayment]) -> Result<Vec<EnqueueAnswer>> {
        self.enqueue_payments_impl(payments).await
    }
    async fn payment(&self, id: OutboxId) -> Result<Option<(PaymentView, Payload)>> {
        self.payment_impl(id).await
    }
    async fn payments(
        &self,
        filter: &PaymentFilter,
        before: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<PaymentView>> {
        self.payments_impl(filter, before, limit).await
    }
    async fn payment_messages(&self, ids: &[OutboxId]) -> Result<Vec<Option<MessageId>>> {
        self.payment_messages_impl(ids).await
    }
    async fn claim_payments(
        &self,
        limit: u32,
        worker: &str,
        lease: Duration,
        begin: bool,
    ) -> Result<Option<ClaimedPayments>> {
        self.claim_payments_impl(limit, worker, lease, begin).await
    }
    async fn complete(
        &self,
        token: Token,
        worker: &str,
        completions: &[Completion],
    ) -> Result<CompleteAnswer> {
        self.complete_impl(token, worker, completions).await
    }
    async fn witness_payments(
        &self,
        token: Token,
        worker: &str,
        completions: &[Completion],
    ) -> Result<Vec<OutboxId>> {
        self.witness_payments_impl(token, worker, completions).await
    }
    async fn repair(&self, limit: u32) -> Result<Vec<Repaired>> {
        self.repair_impl(limit).await
    }
    async fn in_flight(&self, limit: u32) -> Result<Vec<InFlight>> {
        self.in_flight_impl(limit).await
    }
    async fn payments_status(&self, tenant_id: Option<Uuid>) -> Result<PaymentsStatus> {
        self.payments_status_impl(tenant_id).await
    }
    async fn reconcile_payments(&self, limit: u32) -> Result<Reconciliation> {
        self.reconcile_impl(limit).await
    }
    async fn import_payments(&self, from_schema: &str, is_dry_run: bool) -> Result<ImportReport> {
        self.import_impl(from_schema, is_dry_run).await
    }
}
