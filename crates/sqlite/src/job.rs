//! An operation on its way through the writer.

use std::{
    collections::BTreeSet,
    future::{Future, poll_fn},
    pin::Pin,
    time::{Duration, Instant},
};

use consign_kernel::{Error, QueueName};
use jiff::Timestamp;
use sqlx::{
    Either, Executor, SqliteConnection,
    sqlite::{SqliteArguments, SqliteRow},
};
use tokio::sync::oneshot;

use crate::{
    component::Components,
    error::{Failure, Result},
    options::Clock,
    sql,
};

/// What an operation works with: a connection inside a write transaction, and the time there.
#[derive(Debug)]
pub struct Work<'c> {
    /// The connection, inside the transaction.
    pub connection: &'c mut SqliteConnection,
    /// Queues that have something new to claim once the transaction is committed.
    pub woken: &'c mut BTreeSet<QueueName>,
    /// The clock, read once the write lock is held.
    pub now: Timestamp,
    clock: &'c Clock,
    /// The hooks of apps.
    pub(crate) components: &'c Components,
    /// When the transaction got the write lock.
    begun_at: Option<Instant>,
}

impl<'c> Work<'c> {
    pub(crate) fn new(
        connection: &'c mut SqliteConnection,
        woken: &'c mut BTreeSet<QueueName>,
        clock: &'c Clock,
        components: &'c Components,
        begun_at: Option<Instant>,
    ) -> Self {
        Self {
            now: clock.now(),
            connection,
            woken,
            clock,
            components,
            begun_at,
        }
    }

    /// When the transaction got the write lock; none before it has begun.
    pub(crate) fn begun_at(&self) -> Option<Instant> {
        self.begun_at
    }

    /// How long the transaction has held the write lock so far.
    pub(crate) fn held_for(&self) -> Duration {
        self.begun_at.map_or(Duration::ZERO, |at| at.elapsed())
    }

    /// Begins the transaction unless an earlier job of the same one has.
    pub async fn open(&mut self) -> Result<()> {
        if self.begun_at.is_none() {
            sqlx::query(sql!("begin"))
                .execute(&mut *self.connection)
                .await?;
            self.opened();
        }
        Ok(())
    }

    /// The same, together with the first statements of an operation, given with and without the
    /// beginning. Answers with the rows of each statement.
    pub async fn open_with(
        &mut self,
        [with_begin, without]: [&'static str; 2],
        arguments: SqliteArguments,
    ) -> Result<Vec<Vec<SqliteRow>>> {
        if self.begun_at.is_some() {
            return self.rows_of(without, arguments).await;
        }
        let mut answers = self.rows_of(with_begin, arguments).await?;
        answers.remove(0);
        self.opened();
        Ok(answers)
    }

    /// Runs several statements in one trip; answers with the rows of each.
    pub async fn rows_of(
        &mut self,
        statements: &'static str,
        arguments: SqliteArguments,
    ) -> Result<Vec<Vec<SqliteRow>>> {
        let mut answers = vec![Vec::new()];
        let query = sqlx::query_with(statements, arguments);
        let mut stream = (&mut *self.connection).fetch_many(query);
        while let Some(item) = poll_fn(|context| stream.as_mut().poll_next(context)).await {
            match item? {
                Either::Left(_) => answers.push(Vec::new()),
                Either::Right(row) => answers
                    .last_mut()
                    .expect("invariant: never empty")
                    .push(row),
            }
        }
        Ok(answers)
    }

    /// Runs a statement without arguments.
    pub async fn run(&mut self, statement: &'static str) -> Result<()> {
        let done = sqlx::query(statement).execute(&mut *self.connection);
        done.await?;
        Ok(())
    }

    /// Waiting for the lock may have taken long: the time that counts is the time from here.
    fn opened(&mut self) {
        self.begun_at = Some(Instant::now());
        self.now = self.clock.now();
    }
}

/// An operation under way.
pub type WorkFuture<'w, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'w>>;

/// An operation with its answer type erased.
pub(crate) trait Job: Send {
    fn attempted(&self) -> &'static str;

