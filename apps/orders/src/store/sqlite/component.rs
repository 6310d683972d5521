//! The ledger as a component of the store, and the hook that keeps it consistent with the messages.

use std::sync::Arc;

use async_trait::async_trait;
use consign_kernel::{
    Error, Message, MessageId, Migration, NewMessage, Resolution, StateKind, migrations,
};
use consign_sqlite::{
    Component, Hook,
    extension::{
        DeadEntry, Findings, LeasePlan, NewAttempt, OperatorMove, Result, Work,
        rows::{self, LeaseRow},
    },
};
use jiff::Timestamp;
use serde_json::Value;
use sqlx::SqliteConnection;

use super::{doctor, sql};
use crate::QUEUE;

const MIGRATIONS: &[Migration] = migrations!["orders";
    (1, "ledger", "migrations/0001_ledger.sql"),
];

/// The component `orders` of a store in SQLite.
pub fn sqlite_component() -> Arc<dyn Component> {
    sqlite_component_with(Statements::default())
}

/// The component with other statements. For tests, which break one at a time.
#[doc(hidden)]
pub fn sqlite_component_with(statements: Statements) -> Arc<dyn Component> {
    Arc::new(OrdersComponent { statements })
}

/// Statements of the hook, each run once per operation for all its messages.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Statements {
    /// Attempts were recorded. ?1 JSON array of [message id, attempt number].
    pub settled: &'static str,
    /// Messages are dead. ?1 JSON array of ids.
    pub died: &'static str,
    /// Dead messages were put back. ?1 JSON array of ids, ?2 now.
    pub requeued: &'static str,
}

impl Default for Statements {
    fn default() -> Self {
        Self {
            settled: sql!("ledger_end_delivered"),
            died: sql!("ledger_end_dead"),
            requeued: sql!("ledger_reopen"),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct OrdersComponent {
    statements: Statements,
}

#[async_trait]
impl Component for OrdersComponent {
    fn migrations(&self) -> &'static [Migration] {
        MIGRATIONS
    }

    fn hook(&self) -> Option<&dyn Hook> {
        Some(self)
    }

    async fn examine(
        &self,
        connection: &mut SqliteConnection,
        _now: Timestamp,
        report: &mut Findings,
    ) -> Result<()> {
        doctor::examine(connection, report).await
    }
}

impl OrdersComponent {
    /// Fails the orders of dead messages.
    async fn fail(&self, work: &mut Work<'_>, dead: &[DeadEntry]) -> Result<()> {
        if dead.is_empty() {
            return Ok(());
        }
        sqlx::query(self.statements.died)
            .bind(rows::id_array(dead.iter().map(|(id, ..)| id)))
            .execute(&mut *work.connection)
            .await?;
        Ok(())
    }
}

#[async_trait]
impl Hook for OrdersComponent {
    fn queue(&self) -> &'static str {
        QUEUE
    }

    fn check(&self, _messages: &[&NewMessage]) -> consign_kernel::Result<()> {
        let why = "takes orders only. Use POST /do/order";
        Err(Error::invalid(format!("queue {QUEUE}"), why))
    }

    fn resolve(
        &self,
        message: &Message,
        resolution: &Resolution,
    ) -> consign_kernel::Result<Option<Value>> {
        if resolution.state() != StateKind::Delivered {
            return Ok(None);
        }
        let result = crate::resolved(&message.payload, resolution.result())?;
        Ok(Some(result))
    }

    async fn settled(
        &self,
        work: &mut Work<'_>,
        _lease: &LeaseRow,
        plan: &LeasePlan,
    ) -> Result<()> {
        let attempt = |attempt: &NewAttempt| (attempt.entry.id, attempt.attempt_no());
        let attempts: Vec<_> = plan.attempts.iter().map(attempt).collect();
        sqlx::query(self.statements.settled)
            .bind(rows::json(&attempts))
            .execute(&mut *work.connection)
            .await?;
        self.fail(work, &plan.dead).await
    }

    async fn expired(
        &self,
        work: &mut Work<'_>,
        _lease: &LeaseRow,
        plan: &LeasePlan,
    ) -> Result<()> {
        self.fail(work, &plan.dead).await
    }

    async fn moved(
        &self,
        work: &mut Work<'_>,
        ids: &[MessageId],
        action: OperatorMove,
    ) -> Result<()> {
        if action != OperatorMove::Requeue {
            return Ok(());
        }
        sqlx::query(self.statements.requeued)
            .bind(rows::id_array(ids))
            .bind(rows::micros(work.now))
            .execute(&mut *work.connection)
            .await?;
        Ok(())
    }

    /// An order stays while its key can be repeated.
    async fn needed(
        &self,
        connection: &mut SqliteConnection,
        (first, last): (MessageId, MessageId),
        at: Timestamp,
    ) -> Result<Vec<MessageId>> {
        let needed: Vec<i64> = sqlx::query_scalar(sql!("ledger_needed"))
            .bind(first.0)
            .bind(last.0)
            .bind(rows::micros(at))
            .fetch_all(connection)
            .await?;
        Ok(needed.into_iter().map(MessageId).collect())
    }

    fn can_erase(&self) -> bool {
        true
    }

    async fn erased(&self, work: &mut Work<'_>, ids: &[MessageId]) -> Result<()> {
        sqlx::query(sql!("ledger_erase"))
            .bind(rows::id_array(ids))
            .execute(&mut *work.connection)
            .await?;
        Ok(())
    }

    async fn departed(&self, work: &mut Work<'_>, ids: &[MessageId]) -> Result<()> {
        // The ledger is last: the others find their rows by it.
        for statement in [
            sql!("depart_keys"),
            sql!("depart_conflicts"),
            sql!("depart_ledger"),
        ] {
            sqlx::query(statement)
                .bind(rows::id_array(ids))
                .execute(&mut *work.connection)
                .await?;
        }
        Ok(())
    }
}
