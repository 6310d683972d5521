//! Connections kept at hand between statements.
//!
//! The pool asks a connection whether it lives each time one is given back: one more exchange with
//! the server for every claim and every settle. Connections therefore stay out of the pool between
//! statements.
//!
//! Statements take turns in the order in which they came. Without that, whoever comes when a
//! connection has just been put back takes it, and those who wait in the pool starve: the pool never
//! sees the connection.

use std::{
    io,
    pin::pin,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use sqlx::{Connection as _, PgConnection, PgPool, Postgres, pool::PoolConnection};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};

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

/// A connection for one statement, and the right to run it.
#[derive(Debug)]
pub(crate) struct Kept<'a> {
    pub(crate) connection: PoolConnection<Postgres>,
    /// Since when it is kept.
    since: Instant,
    _turn: SemaphorePermit<'a>,
}

#[derive(Debug)]
struct Resting {
    connection: PoolConnection<Postgres>,
    since: Instant,
    rests_since: Instant,
}

/// The connections at hand.
#[derive(Debug)]
pub(crate) struct AtHand {
    resting: Mutex<Vec<Resting>>,
    resting_max: usize,
    /// Fair: first come, first served.
    turns: Semaphore,
    /// How long nothing may be answered before those who wait give up.
    patience: Duration,
    answered_at: Mutex<Instant>,
    is_closed: AtomicBool,
}

impl AtHand {
    /// For a pool of `connections_max` that nobody else uses.
    pub(crate) fn new(connections_max: u32, patience: Duration) -> Self {
        let connections_max = connections_max.max(1) as usize;
        Self {
            resting: Mutex::default(),
            resting_max: connections_max,
            turns: Semaphore::new(connections_max),
            patience,
            answered_at: Mutex::new(Instant::now()),
            is_closed: AtomicBool::new(false),
        }
    }

    /// A connection that is believed to live.
    pub(crate) async fn take(&self, pool: &PgPool) -> Result<Kept<'_>, sqlx::Error> {
        let turn = self.turn().await?;
        while let Some(mut kept) = self.pop() {
            if kept.since.elapsed() > KEPT_MAX {
                continue;
            }
            if kept.rests_since.elapsed() <= PING_AFTER || ping(&mut kept.connection).await.is_ok()
            {
                return Ok(Kept {
                    connection: kept.connection,
                    since: kept.since,
                    _turn: turn,
                });
            }
            // Out of the pool, which makes room for another: it would only ask again.
            drop(kept.connection.detach());
        }
        Ok(Kept {
            connection: pool.acquire().await?,
            since: Instant::now(),
            _turn: turn,
        })
    }

    /// Waits for a turn for as long as the database answers: a long queue is no failure.
    async fn turn(&self) -> Result<SemaphorePermit<'_>, sqlx::Error> {
        let mut turn = pin!(self.turns.acquire());
        let mut patience = self.patience;
        loop {
            if let Ok(turn) = timeout(patience, turn.as_mut()).await {
                return turn.map_err(|_| sqlx::Error::PoolClosed);
            }
            let silence = lock(&self.answered_at).elapsed();
            patience = self
                .patience
                .checked_sub(silence)
                .filter(|left| !left.is_zero())
                .ok_or(sqlx::Error::PoolTimedOut)?;
        }
    }

    /// Keeps a connection after use, unless what happened speaks against it.
    pub(crate) fn put_back<T>(&self, kept: Kept<'_>, result: &Result<T, sqlx::Error>) {
        if let Err(error) = result
            && !leaves_the_connection_usable(error)
        {
            // What ended this one has probably ended the others: they go by the pool's door.
            self.lock().clear();
            return;
        }
        *lock(&self.answered_at) = Instant::now();
        let mut resting = self.lock();
        // Looked at under the lock, so that none is put back behind a close.
        if !self.is_closed.load(Relaxed) && resting.len() < self.resting_max {
            resting.push(Resting {
                connection: kept.connection,
                since: kept.since,
                rests_since: Instant::now(),
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

    fn pop(&self) -> Option<Resting> {
        self.lock().pop()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Resting>> {
        lock(&self.resting)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("invariant: no panic under this lock")
}

impl Drop for AtHand {
    fn drop(&mut self) {
        self.close();
    }
}
