//! Where the database is and how to open it.

use std::{path::Path, str::FromStr, sync::Arc, time::Duration};

use consign_kernel::{Error, ManualClock, Migration, Result};
use jiff::Timestamp;
use sqlx::sqlite::{SqliteConnectOptions, SqliteSynchronous};

use crate::component::{Component, Components};

/// The clock every lease decision is made by.
///
/// SQLite has no server, so its clock is the machine's, read inside the write transaction.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The machine's clock.
    #[default]
    System,
    /// A clock moved by hand, for tests.
    Manual(ManualClock),
}

impl Clock {
    /// The time in whole microseconds, as it is stored.
    pub(crate) fn now(&self) -> Timestamp {
        let now = match self {
            Self::System => Timestamp::now(),
            Self::Manual(clock) => clock.now(),
        };
        Timestamp::from_microsecond(now.as_microsecond()).expect("invariant: within the calendar")
    }
}

/// How to open a store.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    pub(crate) connect: SqliteConnectOptions,
    pub(crate) busy_timeout: Duration,
    pub(crate) clock: Clock,
    pub(crate) migrate_on_open: bool,
    pub(crate) readers: u32,
    pub(crate) poll_interval: Duration,
    pub(crate) list_walk_max: u32,
    pub(crate) hold_max: Duration,
    pub(crate) components: Components,
}

impl SqliteOptions {
    /// The database in this file, given as a path or as a URL (`sqlite:queue.db`).
    ///
    /// A database in memory is rejected: its connections would each see another one.
    pub fn new(path_or_url: impl AsRef<str>) -> Result<Self> {
        let text = path_or_url.as_ref();
        let refuse = |why: String| Error::invalid(format!("database {text:?}"), why);
        if text.is_empty() || text.contains(":memory:") || text.contains("mode=memory") {
            return Err(refuse("must name a file".to_owned()));
        }
        let connect = if text.starts_with("sqlite:") {
            SqliteConnectOptions::from_str(text).map_err(|error| refuse(error.to_string()))?
        } else {
            SqliteConnectOptions::new().filename(text)
        };
        Ok(Self {
            connect,
            busy_timeout: Duration::from_secs(10),
            clock: Clock::System,
            migrate_on_open: false,
            readers: 4,
            poll_interval: Duration::from_millis(100),
            list_walk_max: 10_000,
            hold_max: Duration::from_millis(10),
            components: Components::default(),
        })
    }

    /// How long an operation waits for another process's transaction to end; 10 s by default.
    pub fn busy_timeout(self, busy_timeout: Duration) -> Self {
        Self {
            // SQLite counts milliseconds in 32 bits: three weeks.
            busy_timeout: busy_timeout.min(Duration::from_secs(24 * 3600)),
            ..self
        }
    }

    /// The clock to go by.
    pub fn clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// Whether opening a store also creates the file and brings its schema up to date.
    pub fn migrate_on_open(self, migrate_on_open: bool) -> Self {
        Self {
            migrate_on_open,
            ..self
        }
    }

    /// How often a waiting worker looks for what other processes wrote; every 100 ms by default.
    /// A look is three index look-ups.
    pub fn poll_interval(self, poll_interval: Duration) -> Self {
        Self {
            poll_interval: poll_interval.max(Duration::from_millis(1)),
            ..self
        }
    }

    /// How long a step of the maintenance holds the write lock before it ends; 10 ms by default. What it
    /// is doing at that time, and the commit, come on top.
    pub fn hold_max(self, hold_max: Duration) -> Self {
        Self { hold_max, ..self }
    }

    /// How many messages or attempts one page of a list walks over, at most; 10,000 by default.
    pub fn list_walk_max(self, list_walk_max: u32) -> Self {
        Self {
            list_walk_max,
            ..self
        }
    }

    /// Adds an app's tables and hooks.
    pub fn component(mut self, component: Arc<dyn Component>) -> Self {
        self.components.add(component);
        self
    }

    /// Every migration of the engine and the apps, in the order in which they are applied.
    pub fn migrations(&self) -> Vec<Migration> {
        self.components.migrations()
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.connect.get_filename()
    }

    /// A connection for writing: every commit is on the disk before it is answered.
    pub(crate) fn writing(&self) -> SqliteConnectOptions {
        self.reading()
            .synchronous(SqliteSynchronous::Full)
            // A rarer checkpoint writes a page changed many times once. 16 MiB of log, and no more
            // than 64 MiB kept after a reader held it back.
            .pragma("wal_autocheckpoint", "4096")
            .pragma("journal_size_limit", "67108864")
    }

    /// A connection for what need not be on the disk when it is answered. Copying the log into the
    /// file is left to the writer.
    pub(crate) fn writing_unsynced(&self) -> SqliteConnectOptions {
        self.reading()
            .synchronous(SqliteSynchronous::Normal)
            .pragma("wal_autocheckpoint", "0")
    }

    /// A connection for reading.
    pub(crate) fn reading(&self) -> SqliteConnectOptions {
        self.connect
            .clone()
            .create_if_missing(false)
            .busy_timeout(self.busy_timeout)
            .foreign_keys(false)
            .pragma("temp_store", "memory")
            .pragma("cache_size", "-32768")
            .row_buffer_size(1_024)
    }
}
