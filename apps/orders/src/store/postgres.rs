//! The ledger in PostgreSQL: each operation is one call of one function, and one transaction.

mod accept;
mod rows;

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use consign_kernel::{By, PAGE_ENTRIES_MAX, Result, migrations};
use consign_postgres::{
    Component, PostgresStore,
    extension::{
        Use,
        rows::{self as columns, corrupt},
    },
};
use jiff::Timestamp;
use jiff_sqlx::ToSqlx;
use sqlx::types::Json;

use self::rows::{accepted, entry, report, status};
use crate::{
    AcceptResult, Client, FinalResult, Ledger, LedgerEntry, LedgerFilter, LedgerStatus, NewOrder,
    OrderKey, PurgeReport, VerifiedOrder,
};

/// The component `orders` of a store in PostgreSQL.
pub const POSTGRES_COMPONENT: Component = Component {
    migrations: migrations!["orders";
        (1, "ledger", "postgres/migrations/0001_ledger.sql"),
        (2, "hooks", "postgres/migrations/0002_hooks.sql"),
        (3, "view", "postgres/migrations/0003_view.sql"),
        (4, "roles", "postgres/migrations/0004_roles.sql"),
        (5, "retention", "postgres/migrations/0005_retention.sql"),
    ],
    checks: &[("orders", include_str!("postgres/sql/doctor_orders.sql"))],
};

/// The columns of a `consign.order_answer`; the answer's body as text, byte for byte.
macro_rules! answer_from {
    ($function:literal) => {
        concat!(
            "SELECT answer, client, idempotency_key, request_digest, result_digest, status, \
             first_seen_at, last_seen_at, expires_at, order_expires_at, \
             response_payload_json::text AS response, http_status, outbox_id, conflicts, \
             sent::text AS sent FROM ",
            $function
        )
    };
}
use answer_from;

#[async_trait]
impl Ledger for PostgresStore {
    async fn accept(&self, orders: &[NewOrder]) -> Result<Vec<AcceptResult>> {
        if orders.is_empty() {
            return Ok(Vec::new());
        }
        let statement = accept::statement(orders);
        // One of several orders may wait for a row lock: then each is tried alone.
        let rows = if orders.len() > 1 {
            self.fetch_as(Use::Batch, "accept orders", statement)
                .await?
        } else {
            self.fetch("accept orders", statement).await?
        };
        if rows.len() != orders.len() {
            return Err(corrupt(
                "accept returned another number of rows than orders",
            ));
        }
        let answers = rows.iter().zip(orders);
        answers.map(|(row, order)| accepted(row, order)).collect()
    }

    async fn open_direct(&self, order: &NewOrder, give_up_after: Duration) -> Result<AcceptResult> {
        let sql = answer_from!("consign.open_direct_order($1, $2, $3, $4, $5, $6)");
        let statement = sqlx::query(sql)
            .bind(order.client.as_str())
            .bind(order.key.as_str())
            .bind(&order.request_digest)
            .bind(Json(&order.payload))
            .bind(columns::interval(order.ttl))
            .bind(columns::interval(give_up_after));
        let rows = self.fetch("open an order", statement).await?;
        accepted(columns::only(&rows)?, order)
    }

    async fn close_direct(
        &self,
        order: &NewOrder,
        status: LedgerStatus,
        ended: &FinalResult,
    ) -> Result<Option<LedgerEntry>> {
        let sql =
            answer_from!("consign.close_direct_order($1, $2, $3, $4, $5, $6, $7::text::json)");
        let statement = sqlx::query(sql)
            .bind(order.client.as_str())
            .bind(order.key.as_str())
            .bind(&order.request_digest)
            .bind(status.as_str())
            .bind(i32::from(ended.http_status))
            .bind(&ended.result_digest)
            .bind(&ended.exec_result);
        let rows = self.fetch("close an order", statement).await?;
        rows.first().map(entry).transpose()
    }

    async fn entry(&self, client: &Client, key: &OrderKey) -> Result<Option<LedgerEntry>> {
        let statement = sqlx::query(answer_from!("consign.order_entry($1, $2)"))
            .bind(client.as_str())
            .bind(key.as_str());
        let rows = self.read("read an order", statement).await?;
        rows.first().map(entry).transpose()
    }

    async fn verify(&self, client: &Client, key: &OrderKey) -> Result<Option<VerifiedOrder>> {
        let statement = sqlx::query(answer_from!("consign.verify_order($1, $2)"))
            .bind(client.as_str())
            .bind(key.as_str());
        let rows = self
            .read_as(Use::Lease, "verify an order", statement)
            .await?;
        let verified = |row| {
            Ok(VerifiedOrder {
                entry: entry(row)?,
                is_expired: columns::column::<&str>(row, "answer")? == "expired",
            })
        };
        rows.first().map(verified).transpose()
    }

    async fn entries(
        &self,
        filter: &LedgerFilter,
        before: Option<&(Timestamp, Client, OrderKey)>,
        limit: u32,
    ) -> Result<Vec<LedgerEntry>> {
        let statement = sqlx::query(include_str!("postgres/sql/orders_list.sql"))
            .bind(filter.client.as_ref().map(Client::as_str))
            .bind(filter.status.map(LedgerStatus::as_str))
            .bind(before.map(|(at, _, _)| at.to_sqlx()))
            .bind(before.map(|(_, client, _)| client.as_str()))
            .bind(before.map(|(_, _, key)| key.as_str()))
            .bind(i64::from(limit.min(PAGE_ENTRIES_MAX)));
        let rows = self.read("list orders", statement).await?;
        rows.iter().map(entry).collect()
    }

    async fn purge(
        &self,
        limit: u32,
        conflicts_min: u64,
        is_dry_run: bool,
        by: &By,
    ) -> Result<PurgeReport> {
        by.validate()?;
        let statement = sqlx::query("SELECT * FROM consign.purge_orders($1, $2, $3, $4, $5)")
            .bind(&by.actor)
            .bind(&by.reason)
            .bind(i32::try_from(limit).unwrap_or(i32::MAX))
            .bind(i64::try_from(conflicts_min).unwrap_or(i64::MAX))
            .bind(is_dry_run);
        let rows = self
            .fetch_as(Use::Report, "purge orders", statement)
            .await?;
        report(columns::only(&rows)?)
    }

    async fn take_quota(&self, client: &Client, want: u32, per_day: u32) -> Result<u32> {
        let statement = sqlx::query("SELECT consign.take_order_quota($1, $2, $3) AS got")
            .bind(client.as_str())
            .bind(i64::from(want))
            .bind(i64::from(per_day));
        let rows = self.fetch("take quota", statement).await?;
        let got = columns::count(columns::only(&rows)?, "got")?;
        u32::try_from(got).map_err(|_| corrupt(format!("take_order_quota returned {got}")))
    }

    async fn count(&self) -> Result<BTreeMap<&'static str, u64>> {
        let sql = "SELECT status, count FROM consign.count_orders()";
        let rows = self
            .read_as(Use::Report, "count orders", sqlx::query(sql))
            .await?;
        let mut counts = BTreeMap::from(rows::STATUSES.map(|status| (status.as_str(), 0)));
        for row in &rows {
            counts.insert(status(row)?.as_str(), columns::count(row, "count")?);
        }
        Ok(counts)
    }
}
