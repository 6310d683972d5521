//! The one connection that writes, and the thread that drives it.
//!
//! SQLite lets one connection write at a time, so each store has one writer. Callers hand it jobs
//! and await the answers. It takes whatever has queued up into one `BEGIN IMMEDIATE` transaction,
//! runs the jobs one after the other and answers them after the COMMIT: workers that settle while
//! the disk is busy share the next trip to the disk instead of queueing for one each.
//!
//! The jobs run on a thread of their own, not on the caller's runtime, so a dropped future drops
//! only the answer: a job that has begun runs to its end, one that has not is skipped,
//! and no transaction is ever left open.

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use consign_failpoint::kill_at;
use consign_kernel::Error;
use sqlx::{ConnectOptions, SqliteConnection};
use tokio::{
    runtime::{Builder, Runtime},
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};

use crate::{
    error::{Failure, closed, from_commit, from_shared, is_busy},
    job::{Job, JobEnd, TypedJob, Work, WorkFuture},
    options::{Clock, SqliteOptions},
    wait::Waiters,
};

/// Jobs that share a transaction at most: other processes wait while it lasts.
const GROUP_MAX: usize = 32;

/// The writing side of a store.
#[derive(Debug)]
pub(crate) struct Writer {
    jobs: UnboundedSender<Command>,
    longest_hold_us: Arc<AtomicU64>,
}

enum Command {
    Run(Box<dyn Job>),
    Close(tokio::sync::oneshot::Sender<sqlx::Result<()>>),
}

impl Writer {
    /// Starts the thread. It ends when the writer is dropped and its jobs are done.
    pub(crate) fn start(options: &SqliteOptions, waiters: Arc<Waiters>) -> std::io::Result<Self> {
        let (jobs, commands) = unbounded_channel();
        let longest_hold_us = Arc::new(AtomicU64::new(0));
        let driver = Driver {
            longest_hold_us: Arc::clone(&longest_hold_us),
            options: options.clone(),
            clock: options.clock.clone(),
            waiters,
            connection: None,
        };
        let runtime = Builder::new_current_thread().build()?;
        thread::Builder::new()
            .name("consign-sqlite-writer".to_owned())
            .spawn(move || driver.serve(&runtime, commands))?;
        Ok(Self {
            jobs,
            longest_hold_us,
        })
    }

    pub(crate) fn take_longest_hold(&self) -> Duration {
        Duration::from_micros(self.longest_hold_us.swap(0, Ordering::Relaxed))
    }

    /// Runs an operation as one write transaction, or as part of one, and answers once it is
    /// committed. The operation may be run twice: only what the last run wrote is kept.
    pub(crate) async fn run<T, F>(
        &self,
        attempted: &'static str,
        operation: F,
    ) -> consign_kernel::Result<T>
    where
        T: Send + 'static,
        F: for<'w> Fn(&'w mut Work<'_>) -> WorkFuture<'w, T> + Send + 'static,
    {
        let (job, answer) = TypedJob::new(attempted, operation);
        let sent = self.jobs.send(Command::Run(Box::new(job)));
        sent.map_err(|_| closed(attempted))?;
        answer.await.unwrap_or_else(|_| Err(closed(attempted)))
    }

    /// Closes the connection after the jobs handed in so far.
    pub(crate) async fn close(&self) -> sqlx::Result<()> {
        let (done, closed) = tokio::sync::oneshot::channel();
        if self.jobs.send(Command::Close(done)).is_err() {
            return Ok(());
        }
        closed.await.unwrap_or(Ok(()))
    }
}

/// What the thread owns.
struct Driver {
    options: SqliteOptions,
    clock: Clock,
    waiters: Arc<Waiters>,
    longest_hold_us: Arc<AtomicU64>,
    /// None before the first job, and after a failure that leaves its state in doubt.
    connection: Option<SqliteConnection>,
}

impl Driver {
    fn serve(mut self, runtime: &Runtime, mut commands: UnboundedReceiver<Command>) {
        while let Some(command) = commands.blocking_recv() {
            let (mut group, mut closing) = (Vec::new(), None);
            let mut next = Some(command);
            while let Some(command) = next {
                match command {
                    Command::Run(job) if job.is_wanted() => group.push(job),
                    Command::Run(_) => {}
                    Command::Close(done) => closing = Some(done),
                }
                let is_full = group.len() == GROUP_MAX || closing.is_some();
                next = if is_full {
                    None
                } else {
                    commands.try_recv().ok()
                };
            }
            // A panic is a defect, but not a reason to stop serving: its callers see the writer
            // end, the connection is gone with its transaction, and the next job opens another.
            let run = AssertUnwindSafe(|| runtime.block_on(self.run_group(group)));
            if catch_unwind(run).is_err() {
                self.connection = None;
            }
            if let Some(done) = closing {
                let closed = match self.connection.take() {
                    Some(connection) => runtime.block_on(sqlx::Connection::close(connection)),
                    None => Ok(()),
                };
                drop(done.send(closed));
            }
        }
    }

