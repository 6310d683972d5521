//! Connections by use, so that no use can take those of another: whatever callers do, a worker
//! still renews its leases and records its results.

use std::{sync::Arc, time::Duration};

use sqlx::{
    AssertSqlSafe, Connection as _, Execute as _,
    postgres::{PgConnectOptions, PgPool, PgPoolOptions, PgRow},
};
use tokio::{sync::oneshot, time::timeout};

use crate::{
    connection_pool::{ConnectionPool, PING_AFTER, ping},
    error::{sqlstate, state_of},
    options::{Pooler, PostgresOptions},
    store::Statement,
};

type Rows = Result<Vec<PgRow>, sqlx::Error>;

/// What a statement is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// What a worker writes under a lease it holds: renew, begin, settle, release.
    Lease,
    /// Claims, and looking for something to claim.
    Claim,
    /// Whether the database answers.
    Probe,
    /// Everything that is answered soon: enqueueing, operating, reading pages.
    Request,
    /// Requests that met a lock: they wait for it here.
    Blocked,
    /// What walks whole tables: counts, reports, checks.
    Report,
    /// Requests of several callers together, on the connections of requests: a lock that one of them
    /// meets is not waited for.
    Batch,
}

/// For so long a request waits for a connection on which it may wait for a lock.
const BLOCKED_WAIT_MAX: Duration = Duration::from_secs(2);

/// A report that its caller has left is waited for this much longer than the server lets it run: then
/// the connection is dead.
const REPORT_MARGIN: Duration = Duration::from_secs(2);

/// What the server ends by itself.
struct Limits {
    lock: Duration,
    statement: Duration,
}

impl Limits {
    const fn new(lock_ms: u64, statement: Duration) -> Self {
        Self {
            lock: Duration::from_millis(lock_ms),
            statement,
        }
    }

    /// As settings of a session.
    fn settings(&self) -> [(&'static str, String); 3] {
        let ms = |limit: Duration| format!("{}ms", limit.as_millis());
        [
            ("lock_timeout", ms(self.lock)),
            ("statement_timeout", ms(self.statement)),
            // If this process freezes inside a transaction, the server releases its locks;
            // other claims would skip it until then.
            ("idle_in_transaction_session_timeout", "15s".to_owned()),
        ]
    }

    /// Opens a transaction behind a pooler, which rejects session settings.
    fn begin(&self) -> String {
        let set = |(name, value)| format!("; SET LOCAL {name} = '{value}'");
        let settings: String = self.settings().into_iter().map(set).collect();
        format!("BEGIN ISOLATION LEVEL READ COMMITTED{settings}")
    }
}

impl Use {
    /// Those that have connections of their own.
    const ALL: [Self; 6] = [
        Self::Lease,
        Self::Claim,
        Self::Probe,
        Self::Request,
        Self::Blocked,
        Self::Report,
    ];

    fn limits(self, options: &PostgresOptions) -> Limits {
        const fn seconds(count: u64) -> Duration {
            Duration::from_secs(count)
        }
        match self {
            // A worker abandons an operation after 10 s.
            Self::Lease | Self::Claim => Limits::new(5_000, seconds(10)),
            Self::Probe => Limits::new(1_000, seconds(2)),
            // Short: a request that meets a lock makes room for those that meet none.
            Self::Request | Self::Batch => Limits::new(50, seconds(30)),
            Self::Blocked => Limits::new(2_000, seconds(30)),
            Self::Report => Limits::new(5_000, options.report_timeout),
        }
    }

    /// Its part of a process's connections; at least one.
    fn connections(self, connections_max: u32) -> u32 {
        let part = |parts: u32| (connections_max / parts).max(1);
        match self {
            Self::Lease | Self::Claim => part(5),
            Self::Probe => 1,
            Self::Blocked | Self::Report => part(8),
            Self::Request | Self::Batch => {
                let others = Self::ALL.iter().filter(|use_| **use_ != Self::Request);
                let others: u32 = others.map(|use_| use_.connections(connections_max)).sum();
                connections_max.saturating_sub(others).max(1)
            }
        }
    }
}

/// The connections of one use.
#[derive(Debug)]
struct Group {
    use_: Use,
    pooler: Pooler,
    pool: PgPool,
    connection_pool: ConnectionPool,
    /// Opens a transaction.
    begin: String,
    statement_max: Duration,
}

impl Group {
    async fn run(&self, statement: Statement<'_>) -> Rows {
        match self.pooler {
            Pooler::Session => {
                let mut kept = in_time(self.use_, self.connection_pool.take(&self.pool)).await?;
                let rows = statement.fetch_all(&mut *kept.connection).await;
                if let Err(sqlx::Error::Database(_)) = &rows {
                    // The server reports an error before it aborts the transaction. Until its locks are
                    // gone, the caller's next operation on another connection would skip what they hold.
                    drop(kept.connection.ping().await);
                }
                self.connection_pool.put_back(kept, &rows);
                rows
            }
            Pooler::Transaction => {
                // Parsing and executing are two exchanges; only a transaction keeps both on one
                // server.
                let begin = self.pool.begin_with(AssertSqlSafe(self.begin.clone()));
                let mut tx = in_time(self.use_, begin).await?;
                match statement.persistent(false).fetch_all(&mut *tx).await {
                    Ok(rows) => {
                        tx.commit().await?;
                        Ok(rows)
                    }
                    Err(error) => {
                        // Dropped, the transaction would end some time later, with its locks.
                        drop(tx.rollback().await);
                        Err(error)
                    }
                }
            }
        }
    }

