//! Memories as a component of the store.

use crate::QUEUE;
use async_trait::async_trait;
use consign_kernel::{MessageId, Migration, NewMessage, Token, migrations};
use jiff::Timestamp;
use sqlx::SqliteConnection;

use super::{LogbookWork, doctor, outbox::check_memory, sql};
use consign_sqlite::extension::{
    Findings as Report, LeasePlan, Result, Work,
    rows::{self, LeaseRow},
};
use consign_sqlite::{Component, Hook};

const MIGRATIONS: &[Migration] = migrations!["memory";
    (1, "tables", "migrations/0001_tables.sql"),
    (2, "search", "migrations/0002_search.sql"),
];

/// The component `memory`.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct MemoryComponent;

#[async_trait]
impl Component for MemoryComponent {
    fn migrations(&self) -> &'static [Migration] {
        MIGRATIONS
    }

    fn hook(&self) -> Option<&dyn Hook> {
        Some(self)
    }

    async fn examine(
        &self,
        connection: &mut SqliteConnection,
        now: Timestamp,
        report: &mut Report,
    ) -> Result<()> {
        doctor::examine(connection, now, report).await
    }
}

#[async_trait]
impl Hook for MemoryComponent {
    fn queue(&self) -> &'static str {
        QUEUE
    }

    fn check(&self, messages: &[&NewMessage]) -> consign_kernel::Result<()> {
        messages.iter().copied().try_for_each(check_memory)
    }

    async fn settled(&self, work: &mut Work<'_>, lease: &LeaseRow, plan: &LeasePlan) -> Result<()> {
        let mut work = LogbookWork(work);
        work.audit_attempts(lease, &plan.attempts).await?;
        work.audit_dead(lease, &plan.dead).await
    }

    /// An expiry that only puts memories back is not audited.
    async fn expired(&self, work: &mut Work<'_>, lease: &LeaseRow, plan: &LeasePlan) -> Result<()> {
        LogbookWork(work).audit_dead(lease, &plan.dead).await
    }

    async fn late(&self, work: &mut Work<'_>, ids: &[MessageId], token: Token) -> Result<()> {
        LogbookWork(work).audit_late_results(ids, token).await
    }

    /// A memory stays until its audits have what became of it.
    async fn needed(
        &self,
        connection: &mut SqliteConnection,
        (first, last): (MessageId, MessageId),
        _at: Timestamp,
    ) -> Result<Vec<MessageId>> {
        let needed: Vec<i64> = sqlx::query_scalar(sql!("memory_needed"))
            .bind(first.0)
            .bind(last.0)
            .fetch_all(connection)
            .await?;
        Ok(needed.into_iter().map(MessageId).collect())
    }

    fn can_erase(&self) -> bool {
        true
    }

    /// What deduplication, the outbox and a missing audit need: identifiers.
    fn keeps(&self) -> &'static [&'static str] {
        &["memory_id", "backend", "stored_again", "original_outbox_id"]
    }

    async fn erased(&self, work: &mut Work<'_>, ids: &[MessageId]) -> Result<()> {
        sqlx::query(sql!("memory_erase"))
            .bind(rows::id_array(ids))
            .execute(&mut *work.connection)
            .await?;
        Ok(())
    }
}
