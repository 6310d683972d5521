//! What is forgotten, and what is rationed.

use consign_kernel::{By, Result};
use consign_orders::{Client, PurgeReport, Restless};
use sqlx::postgres::PgRow;

use crate::{PostgresStore, pools::Use, rows};

impl PostgresStore {
    pub(crate) async fn purge_impl(
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
        let row = rows.first();
        report(row.ok_or_else(|| rows::corrupt("a purge answered nothing"))?)
    }

    pub(crate) async fn take_quota_impl(
        &self,
        client: &Client,
        want: u32,
        per_day: u32,
    ) -> Result<u32> {
        let statement = sqlx::query("SELECT consign.take_order_quota($1, $2, $3) AS got")
            .bind(client.as_str())
            .bind(i64::from(want))
            .bind(i64::from(per_day));
        let rows = self.fetch("take quota", statement).await?;
        let row = rows.first();
        let got = rows::count(
            row.ok_or_else(|| rows::corrupt("a quota answered nothing"))?,
            "got",
        )?;
        u32::try_from(got).map_err(|_| rows::corrupt(format!("a quota of {got}")))
    }
}

fn report(row: &PgRow) -> Result<PurgeReport> {
    let clients: Vec<String> = rows::column(row, "restless_clients")?;
    let keys: Vec<String> = rows::column(row, "restless_keys")?;
    let conflicts: Vec<i64> = rows::column(row, "restless_conflicts")?;
    let restless = clients.iter().zip(&keys).zip(conflicts);
    let restless = restless.map(|((client, key), conflicts)| {
        Ok(Restless {
            client: client.parse()?,
            key: key.parse()?,
            conflicts: conflicts.unsigned_abs(),
        })
    });
    Ok(PurgeReport {
        succeeded: rows::count(row, "succeeded")?,
        failed: rows::count(row, "failed")?,
        kept_alive: rows::count(row, "kept_alive")?,
        given_up: rows::count(row, "given_up")?,
        restless: restless.collect::<Result<_>>()?,
        has_more: rows::column(row, "has_more")?,
    })
}
