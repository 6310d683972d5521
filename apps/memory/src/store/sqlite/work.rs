//! Logbook operations inside the engine's transaction.

use consign_sqlite::extension::{Work, extend_work};

/// A write transaction of the store with logbook operations.
#[derive(Debug)]
pub struct LogbookWork<'w, 'c>(pub &'w mut Work<'c>);

extend_work!(LogbookWork);
