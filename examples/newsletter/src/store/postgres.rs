//! Subscribers in PostgreSQL. The hook is a SQL function that a migration registers.

use async_trait::async_trait;
use consign_kernel::{Result, migrations};
use consign_postgres::{
    Component, PostgresStore,
    extension::rows::{column, only},
};
use sqlx::postgres::PgRow;

use crate::{Address, Subscriber, Subscribers};

/// The component `newsletter` of a store in PostgreSQL.
pub const POSTGRES_COMPONENT: Component = Component {
    migrations: migrations!["newsletter";
        (1, "subscriber", "postgres/0001_subscriber.sql"),
    ],
    checks: &[("newsletter", include_str!("postgres/doctor.sql"))],
};

#[async_trait]
impl Subscribers for PostgresStore {
    async fn subscribe(&self, address: &Address) -> Result<Subscriber> {
        let sql = "SELECT address, status, message_id FROM newsletter.subscribe($1)";
        let statement = sqlx::query(sql).bind(address.as_str());
        subscriber(only(&self.fetch("subscribe", statement).await?)?)
    }

    async fn subscriber(&self, address: &Address) -> Result<Option<Subscriber>> {
        let sql =
            "SELECT address, status, message_id FROM newsletter.subscriber WHERE address = $1";
        let statement = sqlx::query(sql).bind(address.as_str());
        let rows = self.read("read a subscriber", statement).await?;
        rows.first().map(subscriber).transpose()
    }

    async fn subscribers(&self, limit: u32) -> Result<Vec<Subscriber>> {
        let sql = "SELECT address, status, message_id FROM newsletter.subscriber ORDER BY address LIMIT $1";
        let statement = sqlx::query(sql).bind(i64::from(limit));
        let rows = self.read("list subscribers", statement).await?;
        rows.iter().map(subscriber).collect()
    }
}

fn subscriber(row: &PgRow) -> Result<Subscriber> {
    let (address, status) = (column(row, "address")?, column(row, "status")?);
    Subscriber::of_row(address, status, column(row, "message_id")?)
}