    /// Runs jobs in one transaction. If one of them fails after it may have written, all are
    /// rolled back and each is run again by itself, so that none fails for another.
    async fn run_group(&mut self, mut group: Vec<Box<dyn Job>>) {
        if group.is_empty() {
            return;
        }
        let Err(guilty) = self.try_group(&mut group).await else {
            return;
        };
        if let [_] = &group[..] {
            group.remove(0).answer(Err(guilty));
            return;
        }
        for mut job in group {
            let alone = std::slice::from_mut(&mut job);
            if let Err(error) = self.try_group(alone).await {
                job.answer(Err(error));
            }
        }
    }

    /// Answers every job unless one of them failed; then nothing was written or answered.
    async fn try_group(&mut self, group: &mut [Box<dyn Job>]) -> Result<(), Error> {
        let mut connection = match self.connect().await {
            Ok(connection) => connection,
            Err(error) => {
                answer_all(group, error, from_shared);
                return Ok(());
            }
        };
        let mut woken = BTreeSet::new();
        let mut begun_at: Option<Instant> = None;
        for index in 0..group.len() {
            let changes = changes_in_tests(&mut connection).await;
            let mut work = Work::new(
                &mut connection,
                &mut woken,
                &self.clock,
                &self.options.components,
                begun_at,
            );
            let ran = group[index].run(&mut work).await;
            begun_at = work.begun_at();
            match ran {
                JobEnd::Done => {}
                // The transaction of the group is committed with what this job did in it.
                JobEnd::Refused => assert_eq!(
                    changes,
                    changes_in_tests(&mut connection).await,
                    "invariant: {} was refused after it had written",
                    group[index].attempted()
                ),
                // The one error that is certain to be of the BEGIN, which all of them share.
                JobEnd::Failed(Failure::Database(error))
                    if begun_at.is_none() && is_busy(&error) =>
                {
                    self.connection = Some(connection);
                    answer_all(group, error, from_shared);
                    return Ok(());
                }
                JobEnd::Failed(failure) => {
                    self.roll_back(connection, &failure).await;
                    return Err(failure.during(group[index].attempted()));
                }
            }
        }
        let attempted = group[0].attempted();
        kill_before_commit(attempted);
        if let Some(begun_at) = begun_at {
            if let Err(error) = sqlx::query("COMMIT").execute(&mut connection).await {
                answer_all(group, error, from_commit);
                return Ok(());
            }
            let held_us = begun_at.elapsed().as_micros() as u64;
            self.longest_hold_us.fetch_max(held_us, Ordering::Relaxed);
        }
        self.connection = Some(connection);
        self.waiters.wake(&woken);
        for job in group {
            job.answer(Ok(()));
        }
        Ok(())
    }

    async fn connect(&mut self) -> sqlx::Result<SqliteConnection> {
        match self.connection.take() {
            Some(connection) => Ok(connection),
            None => self.options.writing().connect().await,
        }
    }

    /// Keeps the connection if it is sound; SQLite may have rolled back by itself after an error
    /// of its own, so then it goes, and the transaction with it.
    async fn roll_back(&mut self, mut connection: SqliteConnection, failure: &Failure) {
        if matches!(failure, Failure::Refused(_))
            && sqlx::query("ROLLBACK")
                .execute(&mut connection)
                .await
                .is_ok()
        {
            self.connection = Some(connection);
        }
    }
}

/// The failpoints between the writes of an operation and its commit, in builds with debug assertions:
/// a release build does not name them.
fn kill_before_commit(attempted: &str) {
    if cfg!(debug_assertions) {
        match attempted {
            "settle" => kill_at("settle_before_commit"),
            "tick" => kill_at("tick_before_commit"),
            "step a redrive" => kill_at("redrive_before_commit"),
            _ => {}
        }
        kill_at(&format!("before_commit:{attempted}"));
    }
}

/// How many rows the connection has changed, in builds with debug assertions: every test of the
/// store checks that a rejected operation wrote nothing. Zero in a release build, where
/// the statement would be paid by each job.
async fn changes_in_tests(connection: &mut SqliteConnection) -> i64 {
    if cfg!(debug_assertions) {
        let changes = sqlx::query_scalar("SELECT total_changes()");
        return changes.fetch_one(connection).await.unwrap_or_default();
    }
    0
}

/// Sends every job the error that they share.
fn answer_all(
    group: &mut [Box<dyn Job>],
    error: sqlx::Error,
    explain: fn(&'static str, Arc<sqlx::Error>) -> Error,
) {
    let error = Arc::new(error);
    for job in group {
        let error = explain(job.attempted(), Arc::clone(&error));
        job.answer(Err(error));
    }
}
