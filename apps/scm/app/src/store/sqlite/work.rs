//! Ledger operations inside a write transaction of the engine.

use consign_sqlite::extension::{Work, extend_work};

/// The engine's transaction with the ledger's statements.
pub(super) struct ScmWork<'w, 'c>(pub(super) &'w mut Work<'c>);

extend_work!(ScmWork);
