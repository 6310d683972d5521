//! The ledger of orders: each operation is one call of one function, and one transaction.

mod accept;
mod entry;
mod purge;

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use consign_kernel::{By, Result};
use consign_orders::{
    Accepted, Client, Ended, Ledger, LedgerEntry, LedgerFilter, LedgerStatus, NewOrder, OrderKey,
    PurgeReport, Verified,
};
use jiff::Timestamp;

use crate::PostgresStore;

#[async_trait]
impl Ledger for PostgresStore {
    async fn accept(&self, orders: &[NewOrder]) -> Result<Vec<Accepted>> {
        self.accept_impl(orders).await
    }
    async fn open_direct(&self, order: &NewOrder, give_up_after: Duration) -> Result<Accepted> {
        self.open_direct_impl(order, give_up_after).await
    }
    async fn close_direct(
        &self,
        order: &NewOrder,
        status: LedgerStatus,
        ended: &Ended,
    ) -> Result<Option<LedgerEntry>> {
        self.close_direct_impl(order, status, ended).await
    }
    async fn entry(&self, client: &Client, key: &OrderKey) -> Result<Option<LedgerEntry>> {
        self.entry_impl(client, key).await
    }
    async fn verify(&self, client: &Client, key: &OrderKey) -> Result<Option<Verified>> {
        self.verify_impl(client, key).await
    }
    async fn entries(
        &self,
        filter: &LedgerFilter,
        before: Option<&(Timestamp, Client, OrderKey)>,
        limit: u32,
    ) -> Result<Vec<LedgerEntry>> {
        self.entries_impl(filter, before, limit).await
    }
    async fn purge(
        &self,
        limit: u32,
        conflicts_min: u64,
        is_dry_run: bool,
        by: &By,
    ) -> Result<PurgeReport> {
        self.purge_impl(limit, conflicts_min, is_dry_run, by).await
    }
    async fn take_quota(&self, client: &Client, want: u32, per_day: u32) -> Result<u32> {
        self.take_quota_impl(client, want, per_day).await
    }
    async fn count(&self) -> Result<BTreeMap<&'static str, u64>> {
        self.count_orders_impl().await
    }
}
