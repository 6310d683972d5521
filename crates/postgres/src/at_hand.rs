//! Connections kept at hand between statements.
//!
//! The pool asks a connection whether it lives each time one is given back: one more exchange with
//! the server for every claim and every settle. Some connections therefore stay out of the pool
//! between statements. At least half are left to the pool, for the caller's own transactions.

use std::{
    io,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use sqlx::{Connection as _, PgConnection, PgPool, Postgres, pool::PoolConnection};
use tokio::time::timeout;

use crate::error::leaves_the_connection_usable;

/// Connections that rested longer are asked whether they live before they are used.
pub(crate) const PING_AFTER: Duration = Duration::from_secs(1);
/// How long a living connection may take to say so. One whose far side vanished never answers.
const PING_MAX: Duration = Duration::from_secs(1);
/// The pool replaces connections at this age; kept ones must come by its door for that.
const KEPT_MAX: Duration = Duration::from_secs(10 * 60);

/// Asks a connection whether it lives. An error means that it should be closed without ado.
pub(crate) async fn ping(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    match timeout(PING_MAX, connection.ping()).await {
        Ok(answer) => answer,
        Err(_) => Err(sqlx::Error::Io(io::Error::new(
            io::ErrorKind::TimedOut,
            "the connection does not answer",
        ))),
    }
}

/// A connection outside the pool.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) connection: PoolConnection<Postgres>,
    /// Since when it is kept.
    since: Instant,
    /// Since when it rests.
    rests_since: Instant,
}

/// The connections at hand.
#[derive(Debug)]
pub(crate) struct AtHand {
    resting: Mutex<Vec<Kept>>,
    connections_max: usize,
    is_closed: AtomicBool,
}

impl AtHand {
    /// Keeps up to half of a pool's `connections_max`.
    pub(crate) fn new(connections_max: u32) -> Self {
        Self {
            resting: Mutex::default(),
            connections_max: connections_max as usize / 2,
            is_closed: AtomicBool::new(false),
        }
    }

    /// A connection that is believed to live.
    pub(crate) async fn take(&self, pool: &PgPool) -> Result<Kept, sqlx::Error> {
        while let Some(mut kept) = self.pop() {
            if kept.since.elapsed() > KEPT_MAX {
                continue;
            }
            if kept.rests_since.elapsed() <= PING_AFTER || ping(&mut kept.connection).await.is_ok()
            {
                return Ok(kept);
            }
            // Out of the pool, which makes room for another: it would only ask again.
            drop(kept.connection.detach());
        }
        let now = Instant::now();
        Ok(Kept {
            connection: pool.acquire().await?,
            since: now,
            rests_since: now,
        })
    }

    /// Keeps a connection after use, unless what happened speaks against it.
    pub(crate) fn put_back<T>(&self, kept: Kept, result: &Result<T, sqlx::Error>) {
        if let Err(error) = result
            && !leaves_the_connection_usable(error)
        {
            // What ended this one has probably ended the others: they go by the pool's door.
            self.lock().clear();
            return;
        }
        let mut resting = self.lock();
        // Looked at under the lock, so that none is put back behind a close.
        if !self.is_closed.load(Relaxed) && resting.len() < self.connections_max {
            resting.push(Kept {
                rests_since: Instant::now(),
                ..kept
            });
        }
    }

    /// Closes the connections at hand, and keeps none from now on.
    pub(crate) fn close(&self) {
        let mut resting = self.lock();
        self.is_closed.store(true, Relaxed);
        // Giving them back would need a runtime, which may be gone; closing them does not.
        for kept in resting.drain(..) {
            drop(kept.connection.detach());
        }
    }

    fn pop(&self) -> Option<Kept> {
        self.lock().pop()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Kept>> {
        self.resting
            .lock()
            .expect("invariant: no panic under this lock")
    }
}

impl Drop for AtHand {
    fn drop(&mut self) {
        self.close();
    }
}
