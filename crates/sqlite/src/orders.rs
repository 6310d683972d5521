//! The ledger of orders. What keeps it in step with the messages are triggers: see
//! `migrations/0004_orders.sql`.

mod accept;
mod component;
mod direct;
mod doctor;
mod purge;
mod rows;

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use consign_kernel::{By, Result};
use consign_orders::{
    Accepted, Client, Ended, Ledger, LedgerEntry, LedgerFilter, LedgerStatus, NewOrder, OrderKey,
    PurgeReport, Verified,
};
use jiff::Timestamp;

pub(crate) use component::OrdersComponent;

use crate::{
    SqliteStore, fail,
    store::{snapshot, write, write_unopened},
};

#[async_trait]
impl Ledger for SqliteStore {
    async fn accept(&self, orders: &[NewOrder]) -> Result<Vec<Accepted>> {
        let accepted =
            write_unopened!(self, "accept orders", (orders), |work| work.accept(&orders))?;
        fail::point("accept_committed");
        Ok(accepted)
    }

    async fn open_direct(&self, order: &NewOrder, give_up_after: Duration) -> Result<Accepted> {
        write_unopened!(self, "open an order", (order), |work| work
            .open_direct(&order, give_up_after))
    }

    async fn close_direct(
        &self,
        order: &NewOrder,
        status: LedgerStatus,
        ended: &Ended,
    ) -> Result<Option<LedgerEntry>> {
        direct::validate(status, ended)?;
        write!(self, "close an order", (order, ended), |work| work
            .close_direct(&order, status, &ended))
    }

    async fn entry(&self, client: &Client, key: &OrderKey) -> Result<Option<LedgerEntry>> {
        let found = self.verify(client, key).await?;
        Ok(found.map(|verified| verified.entry))
    }

    async fn verify(&self, client: &Client, key: &OrderKey) -> Result<Option<Verified>> {
        let now = self.inner.clock.now();
        let found = snapshot!(self, "read the ledger", |tx| rows::one(
            &mut tx, client, key
        ))?;
        let Some(row) = found else {
            return Ok(None);
        };
        if row.is_given_up(now) {
            // It is so from here on, whatever its sender may still say.
            return write!(self, "give up an order", (client, key), |work| work
                .verify_given_up(&client, &key));
        }
        Ok(Some(row.verified(now)))
    }

    async fn entries(
        &self,
        filter: &LedgerFilter,
        before: Option<&(Timestamp, Client, OrderKey)>,
        limit: u32,
    ) -> Result<Vec<LedgerEntry>> {
        snapshot!(self, "list the ledger", |tx| rows::list(
            &mut tx, filter, before, limit
        ))
    }

    async fn purge(
        &self,
        limit: u32,
        conflicts_min: u64,
        is_dry_run: bool,
        by: &By,
    ) -> Result<PurgeReport> {
        write!(self, "purge the ledger", (by), |work| work.purge(
            limit,
            conflicts_min,
            is_dry_run,
            &by
        ))
    }

    async fn take_quota(&self, client: &Client, want: u32, per_day: u32) -> Result<u32> {
        write!(self, "take of a quota", (client), |work| work
            .take_quota(&client, want, per_day))
    }

    async fn count(&self) -> Result<BTreeMap<&'static str, u64>> {
        snapshot!(self, "count the ledger", |tx| rows::count(&mut tx))
    }
}
