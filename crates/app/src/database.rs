//! Opening a database. The only files that depend on the kinds of store.

mod address;
mod postgres;
mod sqlite;

use std::{fmt, sync::Arc};

use consign_kernel::{Error, Migration, SchemaStatus, Store};
use consign_postgres::PostgresStore;
use consign_sqlite::SqliteStore;

pub use address::{Address, without_password};
pub use postgres::Reach;

use crate::{App, Registry, config::Config, failure::Failure, output::Output};

/// An open database.
#[derive(Clone)]
pub struct Database {
    /// The engine's operations.
    pub store: Arc<dyn Store>,
    kind: StoreKind,
    /// The apps that it was opened with.
    apps: Vec<&'static dyn App>,
}

#[derive(Clone)]
enum StoreKind {
    Sqlite(Arc<SqliteStore>),
    Postgres(Arc<PostgresStore>),
}

impl Database {
    /// A database in a file.
    fn sqlite(store: SqliteStore, apps: Vec<&'static dyn App>) -> Self {
        let store = Arc::new(store);
        Self {
            store: Arc::clone(&store) as Arc<dyn Store>,
            kind: StoreKind::Sqlite(store),
            apps,
        }
    }

    /// A database of a server.
    fn postgres(store: PostgresStore, apps: Vec<&'static dyn App>) -> Self {
        let store = Arc::new(store);
        Self {
            store: Arc::clone(&store) as Arc<dyn Store>,
            kind: StoreKind::Postgres(store),
            apps,
        }
    }

    /// The port of an app, which it implements for each kind of store.
    pub fn port<P>(
        &self,
        sqlite: impl FnOnce(Arc<SqliteStore>) -> P,
        postgres: impl FnOnce(Arc<PostgresStore>) -> P,
    ) -> P {
        match &self.kind {
            StoreKind::Sqlite(store) => sqlite(Arc::clone(store)),
            StoreKind::Postgres(store) => postgres(Arc::clone(store)),
        }
    }

    /// The port that another app offers, such as an `Arc<dyn Trait>`; none where no app of this type is
    /// installed. Apps do not depend on each other's stores, so they are found by type.
    pub fn find_port<P: 'static>(&self) -> Option<P> {
        let offers = self.apps.iter().filter_map(|app| app.offer_port(self));
        let port = offers.filter_map(|port| port.downcast::<P>().ok()).next();
        port.map(|port| *port)
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.kind {
            StoreKind::Sqlite(_) => "SQLite",
            StoreKind::Postgres(_) => "PostgreSQL",
        };
        f.debug_tuple("Database").field(&kind).finish()
    }
}

/// The apps of a database: those that are switched on, and those that it has tables of.
#[derive(Clone, Debug)]
pub struct Apps {
    registry: &'static Registry,
    on: Vec<&'static dyn App>,
    /// Those whose tables must be there.
    required: Vec<&'static dyn App>,
}

impl Apps {
    /// The apps that the settings switch on, all of them required.
    pub fn of(config: &Config) -> Self {
        let on: Vec<_> = config.apps().collect();
        Self {
            registry: config.registry(),
            required: on.clone(),
            on,
        }
    }

    /// The same for a command that needs at most one of them.
    pub fn for_command(config: &Config, app: Option<&'static dyn App>) -> Self {
        Self {
            required: app.into_iter().collect(),
            ..Self::of(config)
        }
    }

    /// No app, for a database that is the engine's alone.
    pub fn none(registry: &'static Registry) -> Self {
        Self {
            registry,
            on: Vec::new(),
            required: Vec::new(),
        }
    }

    /// The apps to open a database with: those that are required, and those that it has tables of. An
    /// app that was switched off keeps its tables, and its hooks must run when an operator moves a
    /// message of its queue.
    fn to_open(&self, status: &SchemaStatus) -> Vec<&'static dyn App> {
        self.installed_or(status, &self.required)
    }

    /// The apps to migrate a database to: those that are on, and those that it has tables of.
    fn to_install(&self, status: &SchemaStatus) -> Vec<&'static dyn App> {
        self.installed_or(status, &self.on)
    }

    fn installed_or(
        &self,
        status: &SchemaStatus,
        others: &[&'static dyn App],
    ) -> Vec<&'static dyn App> {
        let is_other = |app: &dyn App| others.iter().any(|other| other.name() == app.name());
        let apps = self.registry.apps.iter().copied();
        apps.filter(|app| is_other(*app) || status.version(app.name()) > 0)
            .collect()
    }
}

/// What to do where the default file is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnMissing {
    /// Create it.
    Create,
    /// Fail.
    Refuse,
}

/// Opens a database that has this program's schema.
pub async fn open(
    address: &Address,
    apps: &Apps,
    reach: &Reach,
    missing: OnMissing,
    out: Output,
) -> Result<Database, Failure> {
    let opened = match address {
        Address::Sqlite { path, by_default } => {
            sqlite::open(path, by_default.then_some(missing), apps, out).await
        }
        Address::Postgres { url } => postgres::open(url, apps, reach).await,
    };
    opened.map_err(|failure| at(address, failure))
}

/// Brings a database to this program's schema, making the file where it is a file.
pub async fn migrate(address: &Address, apps: &Apps) -> Result<(), Failure> {
    let migrated = match address {
        Address::Sqlite { path, .. } => sqlite::migrate(path, apps).await,
        Address::Postgres { url } => postgres::migrate(url, apps).await,
    };
    migrated.map_err(|failure| at(address, failure))
}

/// The schema versions of a database. Changes nothing.
pub async fn status(address: &Address, apps: &Apps) -> Result<SchemaStatus, Failure> {
    let status = schema(address, apps).await;
    status.map_err(|error| at(address, postgres::refused(error)))
}

/// The same with the store's own error.
pub async fn schema(address: &Address, apps: &Apps) -> Result<SchemaStatus, Error> {
    match address {
        Address::Sqlite { path, .. } => sqlite::status(path, apps).await,
        Address::Postgres { url } => postgres::status(url, apps).await,
    }
}

/// Rejects a database whose disk is about to be full, where it is a local file. A server returns
/// that error itself when it is written to.
pub fn check_room(address: &Address) -> Result<(), Error> {
    match address {
        Address::Sqlite { path, .. } => sqlite::check_room(path),
        Address::Postgres { .. } => Ok(()),
    }
}

/// The SQL of all steps; for PostgreSQL complete, so that it can be run by hand.
pub fn script(address: &Address, apps: &Apps) -> Result<String, Error> {
    match address {
        Address::Sqlite { path, .. } => sqlite::script(path, apps),
        Address::Postgres { url } => Ok(postgres::script(url, apps)),
    }
}

/// Every migration of this kind of database, in the order in which they are applied.
pub fn migrations(address: &Address, apps: &Apps) -> Result<Vec<Migration>, Error> {
    match address {
        Address::Sqlite { path, .. } => sqlite::migrations(path, apps),
        Address::Postgres { url } => Ok(postgres::migrations(url, apps)),
    }
}

/// A failure with the address of its database.
fn at(address: &Address, failure: Failure) -> Failure {
    failure.map_message(|message| format!("{address}: {message}"))
}
