//! Whose turn it is to write to a memory server.

use std::time::Duration;

use consign_kernel::{Error, Result};
use consign_memory::{TURN_PLACE, TurnKept};

use crate::{PostgresStore, pools::Use, rows};

impl PostgresStore {
    pub(super) async fn take_turn_impl(
        &self,
        destination: &str,
        holder: &str,
        ttl: Duration,
    ) -> Result<bool> {
        let sql = "SELECT logbook.take_turn($1, $2, $3, $4) AS is_mine";
        let statement = sqlx::query(sql)
            .bind(destination)
            .bind(holder)
            .bind(rows::interval(ttl))
            .bind(rows::interval(TURN_PLACE));
        let rows = self.fetch_as(Use::Claim, "take a turn", statement).await?;
        rows::column(rows::only(&rows)?, "is_mine")
    }

    pub(super) async fn keep_turn_impl(
        &self,
        destination: &str,
        holder: &str,
        ttl: Duration,
    ) -> Result<TurnKept> {
        let sql = "SELECT logbook.keep_turn($1, $2, $3) AS kept";
        let statement = sqlx::query(sql)
            .bind(destination)
            .bind(holder)
            .bind(rows::interval(ttl));
        let rows = self.fetch_as(Use::Lease, "keep a turn", statement).await?;
        let kept: String = rows::column(rows::only(&rows)?, "kept")?;
        match kept.as_str() {
            "held" => Ok(TurnKept::Held),
            "wanted" => Ok(TurnKept::Wanted),
            "lost" => Ok(TurnKept::Lost),
            other => Err(Error::Corrupt {
                what: format!("a turn that is {other:?}"),
            }),
        }
    }

    pub(super) async fn leave_turn_impl(&self, destination: &str, holder: &str) -> Result<()> {
        let statement = sqlx::query("SELECT logbook.leave_turn($1, $2)")
            .bind(destination)
            .bind(holder);
        self.fetch_as(Use::Lease, "leave a turn", statement)
            .await
            .map(drop)
    }
}
