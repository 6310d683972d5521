//! Memories as a component of the store.

use async_trait::async_trait;
use consign_kernel::{MessageId, Migration, NewMessage, Token, migrations};
use consign_memory::QUEUE;
use jiff::Timestamp;
use sqlx::SqliteConnection;

use super::{doctor, outbox::check_memory};
use crate::{
    component::{Component, Hook},
    doctor::Report,
    error::Result,
    job::Work,
    rows::LeaseRow,
    settle::{DeadEntry, NewAttempt},
};

const MIGRATIONS: &[Migration] = migrations!["memory";
    (1, "logbook", "../../migrations/memory/0001_logbook.sql"),
    (2, "search", "../../migrations/memory/0002_search.sql"),
];

/// The component `memory`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryComponent;

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

    fn check_enqueue(&self, message: &NewMessage) -> consign_kernel::Result<()> {
        check_memory(message)
    }

    async fn settled(
        &self,
        work: &mut Work<'_>,
        lease: &LeaseRow,
        attempts: &[NewAttempt],
    ) -> Result<()> {
        work.follow_attempts(lease, attempts).await
    }

    async fn died(&self, work: &mut Work<'_>, lease: &LeaseRow, dead: &[DeadEntry]) -> Result<()> {
        work.follow_dead(lease, dead).await
    }

    async fn late(&self, work: &mut Work<'_>, ids: &[MessageId], token: Token) -> Result<()> {
        work.follow_late(ids, token).await
    }
}
