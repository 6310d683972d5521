//! Connections kept at hand between statements.
//!
//! The pool asks a connection whether it lives each time one is given back: one more exchange with
//! the server for every claim and every settle. Some connections therefore stay out of the pool
//! between statements. At least half are left to the pool, for the caller's own transactions.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use sqlx::{Connection as _, PgPool, Postgres, pool::PoolConnection};

/// Connections that rested longer are asked whether they live before they are used.
pub(crate) const PING_AFTER: Duration = Duration::from_secs(1);

/// The connections at hand, each with the time since when it rests.
#[derive(Debug)]
pub(crate) struct AtHand {
    resting: Mutex<Vec<(PoolConnection<Postgres>, Instant)>>,
    connections_max: usize,
}

impl AtHand {
    /// Keeps up to half of a pool's `connections_max`.
    pub(crate) fn new(connections_max: u32) -> Self {
        Self {
            resting: Mutex::default(),
            connections_max: connections_max as usize / 2,
        }
    }

    /// A connection that is believed to live.
    pub(crate) async fn take(
        &self,
        pool: &PgPool,
    ) -> Result<PoolConnection<Postgres>, sqlx::Error> {
        while let Some((mut connection, since)) = self.pop() {
            if since.elapsed() <= PING_AFTER || connection.ping().await.is_ok() {
                return Ok(connection);
            }
            // Dead: the pool finds out for itself and makes room for another.
        }
        pool.acquire().await
    }

    /// Keeps a connection after use, unless what happened speaks against it.
    pub(crate) fn put_back<T>(
        &self,
        connection: PoolConnection<Postgres>,
        result: &Result<T, sqlx::Error>,
    ) {
        // An answer of the server, be it a refusal, shows that the connection works.
        if !matches!(result, Ok(_) | Err(sqlx::Error::Database(_))) {
            return;
        }
        let mut resting = self.lock();
        if resting.len() < self.connections_max {
            resting.push((connection, Instant::now()));
        }
    }

    fn pop(&self) -> Option<(PoolConnection<Postgres>, Instant)> {
        self.lock().pop()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(PoolConnection<Postgres>, Instant)>> {
        self.resting
            .lock()
            .expect("invariant: no panic under this lock")
    }
}
