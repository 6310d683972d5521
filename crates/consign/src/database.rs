//! Which database, and opening it.

mod address;

use std::sync::Arc;

use consign_kernel::Store;

pub(crate) use address::Address;

use crate::{
    failure::{Exit, Failure},
    output::Output,
};

/// Opens a database that has this program's schema.
pub(crate) async fn open(address: &Address, _out: Output) -> Result<Arc<dyn Store>, Failure> {
    Err(Failure::new(
        Exit::Unavailable,
        "database_unavailable",
        format!("{address}"),
    ))
}

/// Makes a database and opens it.
pub(crate) async fn create(address: &Address) -> Result<Arc<dyn Store>, Failure> {
    Err(Failure::new(
        Exit::Unavailable,
        "database_unavailable",
        format!("{address}"),
    ))
}
