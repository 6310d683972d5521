//! Subscribers in SQLite. The hook is a Rust trait: no other process can change the file in between.

use std::sync::Arc;

use async_trait::async_trait;
use consign_kernel::{MessageId, Migration, migrations};
use consign_sqlite::{
    Component, Hook, SqliteStore,
    extension::{
        Failure, Findings, LeasePlan, OperatorMove, Result, Work, rows, rows::LeaseRow, snapshot,
        write,
    },
};
use jiff::Timestamp;
use sqlx::SqliteConnection;

use crate::{Address, QUEUE, Subscriber, Subscribers};

const MIGRATIONS: &[Migration] = migrations!["newsletter";
    (1, "subscriber", "sqlite/0001_subscriber.sql"),
];

/// The component `newsletter` of a store in SQLite.
pub fn sqlite_component() -> Arc<dyn Component> {
    Arc::new(NewsletterComponent)
}

#[derive(Debug)]
struct NewsletterComponent;

#[async_trait]
impl Component for NewsletterComponent {
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
        let found: Vec<(String, i64)> = sqlx::query_as(include_str!("sqlite/doctor.sql"))
            .fetch_all(connection)
            .await?;
        for (address, id) in found {
            report.add(
                "subscriber_disagrees",
                format!("subscriber {address} has another status than message {id}"),
                format!(
                    "set its status in newsletter_subscriber; `consign show {id}` has the outcome"
                ),
                [MessageId(id)],
            );
        }
        Ok(())
    }
}

/// Runs inside the engine's transaction: what it writes is committed with the outcome or not at all.
#[async_trait]
impl Hook for NewsletterComponent {
    fn queue(&self) -> &'static str {
        QUEUE
    }

    async fn settled(
        &self,
        work: &mut Work<'_>,
        _lease: &LeaseRow,
        plan: &LeasePlan,
    ) -> Result<()> {
        refresh(work, plan.attempts.iter().map(|attempt| &attempt.entry.id)).await
    }

    async fn expired(
        &self,
        work: &mut Work<'_>,
        _lease: &LeaseRow,
        plan: &LeasePlan,
    ) -> Result<()> {
        refresh(work, plan.attempts.iter().map(|attempt| &attempt.entry.id)).await
    }

    async fn moved(
        &self,
        work: &mut Work<'_>,
        ids: &[MessageId],
        _action: OperatorMove,
    ) -> Result<()> {
        refresh(work, ids).await
    }
}

/// Sets each subscriber's status to what became of its message.
async fn refresh(work: &mut Work<'_>, ids: impl IntoIterator<Item = &MessageId>) -> Result<()> {
    sqlx::query(include_str!("sqlite/refresh.sql"))
        .bind(rows::id_array(ids))
        .execute(&mut *work.connection)
        .await?;
    Ok(())
}

#[async_trait]
impl Subscribers for SqliteStore {
    async fn subscribe(&self, address: &Address) -> consign_kernel::Result<Subscriber> {
        write!(self, "subscribe", (address), |work| subscribe(
            work, &address
        ))
    }

    async fn subscriber(&self, address: &Address) -> consign_kernel::Result<Option<Subscriber>> {
        snapshot!(self, "read a subscriber", |tx| find(&mut tx, address))
    }

    async fn subscribers(&self, limit: u32) -> consign_kernel::Result<Vec<Subscriber>> {
        snapshot!(self, "list subscribers", |tx| list(&mut tx, limit))
    }
}

async fn subscribe(work: &mut Work<'_>, address: &Address) -> Result<Subscriber> {
    let receipts = work.enqueue(&[address.welcome()]).await?;
    let receipt = receipts.first();
    let receipt = receipt.ok_or_else(|| Failure::corrupt("a message without a receipt"))?;
    sqlx::query(
        "INSERT INTO newsletter_subscriber (address, message_id) VALUES (?1, ?2) \
         ON CONFLICT (address) DO NOTHING",
    )
    .bind(address.as_str())
    .bind(receipt.id.0)
    .execute(&mut *work.connection)
    .await?;
    let found = find(work.connection, address).await?;
    found.ok_or_else(|| Failure::corrupt("a subscriber is not there after it was written"))
}

type Columns = (String, String, i64);

async fn find(connection: &mut SqliteConnection, address: &Address) -> Result<Option<Subscriber>> {
    let sql = "SELECT address, status, message_id FROM newsletter_subscriber WHERE address = ?1";
    let found: Option<Columns> = sqlx::query_as(sql)
        .bind(address.as_str())
        .fetch_optional(connection)
        .await?;
    found.map(subscriber).transpose()
}

async fn list(connection: &mut SqliteConnection, limit: u32) -> Result<Vec<Subscriber>> {
    let sql =
        "SELECT address, status, message_id FROM newsletter_subscriber ORDER BY address LIMIT ?1";
    let found: Vec<Columns> = sqlx::query_as(sql)
        .bind(limit)
        .fetch_all(connection)
        .await?;
    found.into_iter().map(subscriber).collect()
}

fn subscriber((address, status, message_id): Columns) -> Result<Subscriber> {
    Ok(Subscriber::of_row(address, &status, message_id)?)
}
