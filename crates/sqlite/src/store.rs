//! The store: its connections, and how an operation gets its transaction.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::AtomicUsize},
    time::{Duration, Instant},
};

use consign_kernel::{NewMessage, QueueName, Receipt, Result};
use jiff::Timestamp;
use sqlx::{Sqlite, SqliteConnection, SqlitePool, sqlite::SqlitePoolOptions};
use uuid::Uuid;

use crate::{
    component::Components,
    error::from_database,
    job::{Work, WorkFuture},
    migrate::{migrate, status},
    options::{Clock, SqliteOptions},
    sql,
    wait::Waiters,
    writer::Writer,
};

/// A store in an SQLite file. Clones share its connections.
#[derive(Clone, Debug)]
pub struct SqliteStore {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) writer: Writer,
    pub(crate) readers: SqlitePool,
    /// The connection that does not wait for the disk, opened by its first use.
    unsynced: SqlitePool,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) clock: Clock,
    pub(crate) components: Components,
    /// How many messages or attempts a page of a list walks over.
    pub(crate) list_walk_max: u32,
    /// How long a step of the maintenance holds the write lock.
    pub(crate) hold_max: Duration,
    /// Messages per batch in the last claim: how many batches the next one reads at first.
    pub(crate) batch_length: AtomicUsize,
}

/// Hands one operation to the writer, with copies of what it needs: the caller may go away before
/// it is done.
#[macro_export]
#[doc(hidden)]
macro_rules! consign_write {
    ($store:expr, $attempted:literal, ($($needed:ident),*), |$work:ident| $operation:expr) => {
        $crate::consign_write_unopened!($store, $attempted, ($($needed),*), |$work| async {
            $work.open().await?;
            $operation.await
        })
    };
}

/// The same for operations that begin the transaction together with their first statement.
#[macro_export]
#[doc(hidden)]
macro_rules! consign_write_unopened {
    ($store:expr, $attempted:literal, ($($needed:ident),*), |$work:ident| $operation:expr) => {{
        $(let $needed = ::std::sync::Arc::new($needed.to_owned());)*
        let answer = $store.write($attempted, move |$work| {
            $(let $needed = ::std::sync::Arc::clone(&$needed);)*
            Box::pin(async move { $operation.await })
        });
        answer.await
    }};
}

/// Runs one operation on one snapshot.
#[macro_export]
#[doc(hidden)]
macro_rules! consign_snapshot {
    ($store:expr, $attempted:literal, |$connection:ident| $operation:expr) => {{
        let mut $connection = $store.read($attempted).await?;
        let answer = $operation.await;
        answer.map_err(|failure: $crate::extension::Failure| failure.during($attempted))
    }};
}

/// Runs one operation inside the caller's own transaction, all of it or nothing.
///
/// The savepoint ensures that for a caller that continues after a failed write.
#[macro_export]
#[doc(hidden)]
macro_rules! consign_within {
    ($store:expr, $attempted:ident, $connection:ident, |$work:ident| $operation:expr) => {{
        let done = async {
            ::sqlx::query("SAVEPOINT consign_within")
                .execute(&mut *$connection)
                .await?;
            $store.lock_for_write(&mut *$connection).await?;
            let mut woken = ::std::collections::BTreeSet::new();
            let mut within = $store.work_within(&mut *$connection, &mut woken);
            let $work = &mut within;
            let answer = $operation.await;
            if answer.is_err() {
                ::sqlx::query("ROLLBACK TO consign_within")
                    .execute(&mut *$connection)
                    .await?;
            }
            ::sqlx::query("RELEASE consign_within")
                .execute(&mut *$connection)
                .await?;
            answer
        };
        let done: $crate::extension::Result<_> = done.await;
        done.map_err(|failure| failure.during($attempted))
    }};
}

pub use {
    consign_snapshot as snapshot, consign_within as within, consign_write as write,
    consign_write_unopened as write_unopened,
};