    /// Runs a statement to its end, whether or not its caller waits that long.
    ///
    /// The server goes on with a statement whose caller has left. Were its connection dropped, the
    /// next statement would get another, and callers that leave would keep any number busy.
    async fn run_detached(self: &Arc<Self>, statement: Statement<'static>) -> Rows {
        let (reply, answer) = oneshot::channel();
        let group = Arc::clone(self);
        tokio::spawn(async move {
            if reply.is_closed() {
                return;
            }
            let run = timeout(group.statement_max + REPORT_MARGIN, group.run(statement)).await;
            // A caller that has left needs no answer.
            drop(reply.send(run.unwrap_or(Err(sqlx::Error::PoolTimedOut))));
        });
        answer.await.unwrap_or(Err(sqlx::Error::PoolClosed))
    }
}

/// The connections of a store, by use. They are opened when they are needed.
#[derive(Debug)]
pub(crate) struct Pools {
    groups: [Arc<Group>; Use::ALL.len()],
}

impl Pools {
    pub(crate) fn new(options: &PostgresOptions, connect: &PgConnectOptions) -> Self {
        let group = |use_: Use| {
            let connections_max = use_.connections(options.connections_max);
            let limits = use_.limits(options);
            let connect = match options.pooler {
                Pooler::Session => {
                    // Settings in the address win.
                    let known = connect.get_options().unwrap_or_default().to_owned();
                    let settings = limits.settings().into_iter();
                    connect
                        .clone()
                        .options(settings.filter(|(name, _)| !known.contains(name)))
                }
                Pooler::Transaction => connect.clone(),
            };
            Arc::new(Group {
                use_,
                pooler: options.pooler,
                pool: pool(options, connections_max, connect),
                connection_pool: ConnectionPool::new(connections_max, options.acquire_timeout),
                begin: limits.begin(),
                statement_max: limits.statement,
            })
        };
        Self {
            groups: Use::ALL.map(group),
        }
    }

    /// Runs one statement as a transaction of its own.
    pub(crate) async fn rows(&self, use_: Use, mut statement: Statement<'_>) -> Rows {
        if !matches!(use_, Use::Request | Use::Report) {
            return self.group(use_).run(statement).await;
        }
        let arguments = statement.take_arguments().map_err(sqlx::Error::Encode)?;
        let arguments = arguments.unwrap_or_default();
        let sql = statement.sql();
        if use_ == Use::Report {
            let statement = sqlx::query_with(sql, arguments);
            return self.group(Use::Report).run_detached(statement).await;
        }
        // A request that meets a lock is repeated where it may wait for it: the wait of one caller
        // takes no connection from the others.
        let first = sqlx::query_with(sql.clone(), arguments.clone());
        let locked = match self.group(Use::Request).run(first).await {
            Err(error) if state_of(&error) == Some(sqlstate::LOCK_TIMEOUT) => error,
            answer => return answer,
        };
        let second = sqlx::query_with(sql, arguments);
        match self.group(Use::Blocked).run(second).await {
            Err(sqlx::Error::PoolTimedOut) => Err(locked),
            answer => answer,
        }
    }

    /// Closes all connections; returns when those in use have been returned.
    pub(crate) async fn close(&self) {
        for group in &self.groups {
            group.connection_pool.close();
            group.pool.close().await;
        }
    }

    fn group(&self, use_: Use) -> &Arc<Group> {
        let group = match use_ {
            Use::Batch => Use::Request,
            other => other,
        };
        &self.groups[group as usize]
    }
}

/// A connection, if one comes free in time. Callers that met a lock do not queue up for ever.
async fn in_time<T>(
    use_: Use,
    connection: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    match use_ {
        Use::Blocked => timeout(BLOCKED_WAIT_MAX, connection)
            .await
            .unwrap_or(Err(sqlx::Error::PoolTimedOut)),
        _ => connection.await,
    }
}

/// A pool that opens its connections when they are needed.
pub(crate) fn pool(
    options: &PostgresOptions,
    connections_max: u32,
    connect: PgConnectOptions,
) -> PgPool {
    PgPoolOptions::new()
        .max_connections(connections_max)
        .acquire_timeout(options.acquire_timeout)
        // Pinging every connection would double the round trips of a busy worker.
        .test_before_acquire(false)
        .before_acquire(|connection, meta| {
            Box::pin(async move {
                if meta.idle_for > PING_AFTER {
                    ping(connection).await?;
                }
                Ok(true)
            })
        })
        // The pool itself pings too, but waits for the answer for ever, holding the slot.
        .after_release(|connection, _| {
            Box::pin(async move { ping(connection).await.map(|()| true) })
        })
        .connect_lazy_with(connect)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_opens_no_more_connections_than_it_may() {
        for connections_max in [6, 7, 10, 16, 33, 100, 1_000] {
            let all = Use::ALL.map(|use_| use_.connections(connections_max));
            assert!(all.iter().all(|count| *count >= 1), "{all:?}");
            assert_eq!(all.iter().sum::<u32>(), connections_max, "{all:?}");
        }
        assert_eq!(
            Use::ALL.map(|use_| use_.connections(16)),
            [3, 3, 1, 5, 2, 2]
        );
        assert_eq!(Use::ALL.map(|use_| use_.connections(1)), [1; 6]);
    }

    #[test]
    fn pools_are_indexed_by_their_use() {
        for (index, use_) in Use::ALL.into_iter().enumerate() {
            assert_eq!(use_ as usize, index);
        }
    }
}
