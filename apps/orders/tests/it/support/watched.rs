//! The store's ledger with a door: calls are counted, may be made to wait, and may be made to fail.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use async_trait::async_trait;
use consign_kernel::{By, Certainty, Error, Result};
use consign_orders::{
    AcceptResult, Client, FinalResult, Ledger, LedgerEntry, LedgerFilter, LedgerStatus, NewOrder,
    OrderKey, PurgeReport, VerifiedOrder,
};
use consign_sqlite::SqliteStore;
use jiff::Timestamp;
use tokio::sync::watch;

#[derive(Debug)]
pub(crate) struct WatchedLedger {
    store: Arc<SqliteStore>,
    /// How many orders each call of `accept` brought.
    pub(crate) accepts: Mutex<Vec<usize>>,
    /// How many of the next calls find the database gone, by operation.
    failing: Mutex<BTreeMap<&'static str, usize>>,
    is_open: watch::Sender<bool>,
    pub(crate) quota_calls: AtomicUsize,
}

impl WatchedLedger {
    pub(crate) fn new(store: Arc<SqliteStore>) -> Self {
        Self {
            store,
            accepts: Mutex::default(),
            failing: Mutex::default(),
            is_open: watch::Sender::new(true),
            quota_calls: AtomicUsize::new(0),
        }
    }

    /// Closed, `accept` waits at the door.
    pub(crate) fn open(&self, is_open: bool) {
        self.is_open.send_replace(is_open);
    }

    pub(crate) fn fail(&self, operation: &'static str, times: usize) {
        self.failing.lock().unwrap().insert(operation, times);
    }

    pub(crate) fn accepts(&self) -> Vec<usize> {
        self.accepts.lock().unwrap().clone()
    }

    fn pass(&self, operation: &'static str) -> Result<()> {
        let mut failing = self.failing.lock().unwrap();
        let left = failing.entry(operation).or_default();
        if *left == 0 {
            return Ok(());
        }
        *left -= 1;
        Err(Error::Unavailable {
            attempted: operation,
            certainty: Certainty::Definite,
            source: "injected by the test".into(),
        })
    }
}

#[async_trait]
impl Ledger for WatchedLedger {
    async fn accept(&self, orders: &[NewOrder]) -> Result<Vec<AcceptResult>> {
        self.accepts.lock().unwrap().push(orders.len());
        let mut is_open = self.is_open.subscribe();
        drop(is_open.wait_for(|is_open| *is_open).await);
        self.pass("accept")?;
        self.store.accept(orders).await
    }

    async fn open_direct(&self, order: &NewOrder, give_up_after: Duration) -> Result<AcceptResult> {
        self.pass("open_direct")?;
        self.store.open_direct(order, give_up_after).await
    }

    async fn close_direct(
        &self,
        order: &NewOrder,
        status: LedgerStatus,
        ended: &FinalResult,
    ) -> Result<Option<LedgerEntry>> {
        self.pass("close_direct")?;
        self.store.close_direct(order, status, ended).await
    }

    async fn entry(&self, client: &Client, key: &OrderKey) -> Result<Option<LedgerEntry>> {
        self.pass("entry")?;
        self.store.entry(client, key).await
    }

    async fn verify(&self, client: &Client, key: &OrderKey) -> Result<Option<VerifiedOrder>> {
        self.pass("verify")?;
        self.store.verify(client, key).await
    }

    async fn entries(
        &self,
        filter: &LedgerFilter,
        before: Option<&(Timestamp, Client, OrderKey)>,
        limit: u32,
    ) -> Result<Vec<LedgerEntry>> {
        self.store.entries(filter, before, limit).await
    }

    async fn purge(
        &self,
        limit: u32,
        conflicts_min: u64,
        is_dry_run: bool,
        by: &By,
    ) -> Result<PurgeReport> {
        self.pass("purge")?;
        self.store.purge(limit, conflicts_min, is_dry_run, by).await
    }

    async fn take_quota(&self, client: &Client, want: u32, per_day: u32) -> Result<u32> {
        self.quota_calls.fetch_add(1, SeqCst);
        self.pass("take_quota")?;
        self.store.take_quota(client, want, per_day).await
    }

    async fn count(&self) -> Result<BTreeMap<&'static str, u64>> {
        self.store.count().await
    }
}
