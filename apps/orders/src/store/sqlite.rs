//! The ledger in SQLite. The hook of its queue keeps it consistent with the messages: see
//! `component.rs`.

mod accept;
mod component;
mod direct;
mod doctor;
mod purge;
mod rows;

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use consign_kernel::{By, Result};
use consign_sqlite::{
    SqliteStore,
    extension::{Work, extend_work, kill_at, snapshot, write, write_unopened},
};
use jiff::Timestamp;

use crate::{
    AcceptResult, Client, FinalResult, Ledger, LedgerEntry, LedgerFilter, LedgerStatus, NewOrder,
    OrderKey, PurgeReport, VerifiedOrder,
};

pub use component::{Statements, sqlite_component, sqlite_component_with};

/// The text of a statement under `sql/`.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/src/store/sqlite/sql/",
            $name,
            ".sql"
        ))
    };
}
use sql;

/// Ledger operations within a write transaction.
struct LedgerWork<'w, 'c>(&'w mut Work<'c>);

extend_work!(LedgerWork);

#[async_trait]
impl Ledger for SqliteStore {
    async fn accept(&self, orders: &[NewOrder]) -> Result<Vec<AcceptResult>> {
        let accepted = write_unopened!(self, "accept orders", (orders), |work| LedgerWork(work)
            .accept(&orders))?;
        kill_at("accept_committed");
        Ok(accepted)
    }

    async fn open_direct(&self, order: &NewOrder, give_up_after: Duration) -> Result<AcceptResult> {
        write_unopened!(self, "open an order", (order), |work| LedgerWork(work)
            .open_direct(&order, give_up_after))
    }

    async fn close_direct(
        &self,
        order: &NewOrder,
        status: LedgerStatus,
        ended: &FinalResult,
    ) -> Result<Option<LedgerEntry>> {
        direct::validate(status, ended)?;
        write!(self, "close an order", (order, ended), |work| LedgerWork(
            work
        )
        .close_direct(&order, status, &ended))
    }

    async fn entry(&self, client: &Client, key: &OrderKey) -> Result<Option<LedgerEntry>> {
        let found = self.verify(client, key).await?;
        Ok(found.map(|verified| verified.entry))
    }

    async fn verify(&self, client: &Client, key: &OrderKey) -> Result<Option<VerifiedOrder>> {
        let now = self.now();
        let found = snapshot!(self, "read the ledger", |tx| rows::one(
            &mut tx, client, key
        ))?;
        let Some(row) = found else {
            return Ok(None);
        };
        if row.is_given_up(now) {
            // The failure is final, whatever its sender still records.
            return write!(self, "give up an order", (client, key), |work| LedgerWork(
                work
            )
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
        write!(self, "purge the ledger", (by), |work| LedgerWork(work)
            .purge(limit, conflicts_min, is_dry_run, &by))
    }

    async fn take_quota(&self, client: &Client, want: u32, per_day: u32) -> Result<u32> {
        write!(self, "take quota", (client), |work| LedgerWork(work)
            .take_quota(&client, want, per_day))
    }

    async fn count(&self) -> Result<BTreeMap<&'static str, u64>> {
        snapshot!(self, "count the ledger", |tx| rows::count(&mut tx))
    }
}
