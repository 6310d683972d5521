//! What every command is given: where to print, and which database.

use std::sync::Arc;

use consign_kernel::{Error, Lane, LaneName, Store, nearest};

use crate::{
    database::{self, Address},
    failure::Failure,
    output::Output,
};

/// Where to print, and which database.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) out: Output,
    /// The database as named by `--database` or its variable, if it was.
    database: Option<String>,
}

impl Context {
    pub(crate) fn new(json: bool, database: Option<String>) -> Self {
        let out = Output::new(json);
        Self { out, database }
    }

    /// The database that was asked for, without opening it.
    pub(crate) fn address(&self) -> Result<Address, Failure> {
        Address::resolve(self.database.as_deref())
    }

    /// The database that was asked for, open and of the right schema.
    pub(crate) async fn store(&self) -> Result<Arc<dyn Store>, Failure> {
        database::open(&self.address()?, self.out).await
    }
}

/// A lane, or an error that names the nearest one.
///
/// A list of nothing would hide a typing mistake.
pub(crate) async fn known_lane(store: &dyn Store, name: &LaneName) -> Result<Lane, Failure> {
    if let Some(lane) = store.lane(name).await? {
        return Ok(lane);
    }
    let lanes = store.lanes().await?;
    let names = lanes.iter().map(|(lane, _)| lane.name.as_str());
    let error = Error::UnknownLane {
        lane: name.to_string(),
        suggestion: nearest(name.as_str(), names).map(str::to_owned),
    };
    Err(error.into())
}
