//! What people do to messages.

use consign_kernel::{By, MessageId, Moved, Result};

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
}
