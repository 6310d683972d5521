//! How to reach the database.

use std::time::Duration;

use consign_kernel::Migration;

use crate::migrate::{self, Component};

/// Whether a pooler is between this program and the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooler {
    /// None, or one that keeps sessions: statements are prepared once per connection.
    Session,
    /// One that hands out a server per transaction (PgBouncer in transaction mode): nothing is
    /// prepared beyond a transaction.
    Transaction,
}

/// Settings of a `PostgresStore`.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// Where the database is.
    pub url: String,
    /// The pooler in between.
    pub pooler: Pooler,
    /// A direct address for wake-ups, which a transaction pooler cannot carry. Without one, a
    /// store behind such a pooler polls.
    pub listen_url: Option<String>,
    /// Most connections at once, without the one for wake-ups. They are divided by use: a fifth for
    /// what is written under leases, a fifth for claims, one for probes, an eighth each for requests
    /// that wait for a lock and for reports, the rest for requests; at least one for each use.
    pub connections_max: u32,
    /// How long to wait for a connection before giving up.
    pub acquire_timeout: Duration,
    /// How long a statement of a report may take: counts of queues, the reliability report,
    /// reconciling. Other statements have fixed limits.
    pub report_timeout: Duration,
    /// Whether claims start at a remembered low-water mark; see `low_water`.
    pub low_water: bool,
    /// How many messages one page of a list walks over, at most; half as many where each is looked
    /// up elsewhere.
    pub list_walk_max: u32,
    /// The apps whose tables the database has.
    pub components: Vec<Component>,
}

impl PostgresOptions {
    /// Defaults for a direct connection.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            pooler: Pooler::Session,
            listen_url: None,
            connections_max: 16,
            acquire_timeout: Duration::from_secs(5),
            report_timeout: Duration::from_secs(60),
            low_water: true,
            list_walk_max: 20_000,
            components: Vec::new(),
        }
    }

    /// Every migration of the engine and the apps, in the order in which they are applied.
    pub fn migrations(&self) -> Vec<Migration> {
        migrate::migrations(&self.components)
    }

    /// The address to listen at for wake-ups, if there is one that can carry them.
    pub(crate) fn wake_url(&self) -> Option<&str> {
        match (&self.listen_url, self.pooler) {
            (Some(url), _) => Some(url),
            (None, Pooler::Session) => Some(&self.url),
            (None, Pooler::Transaction) => None,
        }
    }
}
