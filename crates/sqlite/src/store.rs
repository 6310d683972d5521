//! The store itself: each operation begins a transaction, does its work, and ends it.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use consign_kernel::{
    Attempt, AuditEntry, BeginAnswer, By, Claim, Counts, Cursor, DeadLetter, EndedLease, Enqueued,
    Error, Expired, Explanation, Filter, Finding, LateResult, Lease, LeaseView, Listed, Message,
    MessageId, Moved, NewMessage, Page, Process, Pulse, Queue, QueueMinutes, QueueName,
    QueuePolicy, Redrive, RedriveId, RedrivePlan, ReleaseAnswer, RenewAnswer, Report, Resolution,
    Result, SettleAnswer, Store, Token, TokenPrefix, Totals,
};
use jiff::Timestamp;
use sqlx::{Sqlite, SqliteConnection, SqlitePool, sqlite::SqlitePoolOptions};
use uuid::Uuid;

use crate::{
    component::Components,
    doctor,
    error::from_database,
    fail,
    job::{Work, WorkFuture},
    list,
    migrate::{migrate, status},
    options::{Clock, SqliteOptions},
    pulse, queues, read, redrive, sql,
    wait::Waiters,
    witness,
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
    readers: SqlitePool,
    /// The connection for turns, there once somebody wants one.
    pub(crate) turns: SqlitePool,
    waiters: Arc<Waiters>,
    pub(crate) clock: Clock,
    pub(crate) components: Components,
    /// How many messages or attempts a page of a list walks over.
    list_walk_max: u32,
    /// Messages per run in the last claim: how many runs the next one reads at first.
    run_length: AtomicUsize,
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
/// The savepoint keeps that for a caller who goes on after a failed write.
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
        let turns = SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(options.busy_timeout)
            .test_before_acquire(false)
            .connect_lazy_with(options.turning());
        let waiters = Arc::new(Waiters::new(options.poll_interval));
        let writer = Writer::start(options, Arc::clone(&waiters));
        let writer = writer.map_err(|error| from_database("open", error.into()))?;
        Ok(Self {
            inner: Arc::new(Inner {
                writer,
                readers,
                turns,
                waiters,
                clock: options.clock.clone(),
                components: options.components.clone(),
                list_walk_max: options.list_walk_max,
                run_length: AtomicUsize::new(1),
            }),
        })
    }

    /// Enqueues all messages or none inside the caller's own transaction on the same file.
    ///
    /// They are there when that transaction commits, and never were if it does not. Begin it with
    /// `BEGIN IMMEDIATE`: a transaction that has read before it writes fails if another one wrote
    /// in between. Waiting workers notice the messages at their next look (see
    /// `SqliteOptions::poll_interval`).
    pub async fn enqueue_in(
        &self,
        connection: &mut SqliteConnection,
        messages: &[NewMessage],
    ) -> Result<Vec<Enqueued>> {
        let attempted = "enqueue in the caller's transaction";
        within!(self, attempted, connection, |work| work.enqueue(messages))
    }

    /// Closes every connection once what is under way has ended. Other clones close with it.
    pub async fn close(&self) -> Result<()> {
        let closed = self.inner.writer.close().await;
        self.inner.readers.close().await;
        self.inner.turns.close().await;
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
        Work::new(connection, woken, clock, components, true)
    }

    /// The time by the clock of the store.
    pub fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// The kernel's claim; `presumed_begun`: the sink may be called from now on without a word.
    pub async fn take(&self, claim: &Claim, presumed_begun: bool) -> Result<Option<Lease>> {
        let run_length = self.inner.run_length.load(Ordering::Relaxed);
        let claimed = write_unopened!(self, "claim", (claim), |work| work.claim(
            &claim,
            presumed_begun,
            run_length
        ))?;
        let Some((lease, run_length)) = claimed else {
            return Ok(None);
        };
        self.inner.run_length.store(run_length, Ordering::Relaxed);
        fail::point("claim_committed");
        Ok(Some(lease))
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

#[async_trait]
impl Store for SqliteStore {
    async fn put_queue(&self, name: &QueueName, policy: &QueuePolicy, by: &By) -> Result<Queue> {
        write!(self, "put queue", (name, policy, by), |work| work
            .put_queue(&name, &policy, &by))
    }

    async fn queue(&self, name: &QueueName) -> Result<Option<Queue>> {
        snapshot!(self, "read a queue", |tx| queues::queue(&mut tx, name))
    }

    async fn queues(&self, after: Option<&QueueName>, limit: u32) -> Result<Vec<(Queue, Counts)>> {
        let now = self.inner.clock.now();
        snapshot!(self, "read the queues", |tx| queues::queues(
            &mut tx, now, after, limit
        ))
    }

    async fn queue_counts(&self, name: &QueueName) -> Result<Option<(Queue, Counts)>> {
        let now = self.inner.clock.now();
        snapshot!(self, "read a queue", |tx| queues::queue_counts(
            &mut tx, now, name
        ))
    }

    async fn totals(&self) -> Result<Totals> {
        let now = self.inner.clock.now();
        snapshot!(self, "read the queues", |tx| queues::totals(&mut tx, now))
    }

    async fn pause(&self, name: &QueueName, by: &By) -> Result<Queue> {
        write!(self, "pause", (name, by), |work| work.pause(&name, &by))
    }

    async fn resume(&self, name: &QueueName, by: &By) -> Result<Queue> {
        write!(self, "resume", (name, by), |work| work.resume(&name, &by))
    }

    async fn enqueue(&self, messages: &[NewMessage]) -> Result<Vec<Enqueued>> {
        let enqueued =
            write_unopened!(self, "enqueue", (messages), |work| work.enqueue(&messages))?;
        fail::point("enqueue_committed");
        Ok(enqueued)
    }

    async fn claim(&self, claim: &Claim) -> Result<Option<Lease>> {
        self.take(claim, false).await
    }

    async fn renew(&self, token: Token, ttl: Duration) -> Result<RenewAnswer> {
        validate_ttl(ttl)?;
        write!(self, "renew", (), |work| work.renew(token, ttl))
    }

    async fn release(&self, token: Token) -> Result<ReleaseAnswer> {
        write!(self, "release", (), |work| work.release(token))
    }

    async fn begin(&self, token: Token, ids: &[MessageId]) -> Result<BeginAnswer> {
        write!(self, "begin", (ids), |work| work.begin(token, &ids))
    }

    async fn settle(&self, token: Token, reports: &[Report]) -> Result<SettleAnswer> {
        let chance = chance();
        let answer = write_unopened!(self, "settle", (reports), |work| work
            .settle(token, &reports, chance))?;
        fail::point("settle_committed");
        Ok(answer)
    }

    async fn witness(&self, token: Token, reports: &[Report]) -> Result<Vec<MessageId>> {
        write!(self, "witness", (reports), |work| work
            .witness(token, &reports))
    }

    async fn expire(&self, limit: u32) -> Result<Expired> {
        write!(self, "expire", (), |work| work.expire(
            limit,
            None,
            Duration::ZERO
        ))
    }

    async fn wait(&self, queue: &QueueName, timeout: Duration) -> Result<bool> {
        let Inner {
            waiters,
            readers,
            clock,
            ..
        } = &*self.inner;
        let woken = waiters.wait(readers, clock, queue, timeout).await;
        woken.map_err(|failure| failure.during("wait"))
    }

    async fn requeue(&self, ids: &[MessageId], by: &By) -> Result<Vec<Moved>> {
        write!(self, "requeue", (ids, by), |work| work.requeue(&ids, &by))
    }

    async fn hold(&self, ids: &[MessageId], by: &By) -> Result<Vec<Moved>> {
        write!(self, "hold", (ids, by), |work| work.hold(&ids, &by))
    }

    async fn unhold(&self, ids: &[MessageId], by: &By) -> Result<Vec<Moved>> {
        write!(self, "unhold", (ids, by), |work| work.unhold(&ids, &by))
    }

    async fn resolve(
        &self,
        ids: &[MessageId],
        resolution: &Resolution,
        by: &By,
    ) -> Result<Vec<Moved>> {
        write!(self, "resolve", (ids, resolution, by), |work| work.resolve(
            &ids,
            &resolution,
            &by
        ))
    }

    async fn reveal(&self, id: MessageId, by: &By) -> Result<Option<Message>> {
        write!(self, "show a payload", (by), |work| work.reveal(id, &by))
    }

    async fn pulse(&self, pulse: &Pulse) -> Result<()> {
        write!(self, "tell of a process", (pulse), |work| work
            .pulse(&pulse))
    }

    async fn pulses(
        &self,
        queue: Option<&QueueName>,
        minutes: u32,
        step: u32,
    ) -> Result<Vec<QueueMinutes>> {
        let now = self.inner.clock.now();
        snapshot!(self, "read what was done", |tx| pulse::pulses(
            &mut tx, now, queue, minutes, step
        ))
    }

    async fn end_lease(&self, prefix: &TokenPrefix, by: &By) -> Result<EndedLease> {
        write!(self, "end a lease", (prefix, by), |work| work
            .end_lease(&prefix, &by))
    }

    async fn probe(&self) -> Result<()> {
        let default = "default".parse()?;
        snapshot!(self, "probe", |tx| queues::queue(&mut tx, &default)).map(drop)
    }

    async fn processes(&self) -> Result<Vec<Process>> {
        let now = self.inner.clock.now();
        snapshot!(self, "read the processes", |tx| pulse::processes(
            &mut tx, now
        ))
    }

    async fn start_redrive(&self, plan: &RedrivePlan, by: &By) -> Result<Redrive> {
        write!(self, "start a redrive", (plan, by), |work| work
            .start_redrive(&plan, &by))
    }

    async fn step_redrive(&self, limit: u32) -> Result<Option<Redrive>> {
        let stepped = write!(self, "step a redrive", (), |work| work.step_redrive(limit))?;
        fail::point("redrive_committed");
        Ok(stepped)
    }

    async fn stop_redrive(&self, id: RedriveId, by: &By) -> Result<Redrive> {
        write!(self, "stop a redrive", (by), |work| work
            .stop_redrive(id, &by))
    }

    async fn resume_redrive(&self, id: RedriveId, by: &By) -> Result<Redrive> {
        write!(self, "resume a redrive", (by), |work| work
            .resume_redrive(id, &by))
    }

    async fn explain(&self, id: MessageId) -> Result<Option<Explanation>> {
        let now = self.inner.clock.now();
        snapshot!(self, "explain", |tx| read::explain(&mut tx, now, id))
    }

    async fn history(&self, id: MessageId) -> Result<Vec<Attempt>> {
        snapshot!(self, "read the history", |tx| read::history(&mut tx, id))
    }

    async fn late(&self, id: MessageId) -> Result<Vec<LateResult>> {
        snapshot!(self, "read late results", |tx| witness::late(&mut tx, id))
    }

    async fn list(
        &self,
        filter: &Filter,
        before: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<Listed>> {
        let walk_max = i64::from(self.inner.list_walk_max);
        snapshot!(self, "list", |tx| list::list(
            &mut tx, walk_max, filter, before, limit
        ))
    }

    async fn dead(
        &self,
        filter: &Filter,
        before: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<DeadLetter>> {
        snapshot!(self, "list the dead", |tx| read::dead(
            &mut tx, filter, before, limit
        ))
    }

    async fn leases(&self, limit: u32) -> Result<Vec<LeaseView>> {
        snapshot!(self, "list the leases", |tx| read::leases(&mut tx, limit))
    }

    async fn count_dead(&self, filter: &Filter, at_most: u64) -> Result<u64> {
        snapshot!(self, "count the dead", |tx| redrive::count_dead(
            &mut tx, filter, at_most
        ))
    }

    async fn first_dead(&self, plan: &RedrivePlan, limit: u32) -> Result<Vec<DeadLetter>> {
        snapshot!(self, "list what a redrive would take", |tx| {
            redrive::first_dead(&mut tx, plan, limit)
        })
    }

    async fn redrive(&self, id: RedriveId) -> Result<Option<Redrive>> {
        snapshot!(self, "read a redrive", |tx| redrive::redrive(&mut tx, id))
    }

    async fn redrives(&self, limit: u32) -> Result<Vec<Redrive>> {
        snapshot!(self, "list the redrives", |tx| redrive::redrives(
            &mut tx, limit
        ))
    }

    async fn audit(
        &self,
        id: Option<MessageId>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<AuditEntry>> {
        snapshot!(self, "read the audit", |tx| read::audit(
            &mut tx, id, before, limit
        ))
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        let Inner {
            clock, components, ..
        } = &*self.inner;
        let now = clock.now();
        snapshot!(self, "doctor", |tx| doctor::examine(
            &mut tx, now, components
        ))
    }
}

/// A random number in `[0, 1)`: the bits of a random UUID that say nothing of its kind.
pub fn chance() -> f64 {
    let (bits, _) = Uuid::new_v4().as_u64_pair();
    // The lowest bits of the upper half are a version and twelve random bits.
    let random = (bits >> 16) << 16;
    (random >> 11) as f64 / (1_u64 << 53) as f64
}

/// The rule for a lease's time is the kernel's, and a claim carries it.
fn validate_ttl(ttl: Duration) -> Result<(), Error> {
    let queue: QueueName = "default".parse().expect("invariant: a plain name");
    Claim::new(queue, "renew", 1).with_ttl(ttl).validate()
}
