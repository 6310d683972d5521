//! A store in a file of its own, with a clock moved by hand.

use std::sync::Arc;

use async_trait::async_trait;
use consign_conformance::fixture::sqlite::SqliteFixture;
use consign_orders::{Ledger, store::sqlite_component};
use consign_sqlite::{Clock, Component, SqliteOptions, SqliteStore};

use crate::cases::{LedgerFactory, LedgerHarness};

/// Makes fresh stores in files of their own.
#[derive(Debug, Default)]
pub(crate) struct SqliteFactory;

#[async_trait]
impl LedgerFactory for SqliteFactory {
    async fn fresh(&self) -> Box<dyn LedgerHarness> {
        Box::new(fixture(sqlite_component()).await)
    }
}

/// A file with a component that may be broken.
pub(crate) async fn fixture(component: Arc<dyn Component>) -> SqliteFixture {
    SqliteFixture::new(|options| options.component(component)).await
}

/// A store on the same file whose process does not have the app.
pub(crate) async fn open_without_the_app(fixture: &SqliteFixture) -> SqliteStore {
    let options = SqliteOptions::new(fixture.path()).unwrap();
    let options = options.clock(Clock::Manual(fixture.clock.clone()));
    SqliteStore::open(&options).await.unwrap()
}

#[async_trait]
impl LedgerHarness for SqliteFixture {
    fn ledger(&self) -> Arc<dyn Ledger> {
        Arc::new(self.store.clone())
    }

    async fn another_ledger(&self) -> Arc<dyn Ledger> {
        Arc::new(self.open().await)
    }
}
