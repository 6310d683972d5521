//! An instance of the reference store whose clock differs from the others'.

use async_trait::async_trait;
use consign_kernel::{Layer, ManualClock, ReferenceStore, Result, Store};
use jiff::SignedDuration;

/// The same state through a clock that is off by `skew` during each operation.
pub(super) struct Skew {
    pub(super) store: ReferenceStore,
    pub(super) clock: ManualClock,
    pub(super) skew: SignedDuration,
}

#[async_trait]
impl Layer for Skew {
    fn inner(&self) -> &dyn Store {
        &self.store
    }

    async fn before(&self, _operation: &'static str) -> Result<()> {
        self.clock.advance(self.skew);
        Ok(())
    }

    async fn after(&self, _operation: &'static str, _succeeded: bool) -> Result<()> {
        self.clock.advance(-self.skew);
        Ok(())
    }
}
