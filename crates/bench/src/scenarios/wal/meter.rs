//! Reads the server's counters before and after.

use anyhow::Result;
use sqlx::{PgConnection, Row, postgres::PgRow};

use crate::scratch::Scratch;

/// What was used between two readings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    pub(super) bytes: f64,
    /// How many pages were written to the WAL whole.
    pub(super) page_images: f64,
    /// Their bytes, where the extension can be installed (PostgreSQL 15 and newer).
    pub(super) page_image_bytes: Option<f64>,
    /// Transactions that wrote something.
    pub(super) transactions: f64,
}

/// A first reading.
pub(super) struct Meter {
    connection: PgConnection,
    first: PgRow,
}

impl Meter {
    pub(super) async fn start(scratch: &Scratch) -> Result<Self> {
        let mut connection = scratch.connect().await?;
        let first = read(&mut connection).await?;
        Ok(Self { connection, first })
    }

    pub(super) async fn stop(mut self) -> Result<Usage> {
        let last = read(&mut self.connection).await?;
        let difference = |column: &str| -> Result<f64> {
            Ok(last.try_get::<f64, _>(column)? - self.first.try_get::<f64, _>(column)?)
        };
        let (bytes, transactions) = (difference("bytes")?, difference("transactions")?);
        let page_images = difference("page_images")?;
        let (from, to): (String, String) =
            (self.first.try_get("position")?, last.try_get("position")?);
        let page_image_bytes = page_image_bytes(&mut self.connection, &from, &to).await;
        Ok(Usage {
            bytes,
            page_images,
            page_image_bytes,
            transactions,
        })
    }
}

async fn read(connection: &mut PgConnection) -> Result<PgRow> {
    Ok(sqlx::query(include_str!("../../../sql/meter.sql"))
        .fetch_one(connection)
        .await?)
}

/// `None` where the extension is missing or may not be used: the count must do then.
async fn page_image_bytes(connection: &mut PgConnection, from: &str, to: &str) -> Option<f64> {
    sqlx::raw_sql("CREATE EXTENSION IF NOT EXISTS pg_walinspect")
        .execute(&mut *connection)
        .await
        .ok()?;
    let row = sqlx::query(include_str!("../../../sql/page_images.sql"))
        .bind(from)
        .bind(to)
        .fetch_one(connection)
        .await
        .ok()?;
    row.try_get("bytes").ok()
}