    /// Whether the caller still waits for the answer.
    fn is_wanted(&self) -> bool;

    /// Does the work and keeps the outcome.
    fn run<'w>(&'w mut self, work: &'w mut Work<'_>) -> Pin<Box<dyn Future<Output = JobEnd> + 'w>>;

    /// Sends the caller the outcome of `run`, or why it was rolled back.
    fn answer(&mut self, verdict: std::result::Result<(), Error>);
}

/// How a run ended.
pub(crate) enum JobEnd {
    Done,
    /// It was rejected before anything was written.
    Refused,
    /// It may have written before it failed.
    Failed(Failure),
}

pub(crate) struct TypedJob<T, F> {
    attempted: &'static str,
    operation: F,
    outcome: Option<std::result::Result<T, Error>>,
    caller: Option<oneshot::Sender<std::result::Result<T, Error>>>,
}

impl<T, F> TypedJob<T, F> {
    pub(crate) fn new(
        attempted: &'static str,
        operation: F,
    ) -> (Self, oneshot::Receiver<std::result::Result<T, Error>>) {
        let (caller, answer) = oneshot::channel();
        let job = Self {
            attempted,
            operation,
            outcome: None,
            caller: Some(caller),
        };
        (job, answer)
    }
}

impl<T, F> Job for TypedJob<T, F>
where
    T: Send,
    F: for<'w> Fn(&'w mut Work<'_>) -> WorkFuture<'w, T> + Send,
{
    fn attempted(&self) -> &'static str {
        self.attempted
    }

    fn is_wanted(&self) -> bool {
        self.caller
            .as_ref()
            .is_some_and(|caller| !caller.is_closed())
    }

    fn run<'w>(&'w mut self, work: &'w mut Work<'_>) -> Pin<Box<dyn Future<Output = JobEnd> + 'w>> {
        Box::pin(async move {
            match (self.operation)(work).await {
                Ok(answer) => {
                    self.outcome = Some(Ok(answer));
                    JobEnd::Done
                }
                // Every operation validates before it writes; only corruption may show up later.
                Err(Failure::Refused(error)) if !matches!(error, Error::Corrupt { .. }) => {
                    self.outcome = Some(Err(error));
                    JobEnd::Refused
                }
                Err(failure) => JobEnd::Failed(failure),
            }
        })
    }

    fn answer(&mut self, verdict: std::result::Result<(), Error>) {
        let Some(caller) = self.caller.take() else {
            return;
        };
        let answer = match (verdict, self.outcome.take()) {
            (Err(error), _) => Err(error),
            (Ok(()), outcome) => outcome.expect("invariant: answered after it was run"),
        };
        // The caller may be gone.
        drop(caller.send(answer));
    }
}

/// The arguments of several statements run together.
#[macro_export]
#[doc(hidden)]
macro_rules! consign_arguments {
    ($($value:expr),*) => {{
        let mut arguments = ::sqlx::sqlite::SqliteArguments::default();
        let added: ::std::result::Result<(), ::sqlx::error::BoxDynError> = Ok(());
        let added = added$(.and_then(|()| ::sqlx::Arguments::add(&mut arguments, $value)))*;
        added.map_err(::sqlx::Error::Encode).map(|()| arguments)
    }};
}
pub use consign_arguments as arguments;

/// Makes an app's newtype over `&mut Work`, which carries its operations, a `Work`.
#[macro_export]
#[doc(hidden)]
macro_rules! consign_extend_work {
    ($name:ident) => {
        impl<'c> ::std::ops::Deref for $name<'_, 'c> {
            type Target = $crate::extension::Work<'c>;

            fn deref(&self) -> &Self::Target {
                self.0
            }
        }

        impl ::std::ops::DerefMut for $name<'_, '_> {
            fn deref_mut(&mut self) -> &mut Self::Target {
                self.0
            }
        }
    };
}
pub use consign_extend_work as extend_work;