impl SqliteStore {
    /// Opens a database whose schema fits this program.
    ///
    /// Without `migrate_on_open`, a file that is missing or was never migrated is
    /// `Error::Schema`, and nothing is created.
    pub async fn open(options: &SqliteOptions) -> Result<Self> {
        if options.migrate_on_open {
            migrate(options).await?;
        } else {
            status(options).await?.check()?;
        }
        let readers = SqlitePoolOptions::new()
            .max_connections(options.readers)
            .acquire_timeout(options.busy_timeout)
            .test_before_acquire(false)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_lazy_with(options.reading().pragma("query_only", "on"));
        let unsynced = SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(options.busy_timeout)
            .test_before_acquire(false)
            .connect_lazy_with(options.writing_unsynced());
        let waiters = Arc::new(Waiters::new(options.poll_interval));
        let writer = Writer::start(options, Arc::clone(&waiters));
        let writer = writer.map_err(|error| from_database("open", error.into()))?;
        Ok(Self {
            inner: Arc::new(Inner {
                writer,
                readers,
                unsynced,
                waiters,
                clock: options.clock.clone(),
                components: options.components.clone(),
                list_walk_max: options.list_walk_max,
                hold_max: options.hold_max,
                batch_length: AtomicUsize::new(1),
            }),
        })
    }

    /// Enqueues all messages or none inside the caller's own transaction on the same file.
    ///
    /// They become visible when that transaction commits. Begin it with
    /// `BEGIN IMMEDIATE`: a transaction that has read before it writes fails if another one wrote
    /// in between. Waiting workers notice the messages at their next look (see
    /// `SqliteOptions::poll_interval`).
    pub async fn enqueue_in(
        &self,
        connection: &mut SqliteConnection,
        messages: &[NewMessage],
    ) -> Result<Vec<Receipt>> {
        let attempted = "enqueue in the caller's transaction";
        within!(self, attempted, connection, |work| work.enqueue(messages))
    }

    /// Closes every connection once what is under way has ended. Other clones close with it.
    pub async fn close(&self) -> Result<()> {
        let closed = self.inner.writer.close().await;
        self.inner.readers.close().await;
        self.inner.unsynced.close().await;
        closed.map_err(|error| from_database("close", error))
    }

    /// Runs an operation as one write transaction, or as part of one, and answers once it is committed.
    /// The operation may run twice: only what the last run wrote is kept.
    pub async fn write<T, F>(&self, attempted: &'static str, operation: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'w> Fn(&'w mut Work<'_>) -> WorkFuture<'w, T> + Send + 'static,
    {
        self.inner.writer.run(attempted, operation).await
    }

    /// How long a transaction of this store held the write lock at most, its commit included, since this
    /// was called last. Other writers wait for as long.
    pub fn take_longest_hold(&self) -> Duration {
        self.inner.writer.take_longest_hold()
    }

    /// Takes the write lock in a transaction of the caller's own.
    pub async fn lock_for_write(&self, connection: &mut SqliteConnection) -> sqlx::Result<()> {
        let locked = sqlx::query(sql!("write_lock")).execute(connection).await;
        locked.map(drop)
    }

    /// What an operation works with inside a transaction of the caller's own.
    pub fn work_within<'c>(
        &'c self,
        connection: &'c mut SqliteConnection,
        woken: &'c mut BTreeSet<QueueName>,
    ) -> Work<'c> {
        let Inner {
            clock, components, ..
        } = &*self.inner;
        Work::new(connection, woken, clock, components, Some(Instant::now()))
    }

    /// The time by the clock of the store.
    pub fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// A second connection that writes, for short-lived coordination of an app. A commit on it is not
    /// flushed: a power failure may lose it, never damage it.
    pub fn unsynced(&self) -> &SqlitePool {
        &self.inner.unsynced
    }

    /// A connection on which all reads see the same moment.
    pub async fn read(
        &self,
        attempted: &'static str,
    ) -> Result<sqlx::Transaction<'static, Sqlite>> {
        let begun = self.inner.readers.begin().await;
        begun.map_err(|error| from_database(attempted, error))
    }
}

/// A random number in `[0, 1)`: the bits of a random UUID that say nothing of its kind.
pub fn chance() -> f64 {
    let (bits, _) = Uuid::new_v4().as_u64_pair();
    // The lowest bits of the upper half are a version and twelve random bits.
    let random = (bits >> 16) << 16;
    (random >> 11) as f64 / (1_u64 << 53) as f64
}
