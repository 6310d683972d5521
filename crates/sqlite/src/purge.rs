//! Purging: finished messages are removed with everything recorded about them, under an audit entry.

use std::collections::{BTreeMap, BTreeSet};

use consign_kernel::{By, MessageId, QueueName, StateKind};

use crate::{
    error::{Failure, Result},
    job::{Work, arguments},
    retain::Gone,
    rows, sql,
};

impl Work<'_> {
    /// Removes finished messages of a queue with everything recorded about them. Records an audit entry
    /// `purge`, which stays. Fails if one of them is not finished; ids without a message are left out.
    pub async fn purge(&mut self, queue: &QueueName, ids: &[MessageId], by: &By) -> Result<()> {
        let gone = self.check_finished(ids).await?;
        self.record_actions(by, "purge", &[(Some(queue), None)])
            .await?;
        let statements = sql!(
            "purge_open",
            "purge_dead",
            "purge_discarded",
            "purge_late",
            "purge_attempt",
            "purge_message",
            "purge_close"
        );
        self.rows_of(statements, arguments!(rows::id_array(ids))?)
            .await?;
        self.count_gone(&gone).await
    }

    /// Counts the messages. The app may have written before, so this is no refusal: its whole transaction is rolled back.
    async fn check_finished(&mut self, ids: &[MessageId]) -> Result<BTreeMap<QueueName, Gone>> {
        let ids: BTreeSet<MessageId> = ids.iter().copied().collect();
        let mut gone: BTreeMap<QueueName, Gone> = BTreeMap::new();
        for (id, found) in self.states(&ids).await? {
            if !found.state.is_finished() {
                return Err(Failure::corrupt(format!(
                    "message {id} cannot be purged: it is not finished"
                )));
            }
            let gone = gone.entry(found.queue).or_default();
            gone.messages += 1;
            gone.dead += u64::from(found.state == StateKind::Dead);
            gone.discarded += u64::from(found.state == StateKind::Discarded);
        }
        Ok(gone)
    }
}
