//! Which database, and opening it. The only files that know which kinds there are.

mod address;
mod postgres;
mod sqlite;

use std::sync::Arc;

use consign_kernel::{Error, Migration, SchemaStatus, Store};
use consign_memory::Logbook;
use consign_orders::Ledger;
use consign_payments::Payments;
use consign_scm::ScmLedger;
use consign_scm_store::ScmStore;

pub(crate) use address::{Address, without_password};
pub(crate) use postgres::Reach;

use crate::{failure::Failure, output::Output};

/// An open database, by what can be asked of it.
#[derive(Clone)]
pub(crate) struct Opened {
    /// The queue.
    pub(crate) store: Arc<dyn Store>,
    /// The ledger of orders.
    pub(crate) ledger: Arc<dyn Ledger>,
    /// The books of payments.
    pub(crate) payments: Arc<dyn Payments>,
    /// The logbook of memories.
    pub(crate) memory: Arc<dyn Logbook>,
    /// What is known of repositories.
    pub(crate) scm: Arc<dyn ScmLedger>,
}

impl Opened {
    fn new<S>(store: S) -> Self
    where
        S: Store + Ledger + Payments + Logbook + 'static,
        ScmStore<S>: ScmLedger,
    {
        let store = Arc::new(store);
        Self {
            store: Arc::clone(&store) as Arc<dyn Store>,
            ledger: Arc::clone(&store) as Arc<dyn Ledger>,
            payments: Arc::clone(&store) as Arc<dyn Payments>,
            memory: Arc::clone(&store) as Arc<dyn Logbook>,
            scm: Arc::new(ScmStore::new(store)),
        }
    }
}

/// Opens a database that has this program's schema.
pub(crate) async fn open(address: &Address, reach: &Reach, out: Output) -> Result<Opened, Failure> {
    let opened = match address {
        Address::Sqlite { path, by_default } => sqlite::open(path, *by_default, out).await,
        Address::Postgres { url } => postgres::open(url, reach).await,
    };
    opened.map_err(|failure| at(address, failure))
}

/// Brings a database to this program's schema, making the file where it is a file.
pub(crate) async fn migrate(address: &Address) -> Result<(), Failure> {
    let migrated = match address {
        Address::Sqlite { path, .. } => sqlite::migrate(path).await,
        Address::Postgres { url } => postgres::migrate(url).await,
    };
    migrated.map_err(|failure| at(address, failure))
}

/// How far a database has come. Changes nothing.
pub(crate) async fn status(address: &Address) -> Result<SchemaStatus, Failure> {
    let status = schema(address).await;
    status.map_err(|error| at(address, postgres::refused(error)))
}

/// The same with the store's own error.
pub(crate) async fn schema(address: &Address) -> Result<SchemaStatus, Error> {
    match address {
        Address::Sqlite { path, .. } => sqlite::status(path).await,
        Address::Postgres { url } => postgres::status(url).await,
    }
}

/// Refuses a database whose disk is about to be full, where that can be seen from here. A server says
/// so itself when it is written to.
pub(crate) fn check_room(address: &Address) -> Result<(), Error> {
    match address {
        Address::Sqlite { path, .. } => sqlite::check_room(path),
        Address::Postgres { .. } => Ok(()),
    }
}

/// The SQL of all steps; for PostgreSQL complete, so that it can be run by hand.
pub(crate) fn script(address: &Address) -> Result<String, Error> {
    match address {
        Address::Sqlite { path, .. } => sqlite::script(path),
        Address::Postgres { url } => Ok(postgres::script(url)),
    }
}

/// Every migration of this kind of database, in the order in which they are applied.
pub(crate) fn migrations(address: &Address) -> Result<Vec<Migration>, Error> {
    match address {
        Address::Sqlite { path, .. } => sqlite::migrations(path),
        Address::Postgres { url } => Ok(postgres::migrations(url)),
    }
}

/// A failure says which database it is about.
fn at(address: &Address, failure: Failure) -> Failure {
    failure.map_message(|message| format!("{address}: {message}"))
}
