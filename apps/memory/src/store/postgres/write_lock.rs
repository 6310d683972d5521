//! The write lock of a memory server.

use std::time::Duration;

use async_trait::async_trait;
use consign_kernel::{Error, Result};
use consign_postgres::{
    PostgresStore,
    extension::{Use, rows},
};

use crate::{LockRenewal, NEXT_HOLDER_TTL, WriteLockStore};

#[async_trait]
impl WriteLockStore for PostgresStore {
    async fn take_write_lock(
        &self,
        destination: &str,
        holder: &str,
        ttl: Duration,
    ) -> Result<bool> {
        let sql = "SELECT logbook.take_write_lock($1, $2, $3, $4) AS is_mine";
        let statement = sqlx::query(sql)
            .bind(destination)
            .bind(holder)
            .bind(rows::interval(ttl))
            .bind(rows::interval(NEXT_HOLDER_TTL));
        let rows = self.fetch_as(Use::Claim, "take the write lock", statement);
        rows::column(rows::only(&rows.await?)?, "is_mine")
    }

    async fn renew_write_lock(
        &self,
        destination: &str,
        holder: &str,
        ttl: Duration,
    ) -> Result<LockRenewal> {
        let sql = "SELECT logbook.renew_write_lock($1, $2, $3) AS kept";
        let statement = sqlx::query(sql)
            .bind(destination)
            .bind(holder)
            .bind(rows::interval(ttl));
        let rows = self.fetch_as(Use::Lease, "renew the write lock", statement);
        let renewal: String = rows::column(rows::only(&rows.await?)?, "kept")?;
        match renewal.as_str() {
            "held" => Ok(LockRenewal::Held),
            "wanted" => Ok(LockRenewal::Wanted),
            "lost" => Ok(LockRenewal::Lost),
            other => Err(Error::Corrupt {
                what: format!("a write lock that is {other:?}"),
            }),
        }
    }

    async fn release_write_lock(&self, destination: &str, holder: &str) -> Result<()> {
        let statement = sqlx::query("SELECT logbook.release_write_lock($1, $2)")
            .bind(destination)
            .bind(holder);
        let released = self.fetch_as(Use::Lease, "release the write lock", statement);
        released.await.map(drop)
    }
}
