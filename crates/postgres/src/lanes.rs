//! Lanes and their policy.

use consign_kernel::{By, Counts, Lane, LaneName, LanePolicy, Result};
use sqlx::types::Json;

use crate::{PostgresStore, rows};

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

    pub(crate) async fn lanes_impl(&self) -> Result<Vec<(Lane, Counts)>> {
        let statement = sqlx::query(include_str!("../sql/lanes.sql"));
        let rows = self.read("read lanes", statement).await?;
        let counted = |row| {
            let counts = Counts {
                waiting: rows::count(row, "waiting")?,
                ready: rows::count(row, "ready")?,
                scheduled: rows::count(row, "scheduled")?,
                leased: rows::count(row, "leased")?,
                held: rows::count(row, "held")?,
                dead: rows::count(row, "dead")?,
                oldest_due_at: rows::optional_time(row, "oldest_due_at")?,
            };
            Ok((rows::lane(row)?, counts))
        };
        rows.iter().map(counted).collect()
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
