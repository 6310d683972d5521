//! Purging: finished messages are removed with everything recorded about them, under an audit entry.

use std::collections::BTreeSet;

use consign_kernel::{By, MessageId, QueueName, StateKind};

use crate::{
    error::{Failure, Result},
    job::{Work, arguments},
    rows, sql,
};

impl Work<'_> {
    /// Removes finished messages of a queue with everything recorded about them. Records an audit entry
    /// `purge`, which stays. Fails if one of them is not finished; ids without a message are left out.
    pub async fn purge(&mut self, queue: &QueueName, ids: &[MessageId], by: &By) -> Result<()> {
        self.check_finished(ids).await?;
        self.record_actions(by, "purge", &[(Some(queue), None)])
            .await?;
        let statements = sql!(
            "purge_open",
            "purge_dead",
            "purge_late",
            "purge_attempt",
            "purge_message",
            "purge_close"
        );
        self.rows_of(statements, arguments!(rows::id_array(ids))?)
            .await?;
        Ok(())
    }

    /// The app may have written before, so this is no refusal: its whole transaction is rolled back.
    async fn check_finished(&mut self, ids: &[MessageId]) -> Result<()> {
        let ids: BTreeSet<MessageId> = ids.iter().copied().collect();
        for (id, found) in self.states(&ids).await? {
            if !matches!(found.state, StateKind::Delivered | StateKind::Dead) {
                return Err(Failure::corrupt(format!(
                    "message {id} is to be purged, but it is not finished"
                )));
            }
        }
        Ok(())
    }
}
