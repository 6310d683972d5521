//! An operation of the ledger inside a write transaction of the engine.

use std::ops::{Deref, DerefMut};

use consign_sqlite::extension::Work;

/// The engine's transaction, with the statements of the ledger.
pub(super) struct ScmWork<'w, 'c>(pub(super) &'w mut Work<'c>);

impl<'c> Deref for ScmWork<'_, 'c> {
    type Target = Work<'c>;

    fn deref(&self) -> &Work<'c> {
        self.0
    }
}

impl<'c> DerefMut for ScmWork<'_, 'c> {
    fn deref_mut(&mut self) -> &mut Work<'c> {
        self.0
    }
}
