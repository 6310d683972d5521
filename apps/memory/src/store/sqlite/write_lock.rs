//! The write lock of a memory server.
//!
//! On a connection that does not wait for the disk: after a power failure there are no writers left,
//! and a lock that is lost is free.

use std::time::Duration;

use async_trait::async_trait;
use consign_kernel::Result;
use consign_sqlite::SqliteStore;
use consign_sqlite::extension::{from_database, rows, rows::later};

use crate::store::sqlite::sql;
use crate::{LockRenewal, NEXT_HOLDER_TTL, WriteLockStore};

#[async_trait]
impl WriteLockStore for SqliteStore {
    async fn take_write_lock(
        &self,
        destination: &str,
        holder: &str,
        ttl: Duration,
    ) -> Result<bool> {
        let now = self.now();
        let taken = sqlx::query_scalar(sql!("write_lock_take"))
            .bind(destination)
            .bind(holder)
            .bind(rows::micros(now))
            .bind(rows::micros(later(now, ttl)))
            .bind(rows::micros(later(now, NEXT_HOLDER_TTL)))
            .fetch_optional(self.unsynced())
            .await;
        let taken: Option<bool> =
            taken.map_err(|error| from_database("take the write lock", error))?;
        Ok(taken.unwrap_or(false))
    }

    async fn renew_write_lock(
        &self,
        destination: &str,
        holder: &str,
        ttl: Duration,
    ) -> Result<LockRenewal> {
        let now = self.now();
        let renewed = sqlx::query_scalar(sql!("write_lock_renew"))
            .bind(destination)
            .bind(holder)
            .bind(rows::micros(now))
            .bind(rows::micros(later(now, ttl)))
            .fetch_optional(self.unsynced())
            .await;
        let is_wanted = renewed.map_err(|error| from_database("renew the write lock", error))?;
        Ok(match is_wanted {
            Some(true) => LockRenewal::Wanted,
            Some(false) => LockRenewal::Held,
            None => LockRenewal::Lost,
        })
    }

    async fn release_write_lock(&self, destination: &str, holder: &str) -> Result<()> {
        let released = sqlx::query(sql!("write_lock_release"))
            .bind(destination)
            .bind(holder)
            .execute(self.unsynced())
            .await;
        released
            .map(drop)
            .map_err(|error| from_database("release the write lock", error))
    }
}
