//! The store: a pool, and how statements are run on it.

use std::str::FromStr;

use consign_kernel::{Error, Result};
use sqlx::{
    Postgres,
    postgres::{PgArguments, PgConnectOptions, PgPool, PgRow, PgSslMode},
    query::Query,
};

use crate::{
    error::store_error,
    low_water::LowWater,
    migrate::{self, Component},
    options::{Pooler, PostgresOptions},
    pools::{self, Pools, Use},
    wakes::WakeUps,
};

/// A statement with its arguments.
pub type Statement<'q> = Query<'q, Postgres, PgArguments>;

/// consign on PostgreSQL. Cheap to share behind an `Arc`.
#[derive(Debug)]
pub struct PostgresStore {
    pub(crate) pools: Pools,
    /// For transactions of the caller's own.
    callers: PgPool,
    /// Where the last claim of each queue found its messages.
    pub(crate) low_water: LowWater,
    /// How many messages a page of a list walks over.
    pub(crate) list_walk_max: u32,
    pub(crate) wakes: WakeUps,
    /// The apps whose tables the database has.
    pub(crate) components: Vec<Component>,
}

impl PostgresStore {
    /// Connects, and rejects a schema that does not fit this program.
    pub async fn connect(options: &PostgresOptions) -> Result<Self> {
        // On a connection of its own: the pool would go on trying where the answer is no.
        migrate::require_current(options).await?;
        let connect = match options.pooler {
            // A database or a role may have other defaults: an isolation level that the functions reject,
            // a search path with foreign functions, backslashes as escapes.
            Pooler::Session => connect_options(&options.url)?.options([
                ("default_transaction_isolation", "read committed"),
                ("search_path", "pg_catalog,pg_temp"),
                ("standard_conforming_strings", "on"),
            ]),
            // Poolers reject such options; every transaction sets them itself.
            Pooler::Transaction => connect_options(&options.url)?,
        };
        Ok(Self {
            pools: Pools::new(options, &connect),
            callers: pools::pool(options, options.connections_max, connect),
            low_water: LowWater::new(options.low_water),
            list_walk_max: options.list_walk_max,
            wakes: WakeUps::new(options.wake_url().map(connect_options).transpose()?),
            components: options.components.clone(),
        })
    }

    /// A pool for transactions of the caller's own (see `enqueue_in`).
    ///
    /// The store itself does not use it: these connections, `connections_max` at most, come on top
    /// of the store's and are opened when the caller uses them. They have no time limits.
    pub fn pool(&self) -> &PgPool {
        &self.callers
    }

    /// Closes all connections; returns when those in use have been returned.
    pub async fn close(&self) {
        self.pools.close().await;
        self.callers.close().await;
    }

    /// Runs one statement as a transaction of its own.
    pub async fn rows(
        &self,
        use_: Use,
        statement: Statement<'_>,
    ) -> std::result::Result<Vec<PgRow>, sqlx::Error> {
        self.pools.rows(use_, statement).await
    }

    /// Runs the statement of a request, turning failures into the kernel's errors.
    pub async fn fetch(
        &self,
        attempted: &'static str,
        statement: Statement<'_>,
    ) -> Result<Vec<PgRow>> {
        self.fetch_as(Use::Request, attempted, statement).await
    }

    /// The same for another use.
    pub async fn fetch_as(
        &self,
        use_: Use,
        attempted: &'static str,
        statement: Statement<'_>,
    ) -> Result<Vec<PgRow>> {
        match self.rows(use_, statement).await {
            Ok(rows) => Ok(rows),
            Err(error) => Err(self.advised(store_error(attempted, error)).await),
        }
    }

    /// The same for a request that writes nothing.
    pub async fn read(
        &self,
        attempted: &'static str,
        statement: Statement<'_>,
    ) -> Result<Vec<PgRow>> {
        self.read_as(Use::Request, attempted, statement).await
    }

    /// The same for another use that writes nothing.
    pub async fn read_as(
        &self,
        use_: Use,
        attempted: &'static str,
        statement: Statement<'_>,
    ) -> Result<Vec<PgRow>> {
        let rows = self.fetch_as(use_, attempted, statement).await;
        rows.map_err(consign_kernel::Error::of_read)
    }
}

/// Options for one connection to `url`.
pub(crate) fn connect_options(url: &str) -> Result<PgConnectOptions> {
    let options = PgConnectOptions::from_str(url)
        .map_err(|error| Error::invalid("database URL", error.to_string()))?;
    check_tls(options.get_ssl_mode(), cfg!(feature = "tls"))?;
    Ok(options.application_name("consign"))
}

/// Rejects a connection that must be encrypted in a build that cannot encrypt it.
fn check_tls(mode: PgSslMode, has_tls: bool) -> Result<()> {
    let name = match mode {
        PgSslMode::Require => "require",
        PgSslMode::VerifyCa => "verify-ca",
        PgSslMode::VerifyFull => "verify-full",
        PgSslMode::Disable | PgSslMode::Allow | PgSslMode::Prefer => return Ok(()),
    };
    if has_tls {
        return Ok(());
    }
    let why = format!(
        "sslmode={name} needs TLS, which this build does not have; build consign-postgres with the \
         feature `tls`, or connect without TLS (sslmode=disable) where the network is trusted"
    );
    Err(Error::invalid("database URL", why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_sslmodes_that_need_tls_in_a_build_without_it() {
        for (mode, name) in [
            (PgSslMode::Require, "sslmode=require"),
            (PgSslMode::VerifyCa, "sslmode=verify-ca"),
            (PgSslMode::VerifyFull, "sslmode=verify-full"),
        ] {
            let error = check_tls(mode, false).unwrap_err().to_string();
            assert!(
                error.contains(name) && error.contains("feature `tls`"),
                "{error}"
            );
            check_tls(mode, true).unwrap();
        }
        for mode in [PgSslMode::Disable, PgSslMode::Allow, PgSslMode::Prefer] {
            check_tls(mode, false).unwrap();
        }
    }

    #[test]
    fn a_url_that_requires_tls_is_accepted_only_with_the_feature() {
        let options = connect_options("postgres://localhost/x?sslmode=require");
        assert_eq!(options.is_ok(), cfg!(feature = "tls"));
    }
}
