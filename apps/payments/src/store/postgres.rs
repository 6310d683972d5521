//! Payments in PostgreSQL: the port over the functions and views of `postgres/migrations/`.

mod claim;
mod complete;
mod enqueue;
mod import;
mod read;
mod reconcile;

pub use enqueue::enqueue_payments_in;

use std::time::Duration;

use async_trait::async_trait;
use consign_kernel::{Cursor, MessageId, Page, Payload, Result, Token, migrations};
use consign_postgres::{Component, PostgresStore};
use uuid::Uuid;

use crate::{
    ClaimedPayments, CompleteAnswer, Completion, EnqueueAnswer, ImportReport, InFlight, NewPayment,
    OutboxId, PaymentFilter, PaymentView, Payments, PaymentsStatus, Reconciliation, RepairResult,
};

/// The tables, functions and hooks of payments, for `PostgresOptions::components`.
pub const COMPONENT: Component = Component {
    migrations: migrations!["payments";
        (1, "tables", "postgres/migrations/0001_tables.sql"),
        (2, "enqueue", "postgres/migrations/0002_enqueue.sql"),
        (3, "work", "postgres/migrations/0003_work.sql"),
        (4, "complete", "postgres/migrations/0004_complete.sql"),
        (5, "views", "postgres/migrations/0005_views.sql"),
        (6, "import", "postgres/migrations/0006_import.sql"),
        (7, "roles", "postgres/migrations/0007_roles.sql"),
        (8, "retention", "postgres/migrations/0008_retention.sql"),
    ],
    checks: &[("payments", include_str!("postgres/sql/doctor_payments.sql"))],
};

#[async_trait]
impl Payments for PostgresStore {
    async fn enqueue_payments(&self, payments: &[NewPayment]) -> Result<Vec<EnqueueAnswer>> {
        enqueue::enqueue_payments(self, payments).await
    }

    async fn payment(&self, id: OutboxId) -> Result<Option<(PaymentView, Payload)>> {
        read::payment(self, id).await
    }

    async fn payments(
        &self,
        filter: &PaymentFilter,
        before: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<PaymentView>> {
        read::payments(self, filter, before, limit).await
    }

    async fn payment_messages(&self, ids: &[OutboxId]) -> Result<Vec<Option<MessageId>>> {
        read::payment_messages(self, ids).await
    }

    async fn claim_payments(
        &self,
        limit: u32,
        worker: &str,
        lease: Duration,
        begin: bool,
    ) -> Result<Option<ClaimedPayments>> {
        claim::claim_payments(self, limit, worker, lease, begin).await
    }

    async fn complete(
        &self,
        token: Token,
        worker: &str,
        completions: &[Completion],
    ) -> Result<CompleteAnswer> {
        complete::complete(self, token, worker, completions).await
    }

    async fn record_late_payments(
        &self,
        token: Token,
        worker: &str,
        completions: &[Completion],
    ) -> Result<Vec<OutboxId>> {
        complete::record_late_payments(self, token, worker, completions).await
    }

    async fn repair(&self, limit: u32) -> Result<Vec<RepairResult>> {
        complete::repair(self, limit).await
    }

    async fn in_flight(&self, limit: u32) -> Result<Vec<InFlight>> {
        read::in_flight(self, limit).await
    }

    async fn payments_status(&self, tenant_id: Option<Uuid>) -> Result<PaymentsStatus> {
        read::payments_status(self, tenant_id).await
    }

    async fn reconcile_payments(&self, limit: u32) -> Result<Reconciliation> {
        reconcile::reconcile(self, limit).await
    }

    async fn import_payments(&self, from_schema: &str, is_dry_run: bool) -> Result<ImportReport> {
        import::import(self, from_schema, is_dry_run).await
    }
}
