//! Lanes and their policy.

use consign_kernel::{By, Counts, Lane, LaneName, LanePolicy, PAGE_ENTRIES_MAX, Result, Totals};
use sqlx::{postgres::PgRow, types::Json};

use crate::{PostgresStore, pools::Use, rows};

impl PostgresStore {
    pub(crate) async fn put_lane_impl(
        &self,
        name: &LaneName,
        policy: &LanePolicy,
        by: &By,
    ) -> Result<Lane> {
        by.validate()?;
        policy.validate()?;
        let statement = sqlx::query("SELECT * FROM consign.put_lane($1, $2, $3, $4)")
            .bind(name.as_str())
            .bind(Json(policy))
            .bind(&by.actor)
            .bind(&by.reason);
        let rows = self.fetch("put lane", statement).await?;
        rows::lane(
            rows.first()
                .ok_or_else(|| rows::corrupt("put_lane answered nothing"))?,
        )
    }

    pub(crate) async fn lane_impl(&self, name: &LaneName) -> Result<Option<Lane>> {
        let statement =
            sqlx::query("SELECT * FROM consign.lane WHERE name = $1").bind(name.as_str());
        let rows = self.read("read lane", statement).await?;
        rows.first().map(rows::lane).transpose()
    }

    pub(crate) async fn may_work_impl(&self, name: &LaneName) -> Result<bool> {
        let statement = sqlx::query("SELECT consign.may_work($1) AS may_work").bind(name.as_str());
        let rows = self.read("read the grants of a lane", statement).await?;
        rows::column(rows::only(&rows)?, "may_work")
    }

    pub(crate) async fn lanes_impl(
        &self,
        after: Option<&LaneName>,
        limit: u32,
    ) -> Result<Vec<(Lane, Counts)>> {
        let statement = sqlx::query(include_str!("../sql/lanes.sql"))
            .bind(after.map(LaneName::as_str))
            .bind(i64::from(limit.min(PAGE_ENTRIES_MAX)));
        let rows = self.read_as(Use::Report, "read lanes", statement).await?;
        let counted = |row| Ok((rows::lane(row)?, counts(row)?));
        rows.iter().map(counted).collect()
    }

    pub(crate) async fn lane_counts_impl(&self, name: &LaneName) -> Result<Option<(Lane, Counts)>> {
        let statement = sqlx::query(include_str!("../sql/lane_counts.sql")).bind(name.as_str());
        let rows = self.read_as(Use::Report, "read lane", statement).await?;
        let counted = |row| Ok((rows::lane(row)?, counts(row)?));
        rows.first().map(counted).transpose()
    }

    pub(crate) async fn totals_impl(&self) -> Result<Totals> {
        let statement = sqlx::query(include_str!("../sql/totals.sql"));
        let rows = self.read_as(Use::Report, "read lanes", statement).await?;
        let row = rows::only(&rows)?;
        Ok(Totals {
            lanes: rows::count(row, "lanes")?,
            counts: counts(row)?,
        })
    }

    pub(crate) async fn set_paused(
        &self,
        function: &'static str,
        name: &LaneName,
        by: &By,
    ) -> Result<Lane> {
        by.validate()?;
        let statement = sqlx::query(function)
            .bind(name.as_str())
            .bind(&by.actor)
            .bind(&by.reason);
        let rows = self.fetch("pause or resume lane", statement).await?;
        rows::lane(
            rows.first()
                .ok_or_else(|| rows::corrupt("pause answered nothing"))?,
        )
    }
}

fn counts(row: &PgRow) -> Result<Counts> {
    Ok(Counts {
        waiting: rows::count(row, "waiting")?,
        ready: rows::count(row, "ready")?,
        scheduled: rows::count(row, "scheduled")?,
        leased: rows::count(row, "leased")?,
        held: rows::count(row, "held")?,
        dead: rows::count(row, "dead")?,
        oldest_due_at: rows::optional_time(row, "oldest_due_at")?,
    })
}
