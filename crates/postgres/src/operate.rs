//! What people do to messages.

use consign_kernel::{
    By, EndedLease, Error, Fence, MessageId, Moved, Payload, Resolution, Result, TokenPrefix,
};

use crate::{PostgresStore, rows};

impl PostgresStore {
    pub(crate) async fn move_by_hand(
        &self,
        function: &'static str,
        ids: &[MessageId],
        by: &By,
    ) -> Result<Vec<Moved>> {
        by.validate()?;
        let statement = sqlx::query(function)
            .bind(rows::ids(ids))
            .bind(&by.actor)
            .bind(&by.reason);
        let rows = self.fetch("move messages", statement).await?;
        rows.iter().map(rows::moved).collect()
    }

    pub(crate) async fn end_lease_impl(&self, prefix: &TokenPrefix, by: &By) -> Result<EndedLease> {
        by.validate()?;
        let statement = sqlx::query("SELECT * FROM consign.terminate_lease($1, $2, $3)")
            .bind(prefix.as_str())
            .bind(&by.actor)
            .bind(&by.reason);
        let rows = self.fetch("end a lease", statement).await?;
        let row = rows::only(&rows)?;
        Ok(EndedLease {
            fence: Fence(rows::column(row, "fence")?),
            queue: rows::queue_name(row, "queue")?,
            owner: rows::column(row, "owner")?,
            messages: rows::count(row, "messages")?,
        })
    }

    pub(crate) async fn resolve_impl(
        &self,
        ids: &[MessageId],
        resolution: &Resolution,
        by: &By,
    ) -> Result<Vec<Moved>> {
        by.validate()?;
        if let Some(text) = resolution.result() {
            // `jsonb` would keep the last of two equal names without a word.
            Payload::parse(text)
                .map_err(|why| Error::invalid("result", format!("must be JSON: {why}")))?;
        }
        let sql = "SELECT * FROM consign.resolve($1, $2, $3, $4, $5::text::jsonb)";
        let statement = sqlx::query(sql)
            .bind(rows::ids(ids))
            .bind(resolution.as_str())
            .bind(&by.actor)
            .bind(&by.reason)
            .bind(resolution.result());
        let rows = self.fetch("resolve messages", statement).await?;
        rows.iter().map(rows::moved).collect()
    }
}
