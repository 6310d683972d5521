//! Connections kept at hand between statements.
//!
//! The pool pings a connection each time one is returned: one more round trip to
//! the server for every claim and every settle. Connections therefore stay out of the pool between
//! statements.
//!
//! Statements take turns in the order in which they came. Without that, a statement that comes when a
//! connection has just been put back takes it, and those that wait in the pool starve: the pool never
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

/// Connections that were idle for longer are pinged before they are used.
pub(crate) const PING_AFTER: Duration = Duration::from_secs(1);
/// How long a ping may take. A connection whose peer vanished never answers.
const PING_MAX: Duration = Duration::from_secs(1);
/// The pool replaces connections at this age; kept ones are returned to it for that.
const KEPT_MAX: Duration = Duration::from_secs(10 * 60);

/// Pings a connection. After an error it must be closed at once.
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
pub(crate) struct PooledConnection<'a> {
    pub(crate) connection: PoolConnection<Postgres>,
    /// Since when it is kept.
    since: Instant,
    _turn: SemaphorePermit<'a>,
}

#[derive(Debug)]
struct IdleConnection {
    connection: PoolConnection<Postgres>,
    since: Instant,
    rests_since: Instant,
}

/// The connections at hand.
#[derive(Debug)]
pub(crate) struct ConnectionPool {
    resting: Mutex<Vec<IdleConnection>>,
    resting_max: usize,
    /// Fair: first come, first served.
    turns: Semaphore,
    /// How long the database may be unresponsive before waiting statements fail.
    wait_max: Duration,
    answered_at: Mutex<Instant>,
    is_closed: AtomicBool,
}

impl ConnectionPool {
    /// For a pool of `connections_max` without other users.
    pub(crate) fn new(connections_max: u32, wait_max: Duration) -> Self {
        let connections_max = connections_max.max(1) as usize;
        Self {
            resting: Mutex::default(),
            resting_max: connections_max,
            turns: Semaphore::new(connections_max),
            wait_max,
            answered_at: Mutex::new(Instant::now()),
            is_closed: AtomicBool::new(false),
        }
    }

    /// A connection that is believed to live.
    pub(crate) async fn take(&self, pool: &PgPool) -> Result<PooledConnection<'_>, sqlx::Error> {
        let turn = self.turn().await?;
        while let Some(mut kept) = self.pop() {
            if kept.since.elapsed() > KEPT_MAX {
                continue;
            }
            if kept.rests_since.elapsed() <= PING_AFTER || ping(&mut kept.connection).await.is_ok()
            {
                return Ok(PooledConnection {
                    connection: kept.connection,
                    since: kept.since,
                    _turn: turn,
                });
            }
            // Out of the pool, which makes room for another: it would only ping again.
            drop(kept.connection.detach());
        }
        Ok(PooledConnection {
            connection: pool.acquire().await?,
            since: Instant::now(),
            _turn: turn,
        })
    }

    /// Waits for a turn for as long as the database answers: a long queue is no failure.
    async fn turn(&self) -> Result<SemaphorePermit<'_>, sqlx::Error> {
        let mut turn = pin!(self.turns.acquire());
        let mut wait_max = self.wait_max;
        loop {
            if let Ok(turn) = timeout(wait_max, turn.as_mut()).await {
                return turn.map_err(|_| sqlx::Error::PoolClosed);
            }
            let silence = lock(&self.answered_at).elapsed();
            wait_max = self
                .wait_max
                .checked_sub(silence)
                .filter(|left| !left.is_zero())
                .ok_or(sqlx::Error::PoolTimedOut)?;
        }
    }

    /// Keeps a connection after use, unless an error forbids it.
    pub(crate) fn put_back<T>(&self, kept: PooledConnection<'_>, result: &Result<T, sqlx::Error>) {
        if let Err(error) = result
            && !leaves_the_connection_usable(error)
        {
            // What ended this one has probably ended the others: they go back to the pool.
            self.lock().clear();
            return;
        }
        *lock(&self.answered_at) = Instant::now();
        let mut resting = self.lock();
        // Looked at under the lock, so that none is put back behind a close.
        if !self.is_closed.load(Relaxed) && resting.len() < self.resting_max {
            resting.push(IdleConnection {
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
        // Returning them would need a runtime, which may be gone; closing them does not.
        for kept in resting.drain(..) {
            drop(kept.connection.detach());
        }
    }

    fn pop(&self) -> Option<IdleConnection> {
        self.lock().pop()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<IdleConnection>> {
        lock(&self.resting)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("invariant: no panic under this lock")
}

impl Drop for ConnectionPool {
    fn drop(&mut self) {
        self.close();
    }
}
