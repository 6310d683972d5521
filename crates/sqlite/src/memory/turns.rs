//! Whose turn it is to write to a memory server.
//!
//! On a connection of its own, which does not wait for the disk: should the machine stop, nobody
//! writes any more, and a turn that is lost is free.

use std::time::Duration;

use consign_kernel::Result;
use consign_memory::{TURN_PLACE, TurnKept};
use jiff::Timestamp;

use crate::{SqliteStore, error::from_database, rows, sql};

impl SqliteStore {
    pub(super) async fn take_turn_impl(
        &self,
        destination: &str,
        holder: &str,
        ttl: Duration,
    ) -> Result<bool> {
        let now = self.inner.clock.now();
        let taken = sqlx::query_scalar(sql!("turn_take"))
            .bind(destination)
            .bind(holder)
            .bind(rows::micros(now))
            .bind(rows::micros(later(now, ttl)))
            .bind(rows::micros(later(now, TURN_PLACE)))
            .fetch_optional(&self.inner.turns)
            .await;
        let taken: Option<bool> = taken.map_err(|error| from_database("take a turn", error))?;
        Ok(taken.unwrap_or(false))
    }

    pub(super) async fn keep_turn_impl(
        &self,
        destination: &str,
        holder: &str,
        ttl: Duration,
    ) -> Result<TurnKept> {
        let now = self.inner.clock.now();
        let kept = sqlx::query_scalar(sql!("turn_keep"))
            .bind(destination)
            .bind(holder)
            .bind(rows::micros(now))
            .bind(rows::micros(later(now, ttl)))
            .fetch_optional(&self.inner.turns)
            .await;
        let is_wanted = kept.map_err(|error| from_database("keep a turn", error))?;
        Ok(match is_wanted {
            Some(true) => TurnKept::Wanted,
            Some(false) => TurnKept::Held,
            None => TurnKept::Lost,
        })
    }

    pub(super) async fn leave_turn_impl(&self, destination: &str, holder: &str) -> Result<()> {
        let left = sqlx::query(sql!("turn_leave"))
            .bind(destination)
            .bind(holder)
            .execute(&self.inner.turns)
            .await;
        left.map(drop)
            .map_err(|error| from_database("leave a turn", error))
    }
}

fn later(now: Timestamp, by: Duration) -> Timestamp {
    now.checked_add(by).unwrap_or(Timestamp::MAX)
}
